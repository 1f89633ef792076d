//! The errors of an agent, worded so that a person or a model can act on them.

use std::time::Duration;

use emergent_net::large_messages::NotProcessed;

/// The failure of a request to an agent. The texts have no subject, because callers put the name of the agent
/// before them.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("could not be reached: {0}")]
    Unreachable(String),
    #[error("lost the connection: {0}")]
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
    /// The agent got the message, and then could not be asked for its task any more.
    #[error("{source} (the task `{task}` was cancelled)")]
    Abandoned { task: String, source: Box<Error> },
    #[error(
        "has had too many requests (HTTP 429){}",
        .retry_after.map(|delay| format!(" and wants to be left alone for {} seconds", delay.as_secs_f64())).unwrap_or_default()
    )]
    RateLimited { retry_after: Option<Duration> },
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
            Self::Abandoned { source, .. } => source.without_quotes(),
            Self::Unreachable(_)
            | Self::Lost(_)
            | Self::RateLimited { .. }
            | Self::TooLarge { .. }
            | Self::Timeout(_)
            | Self::Unauthorised(_)
            | Self::NoInterface(_) => self.to_string(),
        }
    }

    /// Whether the agent may have got the message, and what came of it is not known. Sending it again could have the
    /// work done twice.
    pub fn has_unknown_outcome(&self) -> bool {
        match self {
            Self::Lost(_)
            | Self::Timeout(_)
            | Self::TooLarge { .. }
            | Self::InvalidMessage(_)
            | Self::NotFinished { .. }
            | Self::Abandoned { .. } => true,
            // A proxy answers so when the agent took too long, and the agent may be at work still. With 503 nobody took
            // the message.
            Self::Http { status, .. } => *status == 408 || (*status >= 500 && *status != 503),
            Self::Unreachable(_)
            | Self::RateLimited { .. }
            | Self::Unauthorised(_)
            | Self::NoInterface(_)
            | Self::Refused { .. } => false,
        }
    }

    /// Whether the agent itself fails. One that refuses a message, limits how many it gets, or works on a task for long,
    /// is healthy.
    pub fn is_server_failure(&self) -> bool {
        if let Self::Abandoned { source, .. } = self {
            return source.is_server_failure();
        }
        !matches!(
            self,
            Self::Refused { .. }
                | Self::NotFinished { .. }
                | Self::RateLimited { .. }
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
                | Self::Http { status: 408 | 425 | 500..=599, .. }
        )
    }
}
