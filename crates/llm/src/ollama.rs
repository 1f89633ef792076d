//! The address of an Ollama server, for embeddings and chat.

use reqwest::Url;

use crate::{Error, http::endpoint};

const PORT: u16 = 11434;

/// The server and its clients often share one `OLLAMA_HOST`, so all its forms work: `host`,
/// `host:port`, a URL, and the server's "all addresses".
pub fn address(host: Option<&str>, path: &str) -> Result<Url, Error> {
    let host = host.unwrap_or("127.0.0.1");
    let bare = !host.contains("://");
    let base = if bare { format!("http://{host}") } else { host.to_owned() };
    let mut url = endpoint("OLLAMA_HOST", &base, path)?;
    if bare && url.port().is_none() {
        let _ = url.set_port(Some(PORT));
    }
    if url.host_str() == Some("0.0.0.0") {
        let _ = url.set_host(Some("127.0.0.1"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_ollama_host_leads_to_the_server() {
        let check = |host, url| assert_eq!(address(host, "api/embed").unwrap().as_str(), url);
        check(None, "http://127.0.0.1:11434/api/embed");
        check(Some("gpu:9000"), "http://gpu:9000/api/embed");
        check(Some("0.0.0.0"), "http://127.0.0.1:11434/api/embed");
        check(Some("http://gpu:11434/"), "http://gpu:11434/api/embed");
        check(Some("https://ollama.example"), "https://ollama.example/api/embed");
    }

    #[test]
    fn an_address_that_is_none_names_its_setting() {
        assert!(address(Some("ftp://gpu"), "x").unwrap_err().to_string().contains("OLLAMA_HOST"));
    }
}
