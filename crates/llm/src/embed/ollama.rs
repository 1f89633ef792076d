//! Ollama: `/api/embed` of a server that usually runs on the same machine.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Credentials, EmbedTask,
    remote::{EmbeddingApi, RemoteEmbedder},
    spec::non_empty,
};
use crate::{Error, http::ProviderClient, ollama::address};

pub fn connect(model: &str, creds: &Credentials) -> Result<RemoteEmbedder<Ollama>, Error> {
    let name = format!("ollama/{model}");
    let url = address(non_empty(&creds.ollama_host), "api/embed")?;
    let http = ProviderClient::new(&name, url, None)?;
    Ok(RemoteEmbedder::new(name, Ollama { model: model.into() }, http))
}

pub struct Ollama {
    model: String,
}

impl EmbeddingApi for Ollama {
    type Response = Answer;

    /// The batch is small, because a laptop has to finish it before the timeout.
    const MAX_BATCH: usize = 32;

    fn request(&self, texts: &[&str], _: EmbedTask) -> Value {
        json!({ "model": self.model, "input": texts })
    }

    fn vectors(answer: Answer) -> Vec<Vec<f32>> {
        answer.embeddings
    }
}

#[derive(Deserialize)]
pub struct Answer {
    embeddings: Vec<Vec<f32>>,
}
