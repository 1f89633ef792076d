//! Loads the blockers of a workflow's tasks that belong to another workflow, or to none.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, ProjectId, WorkflowId},
    task::{Task, TaskStatus},
    workflow::WorkflowStatus,
};
use emergent_rules::workflow::foreign_blockers::ForeignBlocker;
use emergent_store::{Tx, transfer, workflows};
use serde_json::Value;

/// The blockers among these edges that are not of the workflow and hold up what is.
pub(crate) fn load_foreign_blockers(
    tx: &mut Tx<'_>,
    project: ProjectId,
    here: &[Task],
    blocks: &[(ObjectId, ObjectId)],
) -> Result<Vec<ForeignBlocker>, emergent_store::Error> {
    let here: HashSet<ObjectId> = here.iter().map(|task| task.id).collect();
    let elsewhere: HashSet<ObjectId> =
        blocks.iter().map(|(from, _)| *from).filter(|from| !here.contains(from)).collect();
    if elsewhere.is_empty() {
        return Ok(Vec::new());
    }
    let elsewhere: Vec<ObjectId> = elsewhere.into_iter().collect();
    let mut stand: HashMap<WorkflowId, WorkflowStatus> = HashMap::new();
    let mut open = Vec::new();
    for object in transfer::objects_by_id(tx, project, &elsewhere)? {
        // Whatever has no status is no task, and holds up nothing.
        let status = object.properties.to_map().get("status").and_then(Value::as_str).map(str::to_owned);
        let holds = status.is_some_and(|status| status != TaskStatus::Completed.as_str());
        if !holds {
            continue;
        }
        let blocker = Task::from_object(&object);
        if let Some(id) = blocker.workflow
            && !stand.contains_key(&id)
            && let Some(workflow) = workflows::get(tx, project, id)?
        {
            stand.insert(id, workflow.status);
        }
        let workflow = blocker.workflow.and_then(|id| stand.get(&id).copied());
        open.push(ForeignBlocker::new(&blocker, workflow));
    }
    open.sort_by_key(|one| one.id);
    Ok(open)
}
