//! The error type of the command line. Each message says what failed, why, and what the user can do.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use crate::{commands::suggestion, hints, lock_holder, settings_report::SettingOrigins};

/// How rustls names a certificate of an authority that a server uses as its own.
const AUTHORITY_AS_SERVER: &str = "CaUsedAsEndEntity";
/// How rustls begins its errors about the certificate of a server.
const INVALID_CERTIFICATE: &str = "invalid peer certificate";

/// How rustls names the answer of a server that speaks HTTP.
const NO_TLS: &str = "InvalidContentType";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `name` is in backticks, or says in other words what was set.
    #[error("{name} cannot be used: {reason}")]
    Setting { name: String, reason: String },
    #[error("could not use `{}`", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("could not listen on `{address}`; is another server running? `--listen` chooses another address")]
    AddressInUse {
        address: String,
        #[source]
        source: std::io::Error,
    },
    #[error("could not listen on `{address}`; `--listen` chooses another address")]
    Listen {
        address: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "the data folder `{}` is in use by {}; {}",
        path.display(),
        lock_holder::name(path),
        lock_holder::way_out(path)
    )]
    Locked { path: PathBuf },
    #[error("could not open the store")]
    Store(#[from] emergent_store::Error),
    /// `setting` is in backticks, or says in other words what was set.
    #[error("could not open the database of {setting}")]
    Database {
        setting: String,
        #[source]
        source: emergent_store::Error,
    },
    #[error("the backup was not made")]
    Backup(#[source] emergent_store::Error),
    #[error(
        "the backup was not made, because the database `{}` cannot be used: {reason}. Keep the backup that you made \
         before, and restore it into a new data folder (`emergent restore`)",
        path.display()
    )]
    UnusableDatabase { path: PathBuf, reason: String },
    #[error("nothing was restored")]
    Restore(#[source] emergent_store::Error),
    #[error("could not prepare the graph")]
    Graph(#[from] emergent_graph::Error),
    #[error("could not store the webhook of the server")]
    Webhook(#[source] emergent_executor::Error),
    #[error("could not prepare the triggers of agents")]
    Triggers(#[source] emergent_executor::Error),
    #[error("could not open the secrets")]
    Secrets(#[from] emergent_secrets::Error),
    #[error("could not set up embeddings")]
    Embeddings(#[from] emergent_llm::Error),
    #[error("could not set up the models of agents")]
    Models(#[source] emergent_llm::Error),
    #[error("the server at `{server}` does not answer; is it running? (`emergent serve`)")]
    Unreachable {
        server: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server has a certificate that this machine does not trust.
    #[error(
        "the certificate of `{server}` is not trusted here; if an authority of your own signed it, set SSL_CERT_FILE to \
         the PEM file of that authority"
    )]
    UntrustedCertificate {
        server: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server has the certificate of an authority, which is for signing others.
    #[error(
        "the certificate of `{server}` is one of an authority (CA:TRUE), which no client accepts as that of a server, \
         whoever trusts it; give the server one with CA:FALSE, as `openssl req -x509 -addext basicConstraints=CA:FALSE` \
         makes it, and set SSL_CERT_FILE to its PEM file"
    )]
    AuthorityAsServer {
        server: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something answered, and not in HTTP. A server with a certificate does so.
    #[error("`{server}` does not answer in HTTP; if the server has a certificate, write `{https}`")]
    NotHttp {
        server: String,
        https: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something answered, and not in TLS. A server without a certificate does so.
    #[error("`{server}` does not speak TLS; if the server has no certificate, write `{http}`")]
    NotTls {
        server: String,
        http: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The API refused a request. `message` is its text; `details` has a line for each wrong field.
    #[error("{message}{details}")]
    Refused { code: String, message: String, details: String },
    /// A response that this client cannot use, or a failure inside this process.
    #[error("the server answered something unexpected: {0}")]
    Unexpected(String),
    /// The command cannot be carried out as it was given, or what it followed did not succeed.
    #[error("{0}")]
    Usage(String),
    /// Other programs do what was asked for. Lines that begin with spaces are command lines to copy, and are never
    /// broken.
    #[error("{0}")]
    OtherPrograms(String),
    /// A command that needs existing data was started where there is none.
    #[error(
        "there is no data in `{}`; --data-dir names another folder, --server a running server, and `{start}` \
         starts with an empty folder",
        path.display()
    )]
    NoData { path: PathBuf, start: String },
    /// The user pressed Ctrl-C; what that means for the work was printed before.
    #[error("interrupted")]
    Interrupted,
    /// The user was asked and said no.
    #[error("Nothing was changed.")]
    Declined,
    #[error("{}", .0)]
    Io(#[from] std::io::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whether an answer was not HTTP, such as the one of a server that expects TLS, by the causes of the error.
fn is_parse_error(causes: &str) -> bool {
    causes.contains("invalid HTTP ") && causes.contains(" parsed")
}

/// Why nothing can listen on a text that is no address.
pub fn unusable_address(address: &str) -> String {
    let port = address.rsplit_once(':').map(|(_, port)| port);
    let is_number = |port: &&str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.filter(is_number).filter(|port| port.parse::<u16>().is_err()) {
        Some(port) => format!("there is no port {port}; the highest is {}", u16::MAX),
        None => format!("it is not ADDRESS:PORT, such as {}", crate::config::DEFAULT_LISTEN),
    }
}

impl Error {
    /// A setting or environment variable that cannot be used.
    pub fn setting(name: &str, reason: impl ToString) -> Self {
        Self::Setting { name: format!("`{name}`"), reason: reason.to_string() }
    }

    /// The error for a file that a command was told to read.
    pub fn input_file(path: &Path, source: io::Error) -> Self {
        if source.kind() != ErrorKind::NotFound {
            return Self::File { path: path.to_owned(), source };
        }
        let advice = match std::env::current_dir() {
            Ok(folder) if path.is_relative() => {
                format!("check its name; it was looked for in `{}`", folder.display())
            }
            _ => "check its path".to_owned(),
        };
        Self::Usage(format!("there is no file `{}`: {advice}", path.display()))
    }

    /// The error for a file that a command was told to write.
    pub fn output_file(path: &Path, source: io::Error) -> Self {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        match folder.filter(|_| source.kind() == ErrorKind::NotFound) {
            Some(folder) => Self::Usage(format!(
                "there is no folder `{}`; make it first, or choose another",
                folder.display()
            )),
            None => Self::File { path: path.to_owned(), source },
        }
    }

    /// Names the key in `emergent.toml` if a setting that cannot be used has its value from there, and not the variable.
    pub fn naming_source(self, origins: &SettingOrigins) -> Self {
        match self {
            Self::Setting { name, reason } => {
                let in_file = origins.name_in_file(name.trim_matches('`'));
                Self::Setting { name: in_file.unwrap_or(name), reason }
            }
            other => other,
        }
    }

    /// Whether the API did not find what a request named.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "not_found")
    }

    /// The error for a request that a server did not answer.
    pub fn unreachable(server: &str, source: reqwest::Error) -> Self {
        let causes = emergent_net::errors::error_chain(&source);
        let is_untrusted = causes.contains(INVALID_CERTIFICATE);
        // The path of the request is not what somebody typed.
        let (server, source) = (server.to_owned(), Box::new(source.without_url()));
        if causes.contains(AUTHORITY_AS_SERVER) {
            return Self::AuthorityAsServer { server, source };
        }
        if is_untrusted {
            return Self::UntrustedCertificate { server, source };
        }
        if let Some(rest) = server.strip_prefix("https://").filter(|_| causes.contains(NO_TLS)) {
            return Self::NotTls { http: format!("http://{rest}"), server, source };
        }
        // A connection that was closed before an answer, as by a server that stops, says nothing about the protocol.
        match server.strip_prefix("http://").filter(|_| is_parse_error(&causes)) {
            Some(rest) => Self::NotHttp { https: format!("https://{rest}"), server, source },
            None => Self::Unreachable { server, source },
        }
    }

    /// The error for an address that a server cannot listen on.
    pub fn listen(address: &str, source: std::io::Error) -> Self {
        use std::io::ErrorKind::{AddrInUse, InvalidInput};
        // The system would be asked for the address of a host without a name.
        let has_host = !address.starts_with(':');
        let address = address.to_owned();
        match source.kind() {
            _ if !has_host => {
                Self::Usage(format!("could not listen on `{address}`: {}", unusable_address(&address)))
            }
            InvalidInput => {
                Self::Usage(format!("could not listen on `{address}`: {}", unusable_address(&address)))
            }
            AddrInUse => Self::AddressInUse { address, source },
            _ => Self::Listen { address, source },
        }
    }

    /// Adds the command that lists what there is, if the API did not find what was named.
    pub fn with_list(self, list_command: &str) -> Self {
        match self {
            Self::Refused { code, message, details } if code == "not_found" => {
                let list = hints::command(list_command);
                Self::Refused { code, message: format!("{message} (`{list}` lists them)"), details }
            }
            other => other,
        }
    }

    /// Adds the nearest of these names and the command that lists them, if the API did not find the name.
    pub fn with_nearest<'a>(
        self,
        name: &str,
        names: impl IntoIterator<Item = &'a str>,
        list_command: &str,
    ) -> Self {
        match self {
            Self::Refused { code, message, details } if code == "not_found" => {
                // The API suggests a name itself where it knows one.
                let nearest = match message.contains("did you mean") {
                    true => String::new(),
                    false => suggestion(name, names),
                };
                Self::Refused { code, message: format!("{message}{nearest}"), details }
                    .with_list(list_command)
            }
            other => other,
        }
    }

    /// Adds a command that helps, if the API refused the request with this code.
    pub fn with_way_out(self, refusal: &str, command: &str, purpose: &str) -> Self {
        match self {
            Self::Refused { code, message, details } if code == refusal => {
                Self::Refused { code, message: format!("{message} (`{command}` {purpose})"), details }
            }
            other => other,
        }
    }

    /// The message with all its causes; a cause that repeats another is left out.
    pub fn describe(&self) -> String {
        emergent_net::errors::error_chain(self)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
    };

    use super::*;

    #[test]
    fn a_name_that_the_api_suggested_is_not_suggested_again() {
        let told = |message: &str| {
            let details = String::new();
            let refused =
                Error::Refused { code: "not_found".to_owned(), message: message.to_owned(), details };
            refused.with_nearest("evry", ["every"], "trigger list").describe()
        };
        let missing = "there is no trigger `evry`";
        let once = told(missing);
        assert!(once.contains(&format!("{missing}; did you mean `every`? (")), "{once}");
        assert_eq!(told(&format!("{missing}; did you mean `every`?")), once);
    }

    /// The error of a request to a server that reads it, answers with these bytes and closes the connection.
    async fn error_of_answer(answer: &'static [u8]) -> Error {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 1_024]).unwrap();
            connection.write_all(answer).unwrap();
        });
        let client = emergent_net::http::client_builder_for(&server).no_proxy().build().unwrap();
        let error = client.get(&server).send().await.unwrap_err();
        answering.join().unwrap();
        Error::unreachable(&server, error)
    }

    #[test]
    fn a_port_that_is_too_high_is_told_with_the_highest() {
        let told = |address| Error::listen(address, ErrorKind::InvalidInput.into()).describe();
        let too_high = "could not listen on `127.0.0.1:70000`: there is no port 70000; the highest is 65535";
        assert_eq!(told("127.0.0.1:70000"), too_high);
        assert!(told("[::1]:99999999999999999999").ends_with("the highest is 65535"));
        let without_host = Error::listen(":4500", ErrorKind::Other.into()).describe();
        assert_eq!(
            without_host,
            "could not listen on `:4500`: it is not ADDRESS:PORT, such as 127.0.0.1:4400"
        );
        for other in ["localhost", "127.0.0.1:http", "127.0.0.1:"] {
            assert!(
                told(other).ends_with("it is not ADDRESS:PORT, such as 127.0.0.1:4400"),
                "{}",
                told(other)
            );
        }
    }

    #[test]
    fn a_file_or_folder_that_is_missing_is_named_with_what_to_do() {
        let missing = || io::Error::from(ErrorKind::NotFound);
        let folder = std::env::current_dir().unwrap();
        assert_eq!(
            Error::input_file(Path::new("plan.yaml"), missing()).describe(),
            format!(
                "there is no file `plan.yaml`: check its name; it was looked for in `{}`",
                folder.display()
            )
        );
        assert_eq!(
            Error::input_file(Path::new("/no/plan.yaml"), missing()).describe(),
            "there is no file `/no/plan.yaml`: check its path"
        );
        assert_eq!(
            Error::output_file(Path::new("no/out.ndjson"), missing()).describe(),
            "there is no folder `no`; make it first, or choose another"
        );
        let refused =
            Error::input_file(Path::new("plan.yaml"), ErrorKind::PermissionDenied.into()).describe();
        assert!(refused.starts_with("could not use `plan.yaml`: "), "{refused}");
    }

    #[tokio::test]
    async fn a_server_without_a_certificate_is_named_with_its_scheme() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("https://{}", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 1_024]).unwrap();
            connection.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").unwrap();
        });
        let client = emergent_net::http::client_builder_for(&server).no_proxy().build().unwrap();
        let error = client.get(&server).send().await.unwrap_err();
        answering.join().unwrap();
        let told = Error::unreachable(&server, error).describe();
        assert!(told.contains("does not speak TLS") && told.contains("write `http://127.0.0.1:"), "{told}");
    }

    #[tokio::test]
    async fn a_connection_that_is_closed_before_an_answer_is_no_other_protocol() {
        let closed = error_of_answer(b"").await;
        assert!(matches!(closed, Error::Unreachable { .. }), "{}", closed.describe());
        // An alert of TLS.
        let alert = error_of_answer(&[21, 3, 3, 0, 2, 2, 10]).await;
        assert!(matches!(alert, Error::NotHttp { .. }), "{}", alert.describe());
    }
}
