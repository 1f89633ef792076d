//! Checks and changes that several commands on workflows, tasks and discussions share.

use emergent_domain::{
    approval::{Choice, Decision},
    author::Author,
    ids::TokenId,
    invalid::Invalid,
    task::{Task, TaskStatus},
    workflow::{Workflow, WorkflowStatus},
    workflow_event::{EventActor, WorkflowEventBody},
};
use emergent_graph::WriteContext;
use emergent_rules::workflow::threading::append_note;
use emergent_store::{Tx, inbox_items, tasks, workflows};
use serde_json::{Value, json};

use crate::{
    decision_rights::check_may_decide,
    error::{Error, Result},
    transactions::new_event,
};

const MAX_NOTE_BYTES: usize = 20_000;

/// Checks a text that a person wrote before it is stored. `field` is its name in the request.
pub(super) fn check_note(field: &str, text: Option<&str>) -> Result<()> {
    let Some(text) = text else { return Ok(()) };
    if text.contains('\0') {
        return Err(Invalid::new(field, "has a NUL character").into());
    }
    if text.len() > MAX_NOTE_BYTES {
        return Err(Invalid::new(field, format!("must have at most {MAX_NOTE_BYTES} bytes")).into());
    }
    Ok(())
}

/// Refuses changes of a workflow that has ended.
pub(super) fn check_not_ended(workflow: &Workflow) -> Result<()> {
    match workflow.status {
        WorkflowStatus::Completed | WorkflowStatus::Cancelled => Err(Error::Conflict(format!(
            "workflow `{}` is {}: it has ended and accepts no more changes",
            workflow.id, workflow.status
        ))),
        _ => Ok(()),
    }
}

/// The properties that make a task pending again, even if its retries are used up. They do not change its retries: what
/// a person asks for is one more attempt, and a pending task is attempted without a retry. If that attempt fails, only
/// the retries that were left before allow another one.
pub(super) fn retry_properties(task: &Task, note: Option<&str>, agent: Option<&str>) -> Value {
    let failure_context = match note {
        Some(note) => append_note(&task.failure_context, note),
        None => task.failure_context.clone(),
    };
    let assigned = match agent {
        Some(agent) => json!(agent),
        None if task.agent_is_named => json!(task.assigned_agent),
        None => Value::Null,
    };
    json!({
        "status": TaskStatus::Pending.as_str(),
        "assigned_agent": assigned,
        "agent_is_named": agent.is_some() || task.agent_is_named,
        "failure_context": failure_context,
        "needs_person": null,
        "run_id": null,
        // They are of an attempt that no longer counts, and whoever completes the task by hand may give neither.
        "summary": null,
        "output": null,
    })
}

/// The token of an author; `None` for a run and for the server itself.
pub(super) fn token_of(author: Author) -> Option<TokenId> {
    match author {
        Author::Token { id } => Some(id),
        _ => None,
    }
}

/// Lets a workflow run again. The caller has locked it. One that waits for a person needs an author who may decide.
pub(super) fn resume_workflow(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    mut workflow: Workflow,
    note: Option<&str>,
) -> Result<Workflow> {
    let (from, now, id) = (workflow.status, writer.now, workflow.id);
    if from == WorkflowStatus::Escalated {
        check_may_decide(tx, writer.author, "workflow", id)?;
    }
    // A workflow that failed before it had tasks is planned again.
    let has_tasks = tasks::count(tx, workflow.project, id)? > 0;
    workflow.status = if has_tasks { WorkflowStatus::Running } else { WorkflowStatus::Planning };
    if !has_tasks {
        (workflow.plan_attempts, workflow.planner_run) = (0, None);
    }
    workflow.escalation = None;
    workflow.completed_at = None;
    workflow.summary = None;
    workflow.updated_at = now;
    // Another workflow may take the new tasks of the project meanwhile, and there is one such workflow at a time.
    workflows::end_standing(tx, id)?;
    if from == WorkflowStatus::Escalated {
        let decision = Decision {
            choice: Choice::Approve,
            edited_input: None,
            answer: None,
            reason: note.map(str::to_owned),
            objects_digest: None,
            by: token_of(writer.author),
            at: now,
        };
        inbox_items::store_decision(tx, workflow.project, id.0, &decision)?;
    }
    workflows::update(tx, from, &workflow)?;
    workflows::bump_revision(tx, workflow.project, id)?;
    workflows::make_claimable(tx, id, now)?;
    let by = match writer.author {
        Author::Run { run_id, .. } => EventActor::Run(run_id),
        _ => EventActor::Person,
    };
    let reason = note.unwrap_or("resumed by request").to_owned();
    let resumed = WorkflowEventBody::WorkflowResumed { reason, by };
    workflows::append_events(tx, id, &[new_event(None, None, &resumed, now)])?;
    Ok(workflow)
}
