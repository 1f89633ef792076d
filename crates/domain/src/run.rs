//! Runs: one execution of an agent, from its admission to its end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    agent::{ModelConfig, string_enum},
    ids::{AgentId, ProjectId, RunId, ScheduleId, TokenId, ToolCallId},
    time::Timestamp,
    workflow::WorkflowLink,
};

string_enum! {
    RunStatus {
        Queued = "queued",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        /// Ended at a limit, with a summary; can be resumed.
        Paused = "paused",
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// Nothing overwrites a terminal status.
    pub fn is_terminal(self) -> bool {
        !matches!(self, RunStatus::Queued | RunStatus::Running)
    }
}

string_enum! {
    /// Why a run is paused or failed.
    Reason {
        StepLimit = "step_limit",
        Timeout = "timeout",
        Error = "error",
        DoomLoop = "doom_loop",
        Budget = "budget",
        Provider = "provider",
        /// The definition or its project went away, or can no longer be used.
        Definition = "definition",
        /// Every part of a flow failed.
        Flow = "flow",
    }
}

string_enum! {
    /// What started a run.
    Origin {
        Trigger = "trigger",
        Schedule = "schedule",
        Event = "event",
        Spawn = "spawn",
        /// A part of a flow.
        Flow = "flow",
        Dispatch = "dispatch",
        Chat = "chat",
        Invoke = "invoke",
        Resume = "resume",
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: RunId,
    pub project: ProjectId,
    pub agent: AgentId,
    pub agent_version: i64,
    pub agent_name: String,
    pub status: RunStatus,
    pub reason: Option<Reason>,
    pub origin: Origin,
    /// The run that spawned it, or whose flow it is a part of.
    pub parent: Option<RunId>,
    /// The parent's tool call that spawned it.
    pub parent_call: Option<ToolCallId>,
    /// Its place among those of one call or flow.
    pub child_index: i64,
    /// 0 at the top.
    pub depth: i64,
    pub resumed_from: Option<RunId>,
    /// The schedule it is a run of; a resumption keeps it.
    pub schedule: Option<ScheduleId>,
    /// The run that wrote what this one was triggered by; what it starts keeps it.
    pub cause: Option<RunId>,
    /// How many runs set one another off before it.
    pub cause_depth: i64,
    /// What it has to do with a workflow.
    pub workflow_link: WorkflowLink,
    pub model: ModelConfig,
    /// Over the whole resume chain.
    pub step_count: i64,
    /// Of which before this run began.
    pub steps_before: i64,
    /// Steps with tools this run may take; `None` is up to the total cap.
    pub max_steps: Option<i64>,
    pub timeout_seconds: i64,
    /// The moment the timeout counts from: the start, moved on by the time nobody drove the run.
    pub deadline_base: Option<Timestamp>,
    /// Which runner has it in hand.
    pub owner: Option<String>,
    /// The place of its newest event.
    pub seq: i64,
    /// The final text, or what is known when it ended without one.
    pub summary: Option<String>,
    pub error: Option<String>,
    pub started_by: Option<TokenId>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
}

impl Run {
    /// When its time is up; `None` while it waits for its turn.
    pub fn deadline(&self) -> Option<Timestamp> {
        let timeout = std::time::Duration::from_secs(self.timeout_seconds.try_into().unwrap_or(0));
        self.deadline_base.map(|from| from + timeout)
    }

    /// Whether its answers came from a script rather than a model.
    pub fn is_rehearsal(&self) -> bool {
        matches!(self.model.provider.as_str(), "rehearsal" | "replay")
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunEnd {
    Completed { summary: String },
    Paused { reason: Reason, summary: String },
    Failed { reason: Reason, error: String, summary: String },
    Cancelled { summary: String },
}

impl RunEnd {
    pub fn failed(reason: Reason, error: impl Into<String>) -> Self {
        Self::Failed { reason, error: error.into(), summary: String::new() }
    }

    pub fn status(&self) -> RunStatus {
        match self {
            RunEnd::Completed { .. } => RunStatus::Completed,
            RunEnd::Paused { .. } => RunStatus::Paused,
            RunEnd::Failed { .. } => RunStatus::Failed,
            RunEnd::Cancelled { .. } => RunStatus::Cancelled,
        }
    }

    pub fn reason(&self) -> Option<Reason> {
        match self {
            RunEnd::Paused { reason, .. } | RunEnd::Failed { reason, .. } => Some(*reason),
            RunEnd::Completed { .. } | RunEnd::Cancelled { .. } => None,
        }
    }

    pub fn summary(&self) -> &str {
        match self {
            RunEnd::Completed { summary }
            | RunEnd::Paused { summary, .. }
            | RunEnd::Failed { summary, .. }
            | RunEnd::Cancelled { summary } => summary,
        }
    }

    pub fn error(&self) -> Option<&str> {
        match self {
            RunEnd::Failed { error, .. } => Some(error),
            _ => None,
        }
    }
}

string_enum! {
    MessageRole {
        System = "system",
        User = "user",
        Assistant = "assistant",
        ToolResult = "tool_result",
    }
}

string_enum! {
    ToolCallStatus {
        /// Recorded, not begun. Shown as running.
        Pending = "pending",
        Running = "running",
        Completed = "completed",
        Error = "error",
    }
}

impl ToolCallStatus {
    pub fn is_terminal(self) -> bool {
        matches!(self, ToolCallStatus::Completed | ToolCallStatus::Error)
    }
}

/// Steps over a whole resume chain, for every run.
pub const MAX_STEPS: i64 = 500;
/// Steps of a spawned run whose definition says nothing.
pub const DEFAULT_SPAWNED_STEPS: i64 = 50;
pub const DEFAULT_TIMEOUT_SECONDS: i64 = 300;
/// What the model has to answer in once time is up.
pub const GRACE_SECONDS: u64 = 30;
/// The hard end of delegation: a run at this depth spawns nothing.
pub const MAX_DEPTH: i64 = 2;
/// Children of one call that run at once.
pub const MAX_CONCURRENT_CHILDREN: usize = 16;

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.status().as_str())?;
        if let Some(reason) = self.reason() {
            write!(f, " ({reason})")?;
        }
        Ok(())
    }
}
