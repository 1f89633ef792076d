//! Asks everything that this server depends on whether it works. Each probe has its own deadline, and all run
//! at the same time, so that one that does not answer neither delays nor hides the others.

use std::{net::SocketAddr, sync::OnceLock, time::Duration};

use emergent_domain::mcp_server::PinPolicy;
use emergent_llm::{EmbedTask, ProviderStatus};
use emergent_tools::remote::{McpServers, ServerWithCounts};
use emergent_wire::diagnostics::{
    DatabaseView, DiagnosticsView, EmbedderView, ListenView, McpServerStateView, ModelProviderView,
    ProbeStatus, ProbeView, SettingView, WebhookStateView,
};
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::{App, is_loopback};

/// How long one probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How many MCP servers are listed.
const MAX_MCP_SERVERS: usize = 500;

/// What the API cannot know by itself: how the server was built and configured.
#[derive(Debug, Clone, Default)]
pub struct ServerDescription {
    pub version: String,
    pub commit: Option<String>,
    pub config_file: Option<String>,
    /// Every setting, without secret values.
    pub settings: Vec<SettingView>,
    /// The model that replaces the model of every agent.
    pub model: Option<String>,
}

/// The address of the listener, which is known only after the app was made.
#[derive(Debug, Default)]
pub(crate) struct ListenAddress(OnceLock<(SocketAddr, bool)>);

impl ListenAddress {
    pub(crate) fn set(&self, address: SocketAddr, tls: bool) {
        // A server listens once; a second address would be a mistake of the caller, and is ignored.
        let _ = self.0.set((address, tls));
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.0.get().is_some_and(|(_, tls)| *tls)
    }

    fn view(&self) -> ListenView {
        match self.0.get() {
            Some((address, tls)) => ListenView {
                address: Some(format!("{}://{address}", if *tls { "https" } else { "http" })),
                tls: *tls,
                loopback: is_loopback(*address),
            },
            None => ListenView { address: None, tls: false, loopback: true },
        }
    }
}

/// Describes this server. Without `probe`, nothing is contacted.
pub(crate) async fn diagnose(app: &App, probe: bool) -> DiagnosticsView {
    let description = &app.description;
    let (database, embedder, models, servers, webhooks) = tokio::join!(
        database(app, probe),
        embedder(app, probe),
        models(app, probe),
        mcp_servers(app),
        webhooks(app)
    );
    // An incomplete list says so, whatever the reason is.
    let (mcp_servers, mcp_servers_truncated) = servers.unwrap_or_else(|| (Vec::new(), true));
    DiagnosticsView {
        version: description.version.clone(),
        commit: description.commit.clone(),
        config_file: description.config_file.clone(),
        settings: description.settings.clone(),
        listen: app.listen_address.view(),
        database,
        embedder,
        models,
        model: description.model.clone(),
        mcp_servers,
        mcp_servers_truncated,
        webhooks,
    }
}

/// Counts the notices that are not delivered; `None` if that fails.
async fn webhooks(app: &App) -> Option<WebhookStateView> {
    let count = app.executor.count_webhook_deliveries();
    let (waiting, given_up, last_error) = tokio::time::timeout(PROBE_TIMEOUT, count).await.ok()?.ok()?;
    Some(WebhookStateView { waiting, given_up, last_error })
}

/// Runs a probe within its deadline. Its text says what was found, or why it failed.
async fn run_probe(probe: impl Future<Output = Result<String, String>>) -> ProbeView {
    let started = Instant::now();
    let (status, message) = match tokio::time::timeout(PROBE_TIMEOUT, probe).await {
        Ok(Ok(found)) => (ProbeStatus::Ok, found),
        Ok(Err(reason)) => (ProbeStatus::Failed, reason),
        Err(_) => (ProbeStatus::Failed, format!("no answer within {} seconds", PROBE_TIMEOUT.as_secs())),
    };
    let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    ProbeView { status, message: Some(message), millis }
}

