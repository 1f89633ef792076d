//! Lists what is probably a mistake in the agents of a project, such as tools that no server has, and the agents that
//! cannot start because the server cannot call their model.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::tool_name::{
    external::{filter_allows, split_qualified},
    glob_matches, is_glob,
};
use emergent_wire::{
    agent::{AgentView, AgentWarningView},
    mcp_server::McpServerView,
};

use super::{
    Finding,
    contents::ProjectLabel,
    neutral_finding, problem_finding,
    secrets::{self, MissingSecrets},
    usable_models::{MODEL_FIELD, ModelProblem, UsableModels, fix_of_model_warning},
    warning_finding,
};
use crate::{client::Client, error::Result, messages};

const SECTION: &str = "agents";
/// What a warning about a tool has if a known tool has nearly the name: then the name is misspelt, and no server brings it.
const NEAREST: &str = "did you mean";
/// How the warning begins about a pattern that matches no tool.
const UNMATCHED: &str = "the pattern `";

/// The MCP servers of a project, and the secrets that they wait for.
pub struct Servers<'a> {
    pub all: &'a [McpServerView],
    pub missing_secrets: &'a MissingSecrets,
}

impl Servers<'_> {
    /// Whether the tools of the server are missing for a reason that another finding has, or on purpose. If it has told
    /// its tools before, these are known, also while it waits for a secret.
    fn is_unavailable(&self, server: &McpServerView) -> bool {
        !server.enabled || (server.tool_count == 0 && self.missing_secrets.contains_key(&server.name))
    }

    /// The secrets that these servers wait for.
    fn secrets_of(&self, servers: &[&McpServerView]) -> BTreeSet<String> {
        servers
            .iter()
            .filter_map(|server| self.missing_secrets.get(&server.name))
            .flatten()
            .cloned()
            .collect()
    }
}

pub async fn check_agents(
    client: &Client,
    label: &ProjectLabel,
    servers: &Servers<'_>,
    models: Option<&UsableModels>,
) -> Result<Vec<Finding>> {
    let agents: Vec<AgentView> = client.get_all_pages("/api/admin/agents?include_internal=true").await?;
    let mut findings: Vec<Finding> =
        agents.iter().filter_map(|agent| tools_finding(agent, servers, label)).collect();
    findings.extend(agents.iter().filter_map(|agent| model_finding(agent, models, label)));
    findings.extend(models.into_iter().flat_map(|models| without_model(&agents, models, &label.suffix())));
    Ok(findings)
}

/// What is probably a mistake in the tools of an agent. Tools that a disabled server may bring are no problem: it was
/// disabled on purpose, or a product brought it so. Those of a server that waits for a secret are named with the secret.
fn tools_finding(agent: &AgentView, servers: &Servers<'_>, label: &ProjectLabel) -> Option<Finding> {
    tool_warnings(agent).next()?;
    let (name, suffix, flag) = (&agent.name, label.suffix(), label.project_flag());
    if let Some((tools, unavailable)) = tools_of_unavailable_servers(agent, servers) {
        let (waiting, disabled): (Vec<_>, Vec<_>) =
            unavailable.into_iter().partition(|server| server.enabled);
        let secrets = secrets::listed(&servers.secrets_of(&waiting));
        if disabled.is_empty() {
            let found = format!("`{name}` goes without {} until {secrets} is set{suffix}", quoted(&tools));
            return Some(neutral_finding(SECTION, found));
        }
        let disabled: Vec<&str> = disabled.iter().map(|server| server.name.as_str()).collect();
        let needed = if secrets.is_empty() { String::new() } else { format!("; not set: {secrets}") };
        let found = format!(
            "`{name}` goes without {}, which no server has that is switched on; switched off: {}{needed}{suffix}",
            quoted(&tools),
            quoted(&disabled)
        );
        let commands: Vec<String> = disabled
            .iter()
            .map(|server| format!("`emergent mcp-server set {server} --enabled true{flag}`"))
            .collect();
        let fix = format!("if it needs them: {}", commands.join(" or "));
        return Some(Finding { fix: Some(fix), ..warning_finding(SECTION, found) });
    }
    let reasons: Vec<&str> = tool_warnings(agent).map(|warning| warning.reason.as_str()).collect();
    let fix = format!(
        "`emergent agent show {name}{flag}` shows its tools, `emergent mcp-server list{flag}` the servers"
    );
    let found = format!("`{name}`: {}{suffix}", reasons.join("; "));
    // The agent can be saved with such a pattern, since tools may come later.
    if reasons.iter().all(|reason| reason.starts_with(UNMATCHED)) {
        return Some(Finding { fix: Some(fix), ..warning_finding(SECTION, found) });
    }
    Some(problem_finding(SECTION, found, fix))
}

