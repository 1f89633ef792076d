//! `emergent dispatch`: starts a workflow from a description or a file of tasks.

use std::{
    collections::BTreeMap,
    io::Read,
    path::{Path, PathBuf},
};

use emergent_domain::{
    filter::{Filter, Op},
    foreign_json::{self, ForeignValue},
    object_ref::ObjectRef,
};
use emergent_wire::dispatch::{self as wire, DispatchResponse, DryRunView};
use serde_json::{Map, Value, json};

use super::{
    agent::{parse_model, to_camel_case},
    number::parse_finite,
    parse_flag,
    task::resolve_task,
    watch_workflow,
};
use crate::{
    client::{Client, Received},
    error::{Error, Result},
    hints, messages,
    output::{self, bold, dim},
};

/// Start a workflow from a description, a file of tasks, or tasks of the graph
///
/// Give one of three: words, of which the planner makes tasks; a file of tasks; or --from-graph. A file is YAML or
/// JSON: a list of tasks, or an object with `tasks` and the settings of the API. A task has key, title,
/// description, kind, priority, assigned_agent, blocked_by and so on.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["text", "tasks", "from_graph"])))]
pub struct Dispatch {
    /// What is to be done, in words; the planner makes tasks of it
    #[arg(value_name = "TEXT", conflicts_with_all = ["task", "root", "filters", "labels"])]
    text: Option<String>,
    /// The tasks, from a file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["task", "root", "filters", "labels"])]
    tasks: Option<PathBuf>,
    /// Tasks that are in the graph and belong to no workflow, with all that `blocks` joins with them; without
    /// --task, --root, --where and --label all pending ones
    #[arg(long)]
    from_graph: bool,
    /// A task of the graph: an id, the end of an id, a unique key, SpecTask/KEY or WORKFLOW/KEY; may be repeated
    #[arg(long, value_name = "TASK", requires = "from_graph", conflicts_with_all = ["root", "filters", "labels"])]
    task: Vec<String>,
    /// A task of the graph, which is done with its whole graph; named like --task
    #[arg(long, value_name = "TASK", requires = "from_graph", conflicts_with_all = ["filters", "labels"])]
    root: Option<String>,
    /// Only tasks with this property, such as `kind=research` or `complexity=3`; may be repeated
    #[arg(long = "where", value_name = "PROPERTY=VALUE", requires = "from_graph")]
    filters: Vec<String>,
    /// Only tasks with this label; may be repeated
    #[arg(long = "label", value_name = "LABEL", requires = "from_graph")]
    labels: Vec<String>,
    /// Watch it until it ends, or waits for a person
    #[arg(long, conflicts_with = "dry_run")]
    follow: bool,
    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,
    /// Tasks at once
    #[arg(long, value_name = "N")]
    max_concurrent: Option<i64>,
    /// What it may cost in all, in US dollars
    #[arg(long, value_name = "DOLLARS", value_parser = parse_finite)]
    budget_usd: Option<f64>,
    /// Tokens it may use in all
    #[arg(long, value_name = "N")]
    budget_tokens: Option<i64>,
    /// Who chooses agents: rules, llm or hybrid
    #[arg(long, value_name = "WAY")]
    selector: Option<String>,
    /// Have a model evaluate each result before the task completes
    #[arg(long)]
    evaluate: bool,
    /// How earlier results are chosen for a task's prompt: rules or llm
    #[arg(long, value_name = "WAY")]
    threading: Option<String>,
    /// What a failure means for the rest: skip or escalate
    #[arg(long, value_name = "WAY")]
    on_failure: Option<String>,
    /// The agent that plans
    #[arg(long, value_name = "AGENT")]
    planner: Option<String>,
    /// The model of every run, as `provider/name`, instead of those of the agents
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// A name for this request: sent again with it, it starts nothing more
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl Dispatch {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let follow = self.follow;
        let mut named = Vec::new();
        for reference in self.task.iter().chain(&self.root) {
            named.push(task_reference(client, reference).await?);
        }
        let key = self.idempotency_key.clone();
        let body = self.body(named)?;
        let response = client.post_once("/api/coordination/dispatch", &body, key.as_deref()).await?;
        let response: Received<DispatchResponse> = response.data().await?;
        let id = match &*response {
            DispatchResponse::Checked(_) if as_json => return output::print_json(&response),
            DispatchResponse::Checked(checked) => return print_dry_run(checked),
            DispatchResponse::Started(started) => started.workflow_id.to_string(),
        };
        let judge = match &*response {
            DispatchResponse::Started(started) => started.judge.clone(),
            DispatchResponse::Checked(_) => None,
        };
        if follow {
            return watch_workflow::follow(client, &id, as_json).await;
        }
        if as_json {
            output::print_json(&response)?;
        } else {
            output::print_line(&format!("workflow {id} is started"))?;
            if let Some(judge) = judge {
                output::print_dim(&format!("{judge} judges: it chooses agents and evaluates results"))?;
            }
        }
        watch_workflow::warn_if_not_driven(client, &id);
        Ok(())
    }

