//! Converts the names and versions of secrets for the API; never their values.

use emergent_secrets::{KeyRotation, SecretInfo};
pub(crate) use emergent_wire::secret::*;

use super::IntoView;

impl IntoView<SecretView> for SecretInfo {
    fn into_view(self) -> SecretView {
        let info = self;
        SecretView {
            name: info.name.to_string(),
            version: info.version,
            created_at: info.created_at,
            updated_at: info.updated_at,
            used_by: info.used_by,
        }
    }
}

impl IntoView<RotatedView> for KeyRotation {
    fn into_view(self) -> RotatedView {
        let rotation = self;
        RotatedView { key: rotation.key, resealed: rotation.resealed }
    }
}
