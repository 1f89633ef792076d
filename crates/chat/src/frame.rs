//! The frames of an answer.

use emergent_domain::{
    conversation::{ChatMessage, RetrievedPassage},
    ids::{AgentId, ApprovalId, ChatMessageId, ConversationId, RunId, ToolCallId},
    run::Reason,
};
use serde_json::Value;

use crate::Position;

/// One frame, and where its reader is after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    pub position: Position,
    pub body: FrameBody,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FrameBody {
    Meta(Meta),
    /// The next piece of an answer of the model, which is the `step`-th of its run. With `replace`, it takes the place
    /// of everything that was sent of this answer.
    Token {
        step: i64,
        text: String,
        replace: bool,
    },
    Tool(ToolFrame),
    /// The answer failed.
    Error {
        reason: Option<Reason>,
        message: String,
    },
    /// The answer is complete.
    Done(Box<StoredAnswer>),
}

/// An answer as it is stored, and whether a script gave it instead of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredAnswer {
    pub message: ChatMessage,
    pub is_rehearsal: bool,
}

/// What a reader needs to know first.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    pub conversation: ConversationId,
    pub title: String,
    pub agent: Option<AgentId>,
    pub message: ChatMessageId,
    pub answer: ChatMessageId,
    /// `None` while the message waits for its turn.
    pub run: Option<RunId>,
    pub passages: Vec<RetrievedPassage>,
}

/// A tool call that started or ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFrame {
    pub tool: String,
    pub call: ToolCallId,
    pub outcome: ToolOutcome,
    /// The input of a call that started, or the result of one that ended, is only the start of its JSON.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    Started {
        input: Value,
    },
    /// The call waits for a person.
    Held {
        approval: ApprovalId,
    },
    Completed {
        result: Value,
    },
    /// A person approved the call of another run, or answered its question. The result is in the record of that run.
    Approved,
    Failed {
        error: String,
        /// The call was not made: a person or a rule denied it, or nobody decided about it in time.
        denied: bool,
    },
}

/// The most bytes of an input, a result or a piece of text in one frame.
pub(crate) const MAX_FRAME_BYTES: usize = 16 << 10;

/// Returns a value that fits in a frame, and whether it was cut: then it is the start of its JSON as a text.
pub(crate) fn limit_value(value: Value) -> (Value, bool) {
    let json = value.to_string();
    if json.len() <= MAX_FRAME_BYTES {
        return (value, false);
    }
    (Value::String(json[..json.floor_char_boundary(MAX_FRAME_BYTES)].to_owned()), true)
}
