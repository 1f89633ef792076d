//! The error type of the command line. Each message says what failed, why, and what the user can do.

use std::path::PathBuf;

use crate::hints;

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
    Listen {
        address: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "the data folder `{}` is in use by another process; end it, or choose another folder with --data-dir",
        path.display()
    )]
    Locked { path: PathBuf },
    #[error("could not open the store")]
    Store(#[from] emergent_store::Error),
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

    /// The message with all its causes; a cause that repeats another is left out.
    pub fn describe(&self) -> String {
        emergent_net::errors::error_chain(self)
    }
}
