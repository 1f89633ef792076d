//! The card of one agent: the public one, and the extended one for callers with a token.

use std::collections::BTreeMap;

use emergent_domain::agent::{Agent, Visibility};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::PROTOCOL_VERSION;

/// The name of the only security scheme.
const SCHEME: &str = "bearer";
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
/// The extensions with which an extended card tells more than the fields of a card can.
const OUTPUT_SCHEMA_URI: &str = "urn:emergent:a2a:output-schema";
const RATE_LIMIT_URI: &str = "urn:emergent:a2a:rate-limit";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aAgentCard)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    pub name: String,
    pub description: String,
    /// The first one is preferred.
    pub supported_interfaces: Vec<AgentInterface>,
    /// The version of the agent's definition.
    pub version: String,
    pub capabilities: AgentCapabilities,
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    pub security_requirements: Vec<SecurityRequirement>,
    pub default_input_modes: Vec<String>,
    pub default_output_modes: Vec<String>,
    pub skills: Vec<AgentSkill>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aAgentInterface)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    pub url: String,
    /// `JSONRPC` or `HTTP+JSON`.
    pub protocol_binding: String,
    pub protocol_version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aAgentCapabilities)]
#[serde(rename_all = "camelCase")]
pub struct AgentCapabilities {
    pub streaming: bool,
    pub push_notifications: bool,
    pub extended_agent_card: bool,
    /// What an extended card tells besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<AgentExtension>,
}

/// Data about an agent that the fields of a card have no place for. A client that does not know it ignores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aAgentExtension)]
pub struct AgentExtension {
    pub uri: String,
    pub description: String,
    /// Always false: nothing depends on whether the client knows the extension.
    pub required: bool,
    #[schema(value_type = Object)]
    pub params: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aSecurityScheme)]
#[serde(rename_all = "camelCase")]
pub struct SecurityScheme {
    pub http_auth_security_scheme: HttpAuthSecurityScheme,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aHttpAuthSecurityScheme)]
pub struct HttpAuthSecurityScheme {
    pub description: String,
    pub scheme: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aSecurityRequirement)]
pub struct SecurityRequirement {
    pub schemes: BTreeMap<String, StringList>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aStringList)]
pub struct StringList {
    pub list: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aAgentSkill)]
pub struct AgentSkill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
}

/// Returns the card of an agent; `None` for one that is not external, or whose definition does not say how it is described
/// to the outside (`acp`). `endpoint` is the address of the agent.
pub fn agent_card(agent: &Agent, endpoint: &str) -> Option<AgentCard> {
    let definition = &agent.definition;
    if definition.visibility != Visibility::External {
        return None;
    }
    let acp = definition.acp.as_ref()?;
    let description = match acp.description.is_empty() {
        true => &definition.description,
        false => &acp.description,
    };
    let description = if description.is_empty() { &acp.display_name } else { description };
    let skill = |name: &String| AgentSkill {
        id: name.clone(),
        name: name.clone(),
        description: description.clone(),
        tags: vec![name.clone()],
    };
    let skills: Vec<AgentSkill> = match acp.capabilities.is_empty() {
        // A card has at least one skill.
        true => vec![skill(&definition.name)],
        false => acp.capabilities.iter().map(skill).collect(),
    };
    let interface = |url: String, binding: &str| AgentInterface {
        url,
        protocol_binding: binding.to_owned(),
        protocol_version: PROTOCOL_VERSION.to_owned(),
    };
    let scheme = HttpAuthSecurityScheme {
        description: "A token of the project with the scope `agents:invoke`.".to_owned(),
        scheme: "Bearer".to_owned(),
    };
    let requirement = SecurityRequirement {
        schemes: BTreeMap::from([(SCHEME.to_owned(), StringList { list: Vec::new() })]),
    };
    let mut default_output_modes = media_types(&acp.output_modes);
    if definition.output_schema.is_some() && !default_output_modes.iter().any(|mode| mode == JSON) {
        default_output_modes.push(JSON.to_owned());
    }
    Some(AgentCard {
        name: acp.display_name.clone(),
        description: description.clone(),
        supported_interfaces: vec![
            interface(endpoint.to_owned(), "JSONRPC"),
            interface(format!("{endpoint}/v1"), "HTTP+JSON"),
        ],
        version: agent.version.to_string(),
        capabilities: AgentCapabilities {
            streaming: true,
            push_notifications: true,
            extended_agent_card: true,
            extensions: Vec::new(),
        },
        security_schemes: BTreeMap::from([(
            SCHEME.to_owned(),
            SecurityScheme { http_auth_security_scheme: scheme },
        )]),
        security_requirements: vec![requirement],
        default_input_modes: media_types(&acp.input_modes),
        default_output_modes,
        skills,
    })
}

/// Returns the card for a caller that may invoke the agent. Besides the public card it has the schema of the output, if there
/// is one, and how often the caller may start the agent. An agent without a public card has none.
pub fn extended_card(agent: &Agent, endpoint: &str, starts_per_minute: usize) -> Option<AgentCard> {
    let mut card = agent_card(agent, endpoint)?;
    let mut add = |uri: &str, description: &str, params: Value| {
        card.capabilities.extensions.push(AgentExtension {
            uri: uri.to_owned(),
            description: description.to_owned(),
            required: false,
            params,
        });
    };
    if let Some(schema) = &agent.definition.output_schema {
        let description = "The JSON schema of the data part of an answer.";
        add(OUTPUT_SCHEMA_URI, description, json!({ "outputSchema": schema }));
    }
    let description = "How often one token may start the agent in a minute.";
    add(RATE_LIMIT_URI, description, json!({ "startsPerMinute": starts_per_minute }));
    Some(card)
}

