//! `emergent run`: what agents did and are doing.

use serde_json::{Value, json};

use super::{agent, encode, tree, watch_run};
use crate::{
    client::Client,
    error::Result,
    output::{self, bold, dim, duration, first_line},
};

#[derive(Debug, clap::Subcommand)]
pub enum Run {
    /// The runs, newest first
    List {
        /// Only of this agent, by name or id
        #[arg(long)]
        agent: Option<String>,
        /// Only with this status: queued, running, completed, failed, paused, cancelled
        #[arg(long)]
        status: Option<String>,
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// One run at a glance
    Show { run: String },
    /// A run and what it spawned
    Tree { run: String },
    /// What was said in a run
    Messages {
        run: String,
        /// Only of this step
        #[arg(long)]
        step: Option<u32>,
    },
    /// End a run and everything it spawned
    Cancel { run: String },
    /// Go on with a paused run, as a new one
    Resume {
        run: String,
        /// What to tell the agent
        #[arg(long, value_name = "TEXT")]
        input: Option<String>,
        /// Watch it work until it ends
        #[arg(long)]
        follow: bool,
    },
    /// Undo what a run wrote to the graph
    Revert { run: String },
    /// Watch a run work, from its beginning until it ends
    Follow { run: String },
}

impl Run {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Run::List { agent, status, limit } => {
                let mut path = match agent {
                    Some(agent) => {
                        let agent = agent::resolve_agent(client, &agent).await?;
                        format!("/api/admin/agents/{}/runs?limit={limit}", text(&agent["id"]))
                    }
                    None => format!("/api/admin/runs?limit={limit}"),
                };
                if let Some(status) = status {
                    path.push_str(&format!("&status={}", encode(&status)));
                }
                let runs: Vec<Value> = client.get(&path).await?.data().await?;
                if as_json { output::print_json(&runs) } else { show_all(&runs) }
            }
            Run::Show { run } => {
                let run = resolve_run(client, &run).await?;
                if as_json { output::print_json(&run) } else { show(&run) }
            }
            Run::Tree { run } => {
                let found = resolve_run(client, &run).await?;
                let tree: Value = client.get(&format!("{}/tree", path(&found))).await?.data().await?;
                if as_json {
                    output::print_json(&tree)
                } else {
                    tree::tree_lines(&tree).iter().try_for_each(|line| output::print_line(line))
                }
            }
            Run::Messages { run, step } => {
                let found = resolve_run(client, &run).await?;
                let step = step.map(|step| format!("?step={step}")).unwrap_or_default();
                let messages = client.get_all_pages(&format!("{}/messages{step}", path(&found))).await?;
                if as_json {
                    output::print_json(&messages)
                } else {
                    messages.iter().try_for_each(show_message)
                }
            }
            Run::Cancel { run } => {
                let found = resolve_run(client, &run).await?;
                let ended: Value =
                    client.post(&format!("{}/cancel", path(&found)), &json!({})).await?.data().await?;
                if as_json {
                    output::print_json(&ended)
                } else {
                    output::print_line(&format!("run {run} is {}", text(&ended["status"])))
                }
            }
            Run::Resume { run, input, follow } => {
                let found = resolve_run(client, &run).await?;
                let mut body = json!({});
                if let Some(input) = input {
                    body["input"] = json!(input);
                }
                let started: Value =
                    client.post(&format!("{}/resume", path(&found)), &body).await?.data().await?;
                watch_run::follow_or_print(client, text(&found["agentId"]), &started, follow, as_json).await
            }
            Run::Revert { run } => {
                let found = resolve_run(client, &run).await?;
                let undone: Value =
                    client.post(&format!("{}/revert", path(&found)), &json!({})).await?.data().await?;
                if as_json { output::print_json(&undone) } else { print_reverted(&undone) }
            }
            Run::Follow { run } => {
                let found = resolve_run(client, &run).await?;
                watch_run::follow(client, text(&found["agentId"]), text(&found["id"]), as_json).await
            }
        }
    }
}

async fn resolve_run(client: &Client, run: &str) -> Result<Value> {
    client.get(&format!("/api/admin/runs/{}", encode(run))).await?.data().await
}

