use emergent_domain::time::Timestamp;
use emergent_secrets::{KeyRotation, SecretInfo};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What may be said of a secret: everything but its value.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Secret)]
pub(crate) struct SecretView {
    #[schema(example = "GITHUB_TOKEN")]
    name: String,
    /// One more with every value.
    version: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The project's external servers that mention it.
    used_by: Vec<String>,
}

impl From<SecretInfo> for SecretView {
    fn from(info: SecretInfo) -> Self {
        Self {
            name: info.name.to_string(),
            version: info.version,
            created_at: info.created_at,
            updated_at: info.updated_at,
            used_by: info.used_by,
        }
    }
}

/// It has no `Debug`, on purpose.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PutSecret {
    /// At most 65,536 bytes.
    #[schema(min_length = 6, max_length = 65536, write_only)]
    pub value: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RotatedKey)]
pub(crate) struct RotatedView {
    /// The id of the key that everything is sealed with now; not the key.
    key: String,
    /// How many secrets were sealed anew.
    resealed: u64,
}

impl From<KeyRotation> for RotatedView {
    fn from(rotated: KeyRotation) -> Self {
        Self { key: rotated.key, resealed: rotated.resealed }
    }
}
