//! Models behind one interface each. So far: embedders, which turn texts into vectors.
//!
//! [`embedder`] picks one from an [`EmbedderSpec`] (the value of `EMERGENT_EMBEDDINGS`):
//! the built-in one needs nothing, a local directory needs a downloaded model, the others
//! call a provider. Reading the environment is left to the caller, storing and comparing
//! vectors too.

mod embed;
mod error;
mod http;
mod retry;

pub use embed::{Credentials, EmbedTask, Embedder, EmbedderSpec, embedder};
pub use error::Error;