    /// The request: the content of the file, overridden by flags. The file is not validated here, because the
    /// server names its errors. `named` has the tasks that the flags name.
    fn body(self, mut named: Vec<ObjectRef>) -> Result<Map<String, Value>> {
        let mut body = match &self.tasks {
            Some(file) => read_tasks(file)?,
            None => Map::new(),
        };
        let root_task_id = if self.root.is_some() { named.pop() } else { None };
        let task_ids = Some(named).filter(|named| !named.is_empty());
        let query = match self.from_graph && task_ids.is_none() && root_task_id.is_none() {
            true => Some(wire::TaskQuery { labels: self.labels, filters: parse_filters(&self.filters)? }),
            false => None,
        };
        let flags = wire::Dispatch {
            description: self.text,
            tasks: None,
            task_ids,
            root_task_id,
            query,
            max_concurrent: self.max_concurrent,
            budget_usd: self.budget_usd,
            budget_tokens: self.budget_tokens,
            selector: parse_flag("--selector", self.selector.as_deref())?,
            evaluate: self.evaluate,
            threading: parse_flag("--threading", self.threading.as_deref())?,
            on_failure: parse_flag("--on-failure", self.on_failure.as_deref())?,
            planner: self.planner,
            model: self.model.as_deref().map(parse_model).transpose()?,
            dry_run: self.dry_run,
        };
        if let Ok(Value::Object(flags)) = serde_json::to_value(flags) {
            body.extend(flags);
        }
        Ok(body)
    }
}

/// The task that a person names. `SpecTask/KEY` is left to the server.
async fn task_reference(client: &Client, reference: &str) -> Result<ObjectRef> {
    resolve_task(client, reference)
        .await?
        .parse()
        .map_err(|reason| Error::Usage(format!("`{reference}` names no task: it {reason}")))
}

/// Parses `PROPERTY=VALUE`. A command line does not tell `3` from `"3"`, so a number or a boolean matches the
/// property in both forms.
fn parse_filters(filters: &[String]) -> Result<Vec<Filter>> {
    let parse = |text: &String| match text.split_once('=') {
        Some((path, value)) if !path.is_empty() => {
            let (op, value) = match foreign_json::from_str::<Value>(value) {
                Ok(scalar @ (Value::Number(_) | Value::Bool(_))) => (Op::In, json!([scalar, value])),
                _ => (Op::Eq, value.into()),
            };
            Ok(Filter { path: path.to_owned(), op, value: Some(value) })
        }
        _ => Err(Error::Usage(format!("--where: `{text}` is not of the form PROPERTY=VALUE"))),
    };
    filters.iter().map(parse).collect()
}

/// Reads the request body from a file of tasks.
fn read_tasks(path: &Path) -> Result<Map<String, Value>> {
    let failed = |source| Error::input_file(path, source);
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_string(&mut text).map_err(failed)?;
    } else {
        text = std::fs::read_to_string(path).map_err(failed)?;
    }
    messages::remember_file(path);
    parse(&text).map_err(|error| Error::Usage(format!("`{}` cannot be read: {error}", path.display())))
}

