//! `tasks_list` and `tasks_available`.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, WorkflowId},
    object::Object,
    task::{MAX_TASKS, Task, TaskStatus},
};
use emergent_graph::{Error, Result};
use emergent_store::{
    Tx,
    tasks::{self, TaskFilter},
};
use emergent_tools::{
    Tool, ToolContext, ToolError,
    builtin::{
        define::read_tool,
        input::{Count, OneOf, Paging, Uuid},
        view::page_json,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    caller::Caller,
    view::{TaskFieldNames, TaskFields},
};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        read_tool(
            "tasks_list",
            "Lists tasks with status, priority, agent and summary, newest first. Returns `tasks`.",
            list,
        ),
        read_tool(
            "tasks_available",
            "Lists the tasks that can start now: pending, with all blockers completed. Most urgent first, then by how many \
             tasks wait for it, then oldest. Returns `tasks` and their `total`.",
            available,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    /// Only tasks with this status.
    #[schemars(with = "Option<OneOf<TaskStatus>>")]
    status: Option<TaskStatus>,
    #[serde(flatten)]
    workflow: WorkflowInput,
    #[serde(flatten)]
    paging: Paging,
    fields: Option<TaskFieldNames>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AvailableInput {
    #[serde(flatten)]
    workflow: WorkflowInput,
    /// Number of tasks.
    #[serde(default)]
    limit: Count<20, 1, 100>,
    fields: Option<TaskFieldNames>,
}

/// Whose tasks to list; flattened into an input.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WorkflowInput {
    /// Only this workflow; default: yours.
    #[schemars(with = "Option<Uuid>")]
    workflow_id: Option<WorkflowId>,
    /// Tasks of all workflows and of none; default if you work for none.
    #[serde(default)]
    all_workflows: bool,
}

impl WorkflowInput {
    fn resolve(&self, tx: &mut Tx<'_>, context: &CallContext) -> Result<Option<WorkflowId>> {
        if self.all_workflows {
            return Ok(None);
        }
        let caller = Caller::load(tx, context.project, context.run)?;
        caller.workflow(tx, context.project, self.workflow_id)
    }
}

/// The part of a call's context that a read needs.
#[derive(Clone, Copy)]
struct CallContext {
    project: emergent_domain::ids::ProjectId,
    run: Option<emergent_domain::ids::RunId>,
}

impl From<&ToolContext> for CallContext {
    fn from(context: &ToolContext) -> Self {
        Self { project: context.project, run: context.run }
    }
}

async fn list(context: ToolContext, input: ListInput) -> Result<Value, ToolError> {
    let page = input.paging.page().map_err(Error::from)?;
    let asking = CallContext::from(&context);
    let read = move |tx: &mut Tx<'_>| {
        let workflow = input.workflow.resolve(tx, &asking)?;
        let which = TaskFilter { workflow, status: input.status, available: false };
        Ok::<_, Error>((tasks::list(tx, asking.project, &which, &page)?, input.fields))
    };
    let (found, fields) = context.graph.db().read(read).await?;
    Ok(page_json("tasks", TaskFields::new(fields).tasks(&found.items), found.next))
}

async fn available(context: ToolContext, input: AvailableInput) -> Result<Value, ToolError> {
    let limit = input.limit.get();
    let asking = CallContext::from(&context);
    let read = move |tx: &mut Tx<'_>| {
        let workflow = input.workflow.resolve(tx, &asking)?;
        let which = TaskFilter { workflow, status: None, available: true };
        let found = tasks::list(tx, asking.project, &which, &Page::first(MAX_TASKS))?.items;
        let ids: Vec<ObjectId> = found.iter().map(|one| one.id).collect();
        Ok::<_, Error>((sort_by_urgency(found, &tasks::reachable_blocks(tx, &ids)?), input.fields))
    };
    let (found, fields) = context.graph.db().snapshot(read).await?;
    let shown = &found[..limit.min(found.len())];
    Ok(json!({ "tasks": TaskFields::new(fields).tasks(shown), "total": found.len() }))
}

/// The most urgent, then what most others wait for, then the oldest.
fn sort_by_urgency(found: Vec<Object>, ahead: &[(ObjectId, ObjectId)]) -> Vec<Object> {
    let mut after: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for (before, next) in ahead {
        after.entry(*before).or_default().push(*next);
    }
    let waiting = |id: ObjectId| {
        let mut seen = HashSet::from([id]);
        let mut open = vec![id];
        while let Some(one) = open.pop() {
            open.extend(after.get(&one).into_iter().flatten().filter(|next| seen.insert(**next)));
        }
        seen.len()
    };
    let mut found = found;
    found.sort_by_cached_key(|one| {
        (Task::from_object(one).priority, Reverse(waiting(one.id)), one.created_at, one.id)
    });
    found
}
