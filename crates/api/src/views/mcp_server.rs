use std::collections::BTreeMap;

use emergent_domain::{
    invalid::{Invalid, Problem},
    mcp_server::{DEFAULT_TIMEOUT, McpServer, PinPolicy, ServerSpec, ToolStatus, TransportKind},
    time::Timestamp,
};
use emergent_store::mcp_tools::StoredTool;
use emergent_tools::remote::{Inspection, NewServer, ServerPatch, ServerWithCounts, Status, is_held_back};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use super::nullable;

/// An external MCP server of the project. `env` and `headers` hold references to secrets, never
/// their values.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServer)]
pub(crate) struct McpServerView {
    id: Uuid,
    name: String,
    description: String,
    #[schema(value_type = TransportView)]
    transport: TransportKind,
    /// For `stdio`.
    command: Option<String>,
    args: Option<Vec<String>>,
    env: BTreeMap<String, String>,
    /// For `sse` and `http`.
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    tool_filter: Vec<String>,
    #[schema(value_type = PinPolicyView)]
    pin_policy: PinPolicy,
    timeout_seconds: i64,
    enabled: bool,
    /// The product that brought it; null for the project's own.
    product: Option<String>,
    /// `new`, `connected`, `idle`, `failing`, `disabled`, or `blocked` where programs are not run.
    status: &'static str,
    /// Tools it has, as far as they are known.
    tool_count: i64,
    /// Tools that changed and are held back until somebody accepts them.
    held_back: i64,
    /// When its tools were last listed; null: it was never reached.
    #[schema(value_type = Option<String>, format = DateTime)]
    listed_at: Option<Timestamp>,
    last_error: Option<String>,
    /// Until when nothing is tried, after three failures in a row; null: it would be tried now.
    #[schema(value_type = Option<String>, format = DateTime)]
    left_alone_until: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<(ServerWithCounts, Status, Option<Timestamp>)> for McpServerView {
    fn from(
        ((server, tools, changed), status, left_alone_until): (ServerWithCounts, Status, Option<Timestamp>),
    ) -> Self {
        let (mut command, mut args, mut url, mut headers) = (None, None, None, None);
        match &server.spec {
            ServerSpec::Stdio { command: program, args: given, .. } => {
                (command, args) = (Some(program.clone()), Some(given.clone()));
            }
            ServerSpec::Sse { url: at, headers: given, .. }
            | ServerSpec::Http { url: at, headers: given, .. } => {
                (url, headers) = (Some(at.clone()), Some(given.clone()));
            }
        }
        Self {
            id: server.id.0,
            name: server.name().to_owned(),
            description: server.spec.description().to_owned(),
            transport: server.spec.transport(),
            command,
            args,
            env: server.spec.env().clone(),
            url,
            headers,
            tool_filter: server.tool_filter,
            pin_policy: server.pin_policy,
            timeout_seconds: server.timeout_seconds,
            enabled: server.enabled,
            product: server.product,
            status: status.as_str(),
            tool_count: tools,
            held_back: if server.pin_policy == PinPolicy::Pin { changed } else { 0 },
            listed_at: server.listed_at,
            last_error: server.last_error,
            left_alone_until,
            created_at: server.created_at,
            updated_at: server.updated_at,
        }
    }
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = McpTransport)]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum TransportView {
    /// A program of the server's machine.
    Stdio,
    /// HTTP with server-sent events, as of 2024-11-05.
    Sse,
    /// Streamable HTTP.
    Http,
}

#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = PinPolicy)]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum PinPolicyView {
    /// A tool that changes is held back until somebody accepts it.
    Pin,
    /// A tool that changes is used as it is now, and reported.
    Warn,
    /// A tool that changes is used as it is now.
    Off,
}

/// A new server. `${NAME}` and `{{secrets.NAME}}` in `env` and `headers` stand for the project's
/// secrets.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateMcpServer {
    /// Unique in the project.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", example = "github")]
    name: String,
    #[serde(default)]
    #[schema(max_length = 10_000)]
    description: String,
    #[schema(value_type = TransportView)]
    transport: TransportKind,
    /// The program to run. For `stdio`.
    command: Option<String>,
    args: Option<Vec<String>>,
    /// All the program sees of an environment, besides `PATH`.
    env: Option<BTreeMap<String, String>>,
    /// For `sse` and `http`.
    #[schema(example = "https://mcp.github.com/sse")]
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    /// Globs of the tools the project gets [default: all].
    tool_filter: Option<Vec<String>>,
    #[serde(default)]
    #[schema(value_type = Option<PinPolicyView>)]
    pin_policy: PinPolicy,
    /// How long a call may take [default: 60].
    #[schema(minimum = 1, maximum = 3_600)]
    timeout_seconds: Option<i64>,
    enabled: Option<bool>,
}

impl CreateMcpServer {
    pub(crate) fn into_new_server(self) -> Result<NewServer, Invalid> {
        let (name, description) = (self.name, self.description);
        let env = self.env.unwrap_or_default();
        let mut problems = Vec::new();
        let of_program = self.transport == TransportKind::Stdio;
        let foreign = match of_program {
            true => [("url", self.url.is_some()), ("headers", self.headers.is_some())],
            false => [("command", self.command.is_some()), ("args", self.args.is_some())],
        };
        for (field, _) in foreign.iter().filter(|(_, given)| *given) {
            problems.push(Problem::new(*field, format!("is not for `{}` servers", self.transport)));
        }
        let needed =
            if of_program { ("command", self.command.is_none()) } else { ("url", self.url.is_none()) };
        if needed.1 {
            problems.push(Problem::new(needed.0, format!("is required for `{}` servers", self.transport)));
        }
        Invalid::if_any(problems)?;
        let (url, headers) = (self.url.unwrap_or_default(), self.headers.unwrap_or_default());
        let spec = match self.transport {
            TransportKind::Stdio => ServerSpec::Stdio {
                name,
                description,
                command: self.command.unwrap_or_default(),
                args: self.args.unwrap_or_default(),
                env,
            },
            TransportKind::Sse => ServerSpec::Sse { name, description, url, headers, env },
            TransportKind::Http => ServerSpec::Http { name, description, url, headers, env },
        };
        Ok(NewServer {
            spec,
            tool_filter: self.tool_filter.unwrap_or_else(|| vec!["*".to_owned()]),
            pin_policy: self.pin_policy,
            timeout_seconds: self.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT),
            enabled: self.enabled.unwrap_or(true),
        })
    }
}

