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

/// Whether nothing listens at the address, which the causes of a failed request say.
pub(crate) fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The message for an address at which nothing listens.
pub(crate) fn refused_message(origin: &str) -> String {
    format!("nothing listens at `{origin}`; start the server of the model there, or correct the address")
}

impl Error {
    /// Whether nothing listens at the provider's address. A server that is not started does not come up by
    /// itself, so few attempts are enough.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Overloaded { source: Some(source), .. } => is_refused(source.as_ref()),
            _ => false,
        }
    }

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

    /// Replaces the keys of the server in what a provider said. Some providers and proxies quote the key that they
    /// refuse, and the message is recorded where callers of agents read it.
    #[must_use]
    pub(crate) fn without_secrets(mut self, secrets: &[String]) -> Self {
        let message = match &mut self {
            Self::RateLimited { message, .. }
            | Self::Overloaded { message, .. }
            | Self::Auth { message, .. }
            | Self::BadRequest { message, .. }
            | Self::ContextTooLong { message, .. }
            | Self::Malformed { message, .. }
            | Self::Config(message) => message,
            Self::Local { .. } => return self,
        };
        for secret in secrets {
            if message.contains(secret.as_str()) {
                *message = message.replace(secret.as_str(), "[key]");
            }
        }
        self
    }

    /// Returns how long the provider asked to wait, if it did.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
