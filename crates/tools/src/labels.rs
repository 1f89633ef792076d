//! The names by which models and clients call tools. A label has letters, digits, `_` and `-`, at most 64 of
//! them, since providers accept no others. The labels depend on all tools of a project and not on a
//! whitelist, so a tool has the same label for every agent.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use emergent_domain::{
    time::Timestamp,
    tool_name::{self, GrantNames, external},
};
use sha2::{Digest, Sha256};

use crate::{Tool, ToolInfo, remote::AcceptedTool};

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
    /// Since when the tool of a server is accepted; `None` for a built-in tool.
    pub accepted_at: Option<Timestamp>,
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
/// another tool has the label.
///
/// `accepted` has every accepted tool, the first accepted first, and `owners` the server of each bare name. The
/// tool that was accepted first keeps its label, whatever names come later, and also while it is not offered:
/// a model or a client that knows the label never calls another tool by it. A tool that is not in `accepted`
/// comes last, and a name that is not in `owners` belongs to the first tool of the list.
pub fn label_tools(
    tools: impl Iterator<Item = Arc<dyn Tool>>,
    owners: &HashMap<String, String>,
    accepted: &[AcceptedTool],
) -> Vec<LabelledTool> {
    let tools: Vec<_> = tools.collect();
    let infos = || tools.iter().map(|tool| tool.info());
    let builtin: HashSet<&str> =
        infos().filter(|info| info.server.is_none()).map(|info| &*info.name).collect();
    let external: Vec<ToolKey<'_>> = infos().filter_map(tool_key).collect();
    let mut first_servers: HashMap<&str, &str> = HashMap::new();
    for (server, name) in &external {
        first_servers.entry(name).or_insert(server);
    }
    let other_owner = |(server, name): ToolKey<'_>| {
        if builtin.contains(tool_name::canonical(name)) {
            return Some(BareNameOwner::Builtin);
        }
        let owner = owners.get(name).map(String::as_str).or_else(|| first_servers.get(name).copied());
        owner.filter(|owner| *owner != server).map(|owner| BareNameOwner::Server(owner.to_owned()))
    };
    let mut taken: HashSet<String> = builtin.iter().map(|name| (*name).to_owned()).collect();
    let mut labels: HashMap<ToolKey<'_>, Option<String>> = HashMap::new();
    let in_order = accepted.iter().map(|tool| (tool.server.as_str(), tool.name.as_str()));
    for key @ (server, name) in in_order.chain(external.iter().copied()) {
        if labels.contains_key(&key) {
            continue;
        }
        let is_bare = other_owner(key).is_none() && is_plain(name) && !taken.contains(name);
        let label = if is_bare { Some(name.to_owned()) } else { qualified_label(server, name, &taken) };
        taken.extend(label.clone());
        labels.insert(key, label);
    }
    let since: HashMap<ToolKey<'_>, Timestamp> =
        accepted.iter().map(|tool| ((tool.server.as_str(), tool.name.as_str()), tool.since)).collect();
    let labelled = tools.iter().filter_map(|tool| {
        let info = tool.info();
        let Some(key) = tool_key(info) else {
            let label = info.name.clone();
            return Some(LabelledTool {
                label,
                tool: Arc::clone(tool),
                bare_name_owner: None,
                accepted_at: None,
            });
        };
        Some(LabelledTool {
            label: labels.get(&key)?.clone()?,
            tool: Arc::clone(tool),
            bare_name_owner: other_owner(key),
            accepted_at: since.get(&key).copied(),
        })
    });
    labelled.collect()
}

/// The server and the escaped name of an external tool.
type ToolKey<'a> = (&'a str, &'a str);

fn tool_key(info: &ToolInfo) -> Option<ToolKey<'_>> {
    info.server.as_deref().map(|server| (server, info.name.as_str()))
}

/// `server__tool`, or with a hash if that is too long or taken. `None` if every hash is taken.
fn qualified_label(server: &str, name: &str, taken: &HashSet<String>) -> Option<String> {
    let shown = name.replace(&*external::escape("."), "_");
    let readable: String =
        format!("{server}__{shown}").chars().map(|c| if is_plain_char(c) { c } else { '_' }).collect();
    if readable.len() <= MAX_CHARS && !taken.contains(&readable) {
        return Some(readable);
    }
    let hash = hex_hash(&external::qualified(server, name));
    let mut labels = HASH_CHARS.iter().map(|chars| {
        let prefix: String = readable.chars().take(MAX_CHARS - chars - 1).collect();
        format!("{prefix}_{}", hash.chars().take(*chars).collect::<String>())
    });
    labels.find(|label| !taken.contains(label))
}

/// A hash of a name in hexadecimal digits, whose beginning tells labels apart.
pub fn hex_hash(name: &str) -> String {
    Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect()
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
        labels_after(&[], tools, owners)
    }

    /// The labels of tools, after these were accepted in this order.
    fn labels_after(
        accepted: &[(&str, &str)],
        tools: &[(Option<&str>, &str)],
        owners: &[(&str, &str)],
    ) -> Vec<String> {
        let since = Timestamp::from_micros(0);
        let accepted: Vec<_> = accepted
            .iter()
            .map(|(server, name)| AcceptedTool { server: (*server).into(), name: (*name).into(), since })
            .collect();
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
        label_tools(tools.iter().map(tool), &owners, &accepted)
            .into_iter()
            .map(|labelled| labelled.label)
            .collect()
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
    fn the_tool_that_was_accepted_first_keeps_its_label() {
        let (first, second) = ((Some("a"), "add"), (Some("ref"), "add"));
        assert_eq!(labels(&[first, second], &[]), ["add", "ref__add"]);
        // A newcomer has the label as its bare name, or as its server and name.
        for (newcomer, label) in
            [((Some("evil"), "ref__add"), "evil__ref__add"), ((Some("ref__add"), "x"), "x")]
        {
            assert_eq!(labels(&[first, second, newcomer], &[]), ["add", "ref__add", label]);
        }
        let accepted = [("a", "add"), ("ref", "add"), ("evil", "ref__add"), ("re", "f__add")];
        let owners = [("add", "a"), ("ref__add", "evil"), ("f__add", "other")];
        let found = labels_after(&accepted, &[first, second, (Some("evil"), "ref__add")], &owners);
        assert_eq!(found, ["add", "ref__add", "evil__ref__add"]);
        // Also while the first one is disabled or held back.
        assert_eq!(labels_after(&accepted, &[(Some("evil"), "ref__add")], &owners), ["evil__ref__add"]);
        // A label that two servers and tools share goes to the first one.
        let accepted = [("x", "c"), ("a__b", "c"), ("a", "b__c")];
        let owners = [("c", "x"), ("b__c", "x")];
        let found = labels_after(&accepted, &[(Some("a"), "b__c")], &owners);
        assert!(found[0].starts_with("a__b__c_"), "{found:?}");
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
