//! Lists what is probably a mistake in the agents of a project, such as tools that no server has, and the agents that
//! cannot start because the server cannot call their model.

use std::collections::BTreeMap;

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
    problem_finding,
    usable_models::{ModelProblem, UsableModels},
    warning_finding,
};
use crate::{client::Client, error::Result, messages};

const SECTION: &str = "agents";
/// The field of the warnings about models. All others are about tools.
const MODEL_FIELD: &str = "model";

pub async fn check_agents(
    client: &Client,
    label: &ProjectLabel,
    servers: &[McpServerView],
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
/// disabled on purpose, or a product brought it so.
fn tools_finding(agent: &AgentView, servers: &[McpServerView], label: &ProjectLabel) -> Option<Finding> {
    tool_warnings(agent).next()?;
    let (name, suffix, flag) = (&agent.name, label.suffix(), label.project_flag());
    if let Some((tools, disabled)) = tools_of_disabled_servers(agent, servers) {
        let found = format!(
            "`{name}` goes without {}, which no server has that is switched on; switched off: {}{suffix}",
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
    Some(problem_finding(SECTION, format!("`{name}`: {}{suffix}", reasons.join("; ")), fix))
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
    Some(warning_finding(SECTION, format!("`{}` cannot start: {reason}{}", agent.name, label.suffix())))
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The entries of an agent's tools that its warnings are about, and the disabled servers that may have these tools.
/// `None` if a warning cannot be explained in this way.
fn tools_of_disabled_servers<'a>(
    agent: &'a AgentView,
    servers: &'a [McpServerView],
) -> Option<(Vec<&'a str>, Vec<&'a str>)> {
    let (mut tools, mut names) = (Vec::new(), Vec::new());
    for warning in tool_warnings(agent) {
        let entry = tool_of_warning(agent, warning)?;
        let mut disabled: Vec<&McpServerView> =
            servers.iter().filter(|server| !server.enabled && may_have(server, entry)).collect();
        // A product brings its agents together with their servers.
        if agent.product.is_some() && disabled.iter().any(|server| server.product == agent.product) {
            disabled.retain(|server| server.product == agent.product);
        }
        if disabled.is_empty() {
            return None;
        }
        tools.push(entry);
        for server in disabled {
            if !names.contains(&server.name.as_str()) {
                names.push(server.name.as_str());
            }
        }
    }
    Some((tools, names))
}

/// The entry that a warning about `tools[1]` means.
fn tool_of_warning<'a>(agent: &'a AgentView, warning: &AgentWarningView) -> Option<&'a str> {
    let index = warning.field.strip_prefix("tools[")?.strip_suffix(']')?;
    agent.tools.get(index.parse::<usize>().ok()?).map(String::as_str)
}

/// Whether a tool of this server may be the one that an entry names.
fn may_have(server: &McpServerView, entry: &str) -> bool {
    match split_qualified(entry) {
        Some((of_server, _)) => glob_matches(of_server, &server.name),
        None => is_glob(entry) || filter_allows(&server.tool_filter, &server.name, entry),
    }
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
