//! What a whitelist names and a run does not get: tools of servers that cannot be used, and tools that are
//! held back. The functions do no I/O.

use std::collections::BTreeSet;

use emergent_domain::{
    mcp_server::{McpServer, ToolStatus},
    run_event::UnavailableServer,
    tool_name::{self, GrantNames, external},
};

use crate::{
    ToolSet,
    labels::LabelledTool,
    remote::{HeldTool, RemoteTools},
};

/// The reasons why a server that a whitelist names is not used. Only a person can do something about them.
const NOT_A_SERVER: &str = "is not a server of this project";
const SWITCHED_OFF: &str = "is switched off";

/// The enabled servers whose tools a whitelist means: those of the granted tools, those that an entry
/// `server.tool` matches, and those whose tools are not known yet if an entry may mean one of them.
pub fn meant_servers(
    whitelist: &[String],
    remote: &RemoteTools,
    labelled: &[LabelledTool],
    granted: &ToolSet,
) -> Vec<McpServer> {
    let granted: BTreeSet<&str> = granted.servers().into_values().collect();
    // A pattern that matches known tools is not about unknown ones, unless it matches every name.
    let may_be_unknown = whitelist.iter().any(|entry| {
        let is_bare = external::split_qualified(entry).is_none();
        is_bare && (entry.chars().all(|c| c == '*') || !matches_any(entry, labelled))
    });
    let is_meant = |server: &&McpServer| {
        let name = server.name();
        granted.contains(name)
            || (server.listed_at.is_none() && may_be_unknown)
            || server_patterns(whitelist).any(|pattern| tool_name::glob_matches(pattern, name))
    };
    remote.servers.iter().filter(|server| server.enabled).filter(is_meant).cloned().collect()
}

/// The servers that a whitelist names exactly, and that are disabled or not in the project; and the disabled
/// servers that have the bare names of `unmatched`.
pub fn absent_servers(
    whitelist: &[String],
    unmatched: &[String],
    remote: &RemoteTools,
) -> Vec<UnavailableServer> {
    // Without a revision, the servers could not be read.
    if remote.revision < 0 {
        return Vec::new();
    }
    let mut names: BTreeSet<&str> =
        server_patterns(whitelist).filter(|pattern| !tool_name::is_glob(pattern)).collect();
    names.extend(unmatched.iter().filter_map(|name| remote.owners.get(name)).map(String::as_str));
    let unavailable = |name: &str, reason: &str| UnavailableServer {
        server: name.to_owned(),
        reason: reason.to_owned(),
        missing_secret: None,
    };
    names
        .into_iter()
        .filter_map(|name| match remote.servers.iter().find(|server| server.name() == name) {
            None => Some(unavailable(name, NOT_A_SERVER)),
            Some(server) if !server.enabled => Some(unavailable(name, SWITCHED_OFF)),
            Some(_) => None,
        })
        .collect()
}

/// The tools that a whitelist would grant if they were not held back.
pub fn held_tools(whitelist: &[String], remote: &RemoteTools) -> Vec<HeldTool> {
    let is_granted = |held: &&HeldTool| {
        tool_name::grant_for(whitelist, &GrantNames::external(&held.server, &held.name)).is_some()
    };
    remote.held.iter().filter(is_granted).cloned().collect()
}

/// The bare names of a whitelist that no tool of the project has.
pub fn unmatched_names(whitelist: &[String], labelled: &[LabelledTool]) -> Vec<String> {
    let is_bare_name =
        |entry: &&String| !tool_name::is_glob(entry) && external::split_qualified(entry).is_none();
    whitelist.iter().filter(is_bare_name).filter(|entry| !matches_any(entry, labelled)).cloned().collect()
}

/// The names of a whitelist that no tool of the project has. A tool that is held back exists.
pub fn missing_names(whitelist: &[String], labelled: &[LabelledTool], held: &[HeldTool]) -> Vec<String> {
    let is_held = |entry: &String| {
        let entry = std::slice::from_ref(entry);
        let names =
            |held: &HeldTool| tool_name::grant_for(entry, &GrantNames::external(&held.server, &held.name));
        held.iter().any(|held| names(held).is_some())
    };
    let names = whitelist.iter().filter(|entry| !tool_name::is_glob(entry));
    names.filter(|entry| !matches_any(entry, labelled) && !is_held(entry)).cloned().collect()
}

/// Why a tool that a model calls is not there; `None` if nothing is known of it.
pub fn explain(
    name: &str,
    unavailable: &[UnavailableServer],
    held: &[HeldTool],
    unmatched: &[String],
) -> Option<String> {
    let of_server = |server: &str, tool: Option<&str>| {
        let rest = name.strip_prefix(server);
        let rest = rest.and_then(|rest| rest.strip_prefix('.').or_else(|| rest.strip_prefix("__")));
        rest.is_some_and(|rest| tool.is_none_or(|tool| tool == rest || tool == external::escape(rest)))
    };
    if let Some(held) =
        held.iter().find(|held| held.name == name || of_server(&held.server, Some(&held.name)))
    {
        let state = if held.status == ToolStatus::New { "is new" } else { "has changed" };
        return Some(format!(
            "the tool `{name}` of the MCP server `{}` {state} and is held back until a person accepts it: \
             continue without it",
            held.server
        ));
    }
    let is_unmatched = unmatched.iter().any(|entry| entry == name);
    let reasons: Vec<String> = unavailable
        .iter()
        .filter(|server| is_unmatched || of_server(&server.server, None))
        .map(|server| match &server.missing_secret {
            Some(secret) => format!(
                "the MCP server `{}` cannot be used, because the secret `{secret}` is not set",
                server.server
            ),
            None => format!("the MCP server `{}` {}", server.server, server.reason),
        })
        .collect();
    (!reasons.is_empty())
        .then(|| format!("the tool `{name}` is not available: {}. Continue without it", reasons.join("; ")))
}

