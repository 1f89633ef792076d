//! A server's tool as one of the pool.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_domain::{
    json::Schema,
    mcp_server::{McpServer, PinPolicy},
    token::Scope,
};
use emergent_mcp::client::{Error as McpError, RemoteTool};
use serde_json::Value;
use tracing::debug;

use super::{McpServers, WeakMcpServers, connection::ServerConnection, content};
use crate::{Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};

/// What the guard waits longer than we do: our own end of a call says more.
const GRACE: Duration = Duration::from_secs(5);

pub struct ServerTool {
    info: ToolInfo,
    digest: String,
    link: Arc<ServerConnection>,
    timeout: Duration,
    servers: WeakMcpServers,
}

impl ServerTool {
    /// `None` for a tool that cannot be called as tools are called here.
    pub fn from_listing(
        servers: WeakMcpServers,
        link: &Arc<ServerConnection>,
        tool: RemoteTool,
        digest: String,
    ) -> Option<Arc<dyn Tool>> {
        if tool.needs_task {
            return None;
        }
        let server = &link.server;
        let read_only = tool.hint("readOnlyHint");
        let effect = Effect::External { read_only, idempotent: read_only || tool.hint("idempotentHint") };
        let info = ToolInfo {
            description: description(server, &tool).into(),
            name: tool.name,
            server: Some(server.name().to_owned()),
            input_schema: Schema::from_raw(tool.input_schema).ok()?,
            effect,
            scope: Some(Scope::AgentsInvoke),
        };
        let timeout = Duration::from_secs(u64::try_from(server.timeout_seconds).unwrap_or(60).max(1));
        Some(Arc::new(Self { info, digest, link: Arc::clone(link), timeout, servers }))
    }

    fn failed(&self, why: &str) -> ToolError {
        ToolError::Failed(format!("the MCP server `{}` {why}", self.link.server.name()))
    }

    async fn call_server(&self, servers: &McpServers, input: Value) -> Result<Value, ToolError> {
        let link = match self.link.is_closed() {
            false => Arc::clone(&self.link),
            true => servers.current_connection(&self.link.server).await.map_err(|why| self.failed(&why))?,
        };
        let client = servers.client(&link).await.map_err(|why| self.failed(&why))?;
        self.check_pin(&link)?;
        let Value::Object(arguments) = input else {
            return Err(ToolError::Refused("the input must be an object".into()));
        };
        let (server, tool) = (link.server.name().to_owned(), self.info.name.clone());
        let progress = Arc::new(move |progress: emergent_mcp::client::Progress| {
            debug!(server, tool, progress = progress.progress, total = progress.total, "a call goes on");
        });
        let schema = self.info.input_schema.as_value();
        let called = client.call_tool(&self.info.name, schema, arguments, self.timeout, Some(progress)).await;
        servers.record_call(&link, &client, called.as_ref().map(|_| ())).await;
        match called {
            Ok(result) => content::to_output(result).map_err(ToolError::Refused),
            Err(McpError::Rpc(error)) => Err(ToolError::Refused(format!(
                "the MCP server `{}` refused the call: {error}",
                link.server.name()
            ))),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    /// A tool that is not what was accepted is not called, whatever this run was told at its start.
    fn check_pin(&self, link: &ServerConnection) -> Result<(), ToolError> {
        let name = &self.info.name;
        match link.current_digest(name) {
            None => Err(ToolError::Refused(format!(
                "the MCP server `{}` no longer has a tool `{name}`",
                link.server.name()
            ))),
            Some(digest) if digest != self.digest && link.server.pin_policy == PinPolicy::Pin => {
                Err(ToolError::Refused(format!(
                    "the MCP server `{}` changed its tool `{name}`, which is held back until somebody accepts it",
                    link.server.name()
                )))
            }
            Some(_) => Ok(()),
        }
    }
}

/// What the model is told: the server's words, or its title.
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
        // A server may send back what it was given, secrets included.
        let redactor = servers.redactor().for_project(self.link.server.project);
        match self.call_server(&servers, input).await {
            Ok(mut answer) => {
                redactor.redact_value(&mut answer);
                Ok(ToolOutput::Answer(answer))
            }
            Err(ToolError::Refused(why)) => Err(ToolError::Refused(redactor.redact_text(&why).into_owned())),
            Err(ToolError::Failed(why)) => Err(ToolError::Failed(redactor.redact_text(&why).into_owned())),
        }
    }
}
