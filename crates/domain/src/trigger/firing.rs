//! What is kept of triggers: the schedules, the event triggers, and every firing of either.

use uuid::Uuid;

use super::{EventConfig, EventKind, ScheduleConfig};
use crate::{
    agent::string_enum,
    change::FeedPosition,
    ids::{AgentId, FiringId, ProjectId, RunId, ScheduleId},
    time::Timestamp,
};

/// A schedule of a project: a product's job, or an agent's own trigger.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub id: ScheduleId,
    pub project: ProjectId,
    pub agent: AgentId,
    /// The product whose job it is; none for an agent's own trigger.
    pub product: Option<String>,
    /// The job's name; `agent:<name>` for an agent's own trigger.
    pub name: String,
    /// Checked when it was saved.
    pub cron: String,
    pub config: ScheduleConfig,
    /// `None`: never again, or set aside: then `error` says why.
    pub next_at: Option<Timestamp>,
    /// Its time came then, and too many runs waited already.
    pub waiting_since: Option<Timestamp>,
    /// What is wrong with it; it fires nothing until it is saved again.
    pub error: Option<String>,
    pub last_at: Option<Timestamp>,
    pub last_run: Option<RunId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// An agent that waits for events.
#[derive(Debug, Clone, PartialEq)]
pub struct EventTrigger {
    pub agent: AgentId,
    pub project: ProjectId,
    pub event: EventKind,
    pub config: EventConfig,
    /// What was written before is not its business.
    pub since: FeedStart,
}

/// From where on a trigger hears of changes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FeedStart {
    /// Of everything after this place.
    pub after: FeedPosition,
    /// And of what these transactions write: they have their place before it, but were still open
    /// when the trigger was saved.
    pub open: Vec<i64>,
}

impl FeedStart {
    pub fn includes(&self, at: FeedPosition) -> bool {
        at > self.after || self.open.contains(&at.txid)
    }
}

string_enum! {
    FiringStatus {
        /// Waits for its moment: for more of the same, or for a server.
        Pending = "pending",
        Admitted = "admitted",
        /// The run could not be admitted; `reason` has the error.
        Refused = "refused",
        /// A rule said no; `reason` has its name.
        Skipped = "skipped",
    }
}

string_enum! {
    /// The rule by which a firing was skipped.
    SkipReason {
        /// The schedule's last run has not ended.
        StillRunning = "still_running",
        /// Its time passed while no server ran.
        Missed = "missed",
        /// The chain of agents that set one another off is as long as it may be.
        Depth = "depth",
        /// What the event told of, or the agent, was deleted meanwhile.
        Gone = "gone",
        /// The agent is no longer triggered by this: its trigger went, is another, or was narrowed.
        Changed = "trigger_changed",
    }
}

/// One firing of a trigger, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    pub id: FiringId,
    pub project: ProjectId,
    pub agent: AgentId,
    pub fired: FiringCause,
    /// The run that wrote what the event tells of.
    pub cause: Option<RunId>,
    /// How many runs set one another off before.
    pub cause_depth: i64,
    pub status: FiringStatus,
    pub reason: Option<String>,
    pub run: Option<RunId>,
    /// Not before this moment.
    pub due_at: Timestamp,
    pub created_at: Timestamp,
    pub settled_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FiringCause {
    Schedule {
        schedule: ScheduleId,
        at: Timestamp,
    },
    Event {
        event: EventKind,
        /// The object, relationship or document.
        entity: Uuid,
        entity_type: String,
        version: i64,
        /// Its place in the feed; not known of firings from before it was kept.
        at: Option<FeedPosition>,
    },
}
