//! What a task waits for that its workflow does not drive: blockers of another workflow or of none, and
//! tasks that somebody took by hand.

use emergent_domain::{
    ids::{ObjectId, WorkflowId},
    task::{Task, TaskStatus},
    workflow::WorkflowStatus,
};

/// Describes a task that is in progress without a run of the dispatcher.
pub const TAKEN_MANUALLY: &str = "it was taken by hand, and is waited for until somebody finishes it";

/// A blocker of another workflow, or of none, that is not completed.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignBlocker {
    pub id: ObjectId,
    /// The name for messages, with its workflow.
    pub name: String,
    /// Its own workflow; `None` if it has none or it was deleted.
    pub workflow: Option<WorkflowId>,
    /// Why it will not complete any more; `None` while it may.
    pub dead_reason: Option<String>,
}

impl ForeignBlocker {
    /// `workflow` is the status of the blocker's own workflow; `None` if it has none or it was deleted.
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
        let own_workflow = blocker.workflow.filter(|_| workflow.is_some());
        Self { id: blocker.id, name: task_name(blocker), workflow: own_workflow, dead_reason }
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

/// Describes what a task waits for; `None` if it waits for nothing, or only for tasks of its workflow.
/// `attempted`: whether a run of the dispatcher works on it.
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
