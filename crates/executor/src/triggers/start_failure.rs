//! Why the workflow of a trigger was not started.

use emergent_domain::ids::{AgentId, FiringId, ScheduleId};

use crate::Error;

/// Why a transaction that starts a workflow was rolled back.
pub(super) enum StartFailure {
    /// The workflow cannot be started. The reason is recorded.
    Refused(RefusedFiring),
    /// The transaction failed and is repeated later.
    Failed(Error),
}

/// A firing whose workflow was refused.
pub(super) struct RefusedFiring {
    pub what: FiredTrigger,
    /// The id that stands for the agent, for the log.
    pub agent: AgentId,
    /// The name of the trigger.
    pub name: String,
    pub reason: String,
}

/// What fired.
pub(super) enum FiredTrigger {
    Schedule(ScheduleId),
    Events(Vec<FiringId>),
}

impl StartFailure {
    /// The failure to start the workflow of a trigger. An error of the database says nothing about the workflow.
    pub(super) fn new(what: FiredTrigger, agent: AgentId, name: &str, error: Error) -> Self {
        match error.store_error() {
            Some(_) => Self::Failed(error),
            None => {
                let (name, reason) = (name.to_owned(), error.to_string());
                Self::Refused(RefusedFiring { what, agent, name, reason })
            }
        }
    }
}

impl From<Error> for StartFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<emergent_store::Error> for StartFailure {
    fn from(error: emergent_store::Error) -> Self {
        Self::Failed(error.into())
    }
}
