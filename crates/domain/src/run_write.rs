//! What the tool calls of a run wrote to the graph, version by version.

use uuid::Uuid;

use crate::{
    agent::string_enum,
    ids::{ObjectId, RunId, ToolCallId},
    time::Timestamp,
};

string_enum! {
    WrittenKind {
        Object = "object",
        Relationship = "relationship",
        Document = "document",
    }
}

string_enum! {
    /// What a write did.
    WriteChange {
        Created = "created",
        Updated = "updated",
        Deleted = "deleted",
        Restored = "restored",
    }
}

impl WriteChange {
    /// Decides from a version, whether it is a tombstone, and whether the version before it was one.
    pub fn decide(version: i64, is_deleted: bool, was_deleted: bool) -> Self {
        match (version, is_deleted, was_deleted) {
            (_, true, _) => Self::Deleted,
            (..=1, false, _) => Self::Created,
            (_, false, true) => Self::Restored,
            (_, false, false) => Self::Updated,
        }
    }
}

/// One version of an object or a relationship, or a document, that a tool call wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunWrite {
    pub kind: WrittenKind,
    pub id: Uuid,
    /// The type of an object or a relationship; the MIME type of a document.
    pub type_: String,
    /// The key of an object, or the title of a document.
    pub name: Option<String>,
    /// The objects that a relationship connects, its start first.
    pub ends: Option<[ObjectId; 2]>,
    pub change: WriteChange,
    /// The version that was written.
    pub version: i64,
    /// The newest version, whoever wrote it.
    pub newest_version: i64,
    pub run: RunId,
    pub tool_call: Option<ToolCallId>,
    /// The tool of the call; `None` if the record no longer has the call.
    pub tool: Option<String>,
    pub step: Option<i64>,
    pub at: Timestamp,
}

impl RunWrite {
    /// The version before the write; `None` for what it created.
    pub fn version_before(&self) -> Option<i64> {
        (self.version > 1).then_some(self.version - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_and_the_one_before_it_say_what_a_write_did() {
        for (version, is_deleted, was_deleted, change) in [
            (1, false, false, WriteChange::Created),
            (2, false, false, WriteChange::Updated),
            (2, true, false, WriteChange::Deleted),
            (3, false, true, WriteChange::Restored),
        ] {
            assert_eq!(WriteChange::decide(version, is_deleted, was_deleted), change, "{version}");
        }
    }
}
