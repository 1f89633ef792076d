//! Lists what is probably a mistake in the agents of a project, such as tools that no server has, and the agents that
//! cannot start because the server cannot call their model.

use std::collections::BTreeMap;

use emergent_wire::agent::AgentView;

use super::{Finding, contents::ProjectLabel, problem_finding, usable_models::UsableModels, warning_finding};
use crate::{client::Client, error::Result};

const SECTION: &str = "agents";

pub async fn check_agents(
    client: &Client,
    label: &ProjectLabel,
    models: Option<&UsableModels>,
) -> Result<Vec<Finding>> {
    let agents: Vec<AgentView> = client.get_all_pages("/api/admin/agents?include_internal=true").await?;
    let (suffix, flag) = (label.suffix(), label.project_flag());
    let finding = |agent: &AgentView| {
        let reasons: Vec<&str> = agent.warnings.iter().map(|warning| warning.reason.as_str()).collect();
        let (name, found) = (&agent.name, reasons.join("; "));
        let fix = format!(
            "`emergent agent show {name}{flag}` shows its tools, `emergent mcp-server list{flag}` the servers"
        );
        (!reasons.is_empty()).then(|| problem_finding(SECTION, format!("`{name}`: {found}{suffix}"), fix))
    };
    let mut findings: Vec<Finding> = agents.iter().filter_map(finding).collect();
    findings.extend(models.into_iter().flat_map(|models| without_model(&agents, models, &suffix)));
    Ok(findings)
}

/// A warning for the agents that no request can start, one for each reason.
fn without_model(agents: &[AgentView], models: &UsableModels, suffix: &str) -> Vec<Finding> {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for agent in agents {
        if let Some(reason) = models.problem(agent) {
            by_reason.entry(reason).or_default().push(format!("`{}`", agent.name));
        }
    }
    let finding = |(reason, names): (String, Vec<String>)| {
        let found = format!(
            "{} cannot start: {}{suffix}",
            names.join(", "),
            reason.replace("its model", "the model")
        );
        let fix =
            "make that provider usable, or set EMERGENT_MODEL=provider/name, and start the server again";
        Finding { fix: Some(fix.to_owned()), ..warning_finding(SECTION, found) }
    };
    by_reason.into_iter().map(finding).collect()
}
