//! Why something in the graph could not be done; each kind has one HTTP status.

use emergent_domain::{ids::ObjectId, invalid::Invalid};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 404. Also for what is there, but in another project.
    #[error("there is no {what} `{id}`")]
    NotFound { what: &'static str, id: String },
    /// 400.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// 409: someone wrote in between.
    #[error("{what} `{id}` is at version {current}, not {expected}: read it again and repeat the change")]
    VersionConflict { what: &'static str, id: String, expected: i64, current: i64 },
    /// 409: keys are unique among the living of a type.
    #[error("the key `{key}` of type `{type_}` belongs to the object `{id}`")]
    KeyTaken { type_: String, key: String, id: ObjectId },
    /// 409: the state does not allow it; the message says what would.
    #[error("{message}")]
    Conflict { message: String },
    /// 401: it was good when the work began.
    #[error("the token was revoked or has expired, nothing more is done for it")]
    TokenEnded,
    /// 502: the embedder did not answer.
    #[error("could not embed the text")]
    Embedding(#[source] emergent_llm::Error),
    /// 500.
    #[error("the graph's database failed")]
    Store(#[from] emergent_store::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn not_found(what: &'static str, id: impl ToString) -> Self {
        Error::NotFound { what, id: id.to_string() }
    }

    /// The same error about one item of a list: `type` becomes `objects[3].type`.
    pub(crate) fn at_index(self, list: &str, index: usize) -> Self {
        match self {
            Error::Invalid(invalid) => Error::Invalid(invalid.prefixed(&format!("{list}[{index}]"))),
            other => other,
        }
    }
}
