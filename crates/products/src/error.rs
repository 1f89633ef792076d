//! Why something about products could not be done; each kind has one HTTP status.

use semver::Version;

use crate::{fetch::FetchError, problem::ManifestProblem};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 404.
    #[error("the product `{0}` is not installed here")]
    NotInstalled(String),
    /// 404.
    #[error("there is no project `{0}`")]
    NoProject(String),
    /// 400: the manifest cannot be used anywhere, or not here.
    #[error("the manifest cannot be used: {}", join_problems(.0))]
    Manifest(Vec<ManifestProblem>),
    /// 409: what is in the project stands against it.
    #[error("the product does not go together with what is here: {}", join_problems(.0))]
    Incompatible(Vec<ManifestProblem>),
    /// 409.
    #[error("the product `{name}` is installed already, version {version}: upgrade it instead")]
    AlreadyInstalled { name: String, version: Version },
    /// 409.
    #[error("this is the manifest of `{found}`, not of `{name}`")]
    NameMismatch { name: String, found: String },
    /// 409: the state does not allow it; the message says what would.
    #[error("{0}")]
    Conflict(String),
    /// 400: not a source, or none is known.
    #[error("{0}")]
    Source(String),
    /// 400, since the caller named it.
    #[error(transparent)]
    Unreachable(#[from] FetchError),
    #[error(transparent)]
    Executor(#[from] emergent_executor::Error),
    #[error(transparent)]
    Graph(#[from] emergent_graph::Error),
    /// 500.
    #[error("the database of products failed")]
    Store(#[from] emergent_store::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A product that cannot go, since others need what it brought. There is no manifest to point
    /// into.
    pub(crate) fn cannot_remove(name: &str, problems: &[ManifestProblem]) -> Self {
        let told: Vec<String> = problems.iter().map(ManifestProblem::without_pointer).collect();
        Self::Conflict(format!("the product `{name}` cannot go: {}", told.join("; ")))
    }
}

fn join_problems(problems: &[ManifestProblem]) -> String {
    const SHOWN: usize = 5;
    let mut texts: Vec<String> = problems.iter().take(SHOWN).map(ManifestProblem::to_string).collect();
    if problems.len() > SHOWN {
        texts.push(format!("and {} more", problems.len() - SHOWN));
    }
    texts.join("; ")
}
