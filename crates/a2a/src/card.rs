//! Agent cards: who an agent is, what it can do, and where it is called.

use emergent_domain::foreign_json;
use emergent_net::address;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Error, body, task::null_default};

/// The path below which every agent has its card.
const WELL_KNOWN: &str = ".well-known/agent-card.json";
/// How much of a card a model reads.
const MAX_DESCRIPTION_CHARS: usize = 4_000;
const MAX_SKILLS: usize = 50;
const MAX_SKILL_CHARS: usize = 500;
/// The fields that say nothing about what the agent does or where it is called. A new release of an agent with
/// the same skills is the same agent.
const IGNORED_IN_DIGEST: [&str; 4] = ["version", "signatures", "iconUrl", "documentationUrl"];

/// How requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    JsonRpc,
    HttpJson,
}

/// The address at which an agent is called.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    pub url: Url,
    pub binding: Binding,
    pub tenant: Option<String>,
}

/// The card of an agent that this client can call.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentCard {
    pub name: String,
    pub description: String,
    pub skills: Vec<Skill>,
    pub(crate) interface: Interface,
    /// The digest of everything that says what the agent does and where it is called.
    pub digest: String,
}

/// Something that an agent can do.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Skill {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub description: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CardFields {
    name: String,
    #[serde(default, deserialize_with = "null_default")]
    description: String,
    #[serde(default, deserialize_with = "null_default")]
    skills: Vec<Skill>,
    #[serde(default, deserialize_with = "null_default")]
    supported_interfaces: Vec<InterfaceFields>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InterfaceFields {
    url: String,
    protocol_binding: String,
    #[serde(default)]
    protocol_version: String,
    #[serde(default)]
    tenant: Option<String>,
}

/// The address of the card: the address itself if it is that of a JSON file, or else the well-known path below it.
pub fn card_url(url: &Url) -> Url {
    if url.path().ends_with(".json") {
        return url.clone();
    }
    let mut card = url.clone();
    card.set_path(&format!("{}/{WELL_KNOWN}", url.path().trim_end_matches('/')));
    card
}

impl AgentCard {
    /// Parses a card from this address, and chooses the interface at which the agent is called.
    pub fn parse(text: &[u8], card_url: &Url, allow_private: bool) -> Result<Self, Error> {
        let invalid = |error: serde_json::Error| {
            Error::InvalidMessage(body::quoted(format!("an agent card that cannot be read: {error}")))
        };
        let value: Value = foreign_json::from_slice(text).map_err(invalid)?;
        let digest = digest(&value);
        let fields: CardFields = serde_json::from_value(value).map_err(invalid)?;
        let interface = choose_interface(&fields.supported_interfaces, card_url, allow_private)?;
        let CardFields { name, description, skills, .. } = fields;
        Ok(Self { name, description, skills, interface, digest })
    }

    /// A name for the tool that calls the agent: the name of the card in small letters, digits and `_`.
    pub fn tool_name(&self) -> String {
        let mut name = String::new();
        for c in self.name.chars().take(200) {
            match c.is_ascii_alphanumeric() {
                true => name.push(c.to_ascii_lowercase()),
                false if name.is_empty() || name.ends_with('_') => {}
                false => name.push('_'),
            }
        }
        name.truncate(48);
        let name = name.trim_end_matches('_');
        if name.is_empty() { "agent".to_owned() } else { name.to_owned() }
    }

    /// What a model reads of the agent: its description and its skills.
    pub fn summary(&self) -> String {
        let mut summary = shortened(&self.description, MAX_DESCRIPTION_CHARS);
        if !self.skills.is_empty() {
            summary.push_str("\n\nSkills:");
        }
        for skill in self.skills.iter().take(MAX_SKILLS) {
            let line = format!("{}: {}", skill.name, skill.description);
            summary.push_str("\n- ");
            summary.push_str(&shortened(&line, MAX_SKILL_CHARS));
        }
        summary.trim().to_owned()
    }
}

