//! Runs: one execution of an agent, from its admission to its end.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::{ModelConfig, string_enum},
    approval::ApprovalKind,
    client_tool::ClientTool,
    ids::{AgentId, ProjectId, RunId, ScheduleId, TokenId, ToolCallId},
    json::JsonText,
    time::Timestamp,
    workflow::{Limit, WorkflowLink},
};

string_enum! {
    RunStatus {
        Queued = "queued",
        Running = "running",
        /// The run waits for a person, or for the result of a tool of its caller. It has no runner and no slot, and its timeout does not count.
        Waiting = "waiting",
        Completed = "completed",
        Failed = "failed",
        /// The run ended at a limit and has a summary. It can be resumed.
        Paused = "paused",
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// Returns whether the run has ended. A terminal status never changes.
    pub fn is_terminal(self) -> bool {
        !matches!(self, RunStatus::Queued | RunStatus::Running | RunStatus::Waiting)
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
        /// The model's answer reached the maximum length again and again.
        Truncated = "truncated",
        /// The model answered with nothing, also when it was asked again.
        Empty = "empty",
        /// The final answer did not match the output schema, also when the model was asked to correct it.
        InvalidOutput = "invalid_output",
        /// The definition or its project was deleted, or can no longer be used.
        Definition = "definition",
        /// Every child of a flow failed.
        Flow = "flow",
        /// The message to an agent of another system was interrupted. Whether it took effect is not known.
        UnknownOutcome = "unknown_outcome",
    }
}

string_enum! {
    /// What started a run.
    Origin {
        Trigger = "trigger",
        Schedule = "schedule",
        Event = "event",
        Spawn = "spawn",
        /// The run is a child of a flow.
        Flow = "flow",
        Dispatch = "dispatch",
        Chat = "chat",
        Invoke = "invoke",
        Resume = "resume",
    }
}

impl Origin {
    /// Whether a run of this origin may answer a message of a conversation. A chat always does, and a caller from
    /// outside may go on with a conversation.
    pub fn answers_messages(self) -> bool {
        matches!(self, Self::Chat | Self::Invoke)
    }
}

/// The providers that play a script or a recording instead of asking a model.
pub const REHEARSAL_PROVIDERS: [&str; 2] = ["rehearsal", "replay"];

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
    /// The run that spawned this one, or whose flow it belongs to.
    pub parent: Option<RunId>,
    /// The tool call of the parent that spawned this run.
    pub parent_call: Option<ToolCallId>,
    /// The index among the children of the same tool call or flow.
    pub child_index: i64,
    /// The delegation depth. A top-level run has depth 0.
    pub depth: i64,
    pub resumed_from: Option<RunId>,
    /// The schedule that started the run. A resumed run keeps it.
    pub schedule: Option<ScheduleId>,
    /// The run whose write triggered this one. Runs that this one starts inherit it.
    pub cause: Option<RunId>,
    /// How many runs triggered one another before this one.
    pub cause_depth: i64,
    /// What ties the run to a workflow.
    pub workflow_link: WorkflowLink,
    pub terms: RunTerms,
    pub model: ModelConfig,
    /// The number of steps over the whole resume chain.
    pub step_count: i64,
    /// The part of `step_count` that earlier runs of the resume chain took.
    pub steps_before: i64,
    /// The number of steps with tools that this run may take. `None` means that only `MAX_STEPS`
    /// applies.
    pub max_steps: Option<i64>,
    pub timeout_seconds: i64,
    /// The time from which the timeout counts: the start, moved forward by the time during which no
    /// runner drove the run.
    pub deadline_base: Option<Timestamp>,
    /// The runner that owns the run.
    pub owner: Option<String>,
    /// The `seq` of the newest event.
    pub seq: i64,
    /// The final text, or a summary of the work so far if the run ended without one.
    pub summary: Option<String>,
    /// The final answer as a value that matches the output schema. Only a completed run with such a schema has one.
    pub output: Option<Value>,
    pub error: Option<String>,
    pub started_by: Option<TokenId>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    /// What the run waits for, itself or through its children. `None` unless its status is `waiting`.
    pub waiting_for: Option<ApprovalKind>,
    pub waiting_since: Option<Timestamp>,
}

/// What a run was started with and passes on to the runs that it starts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunTerms {
    /// The model that the start request named. It takes precedence over `EMERGENT_MODEL` and applies to
    /// all children whose definitions are not pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_model: Option<ModelConfig>,
    /// What this run and the runs below it may spend.
    pub limit: Limit,
    /// The runs whose limits apply: this run if it has a limit, and those above it. A resumed run shares
    /// the limit of the run that it resumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budget_runs: Vec<RunId>,
    /// The trace context (`traceparent`) of the request that started the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The JSON schema that the final answer of this run must match, instead of that of the definition. Only a run
    /// that resumes this one inherits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<JsonText>,
    /// The tools of the caller, which executes their calls itself. No other run has them: neither a child nor a run
    /// that resumes this one, because its caller is another request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
}

impl Run {
    /// Returns when the timeout expires, or `None` while the run is queued.
    pub fn deadline(&self) -> Option<Timestamp> {
        let timeout = std::time::Duration::from_secs(self.timeout_seconds.try_into().unwrap_or(0));
        self.deadline_base.map(|from| from + timeout)
    }

    /// Returns whether the answers came from a script instead of a model.
    pub fn is_rehearsal(&self) -> bool {
        REHEARSAL_PROVIDERS.contains(&self.model.provider.as_str())
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunEnd {
    /// `output` is the answer as a value, for a run with an output schema.
    Completed {
        summary: String,
        output: Option<Value>,
    },
    Paused {
        reason: Reason,
        summary: String,
    },
    Failed {
        reason: Reason,
        error: String,
        summary: String,
    },
    Cancelled {
        summary: String,
    },
}

impl RunEnd {
    /// The end of a run without an output schema.
    pub fn completed(summary: impl Into<String>) -> Self {
        Self::Completed { summary: summary.into(), output: None }
    }

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
            RunEnd::Completed { summary, .. }
            | RunEnd::Paused { summary, .. }
            | RunEnd::Failed { summary, .. }
            | RunEnd::Cancelled { summary } => summary,
        }
    }

    pub fn output(&self) -> Option<&Value> {
        match self {
            RunEnd::Completed { output, .. } => output.as_ref(),
            _ => None,
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
        /// The call is recorded but not started. The API shows it as running.
        Pending = "pending",
        /// A person has to approve the call first.
        Held = "held",
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

/// The maximum number of steps over a whole resume chain. It applies to every run.
pub const MAX_STEPS: i64 = 500;
/// The step limit of a spawned run whose definition sets none.
pub const DEFAULT_SPAWNED_STEPS: i64 = 50;
pub const DEFAULT_TIMEOUT_SECONDS: i64 = 300;
/// The time in which the model can still answer after the timeout has expired.
pub const GRACE_SECONDS: u64 = 30;
/// The maximum delegation depth. A run at this depth cannot spawn others.
pub const MAX_DEPTH: i64 = 2;
/// The maximum number of children of one tool call that run concurrently.
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
