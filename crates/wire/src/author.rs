//! The author of a version: a token, or a run and its tool call.

use emergent_domain::author::Author;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Who wrote a version.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schema(as = Author)]
pub enum AuthorView {
    /// The holder of a token.
    Token { id: Uuid },
    /// A run, through one of its tool calls.
    Run {
        #[serde(rename = "runId")]
        run_id: Uuid,
        #[serde(rename = "toolCallId", skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<Uuid>,
    },
    /// The server itself.
    System,
}

impl From<Author> for AuthorView {
    fn from(author: Author) -> Self {
        match author {
            Author::Token { id } => Self::Token { id: id.0 },
            Author::Run { run_id, tool_call_id } => {
                Self::Run { run_id: run_id.0, tool_call_id: tool_call_id.map(|call| call.0) }
            }
            Author::System => Self::System,
        }
    }
}
