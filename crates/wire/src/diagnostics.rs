//! What an operator asks a running server: the settings in force, and whether what it depends on can be
//! reached.

use emergent_domain::mcp_server::TransportKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema;

/// The state of one server process. Nothing in it is secret: keys and passwords are shown as set or not set.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Diagnostics)]
pub struct DiagnosticsView {
    pub version: String,
    /// The commit that the server was built from; null for a build from an archive without one.
    pub commit: Option<String>,
    /// The configuration file that was read; null: none.
    pub config_file: Option<String>,
    /// Every setting, in the order of their names.
    pub settings: Vec<SettingView>,
    pub listen: ListenView,
    pub database: DatabaseView,
    pub embedder: EmbedderView,
    /// Every provider of models, configured or not.
    pub models: Vec<ModelProviderView>,
    /// The model that replaces the model of every agent; null: each agent has its own.
    pub model: Option<String>,
    /// The external MCP servers of all projects, with the result of the last contact. They are not contacted
    /// for this answer, because that could start programs: `inspect` does.
    pub mcp_servers: Vec<McpServerStateView>,
    /// Present and true if the list of MCP servers is not complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mcp_servers_truncated: bool,
    /// Notices of inboxes that are sent to other systems; absent if they could not be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhooks: Option<WebhookStateView>,
}

/// The deliveries of notices of all projects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookState)]
pub struct WebhookStateView {
    /// Not delivered yet; some may have failed before.
    pub waiting: i64,
    /// Given up after many attempts.
    pub given_up: i64,
    /// Why the newest of these was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// One setting as the server uses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Setting)]
pub struct SettingView {
    /// The name in `emergent.toml`; for a setting that only the environment has, the variable.
    #[schema(example = "max-runs")]
    pub name: String,
    /// The environment variable.
    #[schema(example = "EMERGENT_MAX_RUNS")]
    pub variable: String,
    /// Null when it has no value, and when the value is secret.
    pub value: Option<String>,
    /// Whether the value is hidden.
    pub secret: bool,
    /// Whether it has a value.
    pub is_set: bool,
    pub source: SettingSource,
}

/// Where the value of a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// A flag of the command line.
    Flag,
    /// An environment variable.
    Environment,
    /// `emergent.toml`.
    File,
    /// Nothing sets it.
    Default,
}

/// Where the server accepts connections.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ListenAddress)]
pub struct ListenView {
    /// With scheme and port; null when the API is used inside of a command, without a listener.
    #[schema(example = "http://127.0.0.1:4400")]
    pub address: Option<String>,
    pub tls: bool,
    /// Whether only this machine can connect.
    pub loopback: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatabaseState)]
pub struct DatabaseView {
    /// `sqlite` or `postgres`.
    pub engine: String,
    /// The highest migration that was applied.
    pub schema_version: i64,
    /// Whether it can be read and written.
    pub probe: ProbeView,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EmbedderState)]
pub struct EmbedderView {
    /// Null: embeddings are off, and search is by text alone.
    pub model: Option<String>,
    /// The length of its vectors, when it is known.
    pub dimensions: Option<u64>,
    /// The similarity below which a hit of the vector channel is dropped; null with embeddings off.
    pub min_similarity: Option<f64>,
    /// Whether it embeds a word.
    pub probe: ProbeView,
}

/// A provider of models.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ModelProviderState)]
pub struct ModelProviderView {
    #[schema(example = "openai")]
    pub provider: String,
    /// Whether its models can be called with the settings in force.
    pub configured: bool,
    /// The variable that configures it; null: it needs none.
    pub setting: Option<String>,
    /// Whether it accepts the credentials. It is asked for its list of models, which costs nothing.
    pub probe: ProbeView,
}

/// An external MCP server of a project.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServerState)]
pub struct McpServerStateView {
    pub id: Uuid,
    pub project: String,
    pub name: String,
    #[schema(value_type = schema::McpTransport)]
    pub transport: TransportKind,
    /// `new`, `connected`, `idle`, `failing`, `disabled` or `blocked`.
    pub status: String,
    /// Tools it has, as far as they are known.
    pub tool_count: i64,
    /// Tools that are held back until somebody accepts them.
    pub held_back: i64,
    /// Why the last contact failed.
    pub last_error: Option<String>,
}

/// The result of one probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Probe)]
pub struct ProbeView {
    pub status: ProbeStatus,
    /// What was found, or why it failed.
    pub message: Option<String>,
    /// How long it took.
    pub millis: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeStatus {
    Ok,
    Failed,
    /// There is nothing to probe: it is not configured, it is part of this process, or the request asked for
    /// no probes.
    NotProbed,
}
