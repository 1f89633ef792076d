//! Lists what is probably a mistake in the agents of a project, such as tools that no server has.

use emergent_wire::agent::AgentView;

use super::{Finding, contents::ProjectLabel, problem_finding};
use crate::{client::Client, error::Result};

pub async fn check_agents(client: &Client, label: &ProjectLabel) -> Result<Vec<Finding>> {
    let agents: Vec<AgentView> = client.get_all_pages("/api/admin/agents?include_internal=true").await?;
    let (suffix, flag) = (label.suffix(), label.project_flag());
    let finding = |agent: &AgentView| {
        let reasons: Vec<&str> = agent.warnings.iter().map(|warning| warning.reason.as_str()).collect();
        let (name, found) = (&agent.name, reasons.join("; "));
        let fix = format!(
            "`emergent agent show {name}{flag}` shows its tools, `emergent mcp-server list{flag}` the servers"
        );
        (!reasons.is_empty()).then(|| problem_finding("agents", format!("`{name}`: {found}{suffix}"), fix))
    };
    Ok(agents.iter().filter_map(finding).collect())
}
