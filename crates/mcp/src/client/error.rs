//! The errors of an MCP server, worded so that a person or a model can act on them.

use std::time::Duration;

use emergent_net::large_messages::NotProcessed;

use crate::message::RpcError;

/// The failure of a request to an MCP server. The texts have no subject, because callers put the name of the
/// server before them. An error can be cloned, because one lost connection ends all its waiting calls.
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
    /// The server no longer knows the session; a new one can be started.
    #[error("ended the session")]
    SessionGone,
    #[error("supports no version of MCP that this client supports: {0}")]
    NoCommonVersion(String),
    #[error("needs input from a person: {0}")]
    NeedsUserInput(String),
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

impl From<NotProcessed> for Error {
    fn from(_: NotProcessed) -> Self {
        Self::Lost("a large message could not be processed".into())
    }
}

impl Error {
    /// The text of the error without what the server said, for places that others than the caller see: a server
    /// may repeat what the caller sent.
    pub fn without_quotes(&self) -> String {
        match self {
            Self::InvalidMessage(_) => "sent something that is not MCP".to_owned(),
            Self::Http { status, .. } => format!("answered HTTP {status}"),
            Self::NeedsUserInput(_) => "needs input from a person".to_owned(),
            Self::NoCommonVersion(_) => "supports no version of MCP that this client supports".to_owned(),
            Self::Rpc(error) => format!("refused the call (error {})", error.code),
            Self::Start { .. }
            | Self::Unreachable(_)
            | Self::Lost(_)
            | Self::TooLarge { .. }
            | Self::TooManyMessages(_)
            | Self::Timeout(_)
            | Self::Unauthorised(_)
            | Self::SessionGone => self.to_string(),
        }
    }

    /// Whether the server itself fails. A server that refuses a call is healthy, also if it refuses with an HTTP
    /// status that blames the request: bad arguments of one caller say nothing about the calls of others.
    pub fn is_server_failure(&self) -> bool {
        !matches!(
            self,
            Self::Rpc(_)
                | Self::NeedsUserInput(_)
                | Self::Http { status: 400 | 406 | 409 | 413 | 414 | 415 | 422 | 431, .. }
        )
    }
}
