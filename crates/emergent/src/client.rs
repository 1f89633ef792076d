//! One way to ask the API, two ways to reach it: a server over HTTP, or the same router in this
//! process on the data folder. Commands cannot tell the difference.

use std::time::Duration;

use axum::{body::Body, http};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream::BoxStream};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt;

use crate::{
    config::{Settings, StoreFlags},
    datadir,
    error::{Error, Result},
    open::{self, Opened},
};

/// Where a command goes. The same flags on every command that talks about data.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ServerFlags {
    /// A running server; without it, the data folder itself (or the server that holds it)
    #[arg(long, global = true, env = "EMERGENT_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// Token for the server [default: the data folder's admin token]
    #[arg(long, global = true, env = "EMERGENT_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Project, by name or id [default: the token's, or `default`]
    #[arg(long, short, global = true, env = "EMERGENT_PROJECT", value_name = "PROJECT")]
    pub project: Option<String>,
}

pub struct Client {
    reach: Reach,
    token: String,
    project: Option<String>,
}

enum Reach {
    Http { base: String, http: reqwest::Client },
    Here(Box<Opened>),
}

/// An answer whose body has not been read yet.
pub struct Answer {
    pub status: http::StatusCode,
    pub headers: http::HeaderMap,
    body: BoxStream<'static, Result<Bytes>>,
}

impl Client {
    pub async fn connect(flags: &ServerFlags, store: &StoreFlags) -> Result<Self> {
        let project = flags.project.clone();
        let settings = Settings::load(store, None)?;
        if let Some(server) = &flags.server {
            let token = flags
                .token
                .clone()
                .or_else(|| datadir::running_server(&settings.data_dir).and_then(|(_, token)| token));
            let token = token.ok_or_else(|| {
                Error::Usage(format!("`{server}` needs a token: --token, or EMERGENT_TOKEN"))
            })?;
            return Ok(Self { reach: remote(server)?, token, project });
        }
        match open::open(&settings).await {
            Ok(opened) => Ok(Self {
                token: flags.token.clone().unwrap_or_else(|| opened.admin_token.clone()),
                reach: Reach::Here(Box::new(opened)),
                project,
            }),
            // A server has the folder: ask it.
            Err(Error::Locked { path }) => {
                let (address, token) = datadir::running_server(&path).ok_or(Error::Locked { path })?;
                let token = flags
                    .token
                    .clone()
                    .or(token)
                    .ok_or_else(|| Error::Usage("the server needs a token: --token".to_owned()))?;
                Ok(Self { reach: remote(&address)?, token, project })
            }
            Err(error) => Err(error),
        }
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(http::Method::GET, path, None, Content::Nothing).await
    }

    /// Every page of a list, as one.
    pub async fn all(&self, path: &str) -> Result<Vec<Value>> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let (mut items, mut at) = (Vec::new(), String::new());
        loop {
            let answer = self.get(&format!("{path}{mark}limit=100{at}")).await?;
            let next = answer.next_cursor();
            items.extend(answer.data::<Vec<Value>>().await?);
            match next {
                Some(cursor) => at = format!("&cursor={cursor}"),
                None => return Ok(items),
            }
        }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.send(http::Method::POST, path, Some("application/json"), Content::Text(body.to_string())).await
    }

    pub async fn delete(&self, path: &str) -> Result<Answer> {
        self.send(http::Method::DELETE, path, None, Content::Nothing).await
    }

    pub async fn upload(
        &self,
        path: &str,
        content_type: &'static str,
        body: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Result<Answer> {
        self.send(http::Method::POST, path, Some(content_type), Content::Parts(body.boxed())).await
    }

    async fn send(
        &self,
        method: http::Method,
        path: &str,
        content_type: Option<&str>,
        content: Content,
    ) -> Result<Answer> {
        let mut request = http::Request::builder()
            .method(method)
            .header(http::header::AUTHORIZATION, format!("Bearer {}", self.token));
        if let Some(project) = &self.project {
            request = request.header("x-project-id", project);
        }
        if let Some(content_type) = content_type {
            request = request.header(http::header::CONTENT_TYPE, content_type);
        }
        let unusable = |error: http::Error| Error::Usage(error.to_string());
        let answer = match &self.reach {
            Reach::Here(opened) => {
                let request = request.uri(path).body(Body::from(content)).map_err(unusable)?;
                let response = emergent_api::router(opened.app.clone())
                    .oneshot(request)
                    .await
                    .unwrap_or_else(|never| match never {});
                let (head, body) = response.into_parts();
                let body = body.into_data_stream().map(|part| part.map_err(broke_off));
                Answer { status: head.status, headers: head.headers, body: body.boxed() }
            }
            Reach::Http { base, http } => {
                let unreachable = |source: reqwest::Error| Error::Unreachable {
                    server: base.clone(),
                    source: Box::new(source),
                };
                let request = request.uri(format!("{base}{path}")).body(content).map_err(unusable)?;
                let request = reqwest::Request::try_from(request).map_err(unreachable)?;
                let response = http.execute(request).await.map_err(unreachable)?;
                let (status, headers) = (response.status(), response.headers().clone());
                let body = response.bytes_stream().map(|part| part.map_err(broke_off));
                Answer { status, headers, body: body.boxed() }
            }
        };
        answer.accepted().await
    }
}