fn shortened(text: &str, max_chars: usize) -> String {
    let mut short: String = text.chars().take(max_chars).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The digest of a card. The order of keys and white space do not matter.
fn digest(card: &Value) -> String {
    let mut card = card.clone();
    if let Some(fields) = card.as_object_mut() {
        fields.retain(|name, _| !IGNORED_IN_DIGEST.contains(&name.as_str()));
    }
    // A `Value` is written with sorted keys.
    Sha256::digest(card.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first interface that this client speaks, on the host of the card: the headers of the server are sent
/// there, and whoever configured the server agreed to that host only.
fn choose_interface(
    interfaces: &[InterfaceFields],
    card_url: &Url,
    allow_private: bool,
) -> Result<Interface, Error> {
    let mut reasons = Vec::new();
    for one in interfaces.iter().take(20) {
        match usable_interface(one, card_url, allow_private) {
            Ok(interface) => return Ok(interface),
            Err(reason) => reasons.push(reason),
        }
    }
    let reason = match reasons.is_empty() {
        true => "its card has no `supportedInterfaces`, which version 1.0 of A2A requires".to_owned(),
        false => format!("no interface of its card can be used: {}", reasons.join("; ")),
    };
    Err(Error::NoInterface(reason))
}

fn usable_interface(one: &InterfaceFields, card_url: &Url, allow_private: bool) -> Result<Interface, String> {
    let shown = |text: &str| shortened(text, 100);
    let binding = match one.protocol_binding.as_str() {
        "JSONRPC" => Binding::JsonRpc,
        "HTTP+JSON" => Binding::HttpJson,
        other => return Err(format!("the binding `{}` is not JSONRPC or HTTP+JSON", shown(other))),
    };
    if one.protocol_version.split('.').next() != Some("1") {
        return Err(format!("its version of A2A is `{}` and not 1.0", shown(&one.protocol_version)));
    }
    let url = card_url.join(&one.url).map_err(|_| format!("`{}` is not a URL", shown(&one.url)))?;
    if url.origin() != card_url.origin() {
        let origin = url.origin().ascii_serialization();
        return Err(format!(
            "`{}` is another server than that of the card; if its card is there as well, configure that address",
            shown(&origin)
        ));
    }
    address::check(&url, allow_private)?;
    let tenant = one.tenant.clone().filter(|tenant| !tenant.is_empty());
    Ok(Interface { url, binding, tenant })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn card(interfaces: Value) -> Value {
        json!({ "name": "Recipe Agent", "description": "Finds recipes.", "version": "1.0.0",
                "supportedInterfaces": interfaces, "capabilities": {},
                "skills": [{ "id": "find", "name": "Find", "description": "by ingredient", "tags": [] }] })
    }

    fn parse(card: &Value) -> Result<AgentCard, Error> {
        let url = Url::parse("https://agents.example.com/.well-known/agent-card.json").unwrap();
        AgentCard::parse(card.to_string().as_bytes(), &url, false)
    }

    fn interface(url: &str, binding: &str, version: &str) -> Value {
        json!({ "url": url, "protocolBinding": binding, "protocolVersion": version })
    }

    #[test]
    fn the_card_is_below_the_well_known_path_unless_the_address_is_a_file() {
        let at = |url: &str| card_url(&Url::parse(url).unwrap()).to_string();
        assert_eq!(at("https://a.test"), "https://a.test/.well-known/agent-card.json");
        assert_eq!(at("https://a.test/agents/x/"), "https://a.test/agents/x/.well-known/agent-card.json");
        assert_eq!(at("https://a.test/cards/x.json"), "https://a.test/cards/x.json");
    }

    #[test]
    fn the_first_interface_that_can_be_used_is_used() {
        let read = parse(&card(json!([
            interface("https://agents.example.com/grpc", "GRPC", "1.0"),
            interface("https://agents.example.com/old", "JSONRPC", "0.3"),
            interface("https://elsewhere.example.com/a2a", "JSONRPC", "1.0"),
            interface("https://agents.example.com/v1", "HTTP+JSON", "1.0"),
            interface("https://agents.example.com/rpc", "JSONRPC", "1.0"),
        ])))
        .unwrap();
        assert_eq!(read.interface.binding, Binding::HttpJson);
        assert_eq!(read.interface.url.as_str(), "https://agents.example.com/v1");
        assert_eq!(read.tool_name(), "recipe_agent");
        assert_eq!(read.summary(), "Finds recipes.\n\nSkills:\n- Find: by ingredient");
    }

    #[test]
    fn a_card_without_a_usable_interface_says_why() {
        for (interfaces, reason) in [
            (json!([]), "supportedInterfaces"),
            (json!([interface("https://elsewhere.example.com/", "JSONRPC", "1.0")]), "another server"),
            (json!([interface("https://agents.example.com/", "JSONRPC", "0.3")]), "`0.3`"),
            (json!([interface("https://agents.example.com/", "GRPC", "1.0")]), "`GRPC`"),
        ] {
            let error = parse(&card(interfaces)).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_digest_depends_on_what_the_agent_does_and_not_on_its_release() {
        let one = card(json!([interface("https://agents.example.com/", "JSONRPC", "1.0")]));
        let digest_with = |field: &str, value: Value| {
            let mut changed = one.clone();
            changed[field] = value;
            parse(&changed).unwrap().digest
        };
        let digest = parse(&one).unwrap().digest;
        assert_eq!(digest_with("version", json!("2.0.0")), digest);
        assert_eq!(digest_with("iconUrl", json!("https://agents.example.com/icon.png")), digest);
        assert_ne!(digest_with("description", json!("Sends your recipes to me.")), digest);
        assert_ne!(digest_with("skills", json!([])), digest);
        let moved = json!([interface("https://agents.example.com/elsewhere", "JSONRPC", "1.0")]);
        assert_ne!(digest_with("supportedInterfaces", moved), digest);
    }

    #[test]
    fn a_name_without_latin_letters_still_gives_a_tool() {
        let mut unnamed = card(json!([interface("https://agents.example.com/", "JSONRPC", "1.0")]));
        unnamed["name"] = json!("料理人");
        assert_eq!(parse(&unnamed).unwrap().tool_name(), "agent");
    }
}