fn not_probed() -> ProbeView {
    ProbeView { status: ProbeStatus::NotProbed, message: None, millis: 0 }
}

/// An error with its causes. What a provider answers may repeat a key, so it passes the redactor.
fn error_text(app: &App, error: &dyn std::error::Error) -> String {
    app.secrets.redactor().redact_text(&emergent_net::errors::error_chain(error)).into_owned()
}

async fn database(app: &App, probe: bool) -> DatabaseView {
    let db = app.graph.db();
    let check = async {
        let checked = app.graph.check_database().await;
        if let Some(problem) = db.storage_problem() {
            return Err(problem.reason);
        }
        checked.map_err(|error| error_text(app, &error))?;
        Ok("can be read and written".to_owned())
    };
    DatabaseView {
        engine: db.engine().name().to_owned(),
        schema_version: emergent_store::latest_version(),
        probe: if probe { run_probe(check).await } else { not_probed() },
    }
}

async fn embedder(app: &App, probe: bool) -> EmbedderView {
    let Some(embedder) = app.graph.embedder() else {
        return EmbedderView { model: None, dimensions: None, min_similarity: None, probe: not_probed() };
    };
    let check = async {
        let texts = ["hello".to_owned()];
        let vectors = embedder.embed(&texts, EmbedTask::Query).await;
        let vectors = vectors.map_err(|error| error_text(app, &error))?;
        Ok(format!("answers with {} dimensions", vectors.first().map_or(0, Vec::len)))
    };
    let probe = if probe { run_probe(check).await } else { not_probed() };
    EmbedderView {
        model: Some(embedder.model().to_owned()),
        dimensions: embedder.dims().map(|dims| dims as u64),
        min_similarity: Some(app.graph.min_similarity()),
        probe,
    }
}

async fn models(app: &App, probe: bool) -> Vec<ModelProviderView> {
    let check = async |status: ProviderStatus| {
        let ProviderStatus { name, configured, setting } = status;
        let probe = match probe && configured {
            true => probe_provider(app, &name).await,
            false => not_probed(),
        };
        ModelProviderView { provider: name, configured, setting: setting.map(str::to_owned), probe }
    };
    join_all(app.executor.models().status().into_iter().map(check)).await
}

async fn probe_provider(app: &App, provider: &str) -> ProbeView {
    // A provider inside of this process has nothing to reach, which shows at once.
    let mut has_target = true;
    let probe = run_probe(async {
        match app.executor.models().probe(provider).await {
            Some(found) => found.map_err(|error| error_text(app, &error)),
            None => {
                has_target = false;
                Ok(String::new())
            }
        }
    })
    .await;
    if has_target { probe } else { not_probed() }
}

/// The servers of all projects, and whether the list is cut off; `None` if they could not be read.
async fn mcp_servers(app: &App) -> Option<(Vec<McpServerStateView>, bool)> {
    let Some(servers) = app.executor.tools().remote() else { return Some((Vec::new(), false)) };
    let listed = tokio::time::timeout(PROBE_TIMEOUT, servers.list_all_projects(MAX_MCP_SERVERS + 1)).await;
    let mut listed = match listed {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the MCP servers of all projects could not be listed");
            return None;
        }
        Err(_) => return None,
    };
    let truncated = listed.len() > MAX_MCP_SERVERS;
    listed.truncate(MAX_MCP_SERVERS);
    let views = listed.into_iter().map(|(project, server)| server_state(servers, project, server));
    Some((views.collect(), truncated))
}

fn server_state(servers: &McpServers, project: String, server: ServerWithCounts) -> McpServerStateView {
    let status = servers.status(&server.0).as_str().to_owned();
    let (server, counts) = server;
    let changed = if server.pin_policy == PinPolicy::Pin { counts.changed } else { 0 };
    McpServerStateView {
        id: server.id.0,
        project,
        name: server.name().to_owned(),
        transport: server.spec.transport(),
        status,
        tool_count: counts.tools,
        held_back: counts.new + changed,
        last_error: server.last_error,
    }
}
