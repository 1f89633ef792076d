//! The list of models: the external agents of a project.

use emergent_domain::agent::{Agent, Visibility};
use serde::Serialize;
use utoipa::ToSchema;

use super::unix_seconds;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiModelList)]
pub struct ModelList {
    #[schema(example = "list")]
    pub object: &'static str,
    pub data: Vec<Model>,
}

/// An external agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiModel)]
pub struct Model {
    /// The name of the agent.
    pub id: String,
    #[schema(example = "model")]
    pub object: &'static str,
    /// When the agent was created, in seconds since 1970.
    pub created: i64,
    pub owned_by: &'static str,
}

/// Returns the list of these agents, without those that are not external.
pub fn model_list<'a>(agents: impl IntoIterator<Item = &'a Agent>) -> ModelList {
    let external = |agent: &&Agent| agent.definition.visibility == Visibility::External;
    ModelList { object: "list", data: agents.into_iter().filter(external).map(model).collect() }
}

/// Returns one agent as a model.
pub fn model(agent: &Agent) -> Model {
    Model {
        id: agent.definition.name.clone(),
        object: "model",
        created: unix_seconds(agent.created_at),
        owned_by: "emergent",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::agent;

    #[test]
    fn external_agents_are_models() {
        let agents = [
            agent("finder", Visibility::External),
            agent("worker", Visibility::Project),
            agent("part", Visibility::Internal),
        ];
        let expected = json!({ "object": "list", "data": [
            { "id": "finder", "object": "model", "created": 1_767_323_045, "owned_by": "emergent" },
        ]});
        assert_eq!(serde_json::to_value(model_list(&agents)).unwrap(), expected);
    }
}
