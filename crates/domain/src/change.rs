//! The change feed: every committed change is an event, in the order of the feed.

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

/// A place in the feed. PostgreSQL hands out `seq` before a transaction commits, so `seq` alone
/// could appear behind a reader's back; ordered by transaction first, nothing can.
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
            .filter(|at: &Self| at.txid >= 0 && at.seq >= 0)
            .ok_or_else(|| crate::invalid::Invalid::new("after", "is not a place in the feed"))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub position: FeedPosition,
    pub project: ProjectId,
    pub kind: ChangeKind,
    /// The object, relationship or document.
    pub entity: Uuid,
    /// Its type; for documents, the MIME type.
    pub entity_type: String,
    pub version: i64,
    pub at: Timestamp,
    pub author: Author,
}
