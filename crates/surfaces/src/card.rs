//! The card of a project: its external agents, for callers who have no token yet.

use emergent_domain::agent::{Agent, Visibility};
use emergent_wire::invoke::{AgentCardView, CardEntryView};

use crate::invoke;

const SCHEMA_VERSION: &str = "1.0";

/// Returns the card of these agents, in their order. It has only external agents whose definition says how they are
/// described to the outside (`acp`).
pub fn card<'a>(agents: impl IntoIterator<Item = &'a Agent>) -> AgentCardView {
    let agents = agents.into_iter().filter_map(entry).collect();
    AgentCardView { schema_version: SCHEMA_VERSION.to_owned(), agents }
}

fn entry(agent: &Agent) -> Option<CardEntryView> {
    if agent.definition.visibility != Visibility::External {
        return None;
    }
    let acp = agent.definition.acp.clone()?;
    Some(CardEntryView {
        name: acp.display_name,
        description: acp.description,
        capabilities: acp.capabilities,
        input_modes: acp.input_modes,
        output_modes: acp.output_modes,
        endpoint: invoke::endpoint(agent.id),
    })
}

#[cfg(test)]
mod tests {
    use emergent_domain::agent::{AcpConfig, AnswerAs};
    use serde_json::json;

    use super::*;
    use crate::samples::agent;

    fn described(name: &str, visibility: Visibility) -> Agent {
        let acp = AcpConfig {
            display_name: format!("The {name}"),
            description: "Finds things.".to_owned(),
            capabilities: vec!["chat".to_owned()],
            input_modes: vec!["text".to_owned()],
            output_modes: vec!["text".to_owned(), "structured".to_owned()],
            answer_as: AnswerAs::Task,
        };
        let mut agent = agent(name, visibility);
        agent.definition.acp = Some(acp);
        agent
    }

    #[test]
    fn a_card_has_external_agents_that_describe_themselves_and_no_others() {
        let agents = [
            described("finder", Visibility::External),
            agent("undescribed", Visibility::External),
            described("project", Visibility::Project),
            described("internal", Visibility::Internal),
        ];
        let expected = json!({
            "schemaVersion": "1.0",
            "agents": [{
                "name": "The finder",
                "description": "Finds things.",
                "capabilities": ["chat"],
                "inputModes": ["text"],
                "outputModes": ["text", "structured"],
                "endpoint": format!("/api/agents/{}/invoke", agents[0].id),
            }],
        });
        assert_eq!(serde_json::to_value(card(&agents)).unwrap(), expected);
    }

    #[test]
    fn a_card_without_agents_is_an_empty_list() {
        assert_eq!(serde_json::to_value(card(&[])).unwrap(), json!({ "schemaVersion": "1.0", "agents": [] }));
    }
}
