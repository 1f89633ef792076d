//! A conversation with a model, in no provider's words.
//!
//! Adapters in `llm` turn this into each provider's wire format and back. What a provider wants to
//! see again unchanged (thought signatures, its own ids) travels in `provider`, which nobody else
//! looks into, and which is stored with the part.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::ToolCallId;

/// One turn of the conversation; the system prompt is not a turn.
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
    /// The results of the calls of the assistant's turn before it, all of them, in their order.
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

    /// The text of the turn, thoughts left out.
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
    /// What the model thought aloud. Shown to people who look closely, never counted as an answer.
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

/// A tool the model wants called. The id is ours: adapters make a new one for every call they
/// receive, and keep the provider's own in `provider` where the provider insists on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: ToolCallId,
    pub name: String,
    /// An object; a string when what the model sent was no JSON object, so that it can be told.
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Value>,
}

/// What a call came to, as the model reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub id: ToolCallId,
    pub name: String,
    pub output: Value,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// The text of some parts, thoughts left out.
pub fn join_text(parts: &[Part]) -> String {
    let mut whole = String::new();
    for part in parts {
        if let Part::Text { text, .. } = part {
            whole.push_str(text);
        }
    }
    whole
}

/// Tokens of one model call, counted the same way for every provider: `input` is the whole prompt,
/// cached or not; `output` is everything generated, thoughts included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    /// Of `output`, what went into thoughts.
    pub reasoning: u64,
    /// Of `input`, what came out of the provider's cache.
    pub cache_read: u64,
    /// Of `input`, what was put into the provider's cache.
    pub cache_write: u64,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    End,
    ToolCalls,
    MaxTokens,
    /// The provider's safety rules; the provider's word for it.
    Refused(String),
    Other(String),
}
