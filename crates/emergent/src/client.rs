//! One way to ask the API, two ways to reach it: a server over HTTP, or the same router in this
//! process on the data folder. Commands cannot tell the difference.

mod received;
mod transport;

use std::time::Duration;

use axum::{body::Body, http};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tower::ServiceExt;

use crate::{
    config::{Settings, StoreFlags},
    datadir,
    error::{Error, Result},
    services::{self, Services},
};
pub use received::Received;
pub use transport::{ApiResponse, http_client, refusal};
use transport::{Content, stream_error};

/// How long a command waits for another to let go of the data folder.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long runs that were driven here may take to be put down.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Where a command goes. The same flags on every command that talks about data.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ServerFlags {
    /// A running server; without it, the data folder itself (or the server that holds it)
    #[arg(long, global = true, env = "EMERGENT_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// Token for the server [default: the admin token, on the data folder or its server]
    #[arg(long, global = true, env = "EMERGENT_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Project, by name or id [default: the token's, or `default`]
    #[arg(long, short, global = true, env = "EMERGENT_PROJECT", value_name = "PROJECT")]
    pub project: Option<String>,
}

pub struct Client {
    reach: Transport,
    token: String,
    project: Option<String>,
}

enum Transport {
    Http {
        base: String,
        http: reqwest::Client,
    },
    /// With its router, which takes longer to build than most requests to answer.
    InProcess(Box<Services>, axum::Router),
}

impl Client {
    pub async fn connect(flags: &ServerFlags, store: &StoreFlags) -> Result<Self> {
        let project = flags.project.clone();
        let settings = Settings::load(store, None)?;
        if let Some(server) = &flags.server {
            let reach = http_transport(server)?;
            // The folder's token is for the folder's server: it is not shown to any other.
            let ours = datadir::running_server(&settings.data_dir)
                .filter(|(address, _)| matches!(&reach, Transport::Http { base, .. } if base == address));
            let token = flags.token.clone().or_else(|| ours.and_then(|(_, token)| token));
            let token = token.ok_or_else(|| {
                Error::Usage(format!("`{server}` needs a token: --token, or EMERGENT_TOKEN"))
            })?;
            return Ok(Self { reach, token, project });
        }
        Self::local(&settings, flags.token.clone(), project).await
    }

    /// The data folder or database of these settings, or the server that holds it, with the admin
    /// token.
    pub async fn for_data_dir(settings: &Settings) -> Result<Self> {
        Self::local(settings, None, None).await
    }

    async fn local(settings: &Settings, token: Option<String>, project: Option<String>) -> Result<Self> {
        match open_or_connect(settings).await? {
            DataDirOwner::Folder(opened) => {
                let router = emergent_api::router(opened.app.clone());
                let token = token.unwrap_or_else(|| opened.admin_token.clone());
                Ok(Self { token, reach: Transport::InProcess(opened, router), project })
            }
            DataDirOwner::Server { address, token: known } => {
                let token = token.or(known);
                let token =
                    token.ok_or_else(|| Error::Usage("the server needs a token: --token".to_owned()))?;
                Ok(Self { reach: http_transport(&address)?, token, project })
            }
        }
    }

    /// The same client in this project.
    pub fn in_project(self, project: &str) -> Self {
        Self { project: Some(project.to_owned()), ..self }
    }

    /// On a data folder that is open already, as its owner.
    pub fn in_process(opened: Services) -> Self {
        let router = emergent_api::router(opened.app.clone());
        let token = opened.admin_token.clone();
        Self { token, reach: Transport::InProcess(Box::new(opened), router), project: None }
    }

    /// The same client, naming no project.
    pub fn without_project(self) -> Self {
        Self { project: None, ..self }
    }

    /// Whether nobody but this process can drive what is queued.
    pub fn is_sole_driver(&self) -> bool {
        matches!(self.reach, Transport::InProcess(..))
    }

