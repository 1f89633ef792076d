//! What a run tells while it goes on. Persistence, event streams, the terminal and the tests read
//! the same events.

use serde_json::Value;

use crate::{
    chat::{Part, Usage},
    ids::{MessageId, RunId, ToolCallId},
    run::{MessageRole, Reason, RunStatus, ToolCallStatus},
    time::Timestamp,
};

#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    pub run: RunId,
    /// Its place in the run; `None` for what is only told live and can be missed.
    pub seq: Option<i64>,
    pub at: Timestamp,
    pub body: RunEventBody,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RunEventBody {
    /// Another process had it before.
    Started {
        recovered: bool,
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
    /// What the model sees was shortened; the record is whole.
    Compacted {
        before: i64,
        after: i64,
        summarised: bool,
    },
    Ended {
        status: RunStatus,
        reason: Option<Reason>,
        summary: String,
        error: Option<String>,
    },
    /// Live only.
    TextDelta {
        step: i64,
        text: String,
    },
    /// Live only.
    ThoughtDelta {
        step: i64,
        text: String,
    },
    /// Live only: the model is asked again, and what it had said of this step is void.
    StepRestarted {
        step: i64,
        why: String,
    },
}

impl RunEventBody {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Started { .. } => "run_started",
            Self::Message(_) => "message",
            Self::ToolStarted(_) => "tool_started",
            Self::ToolCompleted(_) => "tool_completed",
            Self::LoopDetected { .. } => "loop_detected",
            Self::LimitReached { .. } => "limit_reached",
            Self::Compacted { .. } => "compacted",
            Self::Ended { .. } => "run_ended",
            Self::TextDelta { .. } => "text_delta",
            Self::ThoughtDelta { .. } => "thought_delta",
            Self::StepRestarted { .. } => "step_restarted",
        }
    }
}

/// A message as it is recorded. Results of tools are recorded with their calls.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedMessage {
    pub id: MessageId,
    pub seq: i64,
    pub role: MessageRole,
    pub step: i64,
    pub content: MessageContent,
    pub usage: Option<Usage>,
    /// In US dollars; `None` when the model's price is not known.
    pub cost: Option<f64>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MessageContent {
    /// Of a system prompt or a user; `injected` names the limit when the executor said it.
    Text { text: String, injected: Option<Reason> },
    /// Of an assistant. Calls are whole here; in the database their input is kept with the call.
    Parts(Vec<Part>),
    /// Stands in for everything of this run's conversation before `upto`: how it was shortened.
    Summary { text: String, upto: i64 },
}

/// A tool call as it is recorded.
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
    /// Where its result stands among the events.
    pub result_seq: Option<i64>,
    pub duration_ms: Option<i64>,
    pub at: Timestamp,
}
