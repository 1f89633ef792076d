//! Ids are UUIDv7 values, so they sort by creation time. Each kind of id has its own type, so the
//! compiler rejects one in place of another.

use std::{fmt, str::FromStr};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Visitor},
};
use uuid::Uuid;

/// A text that is not an id. What the parser has to say about its characters helps nobody, so the message only
/// shows what an id looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an id such as `0190d3a1-7b2c-7e45-9f3a-5c8d2e1b4f60`")]
pub struct InvalidId;

/// Parses an id in any of the usual forms of a UUID.
pub fn parse_id(text: &str) -> Result<Uuid, InvalidId> {
    Uuid::parse_str(text).map_err(|_| InvalidId)
}

/// What is wrong with a name that looks like an id. Where an id or a name is expected, what looks like an id is one. So
/// such a name would be that of something else, or of nothing.
pub const NAME_IS_ID: &str = "must not look like an id: choose another name";

/// Whether a text is an id in any of the usual forms, so that nothing may have it as its name.
pub fn is_id(text: &str) -> bool {
    parse_id(text).is_ok()
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Uuid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Uuid, E> {
        parse_id(text).map_err(E::custom)
    }
}

macro_rules! id {
    ($($name:ident),*) => {$(
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
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
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse_id(text).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(IdVisitor).map(Self)
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
            WorkflowId,
            ApprovalId,
            BrowserSessionId,
            ConversationId,
            ChatMessageId
        );
    };
}

for_each_id!(id);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_id_is_told_what_an_id_looks_like() {
        for text in ["", "x", "zebra", "0190d3a1", "0190d3a1-7b2c-7e45-9f3a-5c8d2e1b4f6z"] {
            let message = text.parse::<RunId>().unwrap_err().to_string();
            assert_eq!(message, "must be an id such as `0190d3a1-7b2c-7e45-9f3a-5c8d2e1b4f60`");
            let read = serde_json::from_value::<RunId>(text.into()).unwrap_err().to_string();
            assert_eq!(read, message);
        }
        let number = serde_json::from_str::<RunId>("5").unwrap_err().to_string();
        assert!(number.starts_with("invalid type: integer `5`, expected an id"), "{number}");
        let id = RunId::new();
        assert_eq!(serde_json::from_value::<RunId>(serde_json::json!(id)).unwrap(), id);
    }
}
