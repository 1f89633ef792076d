use emergent_domain::{
    change::{Change, ChangeKind},
    time::Timestamp,
};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::author::AuthorView;

/// One committed change, as a frame of the feed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Change)]
pub(crate) struct ChangeView {
    /// Its place in the feed; also the frame's `id:`.
    position: String,
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "object_created")]
    type_: ChangeKind,
    /// The object, relationship or document.
    entity_id: Uuid,
    /// Its type; for documents, the MIME type.
    entity_type: String,
    version: i64,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    author: AuthorView,
}

impl From<Change> for ChangeView {
    fn from(change: Change) -> Self {
        Self {
            position: change.position.to_string(),
            type_: change.kind,
            entity_id: change.entity,
            entity_type: change.entity_type,
            version: change.version,
            at: change.at,
            author: change.author.into(),
        }
    }
}
