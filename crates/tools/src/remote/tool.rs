//! [`ServerTool`], a tool of an external MCP server as a [`Tool`] of the pool.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_a2a::Error as AgentError;
use emergent_domain::{
    json::Schema,
    mcp_server::{McpServer, PinPolicy, TransportKind},
    redact::Redactor,
    token::Scope,
    tool_name::external,
};
use emergent_mcp::client::{
    CallInput, CallOptions, Client as McpClient, Error as McpError, Form, FormAnswer, InputHandler,
    RemoteCallResult, RemoteTool,
};
use serde_json::{Map, Value};
use tracing::debug;

use super::{
    McpServers, WeakMcpServers,
    agent::{self, AgentRequest},
    client::{CallFailure, RemoteClient},
    connection::ServerConnection,
    content,
};
use crate::{CallReport, Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};

/// The guard waits this much longer than the call, since the error of the call itself says more.
const GRACE: Duration = Duration::from_secs(5);
/// The most bytes that a caller reads of the reason why a server refused a call.
const MAX_REFUSAL_BYTES: usize = 4 << 10;
/// The most bytes that are shown of the error of a server that fails, such as the body of an HTTP response.
pub const MAX_FAILURE_BYTES: usize = 400;

/// One tool of an external MCP server.
pub struct ServerTool {
    info: ToolInfo,
    /// The name that the server announces. The name in `info` is escaped.
    announced: String,
    /// The digest of the tool when it was offered.
    digest: String,
    is_destructive: bool,
    connection: Arc<ServerConnection>,
    timeout: Duration,
    servers: WeakMcpServers,
}

impl ServerTool {
    /// `None` for a tool that cannot be called: it requires MCP tasks, or its schema is not usable.
    pub fn from_listing(
        servers: WeakMcpServers,
        connection: &Arc<ServerConnection>,
        tool: RemoteTool,
        digest: String,
    ) -> Option<Arc<dyn Tool>> {
        if tool.needs_task {
            return None;
        }
        let server = &connection.server;
        let read_only = tool.hint("readOnlyHint");
        let effect = Effect::External { read_only, idempotent: read_only || tool.hint("idempotentHint") };
        let is_destructive = !read_only && tool.hint("destructiveHint");
        let info = ToolInfo {
            description: description(server, &tool).into(),
            name: external::escape(&tool.name).into_owned(),
            server: Some(server.name().to_owned()),
            input_schema: Schema::from_raw(tool.input_schema).ok()?,
            effect,
            scope: Some(Scope::AgentsInvoke),
        };
        let timeout = Duration::from_secs(u64::try_from(server.timeout_seconds).unwrap_or(60).max(1));
        let (announced, connection) = (tool.name, Arc::clone(connection));
        Some(Arc::new(Self { info, announced, digest, is_destructive, connection, timeout, servers }))
    }

    /// An error of the server. `reason` completes a sentence that begins with its name.
    fn failed(&self, reason: &str) -> ToolError {
        ToolError::Failed(format!("{} {reason}", shown_name(&self.connection.server)))
    }

    /// The connection to the server as it is now, which may have been changed since a run got the tool.
    async fn current_connection(&self, servers: &McpServers) -> Result<Arc<ServerConnection>, String> {
        let is_usable =
            !self.connection.is_closed() && !servers.close_if_secrets_changed(&self.connection).await;
        if is_usable {
            return Ok(Arc::clone(&self.connection));
        }
        servers.current_connection(&self.connection.server).await
    }

    /// The error of a call that could not be made, because its server cannot be used. The run hears of it as well.
    async fn unavailable(
        &self,
        servers: &McpServers,
        server: &McpServer,
        context: &ToolContext,
        reason: &str,
    ) -> ToolError {
        report_unavailable(servers, server, context, reason).await;
        self.failed(reason)
    }

