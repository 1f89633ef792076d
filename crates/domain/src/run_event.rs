//! Events of a run. The store, the event streams, the terminal and the tests all use these types.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    approval::{ApprovalKind, ApprovalStatus, Choice},
    chat::{Part, Usage},
    ids::{ApprovalId, MessageId, RunId, ToolCallId},
    loops::CallEffect,
    run::{MessageRole, Reason, RunStatus, ToolCallStatus},
    time::Timestamp,
};

#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    pub run: RunId,
    /// The position in the events of the run. `None` for an event that is only streamed, and that a
    /// subscriber can miss.
    pub seq: Option<i64>,
    pub at: Timestamp,
    pub body: RunEventBody,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RunEventBody {
    /// A runner started to drive the run. `recovered` is true if another process drove it before.
    Started {
        recovered: bool,
    },
    /// The whitelist of the run names tools that did not exist when the run was started, mostly because their
    /// servers could not be used.
    ServersUnavailable {
        servers: Vec<UnavailableServer>,
        missing_tools: Vec<String>,
    },
    Message(RecordedMessage),
    ToolStarted(RecordedToolCall),
    ToolCompleted(RecordedToolCall),
    LoopDetected {
        call: ToolCallId,
        tool: String,
        count: i64,
    },
    LimitReached {
        reason: Reason,
    },
    /// The model's answer was truncated or empty, and it is asked again in the same step; or it did not match the
    /// output schema, and the model corrects it in the next step.
    AnswerIncomplete {
        step: i64,
        reason: Reason,
    },
    /// The provider failed, and the model call is repeated after a wait.
    ModelRetry {
        step: i64,
        retry: ModelRetry,
        /// The run below this one whose model is asked again. Such an event is only streamed: the record of that run
        /// has it. `None` if it is the model of this run.
        child: Option<RetryingChild>,
    },
    /// Older messages were replaced by a summary in the model's context. The record remains
    /// complete.
    Compacted {
        before: i64,
        after: i64,
        summarised: bool,
    },
    /// A person is asked to approve a call, or to answer a question.
    ApprovalRequested {
        approval: ApprovalId,
        call: ToolCallId,
        tool: String,
        kind: ApprovalKind,
        /// The run below this one that asks, if this run waits because of it. `None` if this run asks itself.
        child: Option<RunId>,
    },
    /// The run waits for a person, itself or through its children.
    Waiting {
        waiting_for: ApprovalKind,
    },
    /// A person decided about a call or answered a question, or the time for it was up.
    ApprovalDecided {
        approval: ApprovalId,
        call: ToolCallId,
        tool: String,
        status: ApprovalStatus,
        decision: Choice,
        reason: Option<String>,
        /// True if the person changed the input of the call.
        edited: bool,
        /// The run below this one that asked, if this run waited because of it. `None` if this run asked itself.
        child: Option<RunId>,
    },
    /// The run goes on after it waited for a person.
    Continued,
    Ended {
        status: RunStatus,
        reason: Option<Reason>,
        summary: String,
        /// The answer as a value, if the run has an output schema and completed.
        output: Option<Value>,
        error: Option<String>,
    },
    /// Streamed only: the text of the current answer before the parts that follow. It takes the place of what a
    /// follower has of this answer.
    TextSoFar(TextSoFar),
    /// Streamed only, never stored.
    TextDelta {
        step: i64,
        text: String,
    },
    /// Streamed only, never stored.
    ThoughtDelta {
        step: i64,
        text: String,
    },
    /// Streamed only: the model call is repeated, and the text streamed for this step so far is
    /// discarded.
    StepRestarted {
        step: i64,
        why: String,
    },
}

