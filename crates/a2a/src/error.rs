//! The errors of an agent, worded so that a person or a model can act on them.

use std::time::Duration;

use emergent_net::large_messages::NotProcessed;

/// The failure of a request to an agent. The texts have no subject, because callers put the name of the agent
/// before them.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("could not be reached: {0}")]
    Unreachable(String),
    #[error("the connection was lost: {0}")]
    Lost(String),
    #[error("sent more than {limit} bytes in one answer")]
    TooLarge { limit: usize },
    #[error("sent something that is not A2A: {0}")]
    InvalidMessage(String),
    #[error("gave no answer within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    /// The agent answers, but its task takes too long.
    #[error(
        "did not finish the task `{task}` within {} seconds, so the task was cancelled: raise the timeout of \
         the server if the work takes that long",
        .within.as_secs_f64()
    )]
    NotFinished { task: String, within: Duration },
    #[error("refused the credentials (HTTP {0})")]
    Unauthorised(u16),
    #[error("answered HTTP {status}: {body}")]
    Http { status: u16, body: String },
    /// The card names no address that this client can and may use.
    #[error("cannot be called: {0}")]
    NoInterface(String),
    #[error("error {code}: {message}")]
    Refused { code: i64, message: String },
}

impl From<NotProcessed> for Error {
    fn from(_: NotProcessed) -> Self {
        Self::Lost("a large message could not be processed".into())
    }
}

impl Error {
    /// The text of the error without what the agent said, for places that others than the caller see: an agent
    /// may repeat what the caller sent.
    pub fn without_quotes(&self) -> String {
        match self {
            Self::InvalidMessage(_) => "sent something that is not A2A".to_owned(),
            Self::Http { status, .. } => format!("answered HTTP {status}"),
            Self::Refused { code, .. } => format!("refused the call (error {code})"),
            Self::NotFinished { within, .. } => {
                format!("did not finish a task within {} seconds", within.as_secs_f64())
            }
            Self::Unreachable(_)
            | Self::Lost(_)
            | Self::TooLarge { .. }
            | Self::Timeout(_)
            | Self::Unauthorised(_)
            | Self::NoInterface(_) => self.to_string(),
        }
    }

    /// Whether the agent itself fails. One that refuses a message, or works on a task for long, is healthy.
    pub fn is_server_failure(&self) -> bool {
        !matches!(
            self,
            Self::Refused { .. }
                | Self::NotFinished { .. }
                | Self::Http { status: 400 | 406 | 409 | 413 | 414 | 415 | 422 | 431, .. }
        )
    }

    /// Whether the same question may be answered a moment later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_)
                | Self::Lost(_)
                | Self::Timeout(_)
                | Self::Http { status: 408 | 425 | 429 | 500..=599, .. }
        )
    }
}
