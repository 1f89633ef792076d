//! The author of a version: the holder of a token, a run through one of its tool calls, or the
//! server.

use serde::{Deserialize, Serialize};

use crate::ids::{RunId, TokenId, ToolCallId};

/// The JSON is the one that tools show to models. The API has its own type, and the database has a
/// column for each id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Author {
    Token {
        id: TokenId,
    },
    Run {
        run_id: RunId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<ToolCallId>,
    },
    /// The server itself: built-in packs, migrations, and commands that work directly on a data
    /// directory.
    System,
}