    async fn call_server(
        &self,
        servers: &McpServers,
        connection: &Arc<ServerConnection>,
        context: &ToolContext,
        input: Value,
    ) -> Result<ToolOutput, ToolError> {
        let client = match servers.client(connection).await {
            Ok(client) => client,
            Err(reason) => return Err(self.unavailable(servers, &connection.server, context, &reason).await),
        };
        if client.has_old_listing()
            && let Err(reason) = servers.refresh_or_record(connection, &client).await
        {
            return Err(self.unavailable(servers, &connection.server, context, &reason).await);
        }
        self.check_pin(connection)?;
        // A server may return the secrets that it was given. What the caller sent stays, so that the answer
        // confirms no guess.
        let redactor = servers.sent_redactor(connection).except(&input);
        match &client {
            RemoteClient::Agent(agent) => {
                let request = agent::request_of(context, input)?;
                let options = agent::call_options(context, connection.server.name(), self.timeout, &redactor);
                let (is_message, sent) = match request {
                    AgentRequest::Send(message) => (true, agent.send(message, options).await),
                    AgentRequest::Follow { task } => (false, agent.follow(task, options).await),
                };
                // The report precedes the write below, which may take longer than the call has time.
                let is_unknown = is_message && sent.as_ref().is_err_and(AgentError::has_unknown_outcome);
                if let (true, Some(reporter)) = (is_unknown, &context.reporter) {
                    (reporter.report)(CallReport::UnknownOutcome);
                }
                let failure = sent.as_ref().map(|_| ()).map_err(CallFailure::from);
                record_outcome(servers, connection, &client, context, failure).await;
                self.agent_output(connection, sent, redactor).await
            }
            RemoteClient::Mcp(mcp) => {
                let Value::Object(arguments) = input else {
                    return Err(ToolError::Refused("the input must be an object".into()));
                };
                let result = self.call_mcp(mcp, context, arguments, &redactor).await;
                let failure = result.as_ref().map(|_| ()).map_err(CallFailure::from);
                record_outcome(servers, connection, &client, context, failure).await;
                self.mcp_output(connection, result, redactor).await
            }
        }
    }

    /// The output of a call to an agent.
    async fn agent_output(
        &self,
        connection: &ServerConnection,
        sent: Result<emergent_a2a::Outcome, AgentError>,
        redactor: Redactor,
    ) -> Result<ToolOutput, ToolError> {
        match sent {
            Ok(outcome) => {
                let bytes = outcome.bytes;
                let convert = move || agent::to_output(outcome, &redactor);
                let converted = connection.large_messages.process(bytes, convert).await;
                converted.map_err(|error| self.failed(&error.to_string()))?
            }
            Err(error @ AgentError::Refused { .. }) => {
                let said = content::redact_error(&redactor, &error.to_string(), MAX_REFUSAL_BYTES);
                let agent = shown_name(&self.connection.server);
                Err(ToolError::Refused(format!("{agent} refused the message: {said}")))
            }
            Err(error) => {
                let said = content::redact_error(&redactor, &error.to_string(), MAX_FAILURE_BYTES);
                Err(self.failed(&said))
            }
        }
    }

    async fn call_mcp(
        &self,
        client: &McpClient,
        context: &ToolContext,
        arguments: Map<String, Value>,
        redactor: &Redactor,
    ) -> Result<RemoteCallResult, McpError> {
        let (server, tool) = (self.connection.server.name().to_owned(), self.info.name.clone());
        let progress = Arc::new(move |progress: emergent_mcp::client::Progress| {
            debug!(
                server,
                tool,
                progress = progress.progress,
                total = progress.total,
                "an MCP tool call reports progress"
            );
        });
        let schema = self.info.input_schema.as_value();
        let input = context.input.as_ref().map(|input| RedactedInput::wrap(input, redactor));
        let options = CallOptions { within: self.timeout, progress: Some(progress), input };
        client.call_tool(&self.announced, schema, arguments, options).await
    }

