//! What the providers have in common: batches, checks on the answer, and the size of the
//! vectors, learned from the first one.

use std::sync::OnceLock;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{EmbedTask, Embedder, normalize};
use crate::{Error, http::ProviderClient};

/// One provider's words for "these texts, please" and "here they are".
pub trait EmbeddingApi: Send + Sync {
    type Response: DeserializeOwned + Send;

    /// What the provider takes in one request, or what it answers in good time.
    const MAX_BATCH: usize;

    fn request(&self, texts: &[&str], task: EmbedTask) -> Value;

    /// The vectors in the order of the texts; a short list is noticed by the caller.
    fn vectors(answer: Self::Response) -> Vec<Vec<f32>>;
}

pub struct RemoteEmbedder<W> {
    pub name: String,
    pub wire: W,
    pub http: ProviderClient,
    pub dims: OnceLock<usize>,
}

impl<W: EmbeddingApi> RemoteEmbedder<W> {
    pub fn new(name: String, wire: W, http: ProviderClient) -> Self {
        Self { name, wire, http, dims: OnceLock::new() }
    }

    async fn batch(&self, texts: &[String], task: EmbedTask) -> Result<Vec<Vec<f32>>, Error> {
        let request = self.wire.request(&texts.iter().map(|text| non_blank(text)).collect::<Vec<_>>(), task);
        let answer = self.http.post(&request).await?;
        let mut vectors = W::vectors(answer);
        if vectors.len() != texts.len() {
            let message = format!("{} vectors for {} texts", vectors.len(), texts.len());
            return Err(self.http.malformed(message));
        }
        for vector in &mut vectors {
            self.check(vector)?;
        }
        Ok(vectors)
    }

    /// Vectors of another size, or of none, would break every later comparison.
    fn check(&self, vector: &mut [f32]) -> Result<(), Error> {
        if !normalize(vector) {
            return Err(self.http.malformed("a vector without a direction".into()));
        }
        let dims = *self.dims.get_or_init(|| vector.len());
        if vector.len() != dims {
            let message = format!("a vector of {} numbers after one of {dims}", vector.len());
            return Err(self.http.malformed(message));
        }
        Ok(())
    }
}

#[async_trait]
impl<W: EmbeddingApi> Embedder for RemoteEmbedder<W> {
    fn model(&self) -> &str {
        &self.name
    }

    fn dims(&self) -> Option<usize> {
        self.dims.get().copied()
    }

    fn max_batch(&self) -> usize {
        W::MAX_BATCH
    }

    async fn embed(&self, texts: &[String], task: EmbedTask) -> Result<Vec<Vec<f32>>, Error> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(W::MAX_BATCH) {
            vectors.extend(self.batch(batch, task).await?);
        }
        Ok(vectors)
    }
}

/// Providers refuse a whole batch for one blank text.
fn non_blank(text: &str) -> &str {
    if text.trim().is_empty() { "." } else { text }
}