impl RunEventBody {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Started { .. } => "run_started",
            Self::ServersUnavailable { .. } => SERVERS_UNAVAILABLE,
            Self::Message(_) => "message",
            Self::ToolStarted(_) => "tool_started",
            Self::ToolCompleted(_) => "tool_completed",
            Self::LoopDetected { .. } => "loop_detected",
            Self::LimitReached { .. } => "limit_reached",
            Self::AnswerIncomplete { .. } => "answer_incomplete",
            Self::ModelRetry { .. } => "model_retry",
            Self::Compacted { .. } => "compacted",
            Self::ApprovalRequested { .. } => "approval_requested",
            Self::Waiting { .. } => "run_waiting",
            Self::ApprovalDecided { .. } => "approval_decided",
            Self::Continued => "run_continued",
            Self::Ended { .. } => "run_ended",
            Self::TextSoFar(_) => "text_so_far",
            Self::TextDelta { .. } => "text_delta",
            Self::ThoughtDelta { .. } => "thought_delta",
            Self::StepRestarted { .. } => "step_restarted",
        }
    }
}

/// The text of an answer that is being streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSoFar {
    pub step: i64,
    pub text: String,
    /// How many characters of the beginning are not in `text`, because the answer is long.
    pub omitted_chars: i64,
}

/// A model call that failed and is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRetry {
    pub model: String,
    pub error: String,
    /// The number of failed attempts, from 1.
    pub attempt: u32,
    /// The time until the next attempt.
    pub wait_ms: u64,
}

/// A run whose model is asked again, as the followers of the runs above it see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryingChild {
    pub run: RunId,
    pub agent: String,
}

/// The kind of [`RunEventBody::ServersUnavailable`].
pub const SERVERS_UNAVAILABLE: &str = "servers_unavailable";

/// An external server that a run cannot use, though its whitelist names tools of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnavailableServer {
    pub server: String,
    /// Completes a sentence that begins with the name of the server, such as "could not be reached".
    pub reason: String,
    /// The secret that the server needs and the project does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_secret: Option<String>,
}

impl UnavailableServer {
    /// Reads the servers from the stored data of an event; `None` if they cannot be read.
    pub fn list_from_event(data: &Value) -> Option<Vec<Self>> {
        Vec::deserialize(&data["servers"]).ok()
    }

    /// Reads the names of missing tools from the stored data of an event. Older events have none.
    pub fn missing_tools_from_event(data: &Value) -> Vec<String> {
        Vec::deserialize(&data["missingTools"]).unwrap_or_default()
    }
}

/// A recorded message. The results of tools are recorded with their tool calls.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedMessage {
    pub id: MessageId,
    pub seq: i64,
    pub role: MessageRole,
    pub step: i64,
    pub content: MessageContent,
    pub usage: Option<Usage>,
    /// The cost in US dollars. `None` if the price of the model is unknown.
    pub cost: Option<f64>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MessageContent {
    /// The text of a system prompt or of a user. `injected` names the limit if the executor added
    /// the message.
    Text { text: String, injected: Option<Reason> },
    /// The parts of an assistant message. Tool calls are complete here; the database stores their
    /// input with the tool call.
    Parts(Vec<Part>),
    /// A summary that replaces all earlier messages of this run before `upto` in the model's
    /// context.
    Summary { text: String, upto: i64 },
}

/// A recorded tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedToolCall {
    pub id: ToolCallId,
    pub seq: i64,
    pub message: MessageId,
    pub tool: String,
    pub step: i64,
    pub input: Value,
    pub status: ToolCallStatus,
    pub output: Option<Value>,
    /// The `seq` of the event that holds the result.
    pub result_seq: Option<i64>,
    pub duration_ms: Option<i64>,
    pub at: Timestamp,
    /// What the call could change when it was made. `None` if that was not recorded.
    pub effect: Option<CallEffect>,
}

impl RecordedToolCall {
    /// Whether the call was not made because a person or a rule denied it, or nobody decided about it in time.
    pub fn is_denied(&self) -> bool {
        self.status == ToolCallStatus::Error
            && self.output.as_ref().is_some_and(|output| output["denied"] == true)
    }
}
