//! Errors of workflows, distinguished by what a caller can do about them. `api` maps them to HTTP.

use emergent_domain::{
    approval::ApprovalStatus,
    ids::{ObjectId, WorkflowId},
    inbox::InboxItem,
    invalid::Invalid,
    token::Scope,
};

/// An error of a workflow, a task or a discussion.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Also returned for an object of another project, so that its existence is not revealed.
    #[error("there is no {what} `{id}`")]
    NotFound { what: &'static str, id: String },
    /// The input breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The current state does not allow the request; the message says which state does.
    #[error("{0}")]
    Conflict(String),
    /// The decision is a person's, and the author is not one who may decide.
    #[error(
        "{what} `{id}` waits for a decision, which needs a token with the scope `{}`; whoever has one decides with \
         `emergent inbox`",
        Scope::ApprovalsDecide
    )]
    MayNotDecide { what: &'static str, id: String },
    /// A limit protects the money of others than whoever works under it, so more is a decision.
    #[error(
        "raising or removing the budget of workflow `{id}` needs a token with the scope `{}`; lowering it does not",
        Scope::ApprovalsDecide
    )]
    MayNotRaiseBudget { id: String },
    /// Taking the tasks of a cancelled workflow would pass the decision about it, or its budget.
    #[error(
        "workflow `{id}` {why}: another one takes its tasks only for a token with the scope `{}`; without it, create new \
         tasks for what is left to be done",
        Scope::ApprovalsDecide
    )]
    MayNotTakeOver { id: String, why: &'static str },
    /// Somebody decided about this item of the inbox before, or it needs nobody any more.
    #[error("{}", decided_message(.0))]
    Decided(Box<InboxItem>),
    /// The workflow has ended, or another server owns it: its driver stops.
    #[error("this server no longer holds the lease of workflow `{0}`")]
    Lost(WorkflowId),
    /// The workflow was changed since the driver loaded it: the driver loads it again.
    #[error("workflow `{0}` has changed")]
    Stale(WorkflowId),
    /// A run could not be started. Its task fails, or its turn of a discussion (by discussion and index)
    /// abstains. `budget`: whether the workflow has spent its budget.
    #[error("{why}")]
    NotStarted { task: Option<ObjectId>, turn: Option<(ObjectId, i64)>, budget: bool, why: String },
    #[error(transparent)]
    Executor(#[from] emergent_executor::Error),
    #[error(transparent)]
    Graph(#[from] emergent_graph::Error),
    #[error("the database of workflows failed")]
    Store(#[from] emergent_store::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }

    /// Whether the database is the cause, and not the workflow: it does not answer, is busy or full, or has a
    /// row that only a newer server can read.
    pub(crate) fn is_database_failure(&self) -> bool {
        self.store_error().is_some_and(|error| {
            error.is_transient() || matches!(error, emergent_store::Error::Unreadable { .. })
        })
    }

    /// Whether a transaction took longer than it may, and wrote nothing.
    pub(crate) fn is_too_slow(&self) -> bool {
        matches!(self.store_error(), Some(emergent_store::Error::TooSlow { .. }))
    }

    fn store_error(&self) -> Option<&emergent_store::Error> {
        match self {
            Self::Store(error) | Self::Graph(emergent_graph::Error::Store(error)) => Some(error),
            Self::Executor(error) => error.store_error(),
            _ => None,
        }
    }
}

/// Says why an item of the inbox cannot be decided any more.
fn decided_message(item: &InboxItem) -> String {
    let kind = item.kind;
    match (item.status, &item.decision) {
        (ApprovalStatus::Decided, Some(decision)) => {
            format!("this {kind} was decided already: `{}`", decision.choice)
        }
        (ApprovalStatus::Withdrawn, _) => format!("this {kind} was withdrawn: it needs nobody any more"),
        _ => format!("this {kind} was decided already"),
    }
}
