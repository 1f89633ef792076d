//! Secrets: their names and versions, and requests to set a value. No response contains a value.

use emergent_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What may be said of a secret: everything but its value.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Secret)]
pub struct SecretView {
    #[schema(example = "GITHUB_TOKEN")]
    pub name: String,
    /// One more with every value.
    pub version: i64,
    /// True after a `PUT` of the value that the secret had, by the token that gave it; absent otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// The project's external servers that mention it.
    pub used_by: Vec<String>,
    /// Where these servers would send it, and whether they may.
    #[serde(default)]
    pub destinations: Vec<SecretDestinationView>,
}

/// A server that mentions a secret.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = SecretDestination)]
pub struct SecretDestinationView {
    pub server: String,
    /// The origin of its URL, or its program with variables and arguments.
    #[schema(example = "https://mcp.example.com")]
    pub target: String,
    /// False: the server does not get the secret until `POST /api/admin/secrets/{name}/bindings`.
    pub allowed: bool,
}

/// A server that is to get a secret, at its current address or program.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BindSecret {
    /// The name of an external server that mentions the secret.
    #[schema(example = "github")]
    pub server: String,
}

/// It has no `Debug`, on purpose.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutSecret {
    /// At most 65,536 bytes.
    #[schema(min_length = 6, max_length = 65536, write_only)]
    pub value: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RotatedKey)]
pub struct RotatedView {
    /// The id of the key that everything is sealed with now; not the key.
    pub key: String,
    /// How many secrets were sealed anew.
    pub resealed: u64,
}
