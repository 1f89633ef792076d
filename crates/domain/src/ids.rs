//! Ids are UUIDv7 values, so they sort by creation time. Each kind of id has its own type, so the
//! compiler rejects one in place of another.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($($name:ident),*) => {$(
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// Creates an id that sorts after every id this process has created before.
            #[expect(clippy::new_without_default, reason = "a default id would hide that each is new")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse().map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Uuid {
                id.0
            }
        }
    )*};
}

/// Calls a macro with the list of all id types, for code that needs an implementation per type.
#[macro_export]
macro_rules! for_each_id {
    ($with:ident) => {
        $with!(
            ProjectId,
            ObjectId,
            RelationshipId,
            TokenId,
            PackId,
            DocumentId,
            ChunkId,
            JobId,
            AgentId,
            MessageId,
            RunId,
            ToolCallId,
            ProductId,
            McpServerId,
            ScheduleId,
            FiringId,
            WorkflowId
        );
    };
}

for_each_id!(id);
