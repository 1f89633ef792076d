//! Models behind one interface each. So far: embedders, which turn texts into vectors.
//!
//! [`embedder`] picks one from an [`EmbedderSpec`] (the value of `EMERGENT_EMBEDDINGS`):
//! the built-in one needs nothing, a local directory needs a downloaded model, the others
//! call a provider. Reading the environment is left to the caller, storing and comparing
//! vectors too.

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
    Answer, ChatRequest, ChatSettings, Delta, Gemini, Provider, RequestCache, RequestMeta, ToolSpec,
    VertexSettings,
};
pub use chat::{Anthropic, OpenAi};
pub use chat::{Fault, Rule, Script, ScriptedCall, ScriptedReply, When};
pub use embed::{Credentials, EmbedTask, Embedder, EmbedderSpec, embedder};
pub use error::Error;
pub use models::{ModelSettings, Models, ProviderStatus};
