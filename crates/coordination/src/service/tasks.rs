//! Retries, reassigns or skips a single task, as a person commands.

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    invalid::Invalid,
    task::{TASK_TYPE, Task, TaskStatus},
    workflow::{Workflow, WorkflowStatus},
    workflow_event::{EventActor, TaskMove, WorkflowEventBody},
};
use emergent_graph::Actor;
use emergent_store::{Tx, objects as rows, runs, workflows};
use serde_json::{Value, json};

use super::{
    changes::{check_not_ended, check_note, resume_workflow, retry_properties},
    decision_audit::record_task_command,
};
use crate::{
    dispatchable::NameableAgents,
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
            let mut current = get_task(tx, actor.project, task)?;
            let (updates, reason) = command_changes(tx, actor, &current, workflow.as_ref(), &command)?;
            let mut writer = match &workflow {
                Some(workflow) => graph.workflow_write_context(tx, actor, workflow.id)?.0,
                None => graph.unassigned_write_context(tx, actor)?,
            };
            writer.reason = Some(reason.clone());
            for changes in updates {
                current = Task::from_object(&update_properties(tx, &writer, task, changes)?);
            }
            if let Some(workflow) = workflow {
                let now = graph.clock().now();
                record_task_command(tx, actor, &workflow, &current, &command, now)?;
                let moved = TaskMove { by: Some(EventActor::Person), ..TaskMove::new(reason) };
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
            Ok(current)
        };
        self.executor().graph().db().write(work).await
    }
}

fn get_task(tx: &mut Tx<'_>, project: ProjectId, task: ObjectId) -> Result<Task> {
    let object = rows::get(tx, project, task)?.filter(|object| object.type_ == TASK_TYPE);
    Ok(Task::from_object(&object.ok_or_else(|| Error::not_found("task", task))?))
}

/// Returns the updates that a command makes on a task, in order, and their reason.
fn command_changes(
    tx: &mut Tx<'_>,
    actor: Actor,
    task: &Task,
    workflow: Option<&Workflow>,
    command: &TaskCommand,
) -> Result<(Vec<Value>, String)> {
    // Somebody set the status without an attempt of the dispatcher.
    let by_hand = task.status == TaskStatus::InProgress && !has_attempt_run(tx, actor.project, task)?;
    let refuse = |what: &str, possible: &str| {
        Err(Error::Conflict(format!("task `{}` is {}: {what} is for {possible}", task.key, task.status)))
    };
    match command {
        TaskCommand::Skip { reason } => {
            let can_change =
                matches!(task.status, TaskStatus::Pending | TaskStatus::Failed | TaskStatus::Paused);
            if !can_change && !by_hand {
                return refuse("skipping", "one that is pending, failed, paused or taken by hand");
            }
            let why = reason.clone().unwrap_or_else(|| "a person skipped the task".to_owned());
            let skipped = json!({ "status": TaskStatus::Skipped.as_str(), "needs_person": null });
            // Only a pending task can be skipped, so the task becomes pending first.
            let make_pending = by_hand.then(|| retry_properties(task, None, None));
            Ok((make_pending.into_iter().chain([skipped]).collect(), why))
        }
        TaskCommand::Retry { note } => {
            // A pending task can be retried if the workflow was escalated because the task waits for another
            // workflow.
            let escalated_task = workflow.and_then(|workflow| workflow.escalation.as_ref()?.task);
            let is_asked_about = task.status == TaskStatus::Pending && escalated_task == Some(task.id);
            let has_ended = matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped);
            if !has_ended && !by_hand && !is_asked_about {
                return refuse(
                    "trying again",
                    "one that failed, was skipped or taken by hand, or is asked about",
                );
            }
            let why = note.clone().unwrap_or_else(|| "a person retried the task".to_owned());
            Ok((vec![retry_properties(task, note.as_deref(), None)], why))
        }
        TaskCommand::Reassign { agent, note } => {
            let can_change =
                matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped | TaskStatus::Pending);
            if !can_change && !by_hand {
                return refuse("another agent", "one that is pending, failed, was skipped or taken by hand");
            }
            let agents = NameableAgents::load(tx, actor.project, actor.author)?;
            if let Some(problem) = agents.problem_with_list(agent) {
                return Err(Invalid::new("agent", problem).into());
            }
            Ok((
                vec![retry_properties(task, note.as_deref(), Some(agent))],
                format!("a person assigned the task to `{agent}`"),
            ))
        }
    }
}

/// Whether the task has a run of the dispatcher.
fn has_attempt_run(tx: &mut Tx<'_>, project: ProjectId, task: &Task) -> Result<bool> {
    Ok(match task.run {
        Some(run) => runs::get(tx, project, run)?.is_some(),
        None => false,
    })
}
