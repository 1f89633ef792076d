//! External MCP servers and their tools, and requests to add and change a server.

use std::collections::BTreeMap;

use emergent_domain::{
    mcp_server::{PinPolicy, ToolStatus, TransportKind},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{fields::nullable, schema};

/// An external MCP server of the project. `env` and `headers` hold references to secrets, never
/// their values.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServer)]
pub struct McpServerView {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    #[schema(value_type = schema::McpTransport)]
    pub transport: TransportKind,
    /// For `stdio`.
    pub command: Option<String>,
    pub args: Option<Vec<String>>,
    pub env: BTreeMap<String, String>,
    /// For `sse`, `http` and `a2a`.
    pub url: Option<String>,
    pub headers: Option<BTreeMap<String, String>>,
    pub tool_filter: Vec<String>,
    #[schema(value_type = schema::PinPolicy)]
    pub pin_policy: PinPolicy,
    /// Whether new tools are accepted as they come.
    pub trust: bool,
    pub timeout_seconds: i64,
    pub enabled: bool,
    /// True for a server that was configured before it was recorded who configures a server. It has the rights
    /// of an operator's: its program is started, and its secrets are sent. A token that spans projects
    /// confirms it with `enabled: true`.
    #[serde(default)]
    pub needs_confirmation: bool,
    /// Why it can never be reached with these settings, such as an address in a private network where those are
    /// refused. It is left out if nothing is wrong with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The product that brought it; null for the project's own.
    pub product: Option<String>,
    /// `new`, `connected`, `idle`, `failing` (the last contact failed, on whichever server), `disabled`, or
    /// `blocked`: a program that is not run here, because programs are disabled or its configuration is no
    /// longer admitted.
    pub status: String,
    /// Tools it has, as far as they are known.
    pub tool_count: i64,
    /// Tools that are new or changed, and held back until somebody accepts them.
    pub held_back: i64,
    /// Tools whose name another server's tool has as well.
    pub conflicts: i64,
    /// When its tools were last listed; null: it was never reached.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub listed_at: Option<Timestamp>,
    /// Why the last contact failed; null: it succeeded, or there was none.
    pub last_error: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_error_at: Option<Timestamp>,
    /// Until when nothing is tried, after three failures in a row; null: it would be tried now.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub left_alone_until: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A new server. `${NAME}` and `{{secrets.NAME}}` in `env` and `headers` stand for the project's
/// secrets.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateMcpServer {
    /// Unique in the project.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", example = "github")]
    pub name: String,
    #[serde(default)]
    #[schema(max_length = 10_000)]
    pub description: String,
    #[schema(value_type = schema::McpTransport)]
    pub transport: TransportKind,
    /// The program to run. For `stdio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// All the program sees of an environment, besides `PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// For `sse`, `http` and `a2a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "https://mcp.github.com/sse")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Globs of the tools the project gets [default: all].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_filter: Option<Vec<String>>,
    #[serde(default)]
    #[schema(value_type = Option<schema::PinPolicy>)]
    pub pin_policy: PinPolicy,
    /// Accept new tools as they come [default: false, new tools are held back after the first listing].
    #[serde(default)]
    pub trust: bool,
    /// How long a call may take [default: 60].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3_600)]
    pub timeout_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// What is to change; what is left out stays, null takes a field away. Of a product's server only
/// `enabled`, `pinPolicy`, `trust` and `timeoutSeconds` can be set.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateMcpServer {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub description: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::McpTransport>)]
    pub transport: Option<TransportKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub args: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub env: Option<Option<BTreeMap<String, String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub headers: Option<Option<BTreeMap<String, String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_filter: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::PinPolicy>)]
    pub pin_policy: Option<PinPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3_600)]
    pub timeout_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Which definition of a tool is accepted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptMcpTool {
    /// The `digest` of the definition that you looked at; required (400). If the tool has another one by now,
    /// it is not accepted (409).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = true)]
    pub digest: Option<String>,
}

/// What came of reaching for a server.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServerInspection)]
pub struct InspectionView {
    pub reachable: bool,
    /// The revision of MCP it speaks.
    #[schema(example = "2025-11-25")]
    pub protocol: Option<String>,
    pub tools: Vec<McpToolView>,
    /// Why it was not reached.
    pub error: Option<String>,
    pub duration_ms: u64,
}

/// A tool of a server as it was last listed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServerTool)]
pub struct McpToolView {
    /// As the server announces it.
    pub name: String,
    /// What an agent's `tools` may always list: `server.tool`, with dots in the tool's name as `%2E`.
    pub qualified_name: String,
    /// `live`: as it was accepted. `new`: never accepted. `changed`: not as it was accepted. `gone`: no
    /// longer listed.
    #[schema(value_type = schema::McpServerToolStatus)]
    pub status: ToolStatus,
    /// True if the tool is new or changed, and blocked until you accept it.
    pub held_back: bool,
    /// Present if tools of other servers, or a built-in tool, have the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<NameConflictView>,
    pub description: String,
    #[schema(value_type = Object)]
    pub input_schema: Value,
    #[schema(value_type = Option<Object>)]
    pub annotations: Option<Value>,
    /// Of description, input schema and annotations.
    pub digest: String,
    /// Of what was accepted; empty if nothing was.
    pub pinned_digest: String,
    /// What was accepted, when it differs.
    pub before: Option<ToolBefore>,
    #[schema(value_type = String, format = DateTime)]
    pub first_seen: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub changed_at: Option<Timestamp>,
}

/// Tools of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ToolNameConflict)]
pub struct NameConflictView {
    /// The server that the bare name means, the one whose tool was accepted first; null: a built-in tool.
    pub owner: Option<String>,
    /// The other servers. Their tools can be listed as `server.tool` only.
    pub others: Vec<String>,
}

/// A tool as it was when it was accepted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServerToolBefore)]
pub struct ToolBefore {
    pub description: String,
    #[schema(value_type = Object)]
    pub input_schema: Value,
    #[schema(value_type = Option<Object>)]
    pub annotations: Option<Value>,
}