/// What is to change; what is left out stays, null takes a field away. Of a product's server only
/// `enabled`, `pinPolicy` and `timeoutSeconds` can be set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateMcpServer {
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    name: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    description: Option<Option<String>>,
    #[schema(value_type = Option<TransportView>)]
    transport: Option<TransportKind>,
    command: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<String>>)]
    args: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    env: Option<Option<BTreeMap<String, String>>>,
    url: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    headers: Option<Option<BTreeMap<String, String>>>,
    tool_filter: Option<Vec<String>>,
    #[schema(value_type = Option<PinPolicyView>)]
    pin_policy: Option<PinPolicy>,
    #[schema(minimum = 1, maximum = 3_600)]
    timeout_seconds: Option<i64>,
    enabled: Option<bool>,
}

impl From<UpdateMcpServer> for ServerPatch {
    fn from(body: UpdateMcpServer) -> Self {
        let mut spec = Map::new();
        let mut put = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                spec.insert(field.to_owned(), value);
            }
        };
        put("name", body.name.map(Value::from));
        put("description", body.description.map(Value::from));
        put("transport", body.transport.map(|transport| Value::from(transport.as_str())));
        put("command", body.command.map(Value::from));
        put("args", body.args.map(Value::from));
        put("env", body.env.map(map_value));
        put("url", body.url.map(Value::from));
        put("headers", body.headers.map(map_value));
        Self {
            spec,
            tool_filter: body.tool_filter,
            pin_policy: body.pin_policy,
            timeout_seconds: body.timeout_seconds,
            enabled: body.enabled,
        }
    }
}

fn map_value(texts: Option<BTreeMap<String, String>>) -> Value {
    texts.map_or(Value::Null, |texts| {
        texts.into_iter().map(|(name, text)| (name, Value::from(text))).collect()
    })
}

/// What came of reaching for a server.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServerInspection)]
pub(crate) struct InspectionView {
    reachable: bool,
    /// The revision of MCP it speaks.
    #[schema(example = "2025-11-25")]
    protocol: Option<String>,
    tools: Vec<McpToolView>,
    /// Why it was not reached.
    error: Option<String>,
    duration_ms: u64,
}

impl From<(McpServer, Inspection)> for InspectionView {
    fn from((server, seen): (McpServer, Inspection)) -> Self {
        Self {
            reachable: seen.error.is_none(),
            protocol: seen.protocol,
            tools: seen.tools.into_iter().map(|tool| McpToolView::from((&server, tool))).collect(),
            error: seen.error,
            duration_ms: seen.millis,
        }
    }
}

/// A tool of a server as it was last listed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServerTool)]
pub(crate) struct McpToolView {
    name: String,
    #[schema(value_type = ToolStatusView)]
    status: ToolStatus,
    /// It changed, and nobody gets to use it until the change is accepted.
    held_back: bool,
    description: String,
    #[schema(value_type = Object)]
    input_schema: Value,
    #[schema(value_type = Option<Object>)]
    annotations: Option<Value>,
    /// Of description, input schema and annotations.
    digest: String,
    pinned_digest: String,
    /// What was accepted, when it differs.
    before: Option<ToolBefore>,
    #[schema(value_type = String, format = DateTime)]
    first_seen: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    changed_at: Option<Timestamp>,
}

/// A tool as it was when it was accepted.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = McpServerToolBefore)]
pub(crate) struct ToolBefore {
    description: String,
    #[schema(value_type = Object)]
    input_schema: Value,
    #[schema(value_type = Option<Object>)]
    annotations: Option<Value>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = McpServerToolStatus)]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum ToolStatusView {
    Live,
    /// Differs from what was accepted.
    Changed,
    /// The server no longer lists it.
    Gone,
}

impl From<(&McpServer, StoredTool)> for McpToolView {
    fn from((server, tool): (&McpServer, StoredTool)) -> Self {
        let held_back = is_held_back(server, &tool);
        let now = accepted_tool(&tool.tool);
        let before = (tool.digest != tool.pinned_digest).then(|| accepted_tool(&tool.pinned_tool));
        Self {
            name: tool.name,
            status: tool.status,
            held_back,
            description: now.description,
            input_schema: now.input_schema,
            annotations: now.annotations,
            digest: tool.digest,
            pinned_digest: tool.pinned_digest,
            before,
            first_seen: tool.first_seen,
            changed_at: tool.changed_at,
        }
    }
}

/// What counts of a tool's text.
fn accepted_tool(text: &str) -> ToolBefore {
    let mut tool: Value = serde_json::from_str(text).unwrap_or_default();
    ToolBefore {
        description: tool["description"].as_str().unwrap_or_default().to_owned(),
        input_schema: tool.get_mut("inputSchema").map(Value::take).unwrap_or_default(),
        annotations: tool.get_mut("annotations").map(Value::take).filter(|notes| !notes.is_null()),
    }
}
