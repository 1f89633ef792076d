//! A conversation with a model, independent of any provider.
//!
//! The adapters in `llm` convert it to and from each provider's wire format. Some data must be sent
//! back to the provider unchanged, such as thought signatures and the provider's own ids. It is
//! stored in the `provider` field of a part, which no other code interprets.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::ToolCallId;

/// One turn of a conversation. The system prompt is not a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub speaker: Speaker,
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    User,
    Assistant,
    /// The results of all tool calls of the preceding assistant turn, in the order of the calls.
    Tools,
}

impl Turn {
    pub fn user(text: impl Into<String>) -> Self {
        Self { speaker: Speaker::User, parts: vec![Part::text(text)] }
    }

    pub fn assistant(parts: Vec<Part>) -> Self {
        Self { speaker: Speaker::Assistant, parts }
    }

    pub fn results(results: impl IntoIterator<Item = ToolResult>) -> Self {
        Self { speaker: Speaker::Tools, parts: results.into_iter().map(Part::Result).collect() }
    }

    /// Returns the text of the turn without thoughts.
    pub fn text(&self) -> String {
        join_text(&self.parts)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Value>,
    },
    /// The model's reasoning. It is displayed on request, and is never part of the answer.
    Thought {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Value>,
    },
    Call(ToolCall),
    Result(ToolResult),
}

impl Part {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), provider: None }
    }
}

/// A tool call that the model requested. The adapters assign a new id to every call they receive,
/// and store the provider's own id in `provider` if the provider requires it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: ToolCallId,
    pub name: String,
    /// A JSON object. If the model sent something else, this is a string with the text it sent, so
    /// that the error message to the model can quote it.
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Value>,
}

/// The result of a tool call, as the model reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub id: ToolCallId,
    pub name: String,
    pub output: Value,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// Joins the text of the parts, without thoughts.
pub fn join_text(parts: &[Part]) -> String {
    let mut joined = String::new();
    for part in parts {
        if let Part::Text { text, .. } = part {
            joined.push_str(text);
        }
    }
    joined
}

/// Token counts of one model call, counted the same way for every provider: `input` is the complete
/// prompt, cached or not, and `output` is everything that was generated, including reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    /// The part of `output` that was spent on reasoning.
    pub reasoning: u64,
    /// The part of `input` that was read from the provider's cache.
    pub cache_read: u64,
    /// The part of `input` that was written to the provider's cache.
    pub cache_write: u64,
}

/// The reason why the model stopped generating.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    End,
    ToolCalls,
    MaxTokens,
    /// The provider's safety rules stopped the answer. Holds the provider's name for the reason.
    Refused(String),
    Other(String),
}
