//! External MCP servers: reached for now, since what they said last may be long ago.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{
    Finding, bad,
    contents::{Place, text},
    good,
};
use crate::{client::Client, error::Result};

const WHAT: &str = "mcp servers";
/// How long one is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

pub async fn look(client: &Client, at: &Place, servers: &[Value]) -> Result<Vec<Finding>> {
    let each = join_all(servers.iter().map(|server| one(client, at, server))).await;
    let mut findings = Vec::new();
    for found in each {
        findings.extend(found?);
    }
    Ok(findings)
}

async fn one(client: &Client, at: &Place, server: &Value) -> Result<Vec<Finding>> {
    let (name, place, flag) = (text(&server["name"]), at.told(), at.flag());
    match text(&server["status"]) {
        "disabled" => return Ok(vec![good(WHAT, format!("`{name}` is switched off{place}"))]),
        "blocked" => {
            let found = format!("`{name}` is a program, and EMERGENT_ALLOW_STDIO is false{place}");
            return Ok(vec![good(WHAT, found)]);
        }
        _ => {}
    }
    let path = format!("/api/admin/mcp-servers/{}", text(&server["id"]));
    let mut findings = vec![match reach(client, &path).await? {
        Ok(seen) => {
            let (protocol, tools) = (text(&seen["protocol"]), seen["tools"].as_array().map_or(0, Vec::len));
            good(WHAT, format!("`{name}` answers, MCP {protocol}, {tools} tools{place}"))
        }
        Err(why) => {
            let rest = match server["leftAloneUntil"].as_str() {
                Some(until) => format!("; after three failures it was to be left alone until {until}"),
                None => String::new(),
            };
            let fix = format!(
                "`emergent mcp-server show {name}{flag}` tells how it is reached, `emergent mcp-server inspect \
                 {name}{flag}` tries again, `emergent mcp-server set {name} --enabled false{flag}` switches it off"
            );
            bad(WHAT, format!("`{name}` {why}{rest}{place}"), fix)
        }
    }];
    // As they are known now: a server that does not answer has them as well.
    let tools: Vec<Value> = client.get(&format!("{path}/tools")).await?.data().await?;
    let held: Vec<&str> =
        tools.iter().filter(|tool| tool["heldBack"] == true).map(|tool| text(&tool["name"])).collect();
    if let Some(first) = held.first() {
        let found = format!("`{name}` changed tools that are held back: {}{place}", held.join(", "));
        let fix = format!(
            "read what they say now with `emergent mcp-server tools {name}{flag}`, then take each with \
             `emergent mcp-server accept {name} {first}{flag}`"
        );
        findings.push(bad(WHAT, found, fix));
    }
    Ok(findings)
}

/// What it said, or why it could not be reached.
async fn reach(client: &Client, path: &str) -> Result<Result<Value, String>> {
    let (path, nothing) = (format!("{path}/inspect"), json!({}));
    let Ok(answer) = tokio::time::timeout(PATIENCE, client.post(&path, &nothing)).await else {
        return Ok(Err(format!("gave no answer within {} seconds", PATIENCE.as_secs())));
    };
    let seen: Value = answer?.data().await?;
    match seen["error"].as_str() {
        Some(why) => Ok(Err(why.to_owned())),
        None => Ok(Ok(seen)),
    }
}
