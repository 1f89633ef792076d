//! Google Gemini: `models/{model}:batchEmbedContents`.

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

const BASE: &str = "https://generativelanguage.googleapis.com/v1beta";

pub fn connect(model: &str, creds: &Credentials) -> Result<RemoteEmbedder<Google>, Error> {
    let name = format!("google/{model}");
    let key = non_empty(&creds.gemini_api_key)
        .ok_or_else(|| Error::Config(format!("embeddings by `{name}` need a key: set `GEMINI_API_KEY`")))?;
    let base = non_empty(&creds.google_base_url).unwrap_or(BASE);
    let path = format!("models/{model}:batchEmbedContents");
    let url = endpoint("EMERGENT_GOOGLE_BASE_URL", base, &path)?;
    let secret = SecretHeader { header: "x-goog-api-key", value: key.into(), setting: "GEMINI_API_KEY" };
    let http = ProviderClient::new(&name, url, Some(secret))?;
    Ok(RemoteEmbedder::new(name, Google { resource: format!("models/{model}") }, http))
}

pub struct Google {
    resource: String,
}

impl EmbeddingApi for Google {
    type Response = Answer;

    const MAX_BATCH: usize = 100;

    fn request(&self, texts: &[&str], task: EmbedTask) -> Value {
        let task = match task {
            EmbedTask::Document => "RETRIEVAL_DOCUMENT",
            EmbedTask::Query => "RETRIEVAL_QUERY",
        };
        // Google requires the model in each item, although the URL contains it as well.
        let item = |text| json!({ "model": self.resource, "content": { "parts": [{ "text": text }] }, "taskType": task });
        json!({ "requests": texts.iter().map(item).collect::<Vec<_>>() })
    }

    fn vectors(answer: Answer) -> Vec<Vec<f32>> {
        answer.embeddings.into_iter().map(|embedding| embedding.values).collect()
    }
}

#[derive(Deserialize)]
pub struct Answer {
    embeddings: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    values: Vec<f32>,
}
