//! `emergent task`: lists, shows, adds, retries, reassigns and skips tasks.

use emergent_domain::task::{TASK_TYPE, TaskStatus};
use emergent_wire::task::{AddTask, ReassignTask, RetryTask, SkipTask, TaskView};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    encode, parse_flag,
    resolve::{self, TASKS, WORKFLOWS, resolve_id},
    watch_workflow,
};
use crate::{
    cells::cell,
    client::{Client, Received},
    error::{Error, Result},
    output::{self, bold},
    text::short_id,
};

#[derive(Debug, clap::Subcommand)]
pub enum Task {
    /// List the tasks of all workflows, newest first
    List {
        /// Only with this status: pending, in_progress, completed, failed, paused, skipped
        #[arg(long)]
        status: Option<String>,
        /// Only those that could start now
        #[arg(long)]
        available: bool,
        /// Only of this workflow, by id, the end of an id, or `last`
        #[arg(long, value_name = "WORKFLOW")]
        workflow: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one task: who does it, what it hands on, and what went wrong before
    Show {
        /// An id, the end of an id, a unique key, SpecTask/KEY, or WORKFLOW/KEY, such as last/design
        task: String,
    },
    /// Add a task to a workflow, or to none
    Add(Add),
    /// Try a task again that failed or was skipped
    Retry {
        /// An id, the end of an id, a unique key, SpecTask/KEY, or WORKFLOW/KEY, such as last/design
        task: String,
        /// What the next attempt is told
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Give a task to another agent
    Reassign {
        /// An id, the end of an id, a unique key, SpecTask/KEY, or WORKFLOW/KEY, such as last/design
        task: String,
        /// The name of the agent
        agent: String,
        /// What that agent is told
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Skip a task and everything that depends on it
    Skip {
        /// An id, the end of an id, a unique key, SpecTask/KEY, or WORKFLOW/KEY, such as last/design
        task: String,
        /// Why, for the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
pub struct Add {
    /// Its name within the workflow
    key: String,
    /// A short title [default: the key]
    #[arg(long)]
    title: Option<String>,
    /// Everything its agent needs to know
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The workflow it becomes a part of, by id, the end of an id, or `last`
    #[arg(long, value_name = "WORKFLOW")]
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
    /// A task that has to be completed first, by key; outside of workflows also by id; again for more
    #[arg(long, value_name = "KEY")]
    blocked_by: Vec<String>,
}

impl Task {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Task::List { status, available, workflow, limit } => {
                let workflow = match workflow {
                    Some(workflow) => Some(resolve_id(client, &WORKFLOWS, &workflow).await?),
                    None => None,
                };
                let mut path = format!("/api/coordination/tasks?available={available}");
                for (name, value) in [("status", status), ("workflowId", workflow)] {
                    if let Some(value) = value {
                        path.push_str(&format!("&{name}={}", encode(&value)));
                    }
                }
                let tasks: Vec<Received<TaskView>> = client.get_limited(&path, limit).await?;
                if as_json { output::print_json(&tasks) } else { print_tasks(&tasks) }
            }
            Task::Show { task } => {
                let id = resolve_task(client, &task).await?;
                let response = client.get(&format!("/api/coordination/tasks/{}", encode(&id))).await;
                let response = response.map_err(|error| error.with_list("task list"))?;
                let shown: Received<TaskView> = response.data().await?;
                if as_json { output::print_json(&shown) } else { show(&shown) }
            }
            Task::Add(mut add) => {
                if let Some(workflow) = &add.workflow {
                    add.workflow = Some(resolve_id(client, &WORKFLOWS, workflow).await?);
                }
                let added: Received<TaskView> =
                    client.post("/api/coordination/tasks", &add.body()?).await?.data().await?;
                print_task(&added, as_json)?;
                warn_if_key_is_taken(client, &added).await;
                Ok(())
            }
            Task::Retry { task, note } => {
                send_command(client, &task, "retry", &RetryTask { note }, as_json).await
            }
            Task::Reassign { task, agent, note } => {
                send_command(client, &task, "reassign", &ReassignTask { agent, note }, as_json).await
            }
            Task::Skip { task, reason } => {
                send_command(client, &task, "skip", &SkipTask { reason }, as_json).await
            }
        }
    }
}

impl Add {
    fn body(self) -> Result<AddTask> {
        Ok(AddTask {
            workflow_id: parse_flag("--workflow", self.workflow.as_deref())?,
            title: self.title.unwrap_or_else(|| self.key.clone()),
            key: self.key,
            description: self.description.unwrap_or_default(),
            kind: self.kind.unwrap_or_default(),
            priority: parse_flag("--priority", self.priority.as_deref())?.unwrap_or_default(),
            assigned_agent: self.agent,
            blocked_by: self.blocked_by,
            ..AddTask::default()
        })
    }
}

/// Says that another task has the key of a new one outside of a workflow: then commands need the id. A task of a workflow
/// is also named as `WORKFLOW/KEY`. Without an answer nothing is said: the task was added all the same, and a script that
/// took this for a failure would add it again.
async fn warn_if_key_is_taken(client: &Client, added: &TaskView) {
    if added.workflow_id.is_some() {
        return;
    }
    let filters = json!([{ "path": "key", "op": "eq", "value": added.key }]).to_string();
    let path = format!("/api/graph/objects?type={TASK_TYPE}&filters={}", encode(&filters));
    let Ok(tasks) = client.get_newest::<Value>(&path, 2).await else { return };
    let id = added.id.to_string();
    if let Some(other) = tasks.iter().filter_map(|task| task["id"].as_str()).find(|other| *other != id) {
        output::print_notice(&format!(
            "warning: the task {} has the key {} as well, so commands need the id of this one, {}",
            short_id(other),
            added.key,
            short_id(&id)
        ));
    }
}

/// Posts a command such as `retry` to a task and prints the changed task.
async fn send_command(
    client: &Client,
    reference: &str,
    command: &str,
    body: &impl Serialize,
    as_json: bool,
) -> Result<()> {
    let id = resolve_task(client, reference).await?;
    let path = format!("/api/coordination/tasks/{}/{command}", encode(&id));
    let changed: Received<TaskView> = client.post(&path, body).await?.data().await?;
    print_task(&changed, as_json)?;
    if let Some(workflow) = changed.workflow_id {
        watch_workflow::warn_if_not_driven(client, &workflow.to_string());
    }
    Ok(())
}

/// The id of the task that a person names, also as `WORKFLOW/KEY`. A whole id is not checked, and `SpecTask/KEY` is left to
/// the server.
pub async fn resolve_task(client: &Client, reference: &str) -> Result<String> {
    let Some((workflow, key)) = reference.split_once('/') else {
        return resolve_id(client, &TASKS, reference).await;
    };
    if workflow == TASK_TYPE {
        return Ok(reference.to_owned());
    }
    let workflow = resolve_id(client, &WORKFLOWS, workflow).await?;
    let workflow = watch_workflow::get(client, &workflow).await?;
    match workflow.tasks.iter().find(|task| task.key == key) {
        Some(task) => Ok(task.id.to_string()),
        None => {
            let keys: Vec<&str> = workflow.tasks.iter().map(|task| task.key.as_str()).collect();
            let suggestion = resolve::suggestion(key, keys.iter().copied());
            Err(Error::Usage(format!(
                "there is no task `{key}` in the workflow{suggestion} (its tasks are {})",
                keys.join(", ")
            )))
        }
    }
}

fn print_task(task: &Received<TaskView>, as_json: bool) -> Result<()> {
    if as_json {
        return output::print_json(task);
    }
    // Nobody does a task that is skipped.
    let agent = task.agent.as_ref().filter(|_| task.status != TaskStatus::Skipped);
    let agent = agent.map(|agent| format!(", for {agent}")).unwrap_or_default();
    output::print_text(&format!("task {} ({}) is {}{agent}", task.key, task.id, task.status))
}

fn show(task: &TaskView) -> Result<()> {
    output::print_row(&format!("{}  {}", bold(&task.key), task.status))?;
    let attempts = format!("{} of {} used", task.retry_count, task.max_retries);
    let facts = [
        ("id", task.id.to_string()),
        ("title", task.title.clone()),
        ("kind", task.kind.clone()),
        ("priority", task.priority.to_string()),
        ("agent", task.agent.clone().unwrap_or_default()),
        ("workflow", task.workflow_id.map(|id| id.to_string()).unwrap_or_default()),
        ("run", task.run_id.map(|id| id.to_string()).unwrap_or_default()),
        ("verifies", task.verifies.join(", ")),
        ("retries", attempts),
        ("created", task.created_at.to_string()),
        ("description", task.description.clone()),
        ("summary", task.summary.clone().unwrap_or_default()),
        ("before", task.failure_context.clone().unwrap_or_default()),
        ("output", task.output.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("waits", task.not_dispatched.clone().unwrap_or_default()),
    ];
    let facts = facts.iter().filter(|(_, value)| !value.is_empty());
    facts.into_iter().try_for_each(|(name, value)| output::print_fact(name, value))
}

fn print_tasks(tasks: &[Received<TaskView>]) -> Result<()> {
    let rows: Vec<_> = tasks
        .iter()
        .map(|task| {
            vec![
                task.id.to_string(),
                task.key.clone(),
                task.status.to_string(),
                task.priority.to_string(),
                task.agent.clone().unwrap_or_else(|| "–".to_owned()),
                task.workflow_id.map_or("–".to_owned(), |id| id.to_string()),
                cell(&task.title, 50),
            ]
        })
        .collect();
    output::print_list_with_optional(
        &["ID", "KEY", "STATUS", "PRIORITY", "AGENT", "WORKFLOW", "TITLE"],
        &rows,
        &["KEY", "AGENT"],
        &["PRIORITY", "WORKFLOW"],
        ("dispatch TEXT", "makes tasks and executes them"),
    )?;
    for task in tasks {
        if let Some(reason) = &task.not_dispatched {
            output::print_text(&format!("{} is not executed by itself: {reason}", task.id))?;
        }
    }
    Ok(())
}
