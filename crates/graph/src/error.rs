//! Errors of the graph, distinguished by what a caller can do about them. `api` maps them to HTTP.

use emergent_domain::{
    ids::{ObjectId, WorkflowId},
    invalid::{Invalid, Problem},
    token::Scope,
};

use crate::validation::PendingValidation;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Also returned for an entity of another project.
    #[error("there is no {what} `{id}`")]
    NotFound { what: &'static str, id: String },
    /// A read of an earlier time names an object that was not live then. Also returned for an object of another
    /// project. The problem has the field of the request and a whole sentence.
    #[error("{}", .0.reason)]
    NotLiveAt(Problem),
    /// The input breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The entity was changed concurrently.
    #[error("{what} `{id}` is at version {current}, not {expected}: read it again and repeat the change")]
    VersionConflict { what: &'static str, id: String, expected: i64, current: i64 },
    /// A key is unique among the live objects of a type.
    #[error("the key `{key}` of type `{type_}` is already used by the object `{id}`")]
    KeyTaken { type_: String, key: String, id: ObjectId },
    /// A deleted object is to be restored by a key that another object has now.
    #[error(
        "the key `{key}` of type `{type_}` is already used by the live object `{live}`; the deleted object that had it is \
         `{deleted}`: delete the live one or change its key, then restore the other by its id"
    )]
    KeyReused { type_: String, key: String, live: ObjectId, deleted: ObjectId },
    /// The current state does not allow the operation. The message says what would.
    #[error("{message}")]
    Conflict { message: String },
    /// The author may write the graph, but not change the tasks of this workflow.
    #[error(
        "{what} belongs to {}: changing that needs a token with the scope `{scope}`, an agent \
         that such a token saved, or an agent of the workflow",
        named_workflow(*workflow)
    )]
    MissingScope { what: String, workflow: Option<WorkflowId>, scope: Scope },
    /// The author may write the graph, but not do this.
    #[error("{what} needs a token with the scope `{scope}`, or an agent that such a token saved")]
    NeedsScope { what: String, scope: Scope },
    /// The workflow waits for a person, and the author is not one who may decide.
    #[error(
        "the workflow `{workflow}` waits for a decision: adding tasks to it needs a token with the scope `{scope}`, or an \
         agent of the workflow; whoever may decide does so with `emergent inbox`"
    )]
    WaitsForDecision { workflow: WorkflowId, scope: Scope },
    /// Too much work of this kind is waiting. The message says what.
    #[error("{message}")]
    Overloaded { message: String },
    /// The transaction cannot validate a value, because that would take too long. `Graph::write_validated`
    /// handles it; other callers report it.
    #[error(
        "a value takes too long to validate as part of this change: make it smaller, or write it by itself"
    )]
    NotValidated(Box<PendingValidation>),
    /// The token was valid when the operation started, but no longer is.
    #[error("the token was revoked or has expired; the operation was stopped")]
    TokenEnded,
    /// The embedder failed.
    #[error("could not embed the text")]
    Embedding(#[source] emergent_llm::Error),
    #[error("a database operation of the graph failed")]
    Store(#[from] emergent_store::Error),
}

/// A workflow in an error; `None` for one that is not named to whoever may not read.
fn named_workflow(workflow: Option<WorkflowId>) -> String {
    workflow.map_or_else(|| "a workflow".to_owned(), |id| format!("the workflow `{id}`"))
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn not_found(what: &'static str, id: impl ToString) -> Self {
        Error::NotFound { what, id: id.to_string() }
    }

    /// Adds the index of a list item to the error: `type` becomes `objects[3].type`.
    pub(crate) fn at_index(self, list: &str, index: usize) -> Self {
        match self {
            Error::Invalid(invalid) => Error::Invalid(invalid.prefixed(&format!("{list}[{index}]"))),
            other => other,
        }
    }
}
