//! Errors of products, distinguished by what a caller can do about them. `api` maps them to HTTP.

use semver::Version;

use crate::{fetch::FetchError, problem::ManifestProblem, uses::Uses};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the product `{0}` is not installed here")]
    NotInstalled(String),
    #[error("there is no project `{0}`")]
    NoProject(String),
    /// The manifest is invalid, in general or for this project.
    #[error("the manifest cannot be used: {}", join_problems(.0))]
    Manifest(Vec<ManifestProblem>),
    /// The manifest conflicts with the contents of the project.
    #[error("the product conflicts with this project: {}", join_problems(.0))]
    Incompatible(Vec<ManifestProblem>),
    #[error("the product `{name}` is already installed in version {version}: upgrade it instead")]
    AlreadyInstalled { name: String, version: Version },
    #[error("this is the manifest of `{found}`, not of `{name}`")]
    NameMismatch { name: String, found: String },
    /// The manifest has this server run a program, and a token of one project may not decide that.
    #[error(
        "this product has the server run `{command}`, and a program runs with the server's rights: ask the \
         operator to install the product with a token that spans projects, or to admit the program with \
         EMERGENT_STDIO_PROGRAMS{variables}"
    )]
    ProgramNotAllowed {
        command: String,
        /// Names the variables that are to blame, if only they are.
        variables: String,
    },
    /// Nobody accepted what the product uses, or something else was accepted.
    #[error(
        "the product `{name}` uses programs, hosts, secrets, schedules or events that were not accepted: look at \
         them in the details or with a dry run, and repeat the request with `accept` (`--accept`)"
    )]
    ConsentRequired { name: String, uses: Box<Uses>, added: Box<Uses> },
    /// The current state does not allow the operation. The message says what would.
    #[error("{0}")]
    Conflict(String),
    /// The source is invalid or missing.
    #[error("{0}")]
    Source(String),
    /// The caller chose the source, so the caller has to correct it.
    #[error(transparent)]
    Unreachable(#[from] FetchError),
    #[error(transparent)]
    Executor(#[from] emergent_executor::Error),
    #[error(transparent)]
    Graph(#[from] emergent_graph::Error),
    #[error("a database operation of products failed")]
    Store(#[from] emergent_store::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The error for a product that cannot be uninstalled because others need it. There is no
    /// manifest that a pointer could refer to.
    pub(crate) fn cannot_remove(name: &str, problems: &[ManifestProblem]) -> Self {
        let reasons: Vec<String> = problems.iter().map(ManifestProblem::without_pointer).collect();
        Self::Conflict(format!("the product `{name}` cannot be removed: {}", reasons.join("; ")))
    }
}

/// Lists the problems, each on its own line if there are several.
fn join_problems(problems: &[ManifestProblem]) -> String {
    const SHOWN: usize = 200;
    if let [only] = problems {
        return only.to_string();
    }
    let mut lines: Vec<String> =
        problems.iter().take(SHOWN).map(|problem| format!("\n  {problem}")).collect();
    if problems.len() > SHOWN {
        lines.push(format!("\n  and {} more", problems.len() - SHOWN));
    }
    lines.concat()
}
