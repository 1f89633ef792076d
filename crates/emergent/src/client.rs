//! The API client of all commands. It sends requests to a server over HTTP, or to the same router in this
//! process on the data folder; commands see no difference.

mod pages;
mod received;
mod requests;
mod token_source;
mod transport;

use std::time::Duration;

use axum::{body::Body, http};
use bytes::Bytes;
use emergent_store::TimeLimits;
use futures_util::{Stream, StreamExt};
use serde::Serialize;
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tower::ServiceExt;

use crate::{
    config::{Settings, StoreFlags},
    datadir::{self, LOCK_RETRY_INTERVAL, LOCK_TIMEOUT},
    error::{Error, Result},
    hints, messages, output,
    server_file::{self, ServerFile},
    services::{self, Services},
};
pub use received::Received;
pub use token_source::TokenSource;
pub use transport::{ApiResponse, Certificates, http_client, refusal};
use transport::{Content, stream_error};

/// How long a server on PostgreSQL has to answer; after that, a command works on the database itself.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long `LocalDriver::stop` waits for the runs of this process to be released.
const STOP_GRACE: Duration = Duration::from_secs(5);

// Which server, token and project a command uses. These flags are global.
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

/// Whether a command may create the data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataAccess {
    /// It needs data that is there. A mistyped folder is an error, and nothing is created.
    Existing,
    /// It may be the first command on a new folder.
    Create,
}

/// Who goes on with runs and workflows when this process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherDriver {
    /// The server that this client uses.
    Server,
    /// A server on the same PostgreSQL database, if there is one.
    MaybeServer,
    /// Nobody: only this process has the data folder open.
    Nobody,
}

/// Sends requests to the API with a token, in a project if one is named.
pub struct Client {
    transport: Transport,
    token: String,
    project: Option<String>,
    /// Where the token comes from, for the error of a server that does not accept it.
    token_source: TokenSource,
}

enum Transport {
    Http {
        base: String,
        http: reqwest::Client,
    },
    /// The services opened in this process, and their router, which is built once because that is slower
    /// than most requests.
    InProcess(Box<Services>, axum::Router),
}

impl Client {
    /// Connects as the flags say: to the named server, or else to the data folder or the server that uses it.
    pub async fn connect(flags: &ServerFlags, store: &StoreFlags, access: DataAccess) -> Result<Self> {
        let project = flags.project.clone();
        let settings = Settings::load(store, None)?;
        if let Some(server) = &flags.server {
            let base = base_url(server)?;
            // The folder's admin token is sent only to the folder's own server.
            let certificates = certificates_for(&base, &settings);
            let local_server =
                datadir::running_server(&settings.data_dir).filter(|found| base == found.address);
            let transport = http_transport(base, certificates)?;
            if let Some(folders) = local_server.as_ref().and_then(|server| server.rehearsals.as_deref()) {
                messages::set_rehearsals(folders);
            }
            let local_token = || local_server.and_then(|_| datadir::server_token(&settings.data_dir));
            let token_source = match &flags.token {
                Some(token) => TokenSource::from_flag(token, "give another one"),
                None => TokenSource::from_data_dir(&settings.data_dir),
            };
            let token = flags.token.clone().or_else(local_token);
            let token = token.ok_or_else(|| {
                Error::Usage(format!("`{server}` needs a token: --token, or EMERGENT_TOKEN"))
            })?;
            return Ok(Self { transport, token, project, token_source });
        }
        let is_new = lacks_data(&settings);
        if is_new && access == DataAccess::Existing {
            let path = settings.data_dir.clone();
            return Err(Error::NoData { path, start: hints::local_command("serve") });
        }
        let client = Self::local(&settings, flags.token.clone(), project).await?;
        // Whoever sits in the wrong folder, or starts a script there, sees it at once.
        if is_new && client.is_sole_driver() {
            let place = match std::env::current_dir() {
                Ok(folder) if settings.data_dir.is_relative() => format!(" in {}", folder.display()),
                _ => String::new(),
            };
            output::print_notice(&format!(
                "a new data folder `{}` was made{place}; --data-dir names another one",
                settings.data_dir.display()
            ));
        }
        Ok(client)
    }

    /// Opens the data folder or database of these settings, or connects to the server that uses it, with
    /// the admin token.
    pub async fn for_data_dir(settings: &Settings) -> Result<Self> {
        Self::local(settings, None, None).await
    }

