//! Loads foreign blockers: blockers of a workflow's tasks that belong to another workflow, or to none. Open ones hold up
//! their tasks, and the results of completed ones are passed on to them.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, ProjectId, WorkflowId},
    task::{TASK_TYPE, Task, TaskStatus},
    workflow::WorkflowStatus,
};
use emergent_rules::workflow::foreign_blockers::ForeignBlocker;
use emergent_store::{Tx, transfer, workflows};
use serde_json::Value;

/// Returns the blockers that are not among `tasks` and are not completed, sorted by id. `blocks` has the
/// edges from a blocker to the task that waits for it.
pub(crate) fn load_foreign_blockers(
    tx: &mut Tx<'_>,
    project: ProjectId,
    tasks: &[Task],
    blocks: &[(ObjectId, ObjectId)],
) -> Result<Vec<ForeignBlocker>, emergent_store::Error> {
    let foreign = foreign_ids(tasks, blocks);
    if foreign.is_empty() {
        return Ok(Vec::new());
    }
    let mut statuses: HashMap<WorkflowId, WorkflowStatus> = HashMap::new();
    let mut open_blockers = Vec::new();
    for object in transfer::objects_by_id(tx, project, &foreign)? {
        // An object without a status is not a task and blocks nothing.
        let status = object.properties.to_map().get("status").and_then(Value::as_str).map(str::to_owned);
        let is_open = status.is_some_and(|status| status != TaskStatus::Completed.as_str());
        if !is_open {
            continue;
        }
        let blocker = Task::from_object(&object);
        if let Some(id) = blocker.workflow
            && !statuses.contains_key(&id)
            && let Some(workflow) = workflows::get(tx, project, id)?
        {
            statuses.insert(id, workflow.status);
        }
        let workflow = blocker.workflow.and_then(|id| statuses.get(&id).copied());
        open_blockers.push(ForeignBlocker::new(&blocker, workflow));
    }
    open_blockers.sort_by_key(|blocker| blocker.id);
    Ok(open_blockers)
}

/// Returns the completed blockers of each task that are not among `tasks`, in the order of `blocks`.
pub(crate) fn load_foreign_results(
    tx: &mut Tx<'_>,
    project: ProjectId,
    tasks: &[Task],
    blocks: &[(ObjectId, ObjectId)],
) -> Result<HashMap<ObjectId, Vec<Task>>, emergent_store::Error> {
    let foreign = foreign_ids(tasks, blocks);
    let mut results: HashMap<ObjectId, Vec<Task>> = HashMap::new();
    if foreign.is_empty() {
        return Ok(results);
    }
    let objects = transfer::objects_by_id(tx, project, &foreign)?;
    let completed: HashMap<ObjectId, Task> = objects
        .iter()
        .filter(|object| object.type_ == TASK_TYPE)
        .map(|object| (object.id, Task::from_object(object)))
        .filter(|(_, task)| task.status == TaskStatus::Completed)
        .collect();
    for (from, to) in blocks {
        if let Some(blocker) = completed.get(from) {
            results.entry(*to).or_default().push(blocker.clone());
        }
    }
    Ok(results)
}

/// The ids of blockers that are not among `tasks`.
fn foreign_ids(tasks: &[Task], blocks: &[(ObjectId, ObjectId)]) -> Vec<ObjectId> {
    let own: HashSet<ObjectId> = tasks.iter().map(|task| task.id).collect();
    let foreign: HashSet<ObjectId> =
        blocks.iter().map(|(from, _)| *from).filter(|from| !own.contains(from)).collect();
    foreign.into_iter().collect()
}
