//! Errors of secrets. No message contains a value or a key.

use std::path::PathBuf;

use emergent_domain::{ids::ProjectId, invalid::Invalid};

use crate::SecretName;

/// Why an operation on secrets failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the secret key in {location} is invalid: {reason}")]
    BadKey { location: String, reason: String },
    #[error(
        "the secrets of this database are encrypted with the key `{required}`, but {location} has {available}. \
         Set EMERGENT_SECRET_KEY to the key `{required}` (it is in the file `secret-key` of the data \
         folder of the server that created it), or copy that file here"
    )]
    WrongKey { required: String, location: String, available: String },
    #[error("could not read or write the key file `{}`", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("there is no secret `{name}` in this project; `emergent secret set {name}` creates it")]
    NotFound { name: SecretName },
    /// A server would get a secret that was given for something else.
    #[error(
        "the secret `{name}` {refusal}. The token that gave its value, or one that spans projects, can allow it: \
         `emergent secret allow {name} --mcp-server {server}` (POST /api/admin/secrets/{name}/bindings)"
    )]
    NotBound {
        name: SecretName,
        server: String,
        target: String,
        /// Where the secret may be sent, and where not. It completes a sentence that begins with its name.
        refusal: String,
    },
    #[error(
        "another token gave the value of `{name}`, so this one cannot decide where it is sent: give the value \
         again (PUT /api/admin/secrets/{name}), or ask for a token that spans projects"
    )]
    GivenByOthers { name: SecretName },
    #[error("there is no MCP server `{0}` in this project")]
    NoServer(String),
    #[error("there is no project `{0}` here")]
    NoProject(ProjectId),
    #[error("{0}")]
    Invalid(#[from] Invalid),
    #[error("{0}")]
    Conflict(String),
    #[error("the secret `{name}` cannot be decrypted: its row was modified or moved; set the secret again")]
    CannotUnseal { name: SecretName },
    #[error("the operating system returned no random bytes")]
    RandomUnavailable,
    #[error("a database operation of secrets failed")]
    Store(#[from] emergent_store::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;
