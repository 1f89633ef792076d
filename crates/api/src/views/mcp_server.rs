//! Converts external MCP servers and their tools for the API, and requests to create or change a server.

use std::collections::BTreeMap;

use emergent_domain::{
    invalid::{Invalid, Problem},
    mcp_server::{DEFAULT_TIMEOUT, McpServer, PinPolicy, ServerSpec, TransportKind},
    stored_json,
    time::Timestamp,
    tool_name::external,
};
use emergent_store::mcp_tools::StoredTool;
use emergent_tools::{
    BareNameOwner, NameConflicts, SharedName,
    remote::{Inspection, NewServer, ServerPatch, ServerWithCounts, Status, is_held_back},
};
pub(crate) use emergent_wire::mcp_server::*;
use serde_json::{Map, Value};

use super::IntoView;

/// Converts a map of strings to JSON; `None` becomes null.
fn map_value(texts: Option<BTreeMap<String, String>>) -> Value {
    texts.map_or(Value::Null, |texts| {
        texts.into_iter().map(|(name, text)| (name, Value::from(text))).collect()
    })
}

/// Returns the parts of a tool's definition that a person reviews.
fn reviewed_parts(text: &str) -> ToolBefore {
    let mut tool: Value = stored_json::from_str(text).unwrap_or_default();
    ToolBefore {
        description: tool["description"].as_str().unwrap_or_default().to_owned(),
        input_schema: tool.get_mut("inputSchema").map(Value::take).unwrap_or_default(),
        annotations: tool
            .get_mut("annotations")
            .map(Value::take)
            .filter(|annotations| !annotations.is_null()),
    }
}

/// A server with what is known of it besides its row.
pub(crate) struct ServerDetails {
    pub server: ServerWithCounts,
    pub status: Status,
    pub breaker_open_until: Option<Timestamp>,
    /// Why it can never be reached with its settings.
    pub warning: Option<String>,
    /// How many of its tools share their name with others.
    pub conflicts: usize,
}

impl IntoView<McpServerView> for ServerDetails {
    fn into_view(self) -> McpServerView {
        let (server, counts) = self.server;
        let changed = if server.pin_policy == PinPolicy::Pin { counts.changed } else { 0 };
        let (mut command, mut args, mut url, mut headers) = (None, None, None, None);
        match &server.spec {
            ServerSpec::Stdio { command: spec_command, args: spec_args, .. } => {
                (command, args) = (Some(spec_command.clone()), Some(spec_args.clone()));
            }
            ServerSpec::Sse { url: spec_url, headers: spec_headers, .. }
            | ServerSpec::Http { url: spec_url, headers: spec_headers, .. }
            | ServerSpec::A2a { url: spec_url, headers: spec_headers, .. } => {
                (url, headers) = (Some(spec_url.clone()), Some(spec_headers.clone()));
            }
        }
        McpServerView {
            id: server.id.0,
            needs_confirmation: server.needs_confirmation(),
            warning: self.warning,
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
            trust: server.trust,
            timeout_seconds: server.timeout_seconds,
            enabled: server.enabled,
            product: server.product,
            status: self.status.as_str().to_owned(),
            tool_count: counts.tools,
            held_back: counts.new + changed,
            conflicts: i64::try_from(self.conflicts).unwrap_or(i64::MAX),
            listed_at: server.listed_at,
            last_error: server.last_error,
            last_error_at: server.last_error_at,
            left_alone_until: self.breaker_open_until,
            created_at: server.created_at,
            updated_at: server.updated_at,
        }
    }
}

/// Converts a request to add a server. Fails if a field does not belong to its transport, or is missing for
/// it.
pub(crate) fn new_server(body: CreateMcpServer) -> Result<NewServer, Invalid> {
    let (name, description) = (body.name, body.description);
    let env = body.env.unwrap_or_default();
    let mut problems = Vec::new();
    let is_program = body.transport == TransportKind::Stdio;
    let disallowed = match is_program {
        true => [("url", body.url.is_some()), ("headers", body.headers.is_some())],
        false => [("command", body.command.is_some()), ("args", body.args.is_some())],
    };
    for (field, _) in disallowed.iter().filter(|(_, is_present)| *is_present) {
        problems.push(Problem::new(*field, format!("is not for `{}` servers", body.transport)));
    }
    let (required, is_missing, what) = match is_program {
        true => (
            "command",
            body.command.is_none(),
            "the program to start, such as `npx`, with its arguments in `args`",
        ),
        false => ("url", body.url.is_none(), "the address of the server"),
    };
    if is_missing {
        let reason = format!("is required for `{}` servers: {what}", body.transport);
        problems.push(Problem::new(required, reason));
    }
    Invalid::if_any(problems)?;
    let (url, headers) = (body.url.unwrap_or_default(), body.headers.unwrap_or_default());
    let spec = match body.transport {
        TransportKind::Stdio => ServerSpec::Stdio {
            name,
            description,
            command: body.command.unwrap_or_default(),
            args: body.args.unwrap_or_default(),
            env,
        },
        TransportKind::Sse => ServerSpec::Sse { name, description, url, headers, env },
        TransportKind::Http => ServerSpec::Http { name, description, url, headers, env },
        TransportKind::A2a => ServerSpec::A2a { name, description, url, headers, env },
    };
    Ok(NewServer {
        spec,
        tool_filter: body.tool_filter.unwrap_or_else(|| vec!["*".to_owned()]),
        pin_policy: body.pin_policy,
        trust: body.trust,
        timeout_seconds: body.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT),
        enabled: body.enabled.unwrap_or(true),
    })
}

/// Converts a request to change a server. Only the given fields are changed.
pub(crate) fn server_patch(body: UpdateMcpServer) -> ServerPatch {
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
    ServerPatch {
        spec,
        tool_filter: body.tool_filter,
        pin_policy: body.pin_policy,
        trust: body.trust,
        timeout_seconds: body.timeout_seconds,
        enabled: body.enabled,
    }
}

impl IntoView<InspectionView> for (McpServer, Inspection, NameConflicts) {
    fn into_view(self) -> InspectionView {
        let (server, inspection, conflicts) = self;
        InspectionView {
            reachable: inspection.error.is_none(),
            protocol: inspection.protocol,
            tools: inspection.tools.into_iter().map(|tool| (&server, tool, &conflicts).into_view()).collect(),
            error: inspection.error,
            duration_ms: inspection.millis,
        }
    }
}

impl IntoView<McpToolView> for (&McpServer, StoredTool, &NameConflicts) {
    fn into_view(self) -> McpToolView {
        let (server, tool, conflicts) = self;
        let held_back = is_held_back(server, &tool);
        let current = reviewed_parts(&tool.tool);
        let is_changed = tool.accepted_at.is_some() && tool.digest != tool.pinned_digest;
        let before = is_changed.then(|| reviewed_parts(&tool.pinned_tool));
        McpToolView {
            qualified_name: external::qualified(server.name(), &external::escape(&tool.name)),
            conflict: conflicts.find(server.name(), &tool.name).map(IntoView::into_view),
            name: tool.name,
            status: tool.status,
            held_back,
            description: current.description,
            input_schema: current.input_schema,
            annotations: current.annotations,
            digest: tool.digest,
            pinned_digest: tool.pinned_digest,
            before,
            first_seen: tool.first_seen,
            changed_at: tool.changed_at,
        }
    }
}

impl IntoView<NameConflictView> for SharedName {
    fn into_view(self) -> NameConflictView {
        let owner = match self.owner {
            BareNameOwner::Builtin => None,
            BareNameOwner::Server(server) => Some(server),
        };
        NameConflictView { owner, others: self.others }
    }
}
