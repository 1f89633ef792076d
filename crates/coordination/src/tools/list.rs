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
        schema,
        view::{FieldSelection, page_json},
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    caller::Caller,
    view::{FIELDS, TaskFields},
};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let statuses: Vec<&str> = TaskStatus::ALL.iter().map(|one| one.as_str()).collect();
    let whose = || {
        json!({
            "workflowId": schema::uuid("Only tasks of this workflow; of yours when absent"),
            "allWorkflows": {
                "type": "boolean",
                "description": "Tasks of every workflow of the project, and those of none. So it is anyway when you work \
                                for no workflow.",
                "default": false,
            },
        })
    };
    vec![
        read_tool(
            "tasks_list",
            "Lists tasks, newest first: what there is to do, who does it, and what came of it. For one task in full, name \
             the parts you need in `fields`. Returns `tasks`, and `nextCursor` when there are more.",
            schema::object(
                &[],
                schema::merge_properties(
                    json!({
                        "status": { "type": "string", "description": "Only tasks with this status.", "enum": statuses },
                    }),
                    &[whose(), schema::paging(20), schema::fields_schema(FIELDS)],
                ),
            ),
            list,
        ),
        read_tool(
            "tasks_available",
            "Lists the tasks that can start now: pending, with everything they wait for completed. The most urgent come \
             first, then those that most others wait for, then the oldest. Returns `tasks`, and how many there are in \
             `total`.",
            schema::object(
                &[],
                schema::merge_properties(
                    json!({ "limit": schema::count("How many at most:", 1, 100, 20) }),
                    &[whose(), schema::fields_schema(FIELDS)],
                ),
            ),
            available,
        ),
    ]
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListInput {
    status: Option<TaskStatus>,
    workflow_id: Option<WorkflowId>,
    #[serde(default)]
    all_workflows: bool,
    limit: Option<i64>,
    cursor: Option<String>,
    fields: Option<FieldSelection>,
}

impl ListInput {
    fn workflow(&self, tx: &mut Tx<'_>, context: &CallContext) -> Result<Option<WorkflowId>> {
        if self.all_workflows {
            return Ok(None);
        }
        let caller = Caller::load(tx, context.project, context.run)?;
        caller.workflow(tx, context.project, self.workflow_id)
    }
}

/// What of a call's context a read takes along.
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
    let wanted = Page::new(Some(input.limit.unwrap_or(20)), input.cursor.as_deref()).map_err(Error::from)?;
    let asking = CallContext::from(&context);
    let read = move |tx: &mut Tx<'_>| {
        let workflow = input.workflow(tx, &asking)?;
        let which = TaskFilter { workflow, status: input.status, available: false };
        Ok::<_, Error>((tasks::list(tx, asking.project, &which, &wanted)?, input.fields))
    };
    let (found, fields) = context.graph.db().read(read).await?;
    Ok(page_json("tasks", TaskFields::new(fields).tasks(&found.items), found.next))
}

async fn available(context: ToolContext, input: ListInput) -> Result<Value, ToolError> {
    let most = usize::try_from(input.limit.unwrap_or(20)).unwrap_or(20);
    let asking = CallContext::from(&context);
    let read = move |tx: &mut Tx<'_>| {
        let workflow = input.workflow(tx, &asking)?;
        let which = TaskFilter { workflow, status: None, available: true };
        let found = tasks::list(tx, asking.project, &which, &Page::first(MAX_TASKS))?.items;
        let ids: Vec<ObjectId> = found.iter().map(|one| one.id).collect();
        Ok::<_, Error>((sort_by_urgency(found, &tasks::reachable_blocks(tx, &ids)?), input.fields))
    };
    let (found, fields) = context.graph.db().snapshot(read).await?;
    let shown = &found[..most.min(found.len())];
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