/// What a request carries.
enum Content {
    Nothing,
    Text(String),
    Parts(BoxStream<'static, std::io::Result<Bytes>>),
}

impl From<Content> for Body {
    fn from(content: Content) -> Self {
        match content {
            Content::Nothing => Body::empty(),
            Content::Text(text) => Body::from(text),
            Content::Parts(parts) => Body::from_stream(parts),
        }
    }
}

impl From<Content> for reqwest::Body {
    fn from(content: Content) -> Self {
        match content {
            Content::Nothing => reqwest::Body::default(),
            Content::Text(text) => reqwest::Body::from(text),
            Content::Parts(parts) => reqwest::Body::wrap_stream(parts),
        }
    }
}

fn broke_off(error: impl std::fmt::Display) -> Error {
    Error::Unexpected(format!("the answer broke off ({error})"))
}

fn remote(server: &str) -> Result<Reach> {
    let base = server.trim_end_matches('/');
    let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
    if reqwest::Url::parse(&base).is_err() {
        return Err(Error::Usage(format!(
            "`{server}` is not the address of a server, such as http://127.0.0.1:4400"
        )));
    }
    Ok(Reach::Http { http: http_client(&base)?, base })
}

/// A client for one server.
pub fn http_client(base: &str) -> Result<reqwest::Client> {
    // Fails when one was chosen already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut client = reqwest::Client::builder().connect_timeout(Duration::from_secs(10));
    if base.starts_with("http://") {
        // A machine without certificates can still ask a server next door.
        client = client.tls_certs_only([]);
    }
    let host = base.split_once("://").map_or(base, |(_, rest)| rest);
    if ["127.", "localhost", "[::1]"].iter().any(|local| host.starts_with(local)) {
        // Whatever proxy the way out needs, this is not the way out.
        client = client.no_proxy();
    }
    client.build().map_err(|source| Error::Unreachable { server: base.to_owned(), source: Box::new(source) })
}

impl Answer {
    /// Turns an error answer into an error, in the words of the API.
    async fn accepted(self) -> Result<Self> {
        if self.status.is_success() {
            return Ok(self);
        }
        let status = self.status;
        let text = self.text().await?;
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        let error = &body["error"];
        let Some(message) = error["message"].as_str() else {
            return Err(Error::Unexpected(format!(
                "{status} {}",
                text.chars().take(200).collect::<String>()
            )));
        };
        let mut details = String::new();
        for detail in error["details"].as_array().into_iter().flatten() {
            if let (Some(field), Some(reason)) = (detail["field"].as_str(), detail["reason"].as_str())
                && !message.contains(reason)
            {
                details.push_str(&format!("\n  `{field}`: {reason}"));
            }
        }
        let code = error["code"].as_str().unwrap_or_default().to_owned();
        Err(Error::Refused { code, message: message.to_owned(), details })
    }

    pub fn next_cursor(&self) -> Option<String> {
        self.headers.get("x-next-cursor").and_then(|value| value.to_str().ok()).map(str::to_owned)
    }

    pub fn stream(self) -> BoxStream<'static, Result<Bytes>> {
        self.body
    }

    pub async fn text(mut self) -> Result<String> {
        let mut all = Vec::new();
        while let Some(part) = self.body.next().await {
            all.extend_from_slice(&part?);
        }
        String::from_utf8(all).map_err(|error| Error::Unexpected(error.to_string()))
    }

    /// `data` of the envelope.
    pub async fn data<T: DeserializeOwned>(self) -> Result<T> {
        #[derive(serde::Deserialize)]
        struct Envelope<T> {
            data: T,
        }
        let text = self.text().await?;
        let envelope: Envelope<T> =
            serde_json::from_str(&text).map_err(|error| Error::Unexpected(error.to_string()))?;
        Ok(envelope.data)
    }
}
