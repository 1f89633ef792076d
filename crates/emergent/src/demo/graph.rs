//! The graph a workflow leaves, as the walkthrough draws it: each task with its sessions, its
//! discussion and what its agents made.

use serde_json::{Value, json};

use crate::{client::Client, commands::encode, error::Result, output::dim};

/// The tasks of a workflow with everything that hangs on them, in the order of the work.
pub async fn load_graph(client: &Client, workflow: &str) -> Result<Value> {
    let path = format!("/api/coordination/workflows/{}", encode(workflow));
    let shown: Value = client.get(&path).await?.data().await?;
    let mut tasks = Vec::new();
    for task in shown["tasks"].as_array().into_iter().flatten() {
        let id = text(&task["id"]);
        let mut sessions = Vec::new();
        for session in linked_objects(client, id, "has_session").await? {
            let results = linked_objects(client, text(&session["id"]), "has_result").await?;
            let made = written_by(client, text(&session["properties"]["run_id"])).await?;
            sessions.push(json!({
                "agent": session["properties"]["agent_name"],
                "status": session["properties"]["status"],
                "results": results.iter().map(result).collect::<Vec<_>>(),
                "made": made,
            }));
        }
        let mut discussions = Vec::new();
        for discussion in linked_objects(client, id, "spawned_discussion").await? {
            let entries = linked_objects(client, text(&discussion["id"]), "has_entry").await?;
            let entries: Vec<Value> = entries
                .iter()
                .map(|entry| {
                    let said = &entry["properties"];
                    json!({ "agent": said["agent_name"], "type": said["entry_type"], "round": said["round"], "content": said["content"] })
                })
                .collect();
            discussions.push(json!({
                "topic": discussion["properties"]["topic"],
                "status": discussion["properties"]["status"],
                "consensusLevel": discussion["properties"]["consensus_level"],
                "entries": entries,
            }));
        }
        tasks.push(json!({
            "key": task["key"],
            "status": task["status"],
            "blockedBy": task["blockedBy"],
            "sessions": sessions,
            "discussions": discussions,
        }));
    }
    Ok(Value::Array(tasks))
}

/// The objects at the other end of an object's edges, in their order.
async fn linked_objects(client: &Client, id: &str, type_: &str) -> Result<Vec<Value>> {
    let path = format!("/api/graph/objects/{}/edges?direction=out&type={type_}", encode(id));
    let mut edges = client.get_all_pages(&path).await?;
    edges.sort_by_key(|edge| {
        (
            edge["properties"]["sequence"].as_i64(),
            text(&edge["createdAt"]).to_owned(),
            text(&edge["id"]).to_owned(),
        )
    });
    let mut found = Vec::new();
    for edge in edges {
        let path = format!("/api/graph/objects/{}", encode(text(&edge["toId"])));
        found.push(client.get(&path).await?.data().await?);
    }
    Ok(found)
}

/// What the tools of a run wrote: objects, and packs of types.
async fn written_by(client: &Client, run: &str) -> Result<Vec<String>> {
    let path = "/api/admin/runs";
    let runs = client.get_all_pages(path).await?;
    let Some(found) = runs.iter().find(|one| one["id"] == run) else { return Ok(Vec::new()) };
    let path = format!(
        "/api/admin/agents/{}/runs/{}/tool-calls?status=completed",
        encode(text(&found["agentId"])),
        encode(run)
    );
    let mut made = Vec::new();
    let mut calls = client.get_all_pages(&path).await?;
    calls.reverse();
    for call in calls {
        let tool = text(&call["toolName"]);
        if !matches!(tool, "entities_create" | "schema_pack_create") {
            continue;
        }
        let path = format!(
            "/api/admin/agents/{}/runs/{}/tool-calls/{}",
            encode(text(&found["agentId"])),
            encode(run),
            encode(text(&call["id"]))
        );
        let whole: Value = client.get(&path).await?.data().await?;
        let objects = whole["output"]["objects"].as_array().into_iter().flatten();
        made.extend(objects.map(|object| text(&object["type"]).to_owned()));
        if tool == "schema_pack_create" {
            let input = &whole["input"];
            made.push(format!("{} {}", text(&input["name"]), text(&input["version"])));
        }
    }
    Ok(made)
}

fn result(object: &Value) -> Value {
    let said = &object["properties"];
    let remarks = if said["issues"].is_array() { &said["issues"] } else { &said["suggestions"] };
    json!({ "type": object["type"], "verdict": said["verdict"], "remarks": remarks })
}

/// As a tree, for people.
pub fn tree_lines(graph: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for task in graph.as_array().into_iter().flatten() {
        lines.push(format!("SpecTask(\"{}\") {}", text(&task["key"]), dim(text(&task["status"]))));
        let sessions: Vec<&Value> = task["sessions"].as_array().into_iter().flatten().collect();
        let discussions: Vec<&Value> = task["discussions"].as_array().into_iter().flatten().collect();
        let last = sessions.len() + discussions.len();
        for (at, session) in sessions.iter().enumerate() {
            let attempt = if sessions.len() > 1 { format!(", attempt {}", at + 1) } else { String::new() };
            let (branch, bar) = if at + 1 == last { ("└─", "  ") } else { ("├─", "│ ") };
            lines.push(format!(" {branch} has_session → Session({}{attempt})", text(&session["agent"])));
            for result in session["results"].as_array().into_iter().flatten() {
                let remarks: Vec<&str> =
                    result["remarks"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let remarks =
                    if remarks.is_empty() { String::new() } else { format!(": {}", remarks.join("; ")) };
                let (type_, verdict) = (text(&result["type"]), text(&result["verdict"]));
                lines.push(format!(" {bar}   └─ {type_}({verdict}{remarks})"));
            }
            let made: Vec<&str> =
                session["made"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if !made.is_empty() {
                lines.push(format!(" {bar}   └─ {}", dim(&format!("made {}", made.join(", ")))));
            }
        }
        for (at, discussion) in discussions.iter().enumerate() {
            let (branch, bar) =
                if sessions.len() + at + 1 == last { ("└─", "  ") } else { ("├─", "│ ") };
            lines.push(format!(
                " {branch} spawned_discussion → Discussion(\"{}\")",
                text(&discussion["topic"])
            ));
            let entries: Vec<&Value> = discussion["entries"].as_array().into_iter().flatten().collect();
            for (at, entry) in entries.iter().enumerate() {
                let branch = if at + 1 == entries.len() { "└─" } else { "├─" };
                let said: String = text(&entry["content"]).chars().take(60).collect();
                lines.push(format!(
                    " {bar}   {branch} has_entry → {}: {}",
                    text(&entry["agent"]),
                    dim(&said)
                ));
            }
        }
    }
    lines
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
