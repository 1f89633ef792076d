//! What can go wrong with a server, in words that a person and a model can act on.

use std::time::Duration;

use crate::message::RpcError;

/// One loss ends every call that waits on the connection, so an error can be had many times.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("could not start `{command}`: {why}")]
    Start { command: String, why: String },
    #[error("could not be reached: {0}")]
    Unreachable(String),
    #[error("the connection was lost: {0}")]
    Lost(String),
    #[error("sent a message of more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("sent something that is not MCP: {0}")]
    InvalidMessage(String),
    #[error("sent more than {0} messages a second that nobody asked for")]
    TooManyMessages(usize),
    #[error("gave no answer within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("refused the credentials (HTTP {0})")]
    Unauthorised(u16),
    #[error("answered HTTP {status}: {body}")]
    Http { status: u16, body: String },
    /// The server forgot the session; a new one can be begun.
    #[error("ended the session")]
    SessionGone,
    #[error("speaks no version of MCP that is known here: {0}")]
    NoCommonVersion(String),
    #[error("asks for something only a person could answer: {0}")]
    NeedsUserInput(String),
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

impl Error {
    /// Whether the server itself is in trouble. One that says no to a call is well.
    pub fn is_server_failure(&self) -> bool {
        !matches!(self, Self::Rpc(_) | Self::NeedsUserInput(_))
    }
}
