//! Loads and draws the graph of the demo workflow: each task with its sessions, its discussions and what
//! its agents created.

use emergent_domain::{foreign_json, task::TaskStatus};
use emergent_wire::{
    object::ObjectView, relationship::RelationshipView, run::RunView, tool_call::ToolCallView,
    workflow::WorkflowView,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    client::Client,
    commands::encode,
    error::Result,
    output::{dim, first_line},
};

/// How much of a discussion entry is drawn.
const MAX_ENTRY_CHARS: usize = 60;

/// A task with its sessions and discussions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GraphTask {
    key: String,
    status: TaskStatus,
    blocked_by: Vec<String>,
    sessions: Vec<Session>,
    discussions: Vec<Discussion>,
}

#[derive(Serialize)]
struct Session {
    agent: String,
    status: Option<String>,
    results: Vec<SessionResult>,
    /// The types of the objects, and the template packs, that the session's run created.
    made: Vec<String>,
}

#[derive(Serialize)]
struct SessionResult {
    #[serde(rename = "type")]
    type_: String,
    verdict: Option<String>,
    remarks: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Discussion {
    topic: String,
    status: Option<String>,
    consensus_level: Option<f64>,
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    agent: String,
    #[serde(rename = "type")]
    type_: Option<String>,
    round: Option<i64>,
    content: String,
}

// The properties of objects of the coordination pack that are shown here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SessionProperties {
    agent_name: String,
    status: Option<String>,
    run_id: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResultProperties {
    verdict: Option<String>,
    issues: Option<Value>,
    suggestions: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DiscussionProperties {
    topic: String,
    status: Option<String>,
    consensus_level: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EntryProperties {
    agent_name: String,
    entry_type: Option<String>,
    round: Option<i64>,
    content: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EdgeProperties {
    sequence: Option<i64>,
}

/// The shown part of an object's properties; defaults when they have another shape.
fn properties<T: DeserializeOwned + Default>(json: &str) -> T {
    foreign_json::from_str(json).unwrap_or_default()
}

/// Loads the tasks of a workflow with their sessions and discussions, in the order of the API.
pub async fn load_graph(client: &Client, workflow: &str) -> Result<Vec<GraphTask>> {
    let path = format!("/api/coordination/workflows/{}", encode(workflow));
    let workflow: WorkflowView = client.get(&path).await?.data().await?;
    let mut tasks = Vec::new();
    for task in workflow.tasks {
        tasks.push(GraphTask {
            sessions: load_sessions(client, task.id).await?,
            discussions: load_discussions(client, task.id).await?,
            key: task.key,
            status: task.status,
            blocked_by: task.blocked_by,
        });
    }
    Ok(tasks)
}

async fn load_sessions(client: &Client, task: Uuid) -> Result<Vec<Session>> {
    let mut sessions = Vec::new();
    for session in linked_objects(client, task, "has_session").await? {
        let results = linked_objects(client, session.id, "has_result").await?;
        let fields: SessionProperties = properties(session.properties.as_str());
        sessions.push(Session {
            made: written_by(client, &fields.run_id).await?,
            results: results.iter().map(result).collect(),
            agent: fields.agent_name,
            status: fields.status,
        });
    }
    Ok(sessions)
}

async fn load_discussions(client: &Client, task: Uuid) -> Result<Vec<Discussion>> {
    let mut discussions = Vec::new();
    for discussion in linked_objects(client, task, "spawned_discussion").await? {
        let entries = linked_objects(client, discussion.id, "has_entry").await?;
        let fields: DiscussionProperties = properties(discussion.properties.as_str());
        discussions.push(Discussion {
            topic: fields.topic,
            status: fields.status,
            consensus_level: fields.consensus_level,
            entries: entries.iter().map(entry).collect(),
        });
    }
    Ok(discussions)
}

fn entry(object: &ObjectView) -> Entry {
    let EntryProperties { agent_name, entry_type, round, content } = properties(object.properties.as_str());
    Entry { agent: agent_name, type_: entry_type, round, content }
}

fn result(object: &ObjectView) -> SessionResult {
    let fields: ResultProperties = properties(object.properties.as_str());
    let remarks = fields.issues.filter(Value::is_array).or(fields.suggestions);
    SessionResult { type_: object.type_.clone(), verdict: fields.verdict, remarks }
}

/// The objects that an object's outgoing edges of a type lead to, ordered by `sequence`, then by creation.
async fn linked_objects(client: &Client, id: Uuid, type_: &str) -> Result<Vec<ObjectView>> {
    let path = format!("/api/graph/objects/{id}/edges?direction=out&type={type_}");
    let mut edges: Vec<RelationshipView> = client.get_all_pages(&path).await?;
    edges.sort_by_key(|edge| {
        let EdgeProperties { sequence } = properties(edge.properties.as_str());
        (sequence, edge.created_at, edge.id)
    });
    let mut objects = Vec::new();
    for edge in edges {
        objects.push(client.get(&format!("/api/graph/objects/{}", edge.to_id)).await?.data().await?);
    }
    Ok(objects)
}

/// The shown part of the output of a tool call that wrote objects.
#[derive(Default, Deserialize)]
struct WrittenObjects {
    objects: Vec<WrittenObject>,
}

#[derive(Deserialize)]
struct WrittenObject {
    #[serde(rename = "type")]
    type_: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PackInput {
    name: String,
    version: String,
}

/// What the tool calls of a run created: the types of objects, and template packs. Empty for an unknown run.
async fn written_by(client: &Client, run: &str) -> Result<Vec<String>> {
    let runs: Vec<RunView> = client.get_all_pages("/api/admin/runs").await?;
    let Some(run) = runs.iter().find(|candidate| candidate.facts.id.to_string() == run) else {
        return Ok(Vec::new());
    };
    let path = format!("/api/admin/agents/{}/runs/{}/tool-calls", run.facts.agent_id, run.facts.id);
    let mut created = Vec::new();
    let mut calls: Vec<ToolCallView> = client.get_all_pages(&format!("{path}?status=completed")).await?;
    // The list has the newest first.
    calls.reverse();
    for call in calls {
        if !matches!(call.tool_name.as_str(), "entities_create" | "schema_pack_create") {
            continue;
        }
        let detail: ToolCallView = client.get(&format!("{path}/{}", call.id)).await?.data().await?;
        let output = detail.output.unwrap_or_default();
        let written = WrittenObjects::deserialize(&output).unwrap_or_default();
        created.extend(written.objects.into_iter().map(|object| object.type_));
        if call.tool_name == "schema_pack_create" {
            let PackInput { name, version } = PackInput::deserialize(&detail.input).unwrap_or_default();
            created.push(format!("{name} {version}"));
        }
    }
    Ok(created)
}

/// Draws the graph as a tree.
pub fn tree_lines(graph: &[GraphTask]) -> Vec<String> {
    let mut lines = Vec::new();
    for task in graph {
        lines.push(format!("SpecTask(\"{}\") {}", task.key, dim(task.status.as_str())));
        let (sessions, discussions) = (&task.sessions, &task.discussions);
        let branches = sessions.len() + discussions.len();
        for (index, session) in sessions.iter().enumerate() {
            let attempt = if sessions.len() > 1 { format!(", attempt {}", index + 1) } else { String::new() };
            let (branch, bar) = if index + 1 == branches { ("└─", "  ") } else { ("├─", "│ ") };
            lines.push(format!(" {branch} has_session → Session({}{attempt})", session.agent));
            for result in &session.results {
                let remarks = result.remarks.as_ref().and_then(Value::as_array).into_iter().flatten();
                let remarks: Vec<&str> = remarks.filter_map(Value::as_str).collect();
                let remarks =
                    if remarks.is_empty() { String::new() } else { format!(": {}", remarks.join("; ")) };
                let verdict = result.verdict.as_deref().unwrap_or_default();
                lines.push(format!(" {bar}   └─ {}({verdict}{remarks})", result.type_));
            }
            if !session.made.is_empty() {
                lines.push(format!(" {bar}   └─ {}", dim(&format!("made {}", session.made.join(", ")))));
            }
        }
        for (index, discussion) in discussions.iter().enumerate() {
            let (branch, bar) =
                if sessions.len() + index + 1 == branches { ("└─", "  ") } else { ("├─", "│ ") };
            lines.push(format!(" {branch} spawned_discussion → Discussion(\"{}\")", discussion.topic));
            let entries = &discussion.entries;
            for (index, entry) in entries.iter().enumerate() {
                let branch = if index + 1 == entries.len() { "└─" } else { "├─" };
                let content = first_line(&entry.content, MAX_ENTRY_CHARS);
                lines.push(format!(" {bar}   {branch} has_entry → {}: {}", entry.agent, dim(&content)));
            }
        }
    }
    lines
}
