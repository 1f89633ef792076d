//! The errors of managing a project's MCP servers.

use emergent_domain::invalid::Invalid;

use super::target;

/// Why an operation on MCP servers failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {what} `{id}`")]
    NotFound { what: &'static str, id: String },
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("{}", target::STDIO_DISABLED_MESSAGE)]
    StdioDisabled,
    /// A token of one project configured a program that the operator's patterns do not admit.
    #[error(
        "a token of one project may not have this server run `{command}`: a program runs with the server's \
         rights. Ask the operator to add the server with a token that spans projects, or to admit the \
         program with EMERGENT_STDIO_PROGRAMS{variables}"
    )]
    ProgramNotAllowed {
        command: String,
        /// Names the variables that are to blame, if only they are; see `ProgramPatterns::explain_variables`.
        variables: String,
    },
    #[error("{0}")]
    Conflict(String),
    #[error("the database could not be reached for the MCP servers")]
    Store(#[from] emergent_store::Error),
}

impl Error {
    /// The server is not there, by its id or by its name.
    pub(super) fn no_server(id: impl ToString) -> Self {
        Self::NotFound { what: "MCP server", id: id.to_string() }
    }
}
