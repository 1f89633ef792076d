//! Embedders: they turn texts into vectors.

mod builtin;
mod google;
mod local;
mod ollama;
mod openai;
mod remote;
mod similarity;
mod spec;
mod words;

use std::sync::Arc;

use async_trait::async_trait;

use crate::Error;
pub use local::Precision;
pub use similarity::{
    DEFAULT_MIN_SIMILARITY, DEFAULT_PASSAGE_PART, SimilarityReport, measure_passage_similarity,
    measure_similarity,
};
pub(crate) use spec::non_empty;
pub use spec::{Credentials, EmbedderSpec};

/// The purpose of a vector. Some models embed questions and the passages that answer them differently,
/// so that they end up close together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedTask {
    Document,
    Query,
}

/// The value of [`Embedder::fusion_weight`] for models that understand meaning.
const DEFAULT_FUSION_WEIGHT: f64 = 0.5;

#[async_trait]
pub trait Embedder: Send + Sync {
    /// A stable name such as `builtin/hash-384-v1`. Vectors are comparable only under the same name.
    fn model(&self) -> &str;

    /// The length of the vectors; `None` until a remote model has responded once.
    fn dims(&self) -> Option<usize>;

    /// The cosine below which a text is not similar to a query. Every vector has a nearest one, also the
    /// vector of a query without meaning; what lies below this value was found by chance.
    fn min_similarity(&self) -> f64 {
        DEFAULT_MIN_SIMILARITY
    }

    /// Like [`Embedder::min_similarity`], for passages of documents. `None` if it was not measured.
    fn measured_passage_similarity(&self) -> Option<f64> {
        None
    }

    /// The cosine below which a passage of a document is not similar to a query.
    fn min_passage_similarity(&self) -> f64 {
        self.measured_passage_similarity().unwrap_or(self.min_similarity() * DEFAULT_PASSAGE_PART)
    }

    /// What the nearest text is worth in a hybrid search beside the best one by words, which is worth 1. `None` means
    /// that vectors only add texts that the words did not find, because they rank worse than words.
    fn fusion_weight(&self) -> Option<f64> {
        Some(DEFAULT_FUSION_WEIGHT)
    }

    /// About how many bytes of a text the model reads, if it leaves out the end of a longer one. `None` means that it
    /// reads as much as a text usually has. Longer objects get a vector for each part of this size.
    fn max_text_bytes(&self) -> Option<usize> {
        None
    }

    /// The best number of texts per request. Longer lists are allowed and split internally.
    fn max_batch(&self) -> usize;

    /// Returns one unit vector per text, in the order of the texts, all of the same dimension.
    async fn embed(&self, texts: &[String], task: EmbedTask) -> Result<Vec<Vec<f32>>, Error>;
}

/// Returns the embedder that a spec names; `None` for [`EmbedderSpec::Off`]. A local model is loaded
/// here, so that an invalid directory is reported at start; a provider is called only when needed.
pub fn embedder(spec: &EmbedderSpec, creds: &Credentials) -> Result<Option<Arc<dyn Embedder>>, Error> {
    Ok(Some(match spec {
        EmbedderSpec::Off => return Ok(None),
        EmbedderSpec::Builtin => Arc::new(builtin::Builtin),
        EmbedderSpec::Local(dir, precision) => Arc::new(local::LocalEmbedder::load(dir, *precision)?),
        EmbedderSpec::Google { model } => Arc::new(google::connect(model, creds)?),
        EmbedderSpec::OpenAi { model } => Arc::new(openai::connect(model, creds)?),
        EmbedderSpec::Ollama { model } => Arc::new(ollama::connect(model, creds)?),
    }))
}

/// Scales to length one; returns false if the vector has no direction.
fn normalize(vector: &mut [f32]) -> bool {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !(length.is_finite() && length > 0.0) {
        return false;
    }
    vector.iter_mut().for_each(|x| *x /= length);
    true
}
