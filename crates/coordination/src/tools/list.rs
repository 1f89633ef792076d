//! The tools `tasks_list` and `tasks_available`.

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
    let call = CallContext::from(&context);
    let read = move |tx: &mut Tx<'_>| {
        let workflow = input.workflow.resolve(tx, &call)?;
        let filter = TaskFilter { workflow, status: input.status, available: false };
        Ok::<_, Error>((tasks::list(tx, call.project, &filter, &page)?, input.fields))
    };
    let (task_page, fields) = context.graph.db().read(read).await?;
    Ok(page_json("tasks", TaskFields::new(fields).tasks(&task_page.items), task_page.next))
}

async fn available(context: ToolContext, input: AvailableInput) -> Result<Value, ToolError> {
    let limit = input.limit.get();
    let call = CallContext::from(&context);
    let read = move |tx: &mut Tx<'_>| {
        let workflow = input.workflow.resolve(tx, &call)?;
        let filter = TaskFilter { workflow, status: None, available: true };
        let available = tasks::list(tx, call.project, &filter, &Page::first(MAX_TASKS))?.items;
        let ids: Vec<ObjectId> = available.iter().map(|task| task.id).collect();
        let reached = tasks::reachable_blocks(tx, &ids)?;
        Ok::<_, Error>((sort_by_urgency(tx, available, &reached.edges)?, input.fields))
    };
    let (available, fields) = context.graph.db().snapshot(read).await?;
    let shown = &available[..limit.min(available.len())];
    Ok(json!({ "tasks": TaskFields::new(fields).tasks(shown), "total": available.len() }))
}

/// Sorts tasks by priority, then by how many tasks wait for them, then by age. `blocks` has the edges from
/// a blocker to a task that waits for it.
fn sort_by_urgency(
    tx: &mut Tx<'_>,
    mut tasks: Vec<Object>,
    blocks: &[(ObjectId, ObjectId)],
) -> Result<Vec<Object>, Error> {
    let mut dependents: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for (blocker, dependent) in blocks {
        dependents.entry(*blocker).or_default().push(*dependent);
    }
    let waiting_count = |id: ObjectId| {
        let mut seen = HashSet::from([id]);
        let mut to_visit = vec![id];
        while let Some(blocker) = to_visit.pop() {
            to_visit
                .extend(dependents.get(&blocker).into_iter().flatten().filter(|next| seen.insert(**next)));
        }
        seen.len()
    };
    let mut waiting = HashMap::with_capacity(tasks.len());
    for task in &tasks {
        tx.check_deadline()?;
        waiting.insert(task.id, waiting_count(task.id));
    }
    tasks.sort_by_cached_key(|task| {
        (Task::from_object(task).priority, Reverse(waiting.get(&task.id).copied()), task.created_at, task.id)
    });
    Ok(tasks)
}
