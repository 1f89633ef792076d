//! `emergent dispatch`: work for several agents, described or given as tasks.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::{agent::to_camel_case, watch_workflow};
use crate::{
    client::Client,
    error::{Error, Result},
    output::{self, bold, dim},
};

/// What is to be done: words for the planner, or a file of tasks
///
/// A file is YAML or JSON: a list of tasks, or an object with `tasks` and the settings of the API. A
/// task has key, title, description, kind, priority, assigned_agent, blocked_by and so on.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["text", "tasks"])))]
pub struct Dispatch {
    /// What is to be done, in words; the planner makes tasks of it
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// The tasks, from a file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    tasks: Option<PathBuf>,
    /// Watch it until it ends, or waits for a person
    #[arg(long, conflicts_with = "dry_run")]
    follow: bool,
    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,
    /// Tasks at once
    #[arg(long, value_name = "N")]
    max_concurrent: Option<u32>,
    /// What it may cost in all, in US dollars
    #[arg(long, value_name = "DOLLARS")]
    budget_usd: Option<f64>,
    /// Tokens it may use in all
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// Who chooses agents: rules, llm or hybrid
    #[arg(long, value_name = "WAY")]
    selector: Option<String>,
    /// Let a model look at what each task brought
    #[arg(long)]
    evaluate: bool,
    /// Who chooses what a task is told of the work before it: rules or llm
    #[arg(long, value_name = "WAY")]
    threading: Option<String>,
    /// What a failure means for the rest: skip or escalate
    #[arg(long, value_name = "WAY")]
    on_failure: Option<String>,
    /// The agent that plans
    #[arg(long, value_name = "AGENT")]
    planner: Option<String>,
}

impl Dispatch {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let (follow, dry_run) = (self.follow, self.dry_run);
        let body = self.body()?;
        let done: Value = client.post("/api/coordination/dispatch", &body).await?.data().await?;
        if dry_run {
            return if as_json { output::print_json(&done) } else { print_dry_run(&done) };
        }
        let id = done["workflowId"].as_str().unwrap_or_default();
        if follow {
            return watch_workflow::follow(client, id, as_json).await;
        }
        if as_json {
            output::print_json(&done)?;
        } else {
            output::print_line(&format!("workflow {id} is started"))?;
        }
        watch_workflow::warn_if_not_driven(client, id);
        Ok(())
    }

    fn body(self) -> Result<Value> {
        let mut body = match &self.tasks {
            Some(file) => read(file)?,
            None => Map::new(),
        };
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        put("description", self.text.map(Value::from));
        put("maxConcurrent", self.max_concurrent.map(Value::from));
        put("budgetUsd", self.budget_usd.map(Value::from));
        put("budgetTokens", self.budget_tokens.map(Value::from));
        put("selector", self.selector.map(Value::from));
        put("evaluate", self.evaluate.then_some(Value::Bool(true)));
        put("threading", self.threading.map(Value::from));
        put("onFailure", self.on_failure.map(Value::from));
        put("planner", self.planner.map(Value::from));
        put("dryRun", self.dry_run.then_some(Value::Bool(true)));
        Ok(Value::Object(body))
    }
}

fn read(path: &Path) -> Result<Map<String, Value>> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_string(&mut text).map_err(failed)?;
    } else {
        text = std::fs::read_to_string(path).map_err(failed)?;
    }
    parse(&text).map_err(|why| Error::Usage(format!("`{}` cannot be read: {why}", path.display())))
}

/// A list of tasks, or an object that has them; `blocked_by` will do for `blockedBy`.
fn parse(text: &str) -> std::result::Result<Map<String, Value>, String> {
    let whole: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let mut body = match whole {
        Value::Array(_) => Map::from_iter([("tasks".to_owned(), whole)]),
        whole => match to_camel_case(whole) {
            Value::Object(body) => body,
            _ => return Err("it holds neither a list of tasks nor an object with `tasks`".to_owned()),
        },
    };
    match body.get_mut("tasks") {
        Some(Value::Array(tasks)) => {
            for task in tasks {
                *task = to_camel_case(task.take());
            }
            Ok(body)
        }
        _ => Err("it has no list `tasks`".to_owned()),
    }
}

fn print_dry_run(checked: &Value) -> Result<()> {
    if let Some(planner) = checked["planner"].as_str() {
        return output::print_line(&format!("{} would plan; the tasks are known after that", bold(planner)));
    }
    let first: Vec<&str> =
        checked["first"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut rows = Vec::new();
    for (at, layer) in checked["layers"].as_array().into_iter().flatten().enumerate() {
        for task in layer.as_array().into_iter().flatten() {
            let text = |name: &str| task[name].as_str().unwrap_or_default().to_owned();
            let waits: Vec<&str> =
                task["blockedBy"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            rows.push(vec![
                (at + 1).to_string(),
                text("key"),
                if task["agent"].is_null() { "–".to_owned() } else { text("agent") },
                waits.join(", "),
                text("reason"),
            ]);
        }
    }
    output::print_table(&["LAYER", "TASK", "AGENT", "WAITS FOR", "WHY THAT AGENT"], &rows)?;
    output::print_line(&dim(&format!("first: {}", first.join(", "))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_a_list_or_an_object_in_either_spelling() {
        let wanted = json!({ "tasks": [{ "key": "a", "blockedBy": ["b"], "maxRetries": 1 }] });
        for text in [
            "- key: a\n  blocked_by: [b]\n  max_retries: 1\n",
            "tasks:\n  - key: a\n    blockedBy: [b]\n    maxRetries: 1\n",
            r#"[{ "key": "a", "blocked_by": ["b"], "maxRetries": 1 }]"#,
        ] {
            assert_eq!(Value::Object(parse(text).unwrap()), wanted, "{text}");
        }
        let whole = parse("max_concurrent: 2\ntasks: [{ key: a }]").unwrap();
        assert_eq!(whole["maxConcurrent"], 2);
        for wrong in ["just words", "description: x", "tasks: none", "[", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
