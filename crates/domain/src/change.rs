//! The change feed: the ordered list of committed graph changes.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{author::Author, ids::ProjectId, time::Timestamp};

macro_rules! kinds {
    ($($name:ident = $text:literal),* $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ChangeKind {
            $(#[serde(rename = $text)] $name),*
        }

        impl ChangeKind {
            pub const ALL: &[ChangeKind] = &[$(ChangeKind::$name),*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(ChangeKind::$name => $text),*
                }
            }
        }
    };
}

kinds! {
    ObjectCreated = "object_created",
    ObjectUpdated = "object_updated",
    ObjectDeleted = "object_deleted",
    ObjectRestored = "object_restored",
    RelationshipCreated = "relationship_created",
    RelationshipUpdated = "relationship_updated",
    RelationshipDeleted = "relationship_deleted",
    RelationshipRestored = "relationship_restored",
    DocumentIngested = "document_ingested",
    DocumentDeleted = "document_deleted",
    EmbeddingsDone = "embeddings_done",
}

/// A position in the change feed. PostgreSQL assigns `seq` before the transaction commits, so a
/// lower `seq` can become visible after a reader has already passed it. The position therefore
/// orders by transaction id first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct FeedPosition {
    pub txid: i64,
    pub seq: i64,
}

impl std::fmt::Display for FeedPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.txid, self.seq)
    }
}

impl std::str::FromStr for FeedPosition {
    type Err = crate::invalid::Invalid;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (txid, seq) = text.split_once('-')?;
            Some(Self { txid: txid.parse().ok()?, seq: seq.parse().ok()? })
        };
        read()
            .filter(|position: &Self| position.txid >= 0 && position.seq >= 0)
            .ok_or_else(|| crate::invalid::Invalid::new("after", "is not a position in the change feed"))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub position: FeedPosition,
    pub project: ProjectId,
    pub kind: ChangeKind,
    /// The id of the object, relationship or document.
    pub entity: Uuid,
    /// The type of the entity; for a document, its MIME type.
    pub entity_type: String,
    pub version: i64,
    pub at: Timestamp,
    pub author: Author,
}