fn tool_warnings(agent: &AgentView) -> impl Iterator<Item = &AgentWarningView> {
    agent.warnings.iter().filter(|warning| warning.field != MODEL_FIELD)
}

/// The finding that the provider of an agent does not have its model, such as a script that is missing.
fn model_finding(agent: &AgentView, models: Option<&UsableModels>, label: &ProjectLabel) -> Option<Finding> {
    let warning = agent.warnings.iter().find(|warning| warning.field == MODEL_FIELD)?;
    if models.is_some_and(|models| models.would_replace_model_of(agent)) {
        return None;
    }
    let reason = messages::translate(&warning.reason);
    let edit = format!("emergent agent edit {}{}", agent.name, label.project_flag());
    let fix = fix_of_model_warning(&reason, &edit);
    let found = format!("`{}` cannot start: {reason}{}", agent.name, label.suffix());
    Some(Finding { fix, ..warning_finding(SECTION, found) })
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The entries of an agent's tools that its warnings are about, and the servers that may have these tools and are disabled
/// or wait for a secret. `None` if a warning cannot be explained in this way.
fn tools_of_unavailable_servers<'a>(
    agent: &'a AgentView,
    servers: &Servers<'a>,
) -> Option<(Vec<&'a str>, Vec<&'a McpServerView>)> {
    let (mut tools, mut explaining): (_, Vec<&McpServerView>) = (Vec::new(), Vec::new());
    for warning in tool_warnings(agent) {
        let entry = tool_of_warning(agent, warning)?;
        let explains = |server: &&McpServerView| {
            servers.is_unavailable(server) && explains(server, agent, entry, warning)
        };
        let mut found: Vec<&McpServerView> = servers.all.iter().filter(explains).collect();
        // A product brings its agents together with their servers.
        if agent.product.is_some() && found.iter().any(|server| server.product == agent.product) {
            found.retain(|server| server.product == agent.product);
        }
        if found.is_empty() {
            return None;
        }
        tools.push(entry);
        for server in found {
            if explaining.iter().all(|known| known.name != server.name) {
                explaining.push(server);
            }
        }
    }
    Some((tools, explaining))
}

/// The entry that a warning about `tools[1]` means.
fn tool_of_warning<'a>(agent: &'a AgentView, warning: &AgentWarningView) -> Option<&'a str> {
    let index = warning.field.strip_prefix("tools[")?.strip_suffix(']')?;
    agent.tools.get(index.parse::<usize>().ok()?).map(String::as_str)
}

/// Whether an unavailable server is the probable reason for the warning about an entry. Every server may have a tool of a
/// bare name. So one that waits for a secret is the reason only if the agent came with it, and one that is switched off
/// unless the name is misspelt.
fn explains(server: &McpServerView, agent: &AgentView, entry: &str, warning: &AgentWarningView) -> bool {
    if let Some((of_server, _)) = split_qualified(entry) {
        return glob_matches(of_server, &server.name);
    }
    let may_have = is_glob(entry) || filter_allows(&server.tool_filter, &server.name, entry);
    let came_together = agent.product.is_some() && agent.product == server.product;
    may_have && (came_together || (!server.enabled && !warning.reason.contains(NEAREST)))
}

