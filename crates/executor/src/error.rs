//! Why something about agents and runs could not be done; each kind has one HTTP status.

use emergent_domain::{ids::RunId, invalid::Invalid};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 404. Also for what is there, but in another project.
    #[error("there is no {what} `{id}`")]
    NotFound { what: &'static str, id: String },
    /// 400.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// 409: the state does not allow it; the message says what would.
    #[error("{0}")]
    Conflict(String),
    /// 409: someone wrote in between.
    #[error("agent `{name}` is at version {current}, not {expected}: read it again and repeat the change")]
    VersionConflict { name: String, expected: i64, current: i64 },
    /// 403: the agent is not to be started from here.
    #[error("{0}")]
    Forbidden(String),
    /// 409: no provider of models is set up for it; the message names the ways to fix it.
    #[error("{0}")]
    NoModel(String),
    /// 429.
    #[error("{waiting} runs wait for their turn already, which is the limit `{limit}`; try again later")]
    Overloaded { limit: &'static str, waiting: i64 },
    /// The run is another's by now, or has ended: whoever drives it stops.
    #[error("run `{0}` is no longer driven from here")]
    Lost(RunId),
    #[error(transparent)]
    Graph(#[from] emergent_graph::Error),
    /// 500.
    #[error("the database of runs failed")]
    Store(#[from] emergent_store::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }
}
