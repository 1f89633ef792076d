//! The `/v1/embeddings` API of OpenAI and of many compatible servers.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Credentials, EmbedTask,
    remote::{EmbeddingApi, RemoteEmbedder},
    spec::non_empty,
};
use crate::{
    Error,
    http::{ProviderClient, SecretHeader, endpoint},
};

const BASE: &str = "https://api.openai.com/v1";

pub fn connect(model: &str, creds: &Credentials) -> Result<RemoteEmbedder<OpenAi>, Error> {
    let name = format!("openai/{model}");
    // Local servers often need no key, OpenAI itself always does.
    let (key, base) = (non_empty(&creds.openai_api_key), non_empty(&creds.openai_base_url));
    if key.is_none() && base.is_none() {
        let message = format!(
            "embeddings by `{name}` need a key: set `OPENAI_API_KEY`, or `EMERGENT_OPENAI_BASE_URL` for another server"
        );
        return Err(Error::Config(message));
    }
    let url = endpoint("EMERGENT_OPENAI_BASE_URL", base.unwrap_or(BASE), "embeddings")?;
    let secret = key.map(|key| SecretHeader {
        header: "authorization",
        value: format!("Bearer {key}"),
        setting: "OPENAI_API_KEY",
    });
    let http = ProviderClient::new(&name, url, secret)?;
    Ok(RemoteEmbedder::new(name, OpenAi { model: model.into() }, http))
}

pub struct OpenAi {
    model: String,
}

impl EmbeddingApi for OpenAi {
    type Response = Answer;

    /// 2048 texts are allowed, but together they may have no more than 300 000 tokens.
    const MAX_BATCH: usize = 128;

    fn request(&self, texts: &[&str], _: EmbedTask) -> Value {
        json!({ "model": self.model, "input": texts, "encoding_format": "float" })
    }

    fn vectors(mut answer: Answer) -> Vec<Vec<f32>> {
        // Only `index` guarantees the order.
        answer.data.sort_by_key(|item| item.index);
        answer.data.dedup_by_key(|item| item.index);
        answer.data.into_iter().map(|item| item.embedding).collect()
    }
}

#[derive(Deserialize)]
pub struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}
