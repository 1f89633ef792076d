use std::{path::PathBuf, time::Duration};

pub(crate) type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// The errors, classified by what the caller can do about them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller should wait, for `retry_after` if the provider named it, and then retry.
    #[error("`{model}` asks for fewer requests: {message}")]
    RateLimited { model: String, message: String, retry_after: Option<Duration> },
    /// The provider failed or could not be reached; a later retry may succeed.
    #[error("`{model}` is not available: {message}")]
    Overloaded {
        model: String,
        message: String,
        #[source]
        source: Option<BoxedError>,
    },
    /// The key lacks rights or is invalid, or its account has no credit.
    #[error("`{model}` refused the credentials: {message}")]
    Auth { model: String, message: String },
    /// The same request would fail in the same way.
    #[error("`{model}` refused the request (status {status}): {message}")]
    BadRequest { model: String, status: u16, message: String },
    /// The conversation has more tokens than the context window of the model.
    #[error("the conversation is too long for `{model}`: {message}")]
    ContextTooLong { model: String, message: String },
    /// The provider sent an unexpected response.
    #[error("`{model}` gave an answer that cannot be used: {message}")]
    Malformed { model: String, message: String },
    /// A setting has to be changed first; the message names it.
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
    /// Whether the same request may succeed later. The call was already retried when this error arrives, so
    /// the caller should wait longer instead of retrying at once.
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

    /// Returns how long the provider asked to wait, if it did.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