/// Where a run is, below its agent.
fn path(run: &Value) -> String {
    format!("/api/admin/agents/{}/runs/{}", text(&run["agentId"]), text(&run["id"]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `paused (step_limit)`, and whether a script played the model.
fn status(run: &Value) -> String {
    let mut status = text(&run["status"]).to_owned();
    if let Some(reason) = run["reason"].as_str() {
        status.push_str(&format!(" ({reason})"));
    }
    if run["rehearsal"] == true {
        status.push_str(" [rehearsal]");
    }
    status
}

fn duration_text(run: &Value) -> String {
    run["durationMs"].as_u64().map_or("–".to_owned(), duration)
}

fn show_all(runs: &[Value]) -> Result<()> {
    let rows: Vec<_> = runs
        .iter()
        .map(|run| {
            let said = run["errorMessage"].as_str().or_else(|| run["summary"]["text"].as_str());
            vec![
                text(&run["id"]).to_owned(),
                text(&run["agentName"]).to_owned(),
                status(run),
                run["stepCount"].to_string(),
                duration_text(run),
                watch_run::cost(&run["tokenUsage"]).unwrap_or_else(|| "–".to_owned()),
                first_line(said.unwrap_or_default(), 60),
            ]
        })
        .collect();
    output::print_table(&["ID", "AGENT", "STATUS", "STEPS", "TOOK", "COST", "SUMMARY"], &rows)
}

fn show(run: &Value) -> Result<()> {
    output::print_line(&format!("{}  {}", bold(text(&run["agentName"])), status(run)))?;
    let steps = match run["maxSteps"].as_i64() {
        Some(most) => format!("{} of {most} a run", run["stepCount"]),
        None => run["stepCount"].to_string(),
    };
    let mut facts = vec![
        ("id", text(&run["id"]).to_owned()),
        ("origin", text(&run["origin"]).to_owned()),
        ("model", text(&run["model"]).to_owned()),
        ("created", text(&run["createdAt"]).to_owned()),
        ("took", duration_text(run)),
        ("steps", steps),
        ("tokens", watch_run::tokens(&run["tokenUsage"])),
        ("loops", run["doomLoopEvents"].to_string()),
    ];
    for (name, field) in [
        ("parent", "parentRunId"),
        ("resumes", "resumedFrom"),
        ("resumed as", "resumedAs"),
        ("error", "errorMessage"),
    ] {
        facts.extend(run[field].as_str().map(|value| (name, value.to_owned())));
    }
    for (name, value) in facts {
        output::print_line(&format!("  {name:<12} {value}"))?;
    }
    for (tool, used) in run["toolCallSummary"]["byTool"].as_object().into_iter().flatten() {
        let average = used["avgDurationMs"].as_u64().map_or("–".to_owned(), duration);
        output::print_line(&format!("  {:<12} {} × {tool}, {average} on average", "tool", used["count"]))?;
    }
    for child in run["childRuns"].as_array().into_iter().flatten() {
        let (name, status) = (text(&child["agentName"]), text(&child["status"]));
        output::print_line(&format!("  {:<12} {name}  {status}  {}", "child", dim(text(&child["id"]))))?;
    }
    match text(&run["summary"]["text"]) {
        "" => Ok(()),
        summary => output::print_line(&format!("\n{summary}")),
    }
}

fn show_message(message: &Value) -> Result<()> {
    let content = &message["content"];
    let role = text(&message["role"]);
    let head = format!("{} {}", bold(role), dim(&format!("step {}", message["stepNumber"])));
    if role == "tool_result" {
        let answer = first_line(&content["output"].to_string(), 200);
        return output::print_line(&format!("{head}  {} → {answer}", text(&content["toolName"])));
    }
    output::print_line(&head)?;
    if let Some(said) = content["text"].as_str().filter(|said| !said.is_empty()) {
        output::print_line(said)?;
    }
    for call in content["toolCalls"].as_array().into_iter().flatten() {
        output::print_line(&format!("  → {}  {}", text(&call["toolName"]), text(&call["status"])))?;
    }
    Ok(())
}

fn print_reverted(undone: &Value) -> Result<()> {
    let count = |name: &str| undone[name].as_array().map_or(0, Vec::len);
    output::print_line(&format!("{} undone, {} left as it is", count("undone"), count("conflicts")))?;
    for one in undone["conflicts"].as_array().into_iter().flatten() {
        output::print_line(&format!(
            "  {} {}: {}",
            text(&one["kind"]),
            text(&one["id"]),
            text(&one["reason"])
        ))?;
    }
    Ok(())
}
