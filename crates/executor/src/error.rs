//! The errors of agents and runs, distinguished by what a caller can do about them. `api` maps them to
//! HTTP.

use emergent_domain::{
    approval::{Approval, ApprovalStatus},
    ids::RunId,
    invalid::Invalid,
    pack::nearest_name,
    token::Scope,
};
use emergent_graph::validation::{MayBePending, PendingValidation};

/// An error of an agent, a run or a trigger.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Also returned for an object of another project, so that its existence is not revealed.
    #[error("there is no {what} `{id}`{}", suggestion(.similar.as_deref()))]
    NotFound { what: &'static str, id: String, similar: Option<String> },
    /// The input breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The current state does not allow the request; the message says which state would.
    #[error("{0}")]
    Conflict(String),
    /// Someone else changed the agent in the meantime.
    #[error("agent `{name}` is at version {current}, not {expected}: read it again and repeat the change")]
    VersionConflict { name: String, expected: i64, current: i64 },
    /// The caller may not start this agent.
    #[error("{0}")]
    Forbidden(String),
    /// The token that saves, changes or deletes an agent lacks a scope that its definition grants.
    #[error(
        "{what} needs the scope `{scope}`, which this token does not have: an agent may not do more than the \
         token that saves, changes or deletes it; use a token with that scope, or with `admin:write`"
    )]
    BeyondMaker { what: String, scope: Scope },
    /// The token that saves or resumes what starts agents could not start them itself.
    #[error(
        "{what} starts agents without a request, which needs the scope `{}` as well, and this token does not have it: \
         use a token with that scope",
        Scope::AgentsInvoke
    )]
    MayNotStart { what: &'static str },
    /// No model provider is configured for the model; the message says how to configure one.
    #[error("{0}")]
    NoModel(String),
    /// A budget does not allow another run; the message says which one.
    #[error("{0}")]
    BudgetUsedUp(String),
    /// The same request can succeed later.
    #[error("the run queue is full: {waiting} runs are queued, the limit is `{limit}`; try again later")]
    Overloaded { limit: &'static str, waiting: i64 },
    /// Another runner owns the run, or it has ended: its driver stops.
    #[error("this server no longer owns run `{0}`")]
    Lost(RunId),
    /// The run waits for a person: its driver stops.
    #[error("run `{0}` waits for a person")]
    Waiting(RunId),
    /// Somebody else decided about the request, or it is no longer open.
    #[error("{}", decided_message(.0))]
    Decided(Box<Approval>),
    #[error(transparent)]
    Graph(#[from] emergent_graph::Error),
    #[error("the database of runs failed")]
    Store(#[from] emergent_store::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string(), similar: None }
    }

    /// The error of a name that no agent has, with the nearest of the names that the caller may see.
    pub(crate) fn unknown_agent(name: &str, visible: &[String]) -> Self {
        let similar = nearest_name(name, visible.iter().map(String::as_str)).map(str::to_owned);
        Self::NotFound { what: "agent", id: name.to_owned(), similar }
    }

    /// The error of the database, if that is the cause.
    pub fn store_error(&self) -> Option<&emergent_store::Error> {
        match self {
            Self::Store(error) | Self::Graph(emergent_graph::Error::Store(error)) => Some(error),
            _ => None,
        }
    }

    /// Whether the storage of the database is the cause. Such an error says nothing about the run.
    pub(crate) fn is_storage_fault(&self) -> bool {
        self.store_error().is_some_and(|error| error.storage_fault().is_some())
    }
}

fn suggestion(similar: Option<&str>) -> String {
    similar.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Says why a request cannot be decided any more.
fn decided_message(approval: &Approval) -> String {
    match (approval.status, &approval.decision) {
        (ApprovalStatus::Decided, Some(decision)) => {
            format!("this request was decided already: `{}`", decision.choice)
        }
        (ApprovalStatus::Expired, _) => "the time for this request was up".to_owned(),
        (ApprovalStatus::Withdrawn, _) => "this request was withdrawn: its run has ended".to_owned(),
        _ => "this request is no longer open".to_owned(),
    }
}

impl MayBePending for Error {
    fn into_pending(self) -> Result<Box<PendingValidation>, Self> {
        match self {
            Self::Graph(emergent_graph::Error::NotValidated(pending)) => Ok(pending),
            other => Err(other),
        }
    }
}
