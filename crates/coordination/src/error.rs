//! Why something about workflows could not be done; each kind has one HTTP status.

use emergent_domain::{
    ids::{ObjectId, WorkflowId},
    invalid::Invalid,
};

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
    /// The workflow is another server's by now, or is over: whoever walks it stops.
    #[error("workflow `{0}` is no longer walked from here")]
    Lost(WorkflowId),
    /// Somebody changed tasks in between: look again.
    #[error("workflow `{0}` has changed")]
    Stale(WorkflowId),
    /// A run could not be started: its task fails. A turn of a discussion, by its place there, abstains.
    /// `budget`: what the workflow may spend is spent.
    #[error("{why}")]
    NotStarted { task: Option<ObjectId>, turn: Option<(ObjectId, i64)>, budget: bool, why: String },
    #[error(transparent)]
    Executor(#[from] emergent_executor::Error),
    #[error(transparent)]
    Graph(#[from] emergent_graph::Error),
    /// 500.
    #[error("the database of workflows failed")]
    Store(#[from] emergent_store::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }
}
