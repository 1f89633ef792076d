//! An embedder for tests. Each suite defines how letters map to a vector.

use async_trait::async_trait;
use emergent_llm::{EmbedTask, Embedder, Error};

pub struct Letters {
    pub dims: usize,
    /// Computes the vector of a text.
    pub vector: fn(&str) -> Vec<f32>,
}

#[async_trait]
impl Embedder for Letters {
    fn model(&self) -> &str {
        "test/letters"
    }

    fn dims(&self) -> Option<usize> {
        Some(self.dims)
    }

    fn max_batch(&self) -> usize {
        8
    }

    async fn embed(&self, texts: &[String], _: EmbedTask) -> Result<Vec<Vec<f32>>, Error> {
        Ok(texts.iter().map(|text| (self.vector)(text)).collect())
    }
}