/// A warning for the agents that no request can start, one for each reason.
fn without_model(agents: &[AgentView], models: &UsableModels, suffix: &str) -> Vec<Finding> {
    let mut by_problem: BTreeMap<ModelProblem, Vec<&str>> = BTreeMap::new();
    for agent in agents {
        if let Some(problem) = models.problem(agent) {
            by_problem.entry(problem).or_default().push(&agent.name);
        }
    }
    let finding = |(problem, names): (ModelProblem, Vec<&str>)| {
        let reason = problem.reason.replace("its model", "the model");
        let found = format!("{} cannot start: {reason}{suffix}", quoted(&names));
        Finding { fix: Some(problem.fix), ..warning_finding(SECTION, found) }
    };
    by_problem.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "0198c0de-0000-7000-8000-000000000000";
    const TIME: &str = "2026-01-01T00:00:00Z";

    fn server(name: &str, enabled: bool, product: Option<&str>) -> McpServerView {
        serde_json::from_value(json!({ "id": ID, "name": name, "description": "", "transport": "stdio", "env": {},
            "toolFilter": ["*"], "pinPolicy": "pin", "trust": false, "timeoutSeconds": 30, "enabled": enabled,
            "product": product, "status": "new", "toolCount": 0, "heldBack": 0, "conflicts": 0, "createdAt": TIME,
            "updatedAt": TIME }))
        .unwrap()
    }

    /// An agent with these tools, none of which is known.
    fn agent(product: Option<&str>, tools: &[&str]) -> AgentView {
        let warnings: Vec<_> = tools
            .iter()
            .enumerate()
            .map(|(index, tool)| {
                let nearest = if *tool == MISSPELT { "; did you mean `entities_create`?" } else { "" };
                json!({ "field": format!("tools[{index}]"), "reason": format!("the tool `{tool}` is not known{nearest}") })
            })
            .collect();
        serde_json::from_value(json!({ "id": ID, "name": "seeker", "description": "", "systemPrompt": "",
            "tools": tools, "flowType": "single", "isDefault": false, "visibility": "internal", "config": {},
            "product": product, "version": 1, "createdAt": TIME, "updatedAt": TIME, "warnings": warnings }))
        .unwrap()
    }

    const MISSPELT: &str = "entites_create";

    fn finding_of(agent: &AgentView, all: &[McpServerView]) -> Finding {
        let missing =
            MissingSecrets::from([("brave".to_owned(), BTreeSet::from(["BRAVE_API_KEY".to_owned()]))]);
        let servers = Servers { all, missing_secrets: &missing };
        tools_finding(agent, &servers, &ProjectLabel::default()).unwrap()
    }

    #[test]
    fn tools_of_a_server_that_waits_for_a_secret_are_named_with_the_secret() {
        let all = [server("brave", true, Some("research")), server("other", true, None)];
        let waits = |product, tools: &[&str]| {
            let finding = finding_of(&agent(product, tools), &all);
            finding.ok && finding.found.ends_with("until BRAVE_API_KEY is set")
        };
        assert!(waits(None, &["brave.web_search"]), "the entry names the server");
        assert!(waits(Some("research"), &["web_search"]), "both are of one product");
        assert!(waits(Some("research"), &["web_search", "brave.images"]));
        assert!(!waits(None, &["web_search"]), "any server may have the tool");
        assert!(!waits(None, &[MISSPELT]));
        assert!(!waits(None, &["other.web_search"]));
        let mixed = finding_of(&agent(None, &["brave.web_search", MISSPELT]), &all);
        assert!(
            !mixed.ok && mixed.found.contains("`entites_create` is not known; did you mean"),
            "{mixed:?}"
        );
        let told = [McpServerView { tool_count: 2, ..server("brave", true, None) }];
        assert!(!finding_of(&agent(None, &["brave.web_serch"]), &told).ok, "its tools are known");
    }

    #[test]
    fn a_pattern_that_matches_no_tool_is_a_warning_and_no_problem() {
        let warned = |reasons: &[&str]| {
            let mut agent = agent(None, &["mail_*", "web_*"]);
            agent.warnings = reasons
                .iter()
                .map(|reason| {
                    serde_json::from_value(json!({ "field": "approvals[0].tools[0]", "reason": reason }))
                        .unwrap()
                })
                .collect();
            finding_of(&agent, &[])
        };
        let pattern = "the pattern `mail_*` matches no tool of this project";
        let finding = warned(&[pattern, "the pattern `web_*` matches no tool of this project"]);
        assert!(finding.ok && finding.found.contains("`mail_*`") && finding.fix.is_some(), "{finding:?}");
        let unreached = "the pattern `mial_*` matches no known tool; the MCP server `mail` was never reached, so its tools are not known";
        let finding = warned(&[unreached]);
        assert!(finding.ok && finding.found.contains("`mial_*` matches no known tool"), "{finding:?}");
        assert!(!warned(&[pattern, "the tool `mail` is not known"]).ok);
    }

    #[test]
    fn a_tool_that_a_disabled_server_may_bring_is_no_problem_unless_its_name_is_misspelt() {
        let all = [McpServerView { tool_count: 2, ..server("off", false, None) }];
        let is_ok = |tools: &[&str]| finding_of(&agent(None, tools), &all).ok;
        assert!(is_ok(&["web_search"]) && is_ok(&["off.web_search"]));
        assert!(!is_ok(&[MISSPELT]) && !is_ok(&["other.web_search"]));
    }
}
