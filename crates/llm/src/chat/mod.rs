//! Chat with models: a streamed request in a format that is independent of the provider.

mod anthropic;
mod estimate;
mod file_cache;
mod gemini;
mod ollama;
mod openai;
mod output_schema;
mod probe;
mod recording;
mod rehearsal;
mod relay;
mod request_cache;
mod settings;
mod stream;
mod vertex;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use emergent_domain::{
    chat::{Part, StopReason, Turn, Usage, join_text},
    ids::RunId,
    json::Schema,
    run_event::ModelRetry,
};
use serde_json::Value;

use crate::Error;
pub use anthropic::Anthropic;
pub use gemini::Gemini;
pub use openai::OpenAi;
pub(crate) use recording::{AnswerRecorder, Replay};
pub(crate) use rehearsal::Rehearsal;
pub use rehearsal::{Fault, Rule, Script, ScriptedCall, ScriptedReply, When};
pub(crate) use relay::Relay;
pub use request_cache::RequestCache;
pub use settings::ChatSettings;
pub use vertex::VertexSettings;

/// A request to a model. All fields are borrowed, so that a long conversation is not copied for each
/// call.
#[derive(Debug, Clone, Copy)]
pub struct ChatRequest<'a> {
    /// The provider's name of the model, without the name of the provider.
    pub model: &'a str,
    pub system: &'a str,
    pub turns: &'a [Turn],
    pub tools: &'a [ToolSpec],
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    /// A JSON schema that the text of the answer must match. A provider that does not support it, or not beside tools,
    /// is not given it: the caller says it in the prompt as well, and validates the answer.
    pub output_schema: Option<&'a Value>,
    /// The serialised earlier turns, for a caller that sends the same conversation again with more turns.
    pub cache: Option<&'a RequestCache>,
    pub meta: RequestMeta<'a>,
}

/// The caller, for scripts, logs and recordings. This is never sent to a provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestMeta<'a> {
    pub agent: &'a str,
    pub step: i64,
    pub run: Option<RunId>,
}

/// A tool as the model sees it. The schema is passed on unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: Arc<str>,
    pub input_schema: Schema,
}

/// Output that arrives while the model is still generating.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Text(String),
    Thought(String),
    /// The call failed half way and is retried: all output so far is void.
    Restart {
        why: String,
    },
    /// The call failed and is retried after a wait.
    Retry(ModelRetry),
}

/// The model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Texts, thoughts and tool calls in the model's order.
    pub parts: Vec<Part>,
    pub usage: Usage,
    pub stop: StopReason,
    pub response: ResponseIds,
}

/// What the provider calls its response and the model that made it, as far as it says so.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResponseIds {
    pub id: Option<String>,
    pub model: Option<String>,
}

impl ResponseIds {
    /// Takes a name from a part of the response. An empty one is left out.
    pub(crate) fn take(name: &mut Option<String>, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            *name = Some(text.chars().take(200).collect());
        }
    }
}

impl Answer {
    /// Returns the text without thoughts.
    pub fn text(&self) -> String {
        join_text(&self.parts)
    }
}

/// A provider of models. Dropping the future cancels the call.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The part before the slash in `provider/name`.
    fn name(&self) -> &str;

    /// Whether the model exists, as far as this is known without a call; an error says why it does not.
    fn check(&self, model: &str) -> Result<(), Error> {
        let _ = model;
        Ok(())
    }

    /// Whether the provider is reached and accepts the credentials, in words; `None` if there is nothing to
    /// reach. It must not cost anything, and the caller limits its time.
    async fn probe(&self) -> Option<Result<String, Error>> {
        None
    }

    /// Calls the model once. Deltas arrive in order, before the answer that contains them. A provider does
    /// not retry: [`crate::Models`] does that for all providers.
    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error>;
}
