//! The names by which models and clients call tools. A label has letters, digits, `_` and `-`, at most 64 of
//! them, since providers accept no others. The labels depend on all tools of a project and not on a
//! whitelist, so a tool has the same label for every agent.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use emergent_domain::tool_name::{self, GrantNames, external};
use sha2::{Digest, Sha256};

use crate::{Tool, ToolInfo};

/// The longest name of a tool that providers accept.
const MAX_CHARS: usize = 64;
/// How many hexadecimal digits of a hash are appended: the first number that makes a label unique.
const HASH_CHARS: [usize; 4] = [8, 16, 32, 48];

/// A tool of a project with the names that it has there.
pub struct LabelledTool {
    /// The name by which models and clients call the tool.
    pub label: String,
    pub tool: Arc<dyn Tool>,
    /// Whose tool the bare name means, if it does not mean this one.
    pub bare_name_owner: Option<BareNameOwner>,
}

/// Whose tool a bare name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BareNameOwner {
    Builtin,
    /// The server whose tool of this name was accepted first.
    Server(String),
}

impl LabelledTool {
    /// The names by which a whitelist grants the tool. A bare name always means the same tool. A pattern of
    /// bare names matches every tool, except that it does not match the name of a built-in tool that a
    /// server announces.
    pub fn grant_names(&self) -> GrantNames<'_> {
        let info = self.tool.info();
        let Some(server) = &info.server else { return GrantNames::builtin(&info.name) };
        let names = GrantNames::external(server, &info.name);
        match self.bare_name_owner {
            None => names,
            Some(BareNameOwner::Server(_)) => GrantNames { bare: None, ..names },
            Some(BareNameOwner::Builtin) => GrantNames { bare: None, pattern: &self.label, ..names },
        }
    }
}

/// `server.tool` for a tool of an external server; `None` for a built-in tool.
pub fn qualified_name(info: &ToolInfo) -> Option<String> {
    info.server.as_ref().map(|server| external::qualified(server, &info.name))
}

/// Whether a name can be a label as it is.
pub fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_CHARS && name.chars().all(is_plain_char)
}

fn is_plain_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Labels each tool. A built-in tool is called by its own name, and so is a tool whose bare name means it. The
/// others are told apart by their server: `server__tool`. A hash is appended only if that is too long, or
/// another tool has the label. `owners` is the server of each bare name; a name that it does not contain
/// belongs to the first tool of the list.
pub fn label_tools(
    tools: impl Iterator<Item = Arc<dyn Tool>>,
    owners: &HashMap<String, String>,
) -> Vec<LabelledTool> {
    let tools: Vec<_> = tools.collect();
    let builtin: HashSet<&str> = tools
        .iter()
        .map(|tool| tool.info())
        .filter(|info| info.server.is_none())
        .map(|info| &*info.name)
        .collect();
    let mut first_servers: HashMap<&str, &str> = HashMap::new();
    for info in tools.iter().map(|tool| tool.info()) {
        if let Some(server) = &info.server {
            first_servers.entry(&info.name).or_insert(server);
        }
    }
    let owner_of = |info: &ToolInfo| {
        let server = info.server.as_deref()?;
        if builtin.contains(tool_name::canonical(&info.name)) {
            return Some(BareNameOwner::Builtin);
        }
        let first = || first_servers.get(info.name.as_str()).copied();
        let owner = owners.get(&info.name).map(String::as_str).or_else(first).unwrap_or(server);
        (owner != server).then(|| BareNameOwner::Server(owner.to_owned()))
    };
    let other_owners: Vec<Option<BareNameOwner>> = tools.iter().map(|tool| owner_of(tool.info())).collect();
    // Bare names come first, so that no label of another form can take one of them.
    let mut labels: Vec<Option<String>> = tools
        .iter()
        .zip(&other_owners)
        .map(|(tool, other)| {
            let info = tool.info();
            let is_bare = info.server.is_none() || (other.is_none() && is_plain(&info.name));
            is_bare.then(|| info.name.clone())
        })
        .collect();
    let mut taken: HashSet<String> = labels.iter().flatten().cloned().collect();
    for (label, tool) in labels.iter_mut().zip(&tools).filter(|(label, _)| label.is_none()) {
        *label = qualified_label(tool.info(), &taken);
        taken.extend(label.clone());
    }
    let labelled = labels.into_iter().zip(tools).zip(other_owners);
    labelled
        .filter_map(|((label, tool), bare_name_owner)| {
            Some(LabelledTool { label: label?, tool, bare_name_owner })
        })
        .collect()
}

