//! The errors of an MCP server, worded so that a person or a model can act on them.

use std::{borrow::Cow, io, time::Duration};

use emergent_net::large_messages::NotProcessed;
use rustix::io::Errno;

use crate::message::RpcError;

/// The programs that people configure most, and what has to be installed for each.
const PACKAGES: [(&str, &str); 6] =
    [("npx", "Node"), ("node", "Node"), ("npm", "Node"), ("uvx", "uv"), ("uv", "uv"), ("bunx", "Bun")];

/// The failure of a request to an MCP server. The texts have no subject, because callers put the name of the
/// server before them. An error can be cloned, because one lost connection ends all its waiting calls.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// `why` is what the operating system says.
    #[error("could not start `{command}`: {}", start_problem(command, why))]
    Start { command: String, why: String },
    #[error("could not be reached: {0}")]
    Unreachable(String),
    #[error("lost the connection: {0}")]
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

/// Why a program was not started. About one that is missing, the operating system says only that there is no such file.
fn start_problem<'a>(command: &str, why: &'a str) -> Cow<'a, str> {
    if why != io::Error::from(Errno::NOENT).to_string() {
        return Cow::Borrowed(why);
    }
    if command.contains('/') {
        return Cow::Borrowed(
            "there is no such file where the server runs; install the program there, or correct its path",
        );
    }
    let package = PACKAGES.iter().find(|(program, _)| command == *program);
    let origin = package.map(|(program, package)| format!(" ({program} comes with {package})"));
    Cow::Owned(format!(
        "the program is not on the PATH of the server; install it where the server runs{}, or give its full path",
        origin.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of(command: &str, why: impl Into<io::Error>) -> String {
        Error::Start { command: command.to_owned(), why: why.into().to_string() }.to_string()
    }

    #[test]
    fn the_error_about_a_missing_program_says_what_to_do() {
        assert_eq!(
            message_of("npx", Errno::NOENT),
            "could not start `npx`: the program is not on the PATH of the server; install it where the server runs \
             (npx comes with Node), or give its full path"
        );
        assert!(message_of("uvx", Errno::NOENT).contains("(uvx comes with uv)"));
        assert!(
            message_of("my-server", Errno::NOENT)
                .contains("install it where the server runs, or give its full path")
        );
        let path = message_of("/no/such/program", Errno::NOENT);
        assert!(path.contains("`/no/such/program`: there is no such file where the server runs"), "{path}");
    }

    #[test]
    fn another_reason_is_given_in_the_words_of_the_operating_system() {
        let reason = io::Error::from(Errno::ACCESS).to_string();
        assert_eq!(message_of("npx", Errno::ACCESS), format!("could not start `npx`: {reason}"));
    }
}
