//! What can go wrong with secrets. No text here ever holds a value or a key.

use std::path::PathBuf;

use emergent_domain::{ids::ProjectId, invalid::Invalid};

use crate::SecretName;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the secret key in {place} cannot be used: {reason}")]
    BadKey { place: String, reason: String },
    #[error(
        "the secrets of this database are sealed with the key `{wanted}`, and {place} has {held}. \
         Set EMERGENT_SECRET_KEY to the key `{wanted}` (it is in the file `secret-key` of the data \
         folder of the server that made it), or copy that file here"
    )]
    WrongKey { wanted: String, place: String, held: String },
    #[error("could not use the key file `{}`", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("there is no secret `{name}` in this project; `emergent secret set {name}` makes it")]
    NotFound { name: SecretName },
    #[error("there is no project `{0}` here")]
    NoProject(ProjectId),
    #[error("{0}")]
    Invalid(#[from] Invalid),
    #[error("{0}")]
    Conflict(String),
    #[error("the secret `{name}` cannot be opened: its row was changed or moved; set it again")]
    CannotUnseal { name: SecretName },
    #[error("the system gave no random bytes")]
    RandomUnavailable,
    #[error("could not reach the secrets in the database")]
    Store(#[from] emergent_store::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