/// `server__tool`, or with a hash if that is too long or taken. `None` if every hash is taken.
fn qualified_label(info: &ToolInfo, taken: &HashSet<String>) -> Option<String> {
    let server = info.server.as_deref().unwrap_or_default();
    let name = info.name.replace(&*external::escape("."), "_");
    let readable: String =
        format!("{server}__{name}").chars().map(|c| if is_plain_char(c) { c } else { '_' }).collect();
    if readable.len() <= MAX_CHARS && !taken.contains(&readable) {
        return Some(readable);
    }
    let hash: String = Sha256::digest(external::qualified(server, &info.name))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut labels = HASH_CHARS.iter().map(|chars| {
        let prefix: String = readable.chars().take(MAX_CHARS - chars - 1).collect();
        format!("{prefix}_{}", hash.chars().take(*chars).collect::<String>())
    });
    labels.find(|label| !taken.contains(label))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Effect, ToolContext, ToolError, ToolOutput};

    struct Named(ToolInfo);

    #[async_trait]
    impl Tool for Named {
        fn info(&self) -> &ToolInfo {
            &self.0
        }
        async fn call(&self, _: &ToolContext, _: Value) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::Answer(json!({})))
        }
    }

    fn labels(tools: &[(Option<&str>, &str)], owners: &[(&str, &str)]) -> Vec<String> {
        let tool = |(server, name): &(Option<&str>, &str)| -> Arc<dyn Tool> {
            Arc::new(Named(ToolInfo {
                name: external::escape(name).into_owned(),
                server: server.map(str::to_owned),
                description: "".into(),
                input_schema: json!({}).into(),
                effect: Effect::Reads,
                scope: None,
            }))
        };
        let owners = owners.iter().map(|(name, server)| ((*name).to_owned(), (*server).to_owned())).collect();
        label_tools(tools.iter().map(tool), &owners).into_iter().map(|labelled| labelled.label).collect()
    }

    #[test]
    fn a_label_is_readable_and_only_told_apart_where_it_must_be() {
        assert_eq!(labels(&[(None, "get"), (Some("ref"), "add")], &[]), ["get", "add"]);
        assert_eq!(labels(&[(Some("a"), "add"), (Some("ref"), "add")], &[]), ["add", "ref__add"]);
        assert_eq!(labels(&[(Some("a"), "add"), (Some("ref"), "add")], &[("add", "ref")]), ["a__add", "add"]);
        assert_eq!(labels(&[(None, "get"), (Some("ref"), "get")], &[]), ["get", "ref__get"]);
        assert_eq!(
            labels(&[(Some("ref"), "repo.get"), (Some("b"), "a/b")], &[]),
            ["ref__repo_get", "b__a_b"]
        );
        assert_eq!(labels(&[(Some("b"), "add")], &[("add", "off")]), ["b__add"], "the owner is disabled");
    }

    #[test]
    fn a_hash_is_appended_on_a_collision_or_when_a_name_is_too_long() {
        let long = "x".repeat(100);
        let found = labels(&[(Some("ref"), &long)], &[]);
        assert!(found[0].len() == 64 && found[0].starts_with("ref__xxx"), "{found:?}");
        // One server takes the label that the tool of another would have.
        let tools = [(Some("a"), "add"), (Some("evil"), "ref__add"), (Some("ref"), "add")];
        let found = labels(&tools, &[]);
        assert_eq!(found[..2], ["add", "ref__add"]);
        assert!(found[2].starts_with("ref__add_") && found[2].len() == "ref__add_".len() + 8, "{found:?}");
        // And the one with the hash, too.
        let tools =
            [(Some("a"), "add"), (Some("evil"), "ref__add"), (Some("evil"), &found[2]), (Some("ref"), "add")];
        let again = labels(&tools, &[]);
        assert_eq!(again[3].len(), "ref__add_".len() + 16, "{again:?}");
    }

    #[test]
    fn every_label_is_one_that_providers_accept_and_is_unique() {
        let tools = [
            (None, "entities_get"),
            (Some("a"), "entities_get"),
            (Some("a"), "b.c"),
            (Some("a"), "b/c"),
            (Some("a__b"), "c"),
            (Some("a"), "b__c"),
            (Some("b"), "c"),
            (Some("a"), "create_entity"),
        ];
        let found = labels(&tools, &[]);
        assert_eq!(found.len(), tools.len());
        assert!(found.iter().all(|label| is_plain(label)), "{found:?}");
        assert_eq!(found.iter().collect::<HashSet<_>>().len(), found.len(), "{found:?}");
    }
}
