//! The tool `tasks_dependencies`, which shows what a task waits for and what waits for it.

use std::{collections::HashSet, sync::Arc};

use emergent_domain::{
    ids::{ObjectId, WorkflowId},
    task::{Task, TaskStatus},
};
use emergent_graph::Error;
use emergent_store::{Tx, tasks};
use emergent_tools::{
    Tool, ToolContext, ToolError,
    builtin::{define::read_tool, input::Uuid},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    caller::{Caller, TaskRef},
    view::{TaskFieldNames, TaskFields},
};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![read_tool(
        "tasks_dependencies",
        "Shows what a task waits for and what waits for it. Returns `task`, the direct `blockedBy` and `blocks`, `waitsFor` (keys \
         of blockers not completed), `canStart`, and `waiting`: how many tasks wait for it, directly or not.",
        dependencies,
    )]
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DependenciesInput {
    /// Task: key in the workflow, or id; default: your own.
    id: Option<TaskRef>,
    /// Workflow of the key; default: yours.
    #[schemars(with = "Option<Uuid>")]
    workflow_id: Option<WorkflowId>,
    fields: Option<TaskFieldNames>,
}

async fn dependencies(context: ToolContext, input: DependenciesInput) -> Result<Value, ToolError> {
    let (project, run, judged) = (context.project, context.run, Arc::clone(&context.judged));
    let read = move |tx: &mut Tx<'_>| {
        let caller = Caller::load(tx, project, run)?;
        let workflow = caller.workflow(tx, project, input.workflow_id)?;
        let named = input.id.or(caller.link.task.map(|id| TaskRef(id.to_string())));
        let Some(named) = named else {
            let message = "`id` is required: you were started for no task".to_owned();
            return Err(Error::Conflict { message });
        };
        let object = named.resolve(tx, project, workflow, &judged)?;
        let (blockers, dependents) = tasks::neighbours(tx, project, object.id)?;
        let waiting: HashSet<ObjectId> =
            tasks::reachable_blocks(tx, &[object.id])?.edges.into_iter().map(|(_, to)| to).collect();
        Ok((object, blockers, dependents, waiting.len(), input.fields))
    };
    let (object, blockers, dependents, waiting_count, fields) = context.graph.db().snapshot(read).await?;
    let view = TaskFields::new(fields);
    let open_blockers =
        blockers.iter().map(Task::from_object).filter(|task| task.status != TaskStatus::Completed);
    let open_blockers: Vec<String> = open_blockers.map(|task| task.key).collect();
    Ok(json!({
        "task": view.task(&object),
        "blockedBy": view.tasks(&blockers),
        "blocks": view.tasks(&dependents),
        "canStart": open_blockers.is_empty() && Task::from_object(&object).status == TaskStatus::Pending,
        "waitsFor": open_blockers,
        "waiting": waiting_count,
    }))
}