/// Parses YAML or JSON: a list of tasks, or an object with `tasks`. Field names may be those of a manifest
/// (`blocked_by`) or of the API (`blockedBy`).
fn parse(text: &str) -> std::result::Result<Map<String, Value>, String> {
    let ForeignValue(parsed) = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    messages::remember_fields(&parsed);
    let mut body = match parsed {
        Value::Array(_) => Map::from_iter([("tasks".to_owned(), parsed)]),
        other => match to_camel_case(other) {
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

fn print_dry_run(checked: &DryRunView) -> Result<()> {
    if let Some(planner) = &checked.planner {
        output::print_line(&format!("{} would plan; the tasks are known after that", bold(planner)))?;
        return print_judge(checked);
    }
    let mut rows = Vec::new();
    for (index, layer) in checked.layers.iter().enumerate() {
        for task in layer {
            rows.push(vec![
                (index + 1).to_string(),
                task.key.clone(),
                task.agent.clone().unwrap_or_else(|| "–".to_owned()),
                task.blocked_by.join(", "),
                task.reason.clone(),
            ]);
        }
    }
    output::print_table(&["LAYER", "TASK", "AGENT", "WAITS FOR", "WHY THAT AGENT"], &rows)?;
    output::print_dim(&format!("first: {}", checked.first.join(", ")))?;
    print_judge(checked)?;
    let notes =
        checked.layers.iter().flatten().filter_map(|task| Some((&task.key, task.review_note.as_ref()?)));
    notes
        .map(|(key, note)| format!("task `{key}`: {note}"))
        .try_for_each(|line| output::print_item("⚠ ", &line))?;
    tasks_without_agent(checked).iter().try_for_each(|line| output::print_item("✗ ", line))
}

/// What is said of the tasks that no agent fits, for each reason once. Their workflow would stop and wait for a person.
fn tasks_without_agent(checked: &DryRunView) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for task in checked.layers.iter().flatten().filter(|task| task.agent.is_none()) {
        by_reason.entry(&task.reason).or_default().push(format!("`{}`", task.key));
    }
    let unless = match &checked.judge {
        Some(judge) => format!(", unless {judge} chooses one"),
        None => String::new(),
    };
    let line = |(reason, keys): (&str, Vec<String>)| {
        let tasks = if keys.len() == 1 { "task" } else { "tasks" };
        format!(
            "no agent fits the {tasks} {}{unless}: {reason}; the workflow would wait for a person: name an agent with \
             `assigned_agent` (`{}` lists them), or mark one as the default agent",
            keys.join(", "),
            hints::command("agent list")
        )
    };
    by_reason.into_iter().map(line).collect()
}

fn print_judge(checked: &DryRunView) -> Result<()> {
    match &checked.judge {
        Some(judge) => output::print_line(&dim(&format!("judge: {judge}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_a_filter_matches_numbers_and_texts() {
        let matches = |filter: &str, properties: Value| {
            let filters = parse_filters(&[filter.to_owned()]).unwrap();
            filters[0].check().unwrap();
            filters[0].matches(properties.as_object().unwrap())
        };
        for (filter, property) in [
            ("complexity=3", json!({ "complexity": 3 })),
            ("complexity=3", json!({ "complexity": "3" })),
            ("requires_collaboration=true", json!({ "requires_collaboration": true })),
            ("kind=research", json!({ "kind": "research" })),
            ("title=a=b", json!({ "title": "a=b" })),
        ] {
            assert!(matches(filter, property.clone()), "{filter} {property}");
        }
        assert!(!matches("complexity=3", json!({ "complexity": 4 })));
        assert!(parse_filters(&["=x".to_owned()]).is_err());
    }

    #[test]
    fn a_file_is_a_list_or_an_object_with_field_names_of_either_style() {
        let expected = json!({ "tasks": [{ "key": "a", "blockedBy": ["b"], "maxRetries": 1 }] });
        for text in [
            "- key: a\n  blocked_by: [b]\n  max_retries: 1\n",
            "tasks:\n  - key: a\n    blockedBy: [b]\n    maxRetries: 1\n",
            r#"[{ "key": "a", "blocked_by": ["b"], "maxRetries": 1 }]"#,
        ] {
            assert_eq!(Value::Object(parse(text).unwrap()), expected, "{text}");
        }
        let body = parse("max_concurrent: 2\ntasks: [{ key: a }]").unwrap();
        assert_eq!(body.get("maxConcurrent"), Some(&json!(2)));
        for invalid in ["just words", "description: x", "tasks: none", "[", ""] {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
    }
}
