//! Computes the vectors of a sentence-transformers model on the CPU.
//!
//! Most small English models are supported: BERT with a WordPiece vocabulary, such as MiniLM, bge and
//! e5. Other models are refused by name when they are loaded, because they would give vectors that
//! only look right. With [`Precision::Float`] the vectors of published models equal those of their reference up to
//! rounding, and with [`Precision::Int8`] nearly (ADR 18).

mod bert;
mod directory;
mod linear;
mod math;
mod table;
mod threads;
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
    threads::Threads,
    tokenize::Tokenizer,
};
use super::{EmbedTask, Embedder, normalize};
use crate::{Error, error::BoxedError};

/// Large enough for efficient matrix products, small enough for the processor's cache.
const MAX_BATCH_TOKENS: usize = 1024;

/// How the weights of a model are kept and multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Whole numbers of eight bits with a scale for each output, in a quarter of the memory. A short query is computed two
    /// to four times as fast, a text of a hundred tokens or more up to one and a half times (ADR 18).
    #[default]
    Int8,
    /// The numbers of the model, with 32 bits.
    Float,
}

pub struct LocalEmbedder {
    name: String,
    dir: PathBuf,
    model: Arc<Model>,
    threads: Arc<Threads>,
    /// One permit per core: more computations at once would only compete for memory.
    cores: Arc<Semaphore>,
}

impl LocalEmbedder {
    pub fn load(dir: &Path, precision: Precision) -> Result<Self, Error> {
        let model = Model::load(dir, precision).map_err(|source| Error::Local { dir: dir.into(), source })?;
        let title = dir.file_name().map_or("model".into(), |name| name.to_string_lossy());
        Ok(Self {
            // A directory may hold another model later, so the name includes a hash of the weights. Vectors of both
            // precisions have the same name: they can be compared with each other (ADR 18).
            name: format!("local/{title}@{:08x}", model.bert.fingerprint()),
            dir: dir.into(),
            model: Arc::new(model),
            threads: Arc::default(),
            cores: Arc::new(Semaphore::new(available_parallelism().map_or(1, usize::from))),
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
        let core = Arc::clone(&self.cores).acquire_owned().await.map_err(|closed| failed(closed.into()))?;
        let (model, threads, texts) = (self.model.clone(), self.threads.clone(), texts.to_vec());
        #[expect(clippy::disallowed_methods, reason = "awaited here; `cores` limits how many there are")]
        let embedding = spawn_blocking(move || {
            // A computation goes on when its caller is gone, and needs its core until it ends.
            let _core = core;
            threads.run(|| model.embed(&texts, task))
        });
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
    fn load(dir: &Path, precision: Precision) -> Result<Self, BoxedError> {
        let directory = Directory::open(dir)?;
        let config = directory.config()?;
        Ok(Self {
            tokenizer: directory.tokenizer(&config)?,
            prompts: directory.prompts()?,
            bert: directory.bert(&config, precision)?,
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
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_computation_keeps_its_core_when_its_caller_is_gone() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny-bert");
        let embedder = LocalEmbedder::load(&dir, Precision::Int8).unwrap();
        let cores = embedder.cores.available_permits();
        let texts = vec!["the agent reads a long text ".repeat(100); 2_000];
        let call = embedder.embed(&texts, EmbedTask::Document);
        assert!(tokio::time::timeout(Duration::ZERO, call).await.is_err(), "it takes longer");
        assert_eq!(embedder.cores.available_permits(), cores - 1);
        let all = embedder.cores.acquire_many(u32::try_from(cores).unwrap()).await;
        assert!(all.is_ok(), "the core is free when the computation has ended");
    }

    #[test]
    fn texts_are_computed_in_groups_that_fit() {
        let texts = |lengths: &[usize]| lengths.iter().map(|&length| vec![0; length]).collect::<Vec<_>>();
        assert_eq!(batch_len(&texts(&[10, 20])), 2);
        assert_eq!(batch_len(&texts(&[1000, 24, 1])), 2);
        assert_eq!(batch_len(&texts(&[5000, 1])), 1);
    }
}
