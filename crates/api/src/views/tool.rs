use emergent_domain::{token::Scope, tool_name};
use emergent_tools::{Effect, ToolInfo};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::token::ScopeView;

/// A tool of the project's pool.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Tool)]
pub(crate) struct ToolView {
    /// What an agent's `tools` may list.
    name: String,
    /// Other spellings, as good as the name.
    aliases: Vec<&'static str>,
    source: ToolSource,
    /// The external server it comes from; null for a built-in tool.
    server: Option<String>,
    description: String,
    /// JSON schema of the input.
    #[schema(value_type = Object)]
    input_schema: Value,
    effect: ToolEffect,
    /// Whether calling it again, after a crash or otherwise, does no harm.
    repeatable: bool,
    /// What a client from outside needs to call it; null: agents only.
    #[schema(value_type = Option<ScopeView>)]
    scope: Option<Scope>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToolSource {
    Builtin,
    Mcp,
}

/// What a call does to the world.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToolEffect {
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

impl From<&ToolInfo> for ToolView {
    fn from(tool: &ToolInfo) -> Self {
        let (effect, repeatable) = match tool.effect {
            Effect::Reads => (ToolEffect::Reads, true),
            Effect::Writes { destructive: true } => (ToolEffect::Destroys, false),
            Effect::Writes { destructive: false } => (ToolEffect::Writes, false),
            Effect::External { read_only, idempotent } => (ToolEffect::External, read_only || idempotent),
            Effect::Coordinates => (ToolEffect::Coordinates, false),
        };
        Self {
            name: tool.name.clone(),
            aliases: tool_name::aliases(&tool.name).collect(),
            source: if tool.server.is_some() { ToolSource::Mcp } else { ToolSource::Builtin },
            server: tool.server.clone(),
            description: tool.description.as_ref().to_owned(),
            input_schema: tool.input_schema.as_value().clone(),
            effect,
            repeatable,
            scope: tool.scope,
        }
    }
}