    async fn local(settings: &Settings, token: Option<String>, project: Option<String>) -> Result<Self> {
        let other = "without it, the command uses the admin token of the data folder";
        let mut token_source = match &token {
            Some(token) => TokenSource::from_flag(token, other),
            None => TokenSource::from_data_dir(&settings.data_dir),
        };
        match open_or_connect(settings).await? {
            DataDirOwner::ThisProcess(services) => {
                messages::set_without_server();
                messages::set_rehearsals(&settings.rehearsals);
                let router = emergent_api::router(services.app.clone());
                if token.is_none() && services.admin_token_ended {
                    token_source = TokenSource::Own;
                }
                let token = match token {
                    Some(token) => token,
                    None => services.local_token().await?,
                };
                Ok(Self { token, transport: Transport::InProcess(services, router), project, token_source })
            }
            DataDirOwner::Server { address, token: admin_token, rehearsals } => {
                // Those of the server count. Its environment may name another folder than this one.
                if let Some(folders) = rehearsals {
                    let is_same = server_file::absolute_folders(&settings.rehearsals) == folders;
                    messages::set_rehearsals(if is_same { &settings.rehearsals } else { &folders });
                }
                let token = token.or(admin_token);
                let token =
                    token.ok_or_else(|| Error::Usage("the server needs a token: --token".to_owned()))?;
                let transport = http_transport(base_url(&address)?, Certificates::AnyOnLoopback)?;
                Ok(Self { transport, token, project, token_source })
            }
        }
    }

    /// The project that requests name, if one does.
    pub fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// The same client in this project.
    pub fn in_project(self, project: &str) -> Self {
        Self { project: Some(project.to_owned()), ..self }
    }

    /// A client of services that are open in this process, with the token of the operator.
    pub async fn in_process(services: Services) -> Result<Self> {
        let router = emergent_api::router(services.app.clone());
        let token = services.local_token().await?;
        let transport = Transport::InProcess(Box::new(services), router);
        Ok(Self { token, transport, project: None, token_source: TokenSource::Own })
    }

    /// The same client, naming no project.
    pub fn without_project(self) -> Self {
        Self { project: None, ..self }
    }

    /// Whether only this process can drive queued runs, because it has the data folder open.
    pub fn is_sole_driver(&self) -> bool {
        matches!(self.transport, Transport::InProcess(..))
    }

    /// Who goes on with runs and workflows when this process ends.
    pub fn other_driver(&self) -> OtherDriver {
        match &self.transport {
            Transport::Http { .. } => OtherDriver::Server,
            Transport::InProcess(services, _) if services.data.is_exclusive() => OtherDriver::Nobody,
            Transport::InProcess(..) => OtherDriver::MaybeServer,
        }
    }

    /// On a data folder, drives runs, workflows and conversations and fires triggers in this process until the
    /// returned driver is stopped or dropped. With a server it does nothing, since the server drives them.
    pub fn drive_runs(&self) -> LocalDriver {
        let Transport::InProcess(services, _) = &self.transport else { return LocalDriver(None) };
        let (stop, stopping) = watch::channel(false);
        let (executor, dispatcher) = (services.executor.clone(), services.dispatcher.clone());
        let chat = services.app.chat.clone();
        let drive_all = async move {
            tokio::join!(
                executor.run(stopping.clone()),
                executor.run_triggers(stopping.clone()),
                chat.run(stopping.clone()),
                dispatcher.run(stopping)
            );
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "`LocalDriver` keeps the handle; `stop` awaits it, and dropping it closes the channel"
        )]
        let task = tokio::spawn(drive_all);
        LocalDriver(Some((stop, task)))
    }

    pub async fn get(&self, path: &str) -> Result<ApiResponse> {
        self.send(http::Method::GET, path, None, Content::Nothing).await
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

    /// Posts a body that is streamed.
    pub async fn upload(
        &self,
        path: &str,
        content_type: &str,
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
        let response = self.send_request(method, path, content_type, &[], content).await?;
        self.check_status(response).await
    }

    /// Where the token of this client comes from.
    pub fn token_source(&self) -> &TokenSource {
        &self.token_source
    }

    /// Turns an error status into an error, which says where a token came from that is not accepted.
    async fn check_status(&self, response: ApiResponse) -> Result<ApiResponse> {
        response.error_for_status().await.map_err(|error| match (error, self.token_source.note()) {
            (Error::Refused { code, message, details }, Some(note)) if code == "unauthorized" => {
                Error::Refused { code, message: format!("{message}; {note}"), details }
            }
            (error, _) => error,
        })
    }

    /// Sends a request with additional headers and returns the response whatever its status.
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
        let response = match &self.transport {
            Transport::InProcess(_, router) => {
                let request = request.uri(path).body(Body::from(content)).map_err(unusable)?;
                let response = router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
                let (head, body) = response.into_parts();
                let body = body.into_data_stream().map(|part| part.map_err(stream_error));
                ApiResponse { status: head.status, headers: head.headers, body: body.boxed() }
            }
            Transport::Http { base, http } => {
                let unreachable = |source: reqwest::Error| Error::unreachable(base, source);
                let request = request.uri(format!("{base}{path}")).body(content).map_err(unusable)?;
                let request = reqwest::Request::try_from(request).map_err(unreachable)?;
                let response = http.execute(request).await.map_err(unreachable)?;
                let (status, headers) = (response.status(), response.headers().clone());
                let body = response.bytes_stream().map(|part| part.map_err(stream_error));
                ApiResponse { status, headers, body: body.boxed() }
            }
        };
        Ok(response)
    }
}

