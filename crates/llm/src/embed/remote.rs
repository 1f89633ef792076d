//! What all embedding providers share: batches, validation of the response, and the dimension of the
//! vectors, which the first response determines.

use std::sync::OnceLock;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{EmbedTask, Embedder, normalize};
use crate::{Error, http::ProviderClient};

/// The request and response format of one provider.
pub trait EmbeddingApi: Send + Sync {
    type Response: DeserializeOwned + Send;

    /// The most texts the provider accepts in one request, or answers in reasonable time.
    const MAX_BATCH: usize;

    fn request(&self, texts: &[&str], task: EmbedTask) -> Value;

    /// Returns the vectors in the order of the texts; the caller detects missing ones.
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

    /// A vector of another dimension, or of length zero, would break every later comparison.
    fn check(&self, vector: &mut [f32]) -> Result<(), Error> {
        if !normalize(vector) {
            return Err(self.http.malformed("a vector of length zero".into()));
        }
        let dims = *self.dims.get_or_init(|| vector.len());
        if vector.len() != dims {
            let message = format!("a vector of dimension {} after one of dimension {dims}", vector.len());
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

/// Providers refuse a whole batch because of one blank text.
fn non_blank(text: &str) -> &str {
    if text.trim().is_empty() { "." } else { text }
}
