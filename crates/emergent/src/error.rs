//! The error type of the command line. Each message says what failed, why, and what the user can do.

use std::path::PathBuf;

use crate::{commands::suggestion, hints, lock_holder};

/// How rustls names a certificate of an authority that a server uses as its own.
const AUTHORITY_AS_SERVER: &str = "CaUsedAsEndEntity";
/// How rustls begins its errors about the certificate of a server.
const INVALID_CERTIFICATE: &str = "invalid peer certificate";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{name}` cannot be used: {reason}")]
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
    #[error("could not open the database of `{setting}`")]
    Database {
        setting: String,
        #[source]
        source: emergent_store::Error,
    },
    #[error("the backup was not made")]
    Backup(#[source] emergent_store::Error),
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

impl Error {
    /// A setting or environment variable that cannot be used.
    pub fn setting(name: &str, reason: impl ToString) -> Self {
        Self::Setting { name: name.to_owned(), reason: reason.to_string() }
    }

    /// Whether the API did not find what a request named.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "not_found")
    }

    /// The error for a request that a server did not answer.
    pub fn unreachable(server: &str, source: reqwest::Error) -> Self {
        let is_connected = !source.is_connect() && !source.is_timeout() && !source.is_builder();
        let causes = emergent_net::errors::error_chain(&source);
        let is_untrusted = causes.contains(INVALID_CERTIFICATE);
        let (server, source) = (server.to_owned(), Box::new(source));
        if causes.contains(AUTHORITY_AS_SERVER) {
            return Self::AuthorityAsServer { server, source };
        }
        if is_untrusted {
            return Self::UntrustedCertificate { server, source };
        }
        match server.strip_prefix("http://").filter(|_| is_connected) {
            Some(rest) => Self::NotHttp { https: format!("https://{rest}"), server, source },
            None => Self::Unreachable { server, source },
        }
    }

    /// The error for an address that a server cannot listen on.
    pub fn listen(address: &str, source: std::io::Error) -> Self {
        use std::io::ErrorKind::{AddrInUse, InvalidInput};
        let address = address.to_owned();
        match source.kind() {
            InvalidInput => Self::Usage(format!(
                "could not listen on `{address}`: it is not ADDRESS:PORT, such as {}",
                crate::config::DEFAULT_LISTEN
            )),
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
                let nearest = suggestion(name, names);
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