/// Whether the data folder has neither a database nor a running server, and the database is not elsewhere either.
fn lacks_data(settings: &Settings) -> bool {
    let path = &settings.data_dir;
    // A path that cannot be looked at, such as one below a file, gets its own error when it is opened.
    let is_missing = matches!(path.join(datadir::DATABASE).try_exists(), Ok(false));
    settings.database_url.is_none() && is_missing && datadir::running_server(path).is_none()
}

fn json_content(body: &impl Serialize) -> Result<Content> {
    let text = serde_json::to_string(body).map_err(|error| Error::Unexpected(error.to_string()))?;
    Ok(Content::Text(text))
}

/// A background task that drives runs and workflows in this process; `None` inside when a server drives them.
pub struct LocalDriver(Option<(watch::Sender<bool>, JoinHandle<()>)>);

impl LocalDriver {
    /// Stops driving and releases active runs, so that the next process can continue them at once.
    pub async fn stop(self) {
        let Some((stop, task)) = self.0 else { return };
        let _ = stop.send(true);
        let _ = tokio::time::timeout(STOP_GRACE, task).await;
    }
}

/// Who uses the data folder: this process, which has opened it, or a running server.
enum DataDirOwner {
    ThisProcess(Box<Services>),
    Server { address: String, token: Option<String>, rehearsals: Option<String> },
}

/// Opens the data folder, or finds the server that uses it. Waits up to `LOCK_TIMEOUT` for another command.
async fn open_or_connect(settings: &Settings) -> Result<DataDirOwner> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    let mut settings = settings.clone();
    if let Some(ServerFile { address, rehearsals, .. }) = usable_server(&settings).await {
        let token = datadir::server_token(&settings.data_dir);
        return Ok(DataDirOwner::Server { address, token, rehearsals });
    }
    if settings.database_url.is_none() {
        // The lock on the folder means that nobody waits for the writes of this command.
        settings.time_limits = TimeLimits::ALONE;
    }
    loop {
        match services::open_services(&settings).await {
            Ok(services) => return Ok(DataDirOwner::ThisProcess(Box::new(services))),
            // Whoever has the lock wrote the file: another process would have removed it.
            Err(Error::Locked { path }) => match server_file::read(&path) {
                Some(ServerFile { address, rehearsals, .. }) => {
                    let token = datadir::server_token(&path);
                    return Ok(DataDirOwner::Server { address, token, rehearsals });
                }
                // Another command, or a server that does not listen yet, has the lock: try again shortly.
                None if Instant::now() < deadline => tokio::time::sleep(LOCK_RETRY_INTERVAL).await,
                None => return Err(Error::Locked { path }),
            },
            Err(error) => return Err(error),
        }
    }
}

/// The server that uses the folder and its database. On PostgreSQL, the database can be used without
/// the server, so one that cannot be reached from here, such as one in a container, is left alone.
async fn usable_server(settings: &Settings) -> Option<ServerFile> {
    let url = settings.database_url.as_deref();
    let server = datadir::running_server(&settings.data_dir).filter(|server| server.has_database(url))?;
    if url.is_none() {
        return Some(server);
    }
    let health = format!("{}/health", server.address);
    let request =
        http_client(&server.address, Certificates::AnyOnLoopback).ok()?.get(health).timeout(HEALTH_TIMEOUT);
    let response = request.send().await.ok()?;
    response.status().is_success().then_some(server)
}

/// Which certificates are accepted from a server that a person named: any, if it is the one of the data folder.
pub fn certificates_for(base: &str, settings: &Settings) -> Certificates {
    match datadir::running_server(&settings.data_dir) {
        Some(found) if found.address == base => Certificates::AnyOnLoopback,
        _ => Certificates::Verified,
    }
}

fn http_transport(base: String, certificates: Certificates) -> Result<Transport> {
    Ok(Transport::Http { http: http_client(&base, certificates)?, base })
}

/// The base URL of a server; `http` is added where the scheme is left out.
pub fn base_url(server: &str) -> Result<String> {
    let base = server.trim_end_matches('/');
    let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
    let is_usable = |url: reqwest::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    if !reqwest::Url::parse(&base).is_ok_and(is_usable) {
        return Err(Error::Usage(format!(
            "`{server}` is not the address of a server, such as http://127.0.0.1:4400"
        )));
    }
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_server_is_one_of_http() {
        assert_eq!(base_url("127.0.0.1:4400/").unwrap(), "http://127.0.0.1:4400");
        assert_eq!(base_url("https://example.com").unwrap(), "https://example.com");
        for other in ["ftp://foo", "a b"] {
            let refused = base_url(other).unwrap_err().to_string();
            assert!(refused.contains("is not the address of a server, such as http://"), "{refused}");
        }
    }
}