/// Why the agent of another system that executes a run cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingAgent {
    /// Completes a sentence that begins with the name of its server.
    pub reason: String,
    /// Whether trying again cannot help before a person has done something.
    pub needs_person: bool,
}

/// Why the agent of a server is not among the tools of a run.
pub fn explain_agent(server: &str, unavailable: &[UnavailableServer], held: &[HeldTool]) -> MissingAgent {
    let needs_person = |reason: String| MissingAgent { reason, needs_person: true };
    if let Some(held) = held.iter().find(|held| held.server == server) {
        let state = if held.status == ToolStatus::New { "is new" } else { "has changed" };
        return needs_person(format!("has a card that {state} and is held back until a person accepts it"));
    }
    match unavailable.iter().find(|one| one.server == server) {
        Some(UnavailableServer { missing_secret: Some(secret), .. }) => {
            needs_person(format!("needs the secret `{secret}`, which is not set"))
        }
        Some(UnavailableServer { reason, .. }) => {
            let needs_person = reason == NOT_A_SERVER || reason == SWITCHED_OFF;
            MissingAgent { reason: reason.clone(), needs_person }
        }
        // The servers may not have been read because of the database, so another attempt may find the agent.
        None => MissingAgent {
            reason: "has no agent: its transport is not `a2a`, its filter leaves the agent out, or it could not be \
                     looked up"
                .into(),
            needs_person: false,
        },
    }
}

/// Whether a bare entry grants one of the tools.
fn matches_any(entry: &str, labelled: &[LabelledTool]) -> bool {
    let entry = [entry.to_owned()];
    labelled.iter().any(|tool| tool_name::grant_for(&entry, &tool.grant_names()).is_some())
}

/// The names and patterns of servers in the entries `server.tool` of a whitelist.
fn server_patterns(whitelist: &[String]) -> impl Iterator<Item = &str> {
    whitelist.iter().filter_map(|entry| external::split_qualified(entry).map(|(server, _)| server))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable(server: &str, secret: Option<&str>) -> UnavailableServer {
        let reason = "could not be reached".to_owned();
        UnavailableServer { server: server.to_owned(), reason, missing_secret: secret.map(str::to_owned) }
    }

    #[test]
    fn the_explanation_names_the_server_and_the_missing_secret() {
        let servers = [unavailable("github", Some("GITHUB_TOKEN")), unavailable("web", None)];
        for name in ["github.create_issue", "github__create_issue"] {
            let text = explain(name, &servers, &[], &[]).unwrap();
            assert!(text.contains("`github`") && text.contains("`GITHUB_TOKEN`"), "{text}");
            assert!(!text.contains("`web`"), "{text}");
        }
        let text = explain("fetch", &servers, &[], &["fetch".to_owned()]).unwrap();
        assert!(text.contains("`github`") && text.contains("`web` could not be reached"), "{text}");
        assert_eq!(explain("fetch", &servers, &[], &[]), None, "nothing names it");
        assert_eq!(explain("githubs.create", &servers, &[], &[]), None);
    }

    #[test]
    fn the_explanation_of_a_missing_agent_names_the_one_cause() {
        let explain = |server: &str| {
            let gone = UnavailableServer { reason: NOT_A_SERVER.into(), ..unavailable("gone", None) };
            let servers = [unavailable("down", None), unavailable("keyed", Some("TOKEN")), gone];
            let held =
                [HeldTool { server: "held".into(), name: "agent".into(), status: ToolStatus::Changed }];
            explain_agent(server, &servers, &held)
        };
        for (server, reason, needs_person) in [
            ("down", "could not be reached", false),
            ("keyed", "needs the secret `TOKEN`", true),
            ("gone", "is not a server of this project", true),
            ("held", "has changed and is held back until a person accepts it", true),
            ("tickets", "has no agent", false),
        ] {
            let explained = explain(server);
            assert!(explained.reason.contains(reason), "{explained:?}");
            assert_eq!(explained.needs_person, needs_person, "{explained:?}");
        }
    }

    #[test]
    fn the_explanation_says_that_a_tool_is_held_back() {
        let held = [HeldTool { server: "hub".into(), name: "repo%2Eget".into(), status: ToolStatus::New }];
        let text = explain("hub.repo.get", &[], &held, &[]).unwrap();
        assert!(text.contains("is new and is held back"), "{text}");
        assert_eq!(explain("hub.other", &[], &held, &[]), None);
    }
}
