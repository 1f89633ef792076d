//! Retrying, reassigning and skipping a single task.

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    invalid::Invalid,
    task::{TASK_TYPE, Task, TaskStatus},
    workflow::{Workflow, WorkflowStatus},
    workflow_event::{EventActor, TaskMove, WorkflowEventBody},
};
use emergent_graph::Actor;
use emergent_store::{Tx, agents, objects as rows, runs, workflows};
use serde_json::{Value, json};

use super::changes::{check_not_ended, check_note, resume_workflow, retry_properties};
use crate::{
    dispatcher::Dispatcher,
    error::{Error, Result},
    transactions::{lock_workflow, new_event, update_properties},
};

/// What a person does with a task that failed or waits.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskCommand {
    /// Try the task again; the next attempt reads the note.
    Retry {
        note: Option<String>,
    },
    Reassign {
        agent: String,
        note: Option<String>,
    },
    Skip {
        reason: Option<String>,
    },
}

impl Dispatcher {
    /// Carries out a command. If the workflow waited for this decision, it continues.
    pub async fn command_task(&self, actor: Actor, task: ObjectId, command: TaskCommand) -> Result<Task> {
        match &command {
            TaskCommand::Retry { note } | TaskCommand::Reassign { note, .. } => {
                check_note("note", note.as_deref())?
            }
            TaskCommand::Skip { reason } => check_note("reason", reason.as_deref())?,
        }
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            // The workflow's row is locked before its tasks, in the same order as the dispatcher.
            let workflow = match get_task(tx, actor.project, task)?.workflow {
                Some(id) => Some(lock_workflow(tx, actor.project, id)?),
                None => None,
            };
            workflow.as_ref().map_or(Ok(()), check_not_ended)?;
            let mut before = get_task(tx, actor.project, task)?;
            let (moves, why) = command_changes(tx, actor.project, &before, workflow.as_ref(), &command)?;
            let mut writer = match &workflow {
                Some(workflow) => graph.workflow_write_context(tx, actor, workflow.id)?.0,
                None => graph.unassigned_write_context(tx, actor)?,
            };
            writer.reason = Some(why.clone());
            for changes in moves {
                before = Task::from_object(&update_properties(tx, &writer, task, changes)?);
            }
            if let Some(workflow) = workflow {
                let now = graph.clock().now();
                let moved = TaskMove { by: Some(EventActor::Person), ..TaskMove::new(why) };
                let event = match command {
                    TaskCommand::Skip { .. } => WorkflowEventBody::TaskSkipped(moved),
                    _ => WorkflowEventBody::TaskRetried(moved),
                };
                workflows::append_events(tx, workflow.id, &[new_event(Some(task), None, &event, now)])?;
                match workflow.status {
                    WorkflowStatus::Escalated | WorkflowStatus::Failed => {
                        resume_workflow(tx, &writer, workflow, None)?;
                    }
                    _ => {
                        workflows::bump_revision(tx, actor.project, workflow.id)?;
                    }
                }
            }
            Ok(before)
        };
        self.executor().graph().db().write(work).await
    }
}

fn get_task(tx: &mut Tx<'_>, project: ProjectId, task: ObjectId) -> Result<Task> {
    let object = rows::get(tx, project, task)?.filter(|object| object.type_ == TASK_TYPE);
    Ok(Task::from_object(&object.ok_or_else(|| Error::not_found("task", task))?))
}

/// What is written on a task, one after the other, and why.
fn command_changes(
    tx: &mut Tx<'_>,
    project: ProjectId,
    task: &Task,
    workflow: Option<&Workflow>,
    command: &TaskCommand,
) -> Result<(Vec<Value>, String)> {
    let by_hand = task.status == TaskStatus::InProgress && !has_running_attempt(tx, project, task)?;
    let refuse = |what: &str, possible: &str| {
        Err(Error::Conflict(format!("task `{}` is {}: {what} is for {possible}", task.key, task.status)))
    };
    match command {
        TaskCommand::Skip { reason } => {
            let open = matches!(task.status, TaskStatus::Pending | TaskStatus::Failed | TaskStatus::Paused);
            if !open && !by_hand {
                return refuse("skipping", "one that is pending, failed, paused or taken by hand");
            }
            let why = reason.clone().unwrap_or_else(|| "a person skipped it".to_owned());
            let skipped = json!({ "status": TaskStatus::Skipped.as_str(), "needs_person": null });
            // Only what is not begun is skipped: it is taken back first.
            let taken_back = by_hand.then(|| retry_properties(task, None, None));
            Ok((taken_back.into_iter().chain([skipped]).collect(), why))
        }
        TaskCommand::Retry { note } => {
            // One that waits in vain for another workflow is looked at again.
            let asked = workflow.and_then(|workflow| workflow.escalation.as_ref()?.task);
            let waits = task.status == TaskStatus::Pending && asked == Some(task.id);
            let settled = matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped);
            if !settled && !by_hand && !waits {
                return refuse(
                    "trying again",
                    "one that failed, was skipped or taken by hand, or is asked about",
                );
            }
            let why = note.clone().unwrap_or_else(|| "a person wants it".to_owned());
            Ok((vec![retry_properties(task, note.as_deref(), None)], why))
        }
        TaskCommand::Reassign { agent, note } => {
            let open = matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped | TaskStatus::Pending);
            if !open && !by_hand {
                return refuse("another agent", "one that is pending, failed, was skipped or taken by hand");
            }
            if agents::get_by_name(tx, project, agent)?.is_none() {
                let names = agents::list_names(tx, project)?.join(", ");
                return Err(
                    Invalid::new("agent", format!("there is no agent `{agent}`; there are {names}")).into()
                );
            }
            Ok((
                vec![retry_properties(task, note.as_deref(), Some(agent))],
                format!("a person gave it to `{agent}`"),
            ))
        }
    }
}

/// Whether a run of the dispatcher is at a task.
fn has_running_attempt(tx: &mut Tx<'_>, project: ProjectId, task: &Task) -> Result<bool> {
    Ok(match task.run {
        Some(run) => runs::get(tx, project, run)?.is_some(),
        None => false,
    })
}
