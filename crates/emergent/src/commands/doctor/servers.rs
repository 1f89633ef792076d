//! Checks the external MCP servers of a project by connecting to each, and lists tools that are held back.

use std::time::Duration;

use emergent_domain::{mcp_server::TransportKind, text::counted};
use emergent_wire::mcp_server::{InspectionView, McpServerView, McpToolView};
use futures_util::future::join_all;
use serde_json::json;

use super::{
    Finding,
    contents::ProjectLabel,
    neutral_finding, ok_finding, problem_finding,
    secrets::{MissingSecrets, listed},
};
use crate::{client::Client, commands::mcp_server::protocol_name, error::Result, text::with_note};

const SECTION: &str = "mcp servers";
/// How long the check waits for one server.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(15);

pub async fn check_servers(
    client: &Client,
    label: &ProjectLabel,
    servers: &[McpServerView],
    missing: &MissingSecrets,
) -> Result<Vec<Finding>> {
    let results = join_all(servers.iter().map(|server| check_server(client, label, server, missing))).await;
    let mut findings = Vec::new();
    for result in results {
        findings.extend(result?);
    }
    Ok(findings)
}

async fn check_server(
    client: &Client,
    label: &ProjectLabel,
    server: &McpServerView,
    missing: &MissingSecrets,
) -> Result<Vec<Finding>> {
    let (name, suffix, flag) = (&server.name, label.suffix(), label.project_flag());
    match server.status.as_str() {
        "disabled" => return Ok(vec![ok_finding(SECTION, format!("`{name}` is switched off{suffix}"))]),
        "blocked" => {
            let found = format!(
                "`{name}` is a program that is not run: EMERGENT_ALLOW_STDIO is false, or EMERGENT_STDIO_PROGRAMS \
                 no longer admits it for the project{suffix}"
            );
            return Ok(vec![ok_finding(SECTION, found)]);
        }
        _ => {}
    }
    let path = format!("/api/admin/mcp-servers/{}", server.id);
    let mut findings = vec![match inspect(client, &path).await? {
        Ok(inspection) => {
            let protocol = inspection.protocol.unwrap_or_default();
            let answers = describe_answer(server.transport, &protocol, inspection.tools.len());
            ok_finding(SECTION, format!("`{name}` {answers}{suffix}"))
        }
        // The finding about the secret says what to do.
        Err(_) if missing.contains_key(name) => {
            let secrets = listed(&missing[name]);
            neutral_finding(SECTION, format!("`{name}` needs {secrets} before it can be used{suffix}"))
        }
        Err(reason) => {
            let circuit_breaker = match server.left_alone_until {
                Some(until) => format!("; after three failures it was to be left alone until {until}"),
                None => String::new(),
            };
            let fix = format!(
                "`emergent mcp-server show {name}{flag}` tells how it is reached, `emergent mcp-server inspect \
                 {name}{flag}` tries again, `emergent mcp-server set {name} --enabled false{flag}` switches it off"
            );
            let found = with_note(&format!("`{name}` {reason}"), &format!("{circuit_breaker}{suffix}"));
            problem_finding(SECTION, found, fix)
        }
    }];
    if server.needs_confirmation {
        let found = format!(
            "`{name}` was configured before it was recorded by whom, and has the rights of an operator's{suffix}"
        );
        let fix = format!(
            "look at it with `emergent mcp-server show {name}{flag}`; with a token that spans projects, `emergent \
             mcp-server set {name} --enabled true{flag}` confirms it, and `--enabled false` switches it off"
        );
        findings.push(problem_finding(SECTION, found, fix));
    }
    // These are the tools as last listed, so a server that does not respond has them too.
    let tools: Vec<McpToolView> = client.get(&format!("{path}/tools")).await?.data().await?;
    let held_back: Vec<&str> =
        tools.iter().filter(|tool| tool.held_back).map(|tool| tool.name.as_str()).collect();
    if let Some(first) = held_back.first() {
        let found =
            format!("`{name}` has new or changed tools that are held back: {}{suffix}", held_back.join(", "));
        let fix = format!(
            "read what they say now with `emergent mcp-server tools {name}{flag}`, then take each with \
             `emergent mcp-server accept {name} {first}{flag}`"
        );
        findings.push(problem_finding(SECTION, found, fix));
    }
    Ok(findings)
}

/// What a server speaks and has: `answers, A2A 1.0, 1 tool`.
fn describe_answer(transport: TransportKind, protocol: &str, tools: usize) -> String {
    format!("answers, {} {protocol}, {}", protocol_name(transport), counted(tools, "tool"))
}

/// Connects to a server. The inner error says why the server could not be reached; the outer one is a
/// failed request to the API.
async fn inspect(client: &Client, path: &str) -> Result<Result<InspectionView, String>> {
    let (path, empty_body) = (format!("{path}/inspect"), json!({}));
    let Ok(response) = tokio::time::timeout(INSPECT_TIMEOUT, client.post(&path, &empty_body)).await else {
        return Ok(Err(format!("gave no answer within {} seconds", INSPECT_TIMEOUT.as_secs())));
    };
    let inspection: InspectionView = response?.data().await?;
    Ok(match inspection.error {
        Some(reason) => Err(reason),
        None => Ok(inspection),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_of_another_system_is_told_with_its_own_protocol() {
        assert_eq!(describe_answer(TransportKind::A2a, "1.0", 1), "answers, A2A 1.0, 1 tool");
        assert_eq!(describe_answer(TransportKind::Http, "2025-11-25", 2), "answers, MCP 2025-11-25, 2 tools");
    }
}
