//! Computes the vectors of a sentence-transformers model on the CPU.
//!
//! Most small English models are supported: BERT with a WordPiece vocabulary, such as MiniLM, bge and
//! e5. Other models are refused by name when they are loaded, because they would give vectors that
//! only look right. The vectors of published models equal those of their reference up to rounding.

mod bert;
mod directory;
mod math;
mod tokenize;
mod weights;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread::available_parallelism,
};

use async_trait::async_trait;
use tokio::{sync::Semaphore, task::spawn_blocking};

use self::{
    bert::Bert,
    directory::{Directory, Pooling, Prompts},
    tokenize::Tokenizer,
};
use super::{EmbedTask, Embedder, normalize};
use crate::{Error, error::BoxedError};

/// Large enough for efficient matrix products, small enough for the processor's cache.
const MAX_BATCH_TOKENS: usize = 1024;

pub struct LocalEmbedder {
    name: String,
    dir: PathBuf,
    model: Arc<Model>,
    /// One permit per core: more computations at once would only compete for memory.
    cores: Semaphore,
}

impl LocalEmbedder {
    pub fn load(dir: &Path) -> Result<Self, Error> {
        let model = Model::load(dir).map_err(|source| Error::Local { dir: dir.into(), source })?;
        let title = dir.file_name().map_or("model".into(), |name| name.to_string_lossy());
        Ok(Self {
            // A directory may hold another model later, so the name includes a hash of the weights.
            name: format!("local/{title}@{:08x}", model.bert.fingerprint()),
            dir: dir.into(),
            model: Arc::new(model),
            cores: Semaphore::new(available_parallelism().map_or(1, usize::from)),
        })
    }
}

#[async_trait]
impl Embedder for LocalEmbedder {
    fn model(&self) -> &str {
        &self.name
    }

    fn dims(&self) -> Option<usize> {
        Some(self.model.bert.hidden())
    }

    fn max_text_bytes(&self) -> Option<usize> {
        Some(self.model.tokenizer.typical_max_bytes())
    }

    fn max_batch(&self) -> usize {
        32
    }

    async fn embed(&self, texts: &[String], task: EmbedTask) -> Result<Vec<Vec<f32>>, Error> {
        let failed = |source: BoxedError| Error::Local { dir: self.dir.clone(), source };
        let _core = self.cores.acquire().await.map_err(|closed| failed(closed.into()))?;
        let (model, texts) = (self.model.clone(), texts.to_vec());
        #[expect(clippy::disallowed_methods, reason = "awaited here; `cores` limits how many there are")]
        let embedding = spawn_blocking(move || model.embed(&texts, task));
        embedding.await.map_err(Into::into).and_then(|result| result).map_err(failed)
    }
}

struct Model {
    tokenizer: Tokenizer,
    prompts: Prompts,
    bert: Bert,
    pooling: Pooling,
}

impl Model {
    fn load(dir: &Path) -> Result<Self, BoxedError> {
        let directory = Directory::open(dir)?;
        let config = directory.config()?;
        Ok(Self {
            tokenizer: directory.tokenizer(&config)?,
            prompts: directory.prompts()?,
            bert: directory.bert(&config)?,
            pooling: directory.pooling,
        })
    }

    fn embed(&self, texts: &[String], task: EmbedTask) -> Result<Vec<Vec<f32>>, BoxedError> {
        let prompt = self.prompts.for_task(task);
        let tokens: Vec<Vec<u32>> = texts
            .iter()
            .map(|text| self.tokenizer.encode(&format!("{prompt}{text}")))
            .collect::<Result<_, _>>()?;
        let mut vectors = Vec::with_capacity(tokens.len());
        let mut rest = tokens.as_slice();
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(batch_len(rest));
            vectors.extend(self.embed_tokens(batch)?);
            rest = later;
        }
        Ok(vectors)
    }

    fn embed_tokens(&self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, BoxedError> {
        let states = self.bert.encode(texts)?;
        let mut rest = states.as_slice();
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            let (own, later) = rest.split_at(text.len() * self.bert.hidden());
            let mut vector = self.pooling.pool(own, self.bert.hidden());
            // Callers compare angles, so vectors are normalised even if the model itself does not do it.
            if !normalize(&mut vector) {
                return Err("a text came out as a vector without a direction".into());
            }
            vectors.push(vector);
            rest = later;
        }
        Ok(vectors)
    }
}

/// How many of the first texts are computed at once; at least one.
fn batch_len(texts: &[Vec<u32>]) -> usize {
    let mut tokens = 0;
    let over = texts.iter().position(|text| {
        tokens += text.len();
        tokens > MAX_BATCH_TOKENS
    });
    over.unwrap_or(texts.len()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_computed_in_groups_that_fit() {
        let texts = |lengths: &[usize]| lengths.iter().map(|&length| vec![0; length]).collect::<Vec<_>>();
        assert_eq!(batch_len(&texts(&[10, 20])), 2);
        assert_eq!(batch_len(&texts(&[1000, 24, 1])), 2);
        assert_eq!(batch_len(&texts(&[5000, 1])), 1);
    }
}
