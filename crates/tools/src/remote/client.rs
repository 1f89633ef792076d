//! The open connection to an external server: an MCP server with its tools, or an agent that speaks A2A and is one
//! tool.

use std::time::Duration;

use emergent_a2a::{
    AgentClient, ClientOptions as AgentOptions, Endpoint as AgentEndpoint, Error as AgentError,
};
use emergent_mcp::client::{Client as McpClient, ClientOptions, Error as McpError, RemoteTool, Target};

use super::agent;

/// The most bytes of one answer of an agent. It is parsed as a whole.
const MAX_AGENT_ANSWER_BYTES: usize = 4 << 20;

/// Where and how a server is reached.
pub enum RemoteTarget {
    Mcp(Target),
    Agent(AgentEndpoint),
}

/// A connection; clones share it.
#[derive(Clone)]
pub enum RemoteClient {
    Mcp(McpClient),
    Agent(AgentClient),
}

impl RemoteClient {
    /// Connects to a server. The error completes a sentence that begins with its name.
    pub async fn connect(target: RemoteTarget, options: ClientOptions) -> Result<Self, String> {
        match target {
            RemoteTarget::Mcp(target) => {
                McpClient::connect(target, options).await.map(Self::Mcp).map_err(|error| as_predicate(&error))
            }
            RemoteTarget::Agent(endpoint) => {
                let options = AgentOptions {
                    max_message_bytes: options.max_message_bytes.min(MAX_AGENT_ANSWER_BYTES),
                    large_messages: options.large_messages,
                    connect_timeout: options.connect_timeout,
                };
                let connected = AgentClient::connect(endpoint, options).await;
                connected.map(Self::Agent).map_err(|error| error.to_string())
            }
        }
    }

    /// Whether both values share one connection.
    pub fn is_same_connection(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mcp(client), Self::Mcp(other)) => client.is_same_connection(other),
            (Self::Agent(client), Self::Agent(other)) => client.is_same(other),
            _ => false,
        }
    }

    /// The version of the protocol.
    pub fn version(&self) -> String {
        match self {
            Self::Mcp(client) => client.version(),
            Self::Agent(_) => emergent_a2a::VERSION.to_owned(),
        }
    }

    /// Closes the connection. An agent has none between its calls.
    pub async fn close(&self) {
        if let Self::Mcp(client) = self {
            client.close().await;
        }
    }

    /// Whether the tools have to be listed again before the next call, because the server does not announce
    /// changes.
    pub fn has_old_listing(&self) -> bool {
        match self {
            Self::Mcp(_) => false,
            Self::Agent(client) => client.has_old_card(),
        }
    }

    /// Lists the tools. The error completes a sentence that begins with the name of the server.
    pub async fn list_tools(&self, within: Duration) -> Result<Vec<RemoteTool>, String> {
        match self {
            Self::Mcp(client) => client.list_tools(within).await.map_err(|error| as_predicate(&error)),
            Self::Agent(client) => {
                let card = client.refresh_card().await.map_err(|error| error.to_string())?;
                Ok(vec![agent::tool_of(&card)?])
            }
        }
    }
}

/// An error of an MCP server as it completes a sentence that begins with the name of the server.
fn as_predicate(error: &McpError) -> String {
    match error {
        McpError::Rpc(refused) => format!("refused a request: {refused}"),
        other => other.to_string(),
    }
}

/// The failure of a call, as the circuit breaker sees it.
pub struct CallFailure {
    /// Whether the server itself fails.
    pub is_server_failure: bool,
    /// Whether the server could not be reached, or was lost during the call.
    pub is_connection_failure: bool,
    /// The reason without what the server said.
    pub reason: String,
}

impl From<&McpError> for CallFailure {
    fn from(error: &McpError) -> Self {
        Self {
            is_server_failure: error.is_server_failure(),
            is_connection_failure: matches!(error, McpError::Unreachable(_) | McpError::Lost(_)),
            reason: error.without_quotes(),
        }
    }
}

impl From<&AgentError> for CallFailure {
    fn from(error: &AgentError) -> Self {
        let cause = match error {
            AgentError::Abandoned { source, .. } => source,
            other => other,
        };
        Self {
            is_server_failure: error.is_server_failure(),
            is_connection_failure: matches!(cause, AgentError::Unreachable(_) | AgentError::Lost(_)),
            reason: error.without_quotes(),
        }
    }
}
