use std::{path::PathBuf, time::Duration};

pub(crate) type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Wait, for `retry_after` where the provider said so, then ask again.
    #[error("`{model}` asks for fewer requests: {message}")]
    RateLimited { model: String, message: String, retry_after: Option<Duration> },
    /// The provider failed or could not be reached; asking again later may work.
    #[error("`{model}` is not available: {message}")]
    Overloaded {
        model: String,
        message: String,
        #[source]
        source: Option<BoxedError>,
    },
    /// The key is missing rights, is wrong, or its account is out of credit.
    #[error("`{model}` refused the credentials: {message}")]
    Auth { model: String, message: String },
    /// The same request would fail the same way.
    #[error("`{model}` refused the request (status {status}): {message}")]
    BadRequest { model: String, status: u16, message: String },
    /// The conversation has more tokens than the model can read at once.
    #[error("the conversation is too long for `{model}`: {message}")]
    ContextTooLong { model: String, message: String },
    /// The provider answered with something other than what was asked for.
    #[error("`{model}` gave an answer that cannot be used: {message}")]
    Malformed { model: String, message: String },
    /// A setting has to change first; the message names it.
    #[error("{0}")]
    Config(String),
    /// The model directory cannot be used.
    #[error("could not use the sentence model in `{}`", dir.display())]
    Local {
        dir: PathBuf,
        #[source]
        source: BoxedError,
    },
}

impl Error {
    /// Whether the same request may succeed later. Calls have already been retried when
    /// this error arrives, so the right answer is a longer wait, not another loop.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::Overloaded { .. } => true,
            Self::Auth { .. }
            | Self::BadRequest { .. }
            | Self::ContextTooLong { .. }
            | Self::Malformed { .. }
            | Self::Config(_)
            | Self::Local { .. } => false,
        }
    }

    /// How long the provider asked to wait, if it did.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
