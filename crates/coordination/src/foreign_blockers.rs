//! What a task waits for that nobody walks here: blockers of another workflow or of none, and tasks
//! that somebody took by hand.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, ProjectId, WorkflowId},
    task::{Task, TaskStatus},
    workflow::WorkflowStatus,
};
use emergent_store::{Tx, transfer, workflows};
use serde_json::Value;

/// What is said of a task that is in progress without a run of the dispatcher.
pub const TAKEN_MANUALLY: &str = "it was taken by hand, and is waited for until somebody finishes it";

/// A blocker of another workflow, or of none, that is not completed.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignBlocker {
    pub id: ObjectId,
    /// What people call it, with its workflow.
    pub name: String,
    /// Why it will not be completed by itself any more; `None` while it may be.
    pub dead_reason: Option<String>,
}

impl ForeignBlocker {
    /// `workflow`: how the blocker's own one stands, `None` when it has none or that is gone.
    pub fn new(blocker: &Task, workflow: Option<WorkflowStatus>) -> Self {
        let dead_reason = match (blocker.status, blocker.workflow, workflow) {
            (TaskStatus::Failed, ..) => Some("has failed".to_owned()),
            (TaskStatus::Skipped, ..) => Some("was skipped".to_owned()),
            (_, Some(_), Some(status)) if status.is_terminal() => {
                Some(format!("is not completed, and its workflow is {status}"))
            }
            (_, Some(_), None) => Some("is not completed, and its workflow is gone".to_owned()),
            _ => None,
        };
        Self { id: blocker.id, name: task_name(blocker), dead_reason }
    }

    /// `api` (The API) of workflow `…`, which has failed.
    fn describe(&self) -> String {
        match &self.dead_reason {
            Some(why) => format!("{}, which {why}", self.name),
            None => self.name.clone(),
        }
    }
}

fn task_name(task: &Task) -> String {
    let mut name = match (task.key == task.id.to_string(), task.title.is_empty()) {
        (true, false) => format!("`{}`", task.title),
        (false, false) if task.title != task.key => format!("`{}` ({})", task.key, task.title),
        _ => format!("`{}`", task.key),
    };
    match task.workflow {
        Some(workflow) => name.push_str(&format!(" of workflow `{workflow}`")),
        None => name.push_str(", a task of no workflow"),
    }
    name
}

/// What a task waits for, in words; `None` when it waits for nothing, or only for tasks beside it.
/// `attempted`: whether a run of the dispatcher is at it.
pub fn describe_wait(task: &Task, attempted: bool, outside: &[ForeignBlocker]) -> Option<String> {
    match task.status {
        TaskStatus::InProgress if !attempted => Some(TAKEN_MANUALLY.to_owned()),
        TaskStatus::Pending if !outside.is_empty() => {
            let each: Vec<String> = outside.iter().map(ForeignBlocker::describe).collect();
            Some(format!("it waits for {}", each.join("; for ")))
        }
        _ => None,
    }
}

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
