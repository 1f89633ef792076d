//! Converts the names and versions of secrets for the API; never their values.

use emergent_secrets::{KeyRotation, SecretDestination, SecretInfo};
pub(crate) use emergent_wire::secret::*;

use super::IntoView;

impl IntoView<SecretView> for SecretInfo {
    fn into_view(self) -> SecretView {
        let info = self;
        let used_by = info.destinations.iter().map(|destination| destination.server.clone()).collect();
        SecretView {
            name: info.name.to_string(),
            version: info.version,
            unchanged: info.is_unchanged,
            created_at: info.created_at,
            updated_at: info.updated_at,
            used_by,
            destinations: info.destinations.into_iter().map(IntoView::into_view).collect(),
        }
    }
}

impl IntoView<SecretDestinationView> for SecretDestination {
    fn into_view(self) -> SecretDestinationView {
        let destination = self;
        SecretDestinationView {
            server: destination.server,
            target: destination.target,
            allowed: destination.is_allowed,
        }
    }
}

impl IntoView<RotatedView> for KeyRotation {
    fn into_view(self) -> RotatedView {
        let rotation = self;
        RotatedView { key: rotation.key, resealed: rotation.resealed }
    }
}
