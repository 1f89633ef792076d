//! Conversations with models: one request, streamed, in no provider's words.

mod anthropic;
mod estimate;
mod file_cache;
mod gemini;
mod ollama;
mod openai;
mod recording;
mod rehearsal;
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
};
use serde_json::Value;

use crate::Error;
pub use anthropic::Anthropic;
pub use gemini::Gemini;
pub use openai::OpenAi;
pub(crate) use recording::{AnswerRecorder, Replay};
pub(crate) use rehearsal::Rehearsal;
pub use rehearsal::{Fault, Rule, Script, ScriptedCall, ScriptedReply, When};
pub use request_cache::RequestCache;
pub use settings::ChatSettings;
pub use vertex::VertexSettings;

/// What a model is asked. Everything is borrowed: a long conversation is not copied to ask once
/// more.
#[derive(Debug, Clone, Copy)]
pub struct ChatRequest<'a> {
    /// The provider's name for the model, without the provider.
    pub model: &'a str,
    pub system: &'a str,
    pub turns: &'a [Turn],
    pub tools: &'a [ToolSpec],
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    /// A JSON schema that the answer's text must be an instance of.
    pub output_schema: Option<&'a Value>,
    /// Where what was sent before is kept, for whoever sends the same conversation again, longer.
    pub cache: Option<&'a RequestCache>,
    pub meta: RequestMeta<'a>,
}

/// Who asks, for scripts, logs and records. Never sent to a provider.
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

/// What came while the model was still speaking.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Text(String),
    Thought(String),
    /// The call failed half way and begins anew: what was said so far is void.
    Restart {
        why: String,
    },
}

/// What the model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Texts, thoughts and calls, in the order the model gave them.
    pub parts: Vec<Part>,
    pub usage: Usage,
    pub stop: StopReason,
}

impl Answer {
    /// The text, thoughts left out.
    pub fn text(&self) -> String {
        join_text(&self.parts)
    }
}

/// A model's provider. Dropping the future cancels the call.
#[async_trait]
pub trait Provider: Send + Sync {
    /// As it stands before the slash in `provider/name`.
    fn name(&self) -> &str;

    /// Whether there is such a model, as far as that is known without asking; an error says why
    /// there is none.
    fn check(&self, model: &str) -> Result<(), Error> {
        let _ = model;
        Ok(())
    }

    /// Asks once. Deltas come in order, before the answer that contains them. Nothing is tried
    /// again in here: [`crate::Models`] does that for every provider alike.
    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error>;
}
