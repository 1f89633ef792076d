//! Converts the description of a tool for the API.

use emergent_domain::tool_name;
use emergent_tools::{Effect, LabelledTool, NameConflicts};
pub(crate) use emergent_wire::tool::*;

use super::IntoView;

impl IntoView<ToolView> for (&LabelledTool, &NameConflicts) {
    fn into_view(self) -> ToolView {
        let (labelled, conflicts) = self;
        let tool = labelled.tool.info();
        let conflict = tool.server.as_deref().and_then(|server| conflicts.find_escaped(server, &tool.name));
        let (effect, repeatable) = match tool.effect {
            Effect::Reads => (ToolEffect::Reads, true),
            Effect::Writes { destructive: true } => (ToolEffect::Destroys, false),
            Effect::Writes { destructive: false } => (ToolEffect::Writes, false),
            Effect::External { read_only, idempotent } => (ToolEffect::External, read_only || idempotent),
            Effect::Coordinates | Effect::Asks => (ToolEffect::Coordinates, false),
        };
        ToolView {
            name: tool.name.clone(),
            qualified_name: tool
                .server
                .as_deref()
                .map(|server| tool_name::external::qualified(server, &tool.name)),
            called_as: labelled.label.clone(),
            conflict: conflict.map(IntoView::into_view),
            aliases: tool_name::aliases(&tool.name).map(str::to_owned).collect(),
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
