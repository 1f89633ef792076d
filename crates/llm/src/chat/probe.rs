//! Asks a provider for its list of models: it shows that the provider is reached and accepts the credentials,
//! and costs nothing.

use reqwest::{Client, Response, StatusCode, Url, header::HeaderMap};

use crate::{Error, http};

/// The bytes of an error response that are read.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// The URL of the list of models beside another endpoint, whose path ends with `path`.
pub(super) fn models_url(endpoint: &Url, path: &str, query: Option<&str>) -> Url {
    let mut url = endpoint.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        for _ in path.split('/') {
            segments.pop();
        }
        segments.push("models");
    }
    url.set_query(query);
    url
}

/// Requests the list. Returns what was found in words.
pub(super) async fn request_models(
    client: &Client,
    provider: &str,
    url: Url,
    headers: HeaderMap,
) -> Result<String, Error> {
    let origin = url.origin().ascii_serialization();
    let response = client.get(url).headers(headers).send().await.map_err(|error| Error::Overloaded {
        model: provider.to_owned(),
        message: format!("no connection to `{origin}`"),
        source: Some(Box::new(error.without_url())),
    })?;
    match response.status() {
        status if status.is_success() => Ok(format!("{origin} answers")),
        // Some compatible servers have no such list. They do answer.
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            Ok(format!("{origin} answers, without a list of models"))
        }
        status => {
            let text = error_text(response).await;
            Err(http::classify(provider, status, None, &text))
        }
    }
}

async fn error_text(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let remaining = MAX_ERROR_BYTES - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(remaining)]);
        if bytes.len() >= MAX_ERROR_BYTES {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_models_is_beside_the_endpoint() {
        let check = |endpoint: &str, path, query, expected| {
            assert_eq!(models_url(&endpoint.parse().unwrap(), path, query).as_str(), expected);
        };
        check(
            "https://api.example/v1/chat/completions",
            "chat/completions",
            None,
            "https://api.example/v1/models",
        );
        check(
            "https://api.example/v1/messages",
            "messages",
            Some("limit=1"),
            "https://api.example/v1/models?limit=1",
        );
    }
}