    /// The output of a call to an MCP server.
    async fn mcp_output(
        &self,
        connection: &ServerConnection,
        result: Result<RemoteCallResult, McpError>,
        redactor: Redactor,
    ) -> Result<ToolOutput, ToolError> {
        match result {
            Ok(result) => {
                let bytes = result.bytes();
                let convert = move || content::to_output(&result, &redactor).map_err(ToolError::Refused);
                let converted = connection.large_messages.process(bytes, convert).await;
                converted.map_err(|error| self.failed(&error.to_string()))?
            }
            Err(McpError::Rpc(error)) => {
                let said = content::redact_error(&redactor, &error.to_string(), MAX_REFUSAL_BYTES);
                let server = connection.server.name();
                Err(ToolError::Refused(format!("the MCP server `{server}` refused the call: {said}")))
            }
            Err(error) => {
                let said = content::redact_error(&redactor, &error.to_string(), MAX_FAILURE_BYTES);
                Err(self.failed(&said))
            }
        }
    }

    /// Refuses the call if the tool changed since this run got it and is held back, or if the server no
    /// longer has it.
    fn check_pin(&self, connection: &ServerConnection) -> Result<(), ToolError> {
        let name = &self.announced;
        match connection.current_digest(name) {
            None => Err(ToolError::Refused(format!(
                "{} no longer has a tool `{name}`",
                shown_name(&connection.server)
            ))),
            Some(digest) if digest != self.digest && connection.server.pin_policy == PinPolicy::Pin => {
                Err(ToolError::Refused(format!(
                    "{} changed its tool `{name}`, which is held back until somebody accepts it",
                    shown_name(&connection.server)
                )))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Records the outcome of a call in the breaker of its server. The run that made the call hears of a server that could
/// not be reached.
async fn record_outcome(
    servers: &McpServers,
    connection: &Arc<ServerConnection>,
    client: &RemoteClient,
    context: &ToolContext,
    outcome: Result<(), CallFailure>,
) {
    if let Err(CallFailure { is_connection_failure: true, reason, .. }) = &outcome {
        let shown = servers.shown_error(connection, reason);
        report_unavailable(servers, &connection.server, context, &shown).await;
    }
    servers.record_call(connection, client, outcome).await;
}

/// Tells the run that makes a call that the server of the call cannot be used.
async fn report_unavailable(servers: &McpServers, server: &McpServer, context: &ToolContext, reason: &str) {
    if let Some(reporter) = &context.reporter {
        let unavailable = servers.unavailable_server(server, reason).await;
        (reporter.report)(CallReport::ServerUnavailable(unavailable));
    }
}

/// What a server is called in a message for a model.
fn shown_name(server: &McpServer) -> String {
    let kind = match server.spec.transport() {
        TransportKind::A2a => "remote agent",
        _ => "MCP server",
    };
    format!("the {kind} `{}`", server.name())
}

/// Passes the requests of a server on without the secrets that the server was sent.
struct RedactedInput {
    input: CallInput,
    redactor: Redactor,
}

impl RedactedInput {
    fn wrap(input: &CallInput, redactor: &Redactor) -> CallInput {
        let handler = Self { input: input.clone(), redactor: redactor.clone() };
        CallInput { handler: Arc::new(handler), clock: input.clock.clone() }
    }
}

#[async_trait]
impl InputHandler for RedactedInput {
    async fn ask(&self, mut form: Form) -> Result<FormAnswer, String> {
        form.message = self.redactor.redact_text(&form.message).into_owned();
        self.redactor.redact_value(&mut form.schema);
        self.input.handler.ask(form).await
    }
}

/// The description for the model: that of the server, or else the title of the tool.
fn description(server: &McpServer, tool: &RemoteTool) -> String {
    match (tool.description.is_empty(), &tool.title) {
        (false, _) => tool.description.clone(),
        (true, Some(title)) => title.clone(),
        (true, None) => format!("A tool of the MCP server `{}`.", server.name()),
    }
}

#[async_trait]
impl Tool for ServerTool {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    fn definition_digest(&self) -> Option<&str> {
        Some(&self.digest)
    }

    fn is_marked_destructive(&self) -> bool {
        self.is_destructive
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout + GRACE)
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        let Some(servers) = self.servers.upgrade() else {
            return Err(self.failed("is not connected any more"));
        };
        let connection = match self.current_connection(&servers).await {
            Ok(connection) => connection,
            Err(reason) => {
                return Err(self.unavailable(&servers, &self.connection.server, context, &reason).await);
            }
        };
        self.call_server(&servers, &connection, context, input).await
    }
}
