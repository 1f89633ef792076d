//! The tools that agents can use.

use emergent_domain::token::Scope;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{mcp_server::NameConflictView, schema};

/// A tool of the project's pool.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Tool)]
pub struct ToolView {
    /// What an agent's `tools` may list, unless there is a `conflict`.
    pub name: String,
    /// `server.tool`, which an agent's `tools` may always list; null for a built-in tool.
    pub qualified_name: Option<String>,
    /// The name by which models and MCP clients call it.
    pub called_as: String,
    /// Present if tools of other servers, or a built-in tool, have the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<NameConflictView>,
    /// Other spellings, as good as the name.
    pub aliases: Vec<String>,
    pub source: ToolSource,
    /// The external server it comes from; null for a built-in tool.
    pub server: Option<String>,
    pub description: String,
    /// JSON schema of the input.
    #[schema(value_type = Object)]
    pub input_schema: Value,
    pub effect: ToolEffect,
    /// Whether calling it again, after a crash or otherwise, does no harm.
    pub repeatable: bool,
    /// What a client from outside needs to call it; null: agents only.
    #[schema(value_type = Option<schema::Scope>)]
    pub scope: Option<Scope>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolSource {
    Builtin,
    Mcp,
}

/// What a call does to the world.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolEffect {
    /// Changes nothing.
    Reads,
    /// Changes the graph, together with the record of the call.
    Writes,
    /// As `writes`, and takes something away.
    Destroys,
    /// Does something elsewhere.
    External,
    /// Starts other agents, or looks for them.
    Coordinates,
}