/// The agent of a server's card: of those that have a card, the default agent of the project, or else the oldest.
pub fn default_agent(agents: &[Agent]) -> Option<&Agent> {
    let described = agents.iter().filter(|agent| agent.definition.acp.is_some());
    described.min_by_key(|agent| (!agent.definition.is_default, agent.created_at, agent.id))
}

/// The modes of a definition as media types. `text` and `structured` are the words of the definition; every agent
/// takes text.
fn media_types(modes: &[String]) -> Vec<String> {
    let mut types = vec![TEXT.to_owned()];
    for mode in modes {
        let mode = match mode.as_str() {
            "text" => TEXT,
            "structured" | "json" => JSON,
            other if other.contains('/') => other,
            _ => continue,
        };
        if !types.iter().any(|known| known == mode) {
            types.push(mode.to_owned());
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use emergent_domain::agent::{AcpConfig, AnswerAs};
    use serde_json::json;

    use super::*;
    use crate::samples;

    fn described(visibility: Visibility) -> Agent {
        let mut agent = samples::agent("finder", visibility);
        agent.definition.acp = Some(AcpConfig {
            display_name: "The finder".to_owned(),
            description: "Finds things.".to_owned(),
            capabilities: vec!["search".to_owned()],
            input_modes: vec!["text".to_owned()],
            output_modes: vec!["text".to_owned(), "structured".to_owned()],
            answer_as: AnswerAs::Task,
        });
        agent
    }

    #[test]
    fn a_card_says_where_and_how_the_agent_is_reached() {
        let agent = described(Visibility::External);
        let card = json!(agent_card(&agent, "https://example.com/a2a/default/finder"));
        let expected = json!({
            "name": "The finder",
            "description": "Finds things.",
            "supportedInterfaces": [
                {
                    "url": "https://example.com/a2a/default/finder",
                    "protocolBinding": "JSONRPC",
                    "protocolVersion": "1.0",
                },
                {
                    "url": "https://example.com/a2a/default/finder/v1",
                    "protocolBinding": "HTTP+JSON",
                    "protocolVersion": "1.0",
                },
            ],
            "version": "1",
            "capabilities": { "streaming": true, "pushNotifications": true, "extendedAgentCard": true },
            "securitySchemes": { "bearer": { "httpAuthSecurityScheme": {
                "description": "A token of the project with the scope `agents:invoke`.",
                "scheme": "Bearer",
            } } },
            "securityRequirements": [{ "schemes": { "bearer": { "list": [] } } }],
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain", "application/json"],
            "skills": [
                { "id": "search", "name": "search", "description": "Finds things.", "tags": ["search"] },
            ],
        });
        assert_eq!(card, expected);
    }

    #[test]
    fn an_extended_card_is_the_card_with_the_schema_of_the_output_and_the_rate_limit() {
        let mut agent = described(Visibility::External);
        agent.definition.output_schema = Some(json!({ "type": "object" }));
        let (public, extended) = (json!(agent_card(&agent, "")), json!(extended_card(&agent, "", 60)));
        assert!(public["capabilities"].get("extensions").is_none(), "{public}");
        let extensions = extended["capabilities"]["extensions"].as_array().expect("extensions");
        let params: Vec<&Value> = extensions.iter().map(|one| &one["params"]).collect();
        let schema = json!({ "outputSchema": { "type": "object" } });
        assert_eq!(params, [&schema, &json!({ "startsPerMinute": 60 })]);
        let mut without = extended.clone();
        without["capabilities"].as_object_mut().expect("an object").remove("extensions");
        assert_eq!(without, public);
        agent.definition.acp = None;
        assert!(extended_card(&agent, "", 60).is_none());
    }

    #[test]
    fn only_an_external_agent_that_describes_itself_has_a_card() {
        assert!(agent_card(&described(Visibility::Project), "").is_none());
        assert!(agent_card(&described(Visibility::Internal), "").is_none());
        assert!(agent_card(&samples::agent("finder", Visibility::External), "").is_none());
    }

    #[test]
    fn an_agent_without_capabilities_has_one_skill() {
        let mut agent = described(Visibility::External);
        if let Some(acp) = &mut agent.definition.acp {
            acp.capabilities.clear();
        }
        let card = agent_card(&agent, "").expect("a card");
        assert_eq!(card.skills.iter().map(|skill| skill.id.as_str()).collect::<Vec<_>>(), ["finder"]);
    }

    #[test]
    fn the_card_of_the_server_is_that_of_the_oldest_described_agent() {
        let undescribed = samples::agent("undescribed", Visibility::External);
        let mut younger = described(Visibility::External);
        younger.created_at = samples::at() + std::time::Duration::from_secs(1);
        let older = described(Visibility::External);
        let agents = [undescribed, younger, older];
        assert_eq!(default_agent(&agents).map(|agent| agent.id), Some(agents[2].id));
        assert!(default_agent(&agents[..1]).is_none());
    }

    #[test]
    fn the_default_agent_comes_before_older_ones_if_it_has_a_card() {
        let older = described(Visibility::External);
        let mut default = described(Visibility::External);
        default.created_at = samples::at() + std::time::Duration::from_secs(1);
        default.definition.is_default = true;
        let mut agents = [older, default];
        assert_eq!(default_agent(&agents).map(|agent| agent.id), Some(agents[1].id));
        agents[1].definition.acp = None;
        assert_eq!(default_agent(&agents).map(|agent| agent.id), Some(agents[0].id));
    }
}
