//! The stored rows of triggers: schedules, event triggers, and their firings.

use uuid::Uuid;

use super::{EventConfig, EventKind, ScheduleConfig};
use crate::{
    agent::string_enum,
    change::FeedPosition,
    ids::{AgentId, FiringId, ProjectId, RunId, ScheduleId, WorkflowId},
    time::Timestamp,
    workflow_template::WorkflowTemplate,
};

/// A schedule of a project: the job of a product, or the trigger of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub id: ScheduleId,
    pub project: ProjectId,
    /// The agent to start. For a schedule that starts a workflow, it is an id that no agent has.
    pub agent: AgentId,
    /// The workflow to start instead of an agent.
    pub dispatch: Option<WorkflowTemplate>,
    /// The product that the job belongs to. None for the trigger of an agent.
    pub product: Option<String>,
    /// The name of the job, or `agent:<name>` for the trigger of an agent.
    pub name: String,
    /// The cron expression. It was validated when it was saved.
    pub cron: String,
    pub config: ScheduleConfig,
    /// The next firing time. `None` if the schedule never fires again, is paused or is suspended; `error`
    /// gives the reason for a suspension.
    pub next_at: Option<Timestamp>,
    /// Set while the schedule is due but the run queue is full.
    pub waiting_since: Option<Timestamp>,
    /// Since when a person has paused the schedule. It does not fire until somebody resumes it.
    pub paused_at: Option<Timestamp>,
    /// Why the schedule is suspended. It does not fire until it is saved again.
    pub error: Option<String>,
    pub last_at: Option<Timestamp>,
    pub last_run: Option<RunId>,
    pub last_workflow: Option<WorkflowId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// An agent or a workflow that is triggered by events.
#[derive(Debug, Clone, PartialEq)]
pub struct EventTrigger {
    /// The agent to start. For a trigger that starts a workflow, it is an id that no agent has.
    pub agent: AgentId,
    /// The workflow to start instead of an agent.
    pub dispatch: Option<WorkflowTemplate>,
    /// The name of a trigger that starts a workflow.
    pub name: Option<String>,
    /// The product that such a trigger belongs to; empty if a person saved it.
    pub product: Option<String>,
    pub project: ProjectId,
    pub event: EventKind,
    pub config: EventConfig,
    /// The trigger ignores changes that were written before this point.
    pub since: FeedStart,
}

/// The point in the change feed from which on a trigger receives changes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FeedStart {
    /// The trigger receives all changes after this position.
    pub after: FeedPosition,
    /// The trigger also receives the changes of these transactions. They have earlier positions,
    /// but were still open when the trigger was saved.
    pub open: Vec<i64>,
}

impl FeedStart {
    pub fn includes(&self, position: FeedPosition) -> bool {
        position > self.after || self.open.contains(&position.txid)
    }
}

string_enum! {
    FiringStatus {
        /// The firing waits for its due time, to coalesce further events, or for a server.
        Pending = "pending",
        Admitted = "admitted",
        /// The run could not be admitted. `reason` holds the error.
        Refused = "refused",
        /// A rule prevented the run. `reason` holds the name of the rule.
        Skipped = "skipped",
    }
}

string_enum! {
    /// The rule because of which a firing was skipped.
    SkipReason {
        /// The previous run of the schedule is still active.
        StillRunning = "still_running",
        /// The firing time passed while no server ran.
        Missed = "missed",
        /// The chain of agents that trigger one another reached its maximum length.
        Depth = "depth",
        /// The entity of the event, or the agent, was deleted in the meantime.
        Gone = "gone",
        /// The trigger of the agent was removed, replaced, or narrowed so that it no longer
        /// applies.
        Changed = "trigger_changed",
    }
}

/// One firing of a trigger, and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    pub id: FiringId,
    pub project: ProjectId,
    pub agent: AgentId,
    pub fired: FiringCause,
    /// The run that wrote the change.
    pub cause: Option<RunId>,
    /// How many runs triggered one another before this firing.
    pub cause_depth: i64,
    pub status: FiringStatus,
    pub reason: Option<String>,
    pub run: Option<RunId>,
    /// The workflow that was started instead of a run.
    pub workflow: Option<WorkflowId>,
    /// The name of a trigger that starts a workflow.
    pub trigger_name: Option<String>,
    /// The firing starts no run before this time.
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
        /// The position in the change feed. Absent in old firings that were stored without it.
        at: Option<FeedPosition>,
    },
}
