//! External MCP servers: reached for now, since what they said last may be long ago.

use std::time::Duration;

use emergent_wire::mcp_server::{InspectionView, McpServerView, McpToolView};
use futures_util::future::join_all;
use serde_json::json;

use super::{Finding, contents::ProjectLabel, ok_finding, problem_finding};
use crate::{client::Client, error::Result};

const SECTION: &str = "mcp servers";
/// How long one is waited for.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(15);

pub async fn check_servers(
    client: &Client,
    at: &ProjectLabel,
    servers: &[McpServerView],
) -> Result<Vec<Finding>> {
    let each = join_all(servers.iter().map(|server| check_server(client, at, server))).await;
    let mut findings = Vec::new();
    for found in each {
        findings.extend(found?);
    }
    Ok(findings)
}

async fn check_server(client: &Client, at: &ProjectLabel, server: &McpServerView) -> Result<Vec<Finding>> {
    let (name, place, flag) = (&server.name, at.suffix(), at.project_flag());
    match server.status.as_str() {
        "disabled" => return Ok(vec![ok_finding(SECTION, format!("`{name}` is switched off{place}"))]),
        "blocked" => {
            let found = format!("`{name}` is a program, and EMERGENT_ALLOW_STDIO is false{place}");
            return Ok(vec![ok_finding(SECTION, found)]);
        }
        _ => {}
    }
    let path = format!("/api/admin/mcp-servers/{}", server.id);
    let mut findings = vec![match inspect(client, &path).await? {
        Ok(seen) => {
            let (protocol, tools) = (seen.protocol.unwrap_or_default(), seen.tools.len());
            ok_finding(SECTION, format!("`{name}` answers, MCP {protocol}, {tools} tools{place}"))
        }
        Err(why) => {
            let rest = match server.left_alone_until {
                Some(until) => format!("; after three failures it was to be left alone until {until}"),
                None => String::new(),
            };
            let fix = format!(
                "`emergent mcp-server show {name}{flag}` tells how it is reached, `emergent mcp-server inspect \
                 {name}{flag}` tries again, `emergent mcp-server set {name} --enabled false{flag}` switches it off"
            );
            problem_finding(SECTION, format!("`{name}` {why}{rest}{place}"), fix)
        }
    }];
    // As they are known now: a server that does not answer has them as well.
    let tools: Vec<McpToolView> = client.get(&format!("{path}/tools")).await?.data().await?;
    let held: Vec<&str> = tools.iter().filter(|tool| tool.held_back).map(|tool| tool.name.as_str()).collect();
    if let Some(first) = held.first() {
        let found = format!("`{name}` changed tools that are held back: {}{place}", held.join(", "));
        let fix = format!(
            "read what they say now with `emergent mcp-server tools {name}{flag}`, then take each with \
             `emergent mcp-server accept {name} {first}{flag}`"
        );
        findings.push(problem_finding(SECTION, found, fix));
    }
    Ok(findings)
}

/// What it said, or why it could not be reached.
async fn inspect(client: &Client, path: &str) -> Result<Result<InspectionView, String>> {
    let (path, nothing) = (format!("{path}/inspect"), json!({}));
    let Ok(answer) = tokio::time::timeout(INSPECT_TIMEOUT, client.post(&path, &nothing)).await else {
        return Ok(Err(format!("gave no answer within {} seconds", INSPECT_TIMEOUT.as_secs())));
    };
    let seen: InspectionView = answer?.data().await?;
    Ok(match seen.error {
        Some(why) => Err(why),
        None => Ok(seen),
    })
}
