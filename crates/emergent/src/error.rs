//! What a command line user is told: what failed, why, and what to do.

use std::path::PathBuf;

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
    #[error("could not prepare the graph")]
    Graph(#[from] emergent_graph::Error),
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
    /// What the API said, in its own words.
    #[error("{message}{details}")]
    Refused { code: String, message: String, details: String },
    #[error("the server answered something unexpected: {0}")]
    Unexpected(String),
    #[error("{0}")]
    Usage(String),
    #[error("{}", .0)]
    Io(#[from] std::io::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn setting(name: &str, reason: impl ToString) -> Self {
        Self::Setting { name: name.to_owned(), reason: reason.to_string() }
    }

    /// The whole chain of causes, each once.
    pub fn describe(&self) -> String {
        emergent_net::errors::error_chain(self)
    }
}
