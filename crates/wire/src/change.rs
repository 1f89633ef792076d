//! Entries of the change feed of a graph.

use emergent_domain::{
    change::{Change, ChangeKind},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::author::AuthorView;

/// One committed change, as a frame of the feed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Change)]
pub struct ChangeView {
    /// Its place in the feed; also the frame's `id:`.
    pub position: String,
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "object_created")]
    pub type_: ChangeKind,
    /// The object, relationship or document.
    pub entity_id: Uuid,
    /// Its type; for documents, the MIME type.
    pub entity_type: String,
    pub version: i64,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    pub author: AuthorView,
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
