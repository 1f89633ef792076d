//! Texts to vectors.

mod builtin;
mod google;
mod local;
mod ollama;
mod openai;
mod remote;
mod spec;
mod words;

use std::sync::Arc;

use async_trait::async_trait;

use crate::Error;
pub(crate) use spec::non_empty;
pub use spec::{Credentials, EmbedderSpec};

/// What a vector is for. Some models place questions and the passages that answer them
/// by different rules, so that they meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedTask {
    Document,
    Query,
}

#[async_trait]
pub trait Embedder: Send + Sync {
    /// A stable name such as `builtin/hash-384-v1`. Vectors are comparable only under
    /// the same name.
    fn model(&self) -> &str;

    /// The length of the vectors; `None` until a remote model has answered once.
    fn dims(&self) -> Option<usize>;

    /// How many texts make one good request. Longer lists are allowed and split inside.
    fn max_batch(&self) -> usize;

    /// One vector of length one per text, in the order of the texts, all of the same size.
    async fn embed(&self, texts: &[String], task: EmbedTask) -> Result<Vec<Vec<f32>>, Error>;
}

/// The embedder a spec names; `None` for [`EmbedderSpec::Off`]. A local model is read
/// here, so a broken directory shows at start; a provider is first called when needed.
pub fn embedder(spec: &EmbedderSpec, creds: &Credentials) -> Result<Option<Arc<dyn Embedder>>, Error> {
    Ok(Some(match spec {
        EmbedderSpec::Off => return Ok(None),
        EmbedderSpec::Builtin => Arc::new(builtin::Builtin),
        EmbedderSpec::Local(dir) => Arc::new(local::LocalEmbedder::load(dir)?),
        EmbedderSpec::Google { model } => Arc::new(google::connect(model, creds)?),
        EmbedderSpec::OpenAi { model } => Arc::new(openai::connect(model, creds)?),
        EmbedderSpec::Ollama { model } => Arc::new(ollama::connect(model, creds)?),
    }))
}

/// Scales to length one; false when there is no direction to keep.
fn normalize(vector: &mut [f32]) -> bool {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !(length.is_finite() && length > 0.0) {
        return false;
    }
    vector.iter_mut().for_each(|x| *x /= length);
    true
}
