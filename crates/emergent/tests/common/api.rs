//! A client of the API that tells a refusal from a server that went away.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    base: String,
    token: String,
    project: Option<String>,
}

/// What the server said; it may be a refusal.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    /// The cursor of the next page.
    pub next: Option<String>,
}

impl Answer {
    /// `data` of an answer that went well.
    #[track_caller]
    pub fn data(self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.body);
        self.body["data"].clone()
    }

    pub fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }
}

impl Api {
    pub fn new(base: &str, token: &str) -> Self {
        let http = emergent_net::http::client_builder_for(base)
            .no_proxy()
            .timeout(Duration::from_secs(60))
            .build()
            .expect("a client");
        Self::with_client(http, base, token)
    }

    /// With a client that trusts the server's certificate.
    pub fn with_client(http: reqwest::Client, base: &str, token: &str) -> Self {
        Self { http, base: base.to_owned(), token: token.to_owned(), project: None }
    }

    pub fn in_project(&self, project: &str) -> Self {
        Self { project: Some(project.to_owned()), ..self.clone() }
    }

    /// The same client of a server that was started again at another address.
    pub fn at(&self, base: &str) -> Self {
        Self { base: base.to_owned(), ..self.clone() }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token);
        match &self.project {
            Some(project) => request.header("x-project-id", project),
            None => request,
        }
    }

    /// `Err` when there was no whole answer: then nobody knows what came of it.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> reqwest::Result<Answer> {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        let next =
            answer.headers().get("x-next-cursor").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let text = answer.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        assert!(status < 500, "{path}: {status} {body}");
        Ok(Answer { status, body, next })
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await.expect("an answer")
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await.expect("an answer")
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, Some(body)).await.expect("an answer")
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PATCH, path, Some(body)).await.expect("an answer")
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await.expect("an answer")
    }

    /// Every page of a list. `path` has a question mark.
    pub async fn all(&self, path: &str) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let answer = self.get(&format!("{path}&limit=100{cursor}")).await;
            let next = answer.next.clone();
            let data = answer.data();
            items.extend(data.as_array().expect("a list").iter().cloned());
            match next {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    }
}