    /// On a data folder, drives runs and workflows and fires triggers in this process until the answer is dropped
    /// or stopped; a server does that by itself.
    pub fn drive_runs(&self) -> LocalDriver {
        let Transport::InProcess(opened, _) = &self.reach else { return LocalDriver(None) };
        let (stop, stopping) = watch::channel(false);
        let (executor, dispatcher) = (opened.executor.clone(), opened.dispatcher.clone());
        let all = async move {
            tokio::join!(
                executor.run(stopping.clone()),
                executor.run_triggers(stopping.clone()),
                dispatcher.run(stopping)
            );
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "`LocalDriver` keeps the handle; `stop` awaits it, and dropping it closes the channel"
        )]
        let driving = tokio::spawn(all);
        LocalDriver(Some((stop, driving)))
    }

    pub async fn get(&self, path: &str) -> Result<ApiResponse> {
        self.send(http::Method::GET, path, None, Content::Nothing).await
    }

    /// Every page of a list, as one.
    pub async fn get_all_pages<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let (mut items, mut at) = (Vec::new(), String::new());
        loop {
            let answer = self.get(&format!("{path}{mark}limit=100{at}")).await?;
            let next = answer.next_cursor();
            items.extend(answer.data::<Vec<T>>().await?);
            match next {
                Some(cursor) => at = format!("&cursor={cursor}"),
                None => return Ok(items),
            }
        }
    }

    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<ApiResponse> {
        self.send(http::Method::POST, path, Some("application/json"), json_content(body)?).await
    }

    pub async fn patch(&self, path: &str, body: &impl Serialize) -> Result<ApiResponse> {
        self.send(http::Method::PATCH, path, Some("application/json"), json_content(body)?).await
    }

    pub async fn put(&self, path: &str, body: &impl Serialize) -> Result<ApiResponse> {
        self.send(http::Method::PUT, path, Some("application/json"), json_content(body)?).await
    }

    pub async fn delete(&self, path: &str) -> Result<ApiResponse> {
        self.send(http::Method::DELETE, path, None, Content::Nothing).await
    }

    pub async fn upload(
        &self,
        path: &str,
        content_type: &'static str,
        body: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    ) -> Result<ApiResponse> {
        self.send(http::Method::POST, path, Some(content_type), Content::Parts(body.boxed())).await
    }

    async fn send(
        &self,
        method: http::Method,
        path: &str,
        content_type: Option<&str>,
        content: Content,
    ) -> Result<ApiResponse> {
        self.send_request(method, path, content_type, &[], content).await?.error_for_status().await
    }

    /// A request with headers of its own, and the answer whatever its status.
    pub async fn send_raw(
        &self,
        method: http::Method,
        path: &str,
        headers: &[(http::HeaderName, http::HeaderValue)],
        body: Option<String>,
    ) -> Result<ApiResponse> {
        let (content_type, content) = match body {
            Some(text) => (Some("application/json"), Content::Text(text)),
            None => (None, Content::Nothing),
        };
        self.send_request(method, path, content_type, headers, content).await
    }

    async fn send_request(
        &self,
        method: http::Method,
        path: &str,
        content_type: Option<&str>,
        headers: &[(http::HeaderName, http::HeaderValue)],
        content: Content,
    ) -> Result<ApiResponse> {
        let mut request = http::Request::builder()
            .method(method)
            .header(http::header::AUTHORIZATION, format!("Bearer {}", self.token));
        if let Some(project) = &self.project {
            request = request.header("x-project-id", project);
        }
        if let Some(content_type) = content_type {
            request = request.header(http::header::CONTENT_TYPE, content_type);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let unusable = |error: http::Error| Error::Usage(error.to_string());
        let answer = match &self.reach {
            Transport::InProcess(_, router) => {
                let request = request.uri(path).body(Body::from(content)).map_err(unusable)?;
                let response = router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
                let (head, body) = response.into_parts();
                let body = body.into_data_stream().map(|part| part.map_err(stream_error));
                ApiResponse { status: head.status, headers: head.headers, body: body.boxed() }
            }
            Transport::Http { base, http } => {
                let unreachable = |source: reqwest::Error| Error::Unreachable {
                    server: base.clone(),
                    source: Box::new(source),
                };
                let request = request.uri(format!("{base}{path}")).body(content).map_err(unusable)?;
                let request = reqwest::Request::try_from(request).map_err(unreachable)?;
                let response = http.execute(request).await.map_err(unreachable)?;
                let (status, headers) = (response.status(), response.headers().clone());
                let body = response.bytes_stream().map(|part| part.map_err(stream_error));
                ApiResponse { status, headers, body: body.boxed() }
            }
        };
        Ok(answer)
    }
}

fn json_content(body: &impl Serialize) -> Result<Content> {
    let text = serde_json::to_string(body).map_err(|error| Error::Unexpected(error.to_string()))?;
    Ok(Content::Text(text))
}

/// Runs being driven by this process.
pub struct LocalDriver(Option<(watch::Sender<bool>, JoinHandle<()>)>);

impl LocalDriver {
    /// What is under way is put down in good order, so that the next process goes on with it.
    pub async fn stop(self) {
        let Some((stop, runner)) = self.0 else { return };
        let _ = stop.send(true);
        let _ = tokio::time::timeout(STOP_GRACE, runner).await;
    }
}

/// Who has the data folder: this process now, or a server.
enum DataDirOwner {
    Folder(Box<Services>),
    Server { address: String, token: Option<String> },
}

async fn open_or_connect(settings: &Settings) -> Result<DataDirOwner> {
    let end = Instant::now() + LOCK_TIMEOUT;
    loop {
        match services::open_services(settings).await {
            Ok(opened) => return Ok(DataDirOwner::Folder(Box::new(opened))),
            Err(Error::Locked { path }) => match datadir::running_server(&path) {
                Some((address, token)) => return Ok(DataDirOwner::Server { address, token }),
                // Another command has it, or a server that does not listen yet: a matter of moments.
                None if Instant::now() < end => tokio::time::sleep(Duration::from_millis(20)).await,
                None => return Err(Error::Locked { path }),
            },
            Err(error) => return Err(error),
        }
    }
}

fn http_transport(server: &str) -> Result<Transport> {
    let base = server.trim_end_matches('/');
    let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
    if reqwest::Url::parse(&base).is_err() {
        return Err(Error::Usage(format!(
            "`{server}` is not the address of a server, such as http://127.0.0.1:4400"
        )));
    }
    Ok(Transport::Http { http: http_client(&base)?, base })
}
