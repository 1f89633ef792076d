//! What can stand in the way of whoever manages servers.

use emergent_domain::{ids::McpServerId, invalid::Invalid};

use super::target;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {what} `{id}`")]
    NotFound { what: &'static str, id: String },
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("{}", target::STDIO_DISABLED_MESSAGE)]
    StdioDisabled,
    #[error("{0}")]
    Conflict(String),
    #[error("could not reach the MCP servers in the database")]
    Store(#[from] emergent_store::Error),
}

impl Error {
    pub(super) fn no_server(id: McpServerId) -> Self {
        Self::NotFound { what: "MCP server", id: id.to_string() }
    }
}
