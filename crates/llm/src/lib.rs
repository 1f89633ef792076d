//! Language models and embedding models behind one interface each.
//!
//! [`Models`] reaches every configured chat provider (Anthropic, Google, Vertex, OpenAI, Ollama, and
//! scripted rehearsals): it chooses a model by `provider/name`, streams its answer, retries failures,
//! limits concurrent calls and computes the cost.
//!
//! [`embedder`] returns the embedder of an [`EmbedderSpec`] (the value of `EMERGENT_EMBEDDINGS`): the
//! built-in one needs nothing, a local directory needs a downloaded model, the others call a provider.
//!
//! The caller reads the environment, and stores and compares the vectors.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

mod chat;
mod embed;
mod error;
mod google_auth;
mod http;
mod models;
mod ollama;
mod prices;
mod retry;

pub use chat::{
    Answer, ChatRequest, ChatSettings, Delta, Gemini, Provider, RequestCache, RequestMeta, ResponseIds,
    ToolSpec, VertexSettings,
};
pub use chat::{Anthropic, OpenAi};
pub use chat::{Fault, Rule, Script, ScriptedCall, ScriptedReply, When};
pub use embed::{
    Credentials, DEFAULT_MIN_SIMILARITY, DEFAULT_PASSAGE_PART, EmbedTask, Embedder, EmbedderSpec, Precision,
    SimilarityReport, embedder, measure_passage_similarity, measure_similarity,
};
pub use error::Error;
pub use models::{ModelSettings, Models, ProviderStatus};
