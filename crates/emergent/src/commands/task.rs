//! `emergent task`: what agents are given to do, one by one.

use serde_json::{Map, Value, json};

use super::{encode, watch_workflow};
use crate::{
    client::Client,
    error::{Error, Result},
    output::{self, first_line},
};

#[derive(Debug, clap::Subcommand)]
pub enum Task {
    /// The tasks of all workflows, newest first
    List {
        /// Only with this status: pending, in_progress, completed, failed, paused, skipped
        #[arg(long)]
        status: Option<String>,
        /// Only those that could start now
        #[arg(long)]
        available: bool,
        /// Only of this workflow
        #[arg(long, value_name = "ID")]
        workflow: Option<String>,
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Add a task to a workflow, or to none
    Add(Add),
    /// Try a task again that failed or was skipped
    Retry {
        /// An id, or WORKFLOW/KEY
        task: String,
        /// What the next attempt is told
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Give a task to another agent
    Reassign {
        /// An id, or WORKFLOW/KEY
        task: String,
        agent: String,
        /// What that agent is told
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Do without a task
    Skip {
        /// An id, or WORKFLOW/KEY
        task: String,
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
pub struct Add {
    /// Its name within the workflow
    key: String,
    #[arg(long)]
    title: Option<String>,
    /// Everything its agent needs to know
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The workflow it becomes a part of
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// A free word: research, design, implement, test, review
    #[arg(long)]
    kind: Option<String>,
    /// critical, high, medium or low
    #[arg(long)]
    priority: Option<String>,
    /// The only agent that may do it
    #[arg(long)]
    agent: Option<String>,
    /// A task that has to be completed first, by key; again for more
    #[arg(long, value_name = "KEY")]
    blocked_by: Vec<String>,
}

impl Task {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Task::List { status, available, workflow, limit } => {
                let mut path = format!("/api/coordination/tasks?limit={limit}&available={available}");
                for (name, value) in [("status", status), ("workflowId", workflow)] {
                    if let Some(value) = value {
                        path.push_str(&format!("&{name}={}", encode(&value)));
                    }
                }
                let tasks: Vec<Value> = client.get(&path).await?.data().await?;
                if as_json { output::print_json(&tasks) } else { print_tasks(&tasks) }
            }
            Task::Add(add) => {
                let made: Value = client.post("/api/coordination/tasks", &add.body()).await?.data().await?;
                print_task(&made, as_json)
            }
            Task::Retry { task, note } => {
                send_command(client, &task, "retry", &[("note", note)], as_json).await
            }
            Task::Reassign { task, agent, note } => {
                send_command(client, &task, "reassign", &[("agent", Some(agent)), ("note", note)], as_json)
                    .await
            }
            Task::Skip { task, reason } => {
                send_command(client, &task, "skip", &[("reason", reason)], as_json).await
            }
        }
    }
}

impl Add {
    fn body(self) -> Value {
        let mut body = json!({ "title": self.title.unwrap_or_else(|| self.key.clone()), "key": self.key });
        for (name, value) in [
            ("description", self.description),
            ("workflowId", self.workflow),
            ("kind", self.kind),
            ("priority", self.priority),
            ("assignedAgent", self.agent),
        ] {
            if let Some(value) = value {
                body[name] = json!(value);
            }
        }
        if !self.blocked_by.is_empty() {
            body["blockedBy"] = json!(self.blocked_by);
        }
        body
    }
}

async fn send_command(
    client: &Client,
    named: &str,
    what: &str,
    fields: &[(&str, Option<String>)],
    as_json: bool,
) -> Result<()> {
    let id = resolve_task(client, named).await?;
    let given = fields.iter().filter_map(|(name, value)| Some(((*name).to_owned(), json!(value.as_ref()?))));
    let body = Value::Object(given.collect::<Map<_, _>>());
    let path = format!("/api/coordination/tasks/{}/{what}", encode(&id));
    let changed: Value = client.post(&path, &body).await?.data().await?;
    print_task(&changed, as_json)?;
    if let Some(workflow) = changed["workflowId"].as_str() {
        watch_workflow::warn_if_not_driven(client, workflow);
    }
    Ok(())
}

/// The id of a task that is named by it, or by its workflow and key.
async fn resolve_task(client: &Client, named: &str) -> Result<String> {
    let Some((workflow, key)) = named.split_once('/') else { return Ok(named.to_owned()) };
    let workflow = watch_workflow::get(client, workflow).await?;
    let tasks = workflow["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    match tasks.iter().find(|task| task["key"] == key) {
        Some(task) => Ok(text(&task["id"]).to_owned()),
        None => {
            let keys: Vec<&str> = tasks.iter().map(|task| text(&task["key"])).collect();
            Err(Error::Usage(format!("there is no task `{key}` in it; there are {}", keys.join(", "))))
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn print_task(task: &Value, as_json: bool) -> Result<()> {
    if as_json {
        return output::print_json(task);
    }
    let agent = task["agent"].as_str().map(|agent| format!(", for {agent}")).unwrap_or_default();
    output::print_line(&format!(
        "task {} ({}) is {}{agent}",
        text(&task["key"]),
        text(&task["id"]),
        text(&task["status"])
    ))
}

fn print_tasks(tasks: &[Value]) -> Result<()> {
    let rows: Vec<_> = tasks
        .iter()
        .map(|task| {
            vec![
                text(&task["id"]).to_owned(),
                text(&task["key"]).to_owned(),
                text(&task["status"]).to_owned(),
                text(&task["priority"]).to_owned(),
                task["agent"].as_str().unwrap_or("–").to_owned(),
                task["workflowId"].as_str().unwrap_or("–").to_owned(),
                first_line(text(&task["title"]), 50),
            ]
        })
        .collect();
    output::print_table(&["ID", "KEY", "STATUS", "PRIORITY", "AGENT", "WORKFLOW", "TITLE"], &rows)
}
