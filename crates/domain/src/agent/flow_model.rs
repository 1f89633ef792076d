//! Agents that need no model: a flow whose parts are other agents only starts those.

use super::{AgentDefinition, FlowType, ModelConfig};

/// The provider of the model that stands in the run of such a flow if it could not be given another one. It is never
/// called.
const FLOW_PROVIDER: &str = "flow";

impl AgentDefinition {
    /// Returns whether no run of this agent calls a model. A flow that names no agents is its own only part, which
    /// calls one.
    pub fn calls_no_model(&self) -> bool {
        let parts = self.flow_config.as_ref().map_or(&[][..], |flow| &flow.agents);
        calls_no_model(self.flow_type, parts)
    }

    /// The model that stands in the run of a flow which has none.
    pub fn flow_model(&self) -> ModelConfig {
        ModelConfig {
            provider: FLOW_PROVIDER.to_owned(),
            name: self.flow_type.to_string(),
            temperature: None,
            max_tokens: None,
        }
    }
}

/// As [`AgentDefinition::calls_no_model`], for an agent of which the caller has these fields.
pub fn calls_no_model(flow_type: FlowType, parts: &[String]) -> bool {
    flow_type != FlowType::Single && !parts.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_flow_of_other_agents_calls_no_model() {
        let calls_none = |flow_type: &str, agents: &[&str]| {
            let flow_config = json!({ "agents": agents });
            let definition = json!({ "name": "flow", "flow_type": flow_type, "flow_config": flow_config });
            serde_json::from_value::<AgentDefinition>(definition).unwrap().calls_no_model()
        };
        for flow_type in ["sequential", "loop", "parallel"] {
            assert!(calls_none(flow_type, &["writer", "critic"]), "{flow_type}");
            assert!(!calls_none(flow_type, &[]), "{flow_type}: it is its only part");
        }
        assert!(!calls_none("single", &["writer"]), "only a flow starts its parts");
    }
}
