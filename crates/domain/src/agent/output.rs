//! `outputSchema`: the JSON schema that the final answer of the agent must match.

use super::{AgentDefinition, FlowType};
use crate::{invalid::join_path, output_schema::OutputSchema};

impl AgentDefinition {
    pub(super) fn check_output_schema(&self, add_problem: &mut impl FnMut(&str, String)) {
        let Some(schema) = &self.output_schema else { return };
        if let Err(invalid) = OutputSchema::compile(schema) {
            for problem in invalid.problems {
                add_problem(&join_path("outputSchema", &problem.field), problem.reason);
            }
        }
        // The answer of such a flow is the texts of its parts below one another, which is never one JSON value.
        if self.flow_type == FlowType::Parallel {
            add_problem(
                "outputSchema",
                "is not for the flow type `parallel`, whose result joins the texts of its parts: give the parts \
                 output schemas of their own"
                    .into(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::agent::{AgentDefinition, AvailableNames, FlowConfig, FlowType};

    fn problems(definition: &AgentDefinition) -> Vec<(String, String)> {
        let available = AvailableNames { agents: vec!["b".into()], ..AvailableNames::default() };
        let invalid = definition.check(&available).err();
        let problems = invalid.into_iter().flat_map(|invalid| invalid.problems);
        problems.map(|problem| (problem.field, problem.reason)).collect()
    }

    #[test]
    fn an_output_schema_is_checked_when_the_definition_is_written() {
        let with = |schema| AgentDefinition { output_schema: Some(schema), ..AgentDefinition::new("a") };
        assert!(problems(&with(json!({ "type": "object" }))).is_empty());
        let wrong = problems(&with(json!({ "properties": { "n": { "type": "int" } } })));
        assert_eq!(wrong[0].0, "outputSchema.properties.n.type");
        assert_eq!(problems(&with(json!(true)))[0].0, "outputSchema");
    }

    #[test]
    fn a_flow_whose_result_joins_texts_has_no_output_schema() {
        let flow = |flow_type| AgentDefinition {
            output_schema: Some(json!({ "type": "object" })),
            flow_config: Some(FlowConfig { agents: vec!["b".into()], ..FlowConfig::default() }),
            flow_type,
            ..AgentDefinition::new("a")
        };
        assert!(problems(&flow(FlowType::Sequential)).is_empty());
        assert!(problems(&flow(FlowType::Loop)).is_empty());
        assert_eq!(problems(&flow(FlowType::Parallel))[0].0, "outputSchema");
    }
}
