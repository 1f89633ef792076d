//! [`ServerTool`], a tool of an external MCP server as a [`Tool`] of the pool.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_domain::{
    json::Schema,
    mcp_server::{McpServer, PinPolicy},
    token::Scope,
    tool_name::external,
};
use emergent_mcp::client::{Error as McpError, RemoteTool};
use serde_json::Value;
use tracing::debug;

use super::{McpServers, WeakMcpServers, connection::ServerConnection, content};
use crate::{Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};

/// The guard waits this much longer than the call, since the error of the call itself says more.
const GRACE: Duration = Duration::from_secs(5);

/// One tool of an external MCP server.
pub struct ServerTool {
    info: ToolInfo,
    /// The name that the server announces. The name in `info` is escaped.
    announced: String,
    /// The digest of the tool when it was offered.
    digest: String,
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
        Some(Arc::new(Self { info, announced, digest, connection, timeout, servers }))
    }

    /// An error of the server. `reason` completes a sentence that begins with its name.
    fn failed(&self, reason: &str) -> ToolError {
        ToolError::Failed(format!("the MCP server `{}` {reason}", self.connection.server.name()))
    }

    /// The connection to the server as it is now, which may have been changed since a run got the tool.
    async fn current_connection(&self, servers: &McpServers) -> Result<Arc<ServerConnection>, ToolError> {
        match self.connection.is_closed() {
            false => Ok(Arc::clone(&self.connection)),
            true => {
                let current = servers.current_connection(&self.connection.server).await;
                current.map_err(|reason| self.failed(&reason))
            }
        }
    }

    async fn call_server(
        &self,
        servers: &McpServers,
        connection: &Arc<ServerConnection>,
        input: Value,
    ) -> Result<ToolOutput, ToolError> {
        let client = servers.client(connection).await.map_err(|reason| self.failed(&reason))?;
        self.check_pin(connection)?;
        let Value::Object(arguments) = input else {
            return Err(ToolError::Refused("the input must be an object".into()));
        };
        let (server, tool) = (connection.server.name().to_owned(), self.info.name.clone());
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
        let result = client.call_tool(&self.announced, schema, arguments, self.timeout, Some(progress)).await;
        servers.record_call(connection, &client, result.as_ref().map(|_| ())).await;
        match result {
            Ok(result) => content::to_output(result).map_err(ToolError::Refused),
            Err(McpError::Rpc(error)) => Err(ToolError::Refused(format!(
                "the MCP server `{}` refused the call: {error}",
                connection.server.name()
            ))),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    /// Refuses the call if the tool changed since this run got it and is held back, or if the server no
    /// longer has it.
    fn check_pin(&self, connection: &ServerConnection) -> Result<(), ToolError> {
        let name = &self.announced;
        match connection.current_digest(name) {
            None => Err(ToolError::Refused(format!(
                "the MCP server `{}` no longer has a tool `{name}`",
                connection.server.name()
            ))),
            Some(digest) if digest != self.digest && connection.server.pin_policy == PinPolicy::Pin => {
                Err(ToolError::Refused(format!(
                    "the MCP server `{}` changed its tool `{name}`, which is held back until somebody accepts it",
                    connection.server.name()
                )))
            }
            Some(_) => Ok(()),
        }
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

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout + GRACE)
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        let Some(servers) = self.servers.upgrade() else {
            return Err(self.failed("is not connected any more"));
        };
        let connection = self.current_connection(&servers).await?;
        let sent_by_caller = input.clone();
        let result = self.call_server(&servers, &connection, input).await;
        // A server may return the secrets that it was given. What the caller sent stays, so that the answer
        // confirms no guess.
        let redactor = servers.sent_redactor(&connection).except(&sent_by_caller);
        match result {
            Ok(mut output) => {
                match &mut output {
                    ToolOutput::Answer(answer) => redactor.redact_value(answer),
                    ToolOutput::External { answer, content } => {
                        redactor.redact_value(answer);
                        content.blocks.iter_mut().for_each(|block| redactor.redact_value(block));
                        content.structured.iter_mut().for_each(|value| redactor.redact_value(value));
                    }
                    ToolOutput::Change(_) => {}
                }
                Ok(output)
            }
            Err(ToolError::Refused(reason)) => {
                Err(ToolError::Refused(redactor.redact_text(&reason).into_owned()))
            }
            Err(ToolError::Failed(reason)) => {
                Err(ToolError::Failed(redactor.redact_text(&reason).into_owned()))
            }
        }
    }
}
