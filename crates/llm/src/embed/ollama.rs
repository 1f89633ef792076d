//! Ollama: `/api/embed` of a server that usually runs next door.

use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Credentials, EmbedTask,
    remote::{Remote, Wire},
    spec::given,
};
use crate::{
    Error,
    http::{Http, endpoint},
};

const PORT: u16 = 11434;

pub fn connect(model: &str, creds: &Credentials) -> Result<Remote<Ollama>, Error> {
    let name = format!("ollama/{model}");
    let url = address(given(&creds.ollama_host).unwrap_or("127.0.0.1"))?;
    let http = Http::new(&name, url, None)?;
    Ok(Remote::new(name, Ollama { model: model.into() }, http))
}

/// People share one `OLLAMA_HOST` between the server and its clients, so all its forms
/// work: `host`, `host:port`, a URL, and the server's "every address".
fn address(host: &str) -> Result<Url, Error> {
    let bare = !host.contains("://");
    let base = if bare { format!("http://{host}") } else { host.to_owned() };
    let mut url = endpoint("OLLAMA_HOST", &base, "api/embed")?;
    if bare && url.port().is_none() {
        let _ = url.set_port(Some(PORT));
    }
    if url.host_str() == Some("0.0.0.0") {
        let _ = url.set_host(Some("127.0.0.1"));
    }
    Ok(url)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_ollama_host_leads_to_the_server() {
        let check = |host, url| assert_eq!(address(host).unwrap().as_str(), url);
        check("127.0.0.1", "http://127.0.0.1:11434/api/embed");
        check("gpu:9000", "http://gpu:9000/api/embed");
        check("0.0.0.0", "http://127.0.0.1:11434/api/embed");
        check("http://gpu:11434/", "http://gpu:11434/api/embed");
        check("https://ollama.example", "https://ollama.example/api/embed");
    }

    #[test]
    fn an_address_that_is_none_names_its_setting() {
        assert!(address("ftp://gpu").unwrap_err().to_string().contains("OLLAMA_HOST"));
    }
}
