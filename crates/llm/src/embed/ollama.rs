//! Ollama: `/api/embed` of a server that usually runs next door.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Credentials, EmbedTask,
    remote::{Remote, Wire},
    spec::given,
};
use crate::{Error, http::Http, ollama::address};

pub fn connect(model: &str, creds: &Credentials) -> Result<Remote<Ollama>, Error> {
    let name = format!("ollama/{model}");
    let url = address(given(&creds.ollama_host), "api/embed")?;
    let http = Http::new(&name, url, None)?;
    Ok(Remote::new(name, Ollama { model: model.into() }, http))
}

pub struct Ollama {
    model: String,
}

impl Wire for Ollama {
    type Answer = Answer;

    /// Small, because each one has to be done in time on somebody's laptop.
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
