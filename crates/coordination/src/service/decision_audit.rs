//! Adds what a person decides about a workflow that waits, and a budget that changes, to the audit log, in the transaction
//! of the change. What is decided in the inbox is recorded there.

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    ids::WorkflowId,
    task::Task,
    time::Timestamp,
    workflow::{Limit, Workflow, WorkflowStatus},
};
use emergent_graph::Actor;
use emergent_store::{Tx, audit};

use super::{cancel::is_being_cancelled, inbox::DecidedIn, tasks::TaskCommand};
use crate::{decision_rights::load_open_questions, error::Result};

/// Records that a workflow is cancelled which waits for a person, or which has a discussion that does. The caller has not
/// changed it yet.
pub(super) fn record_cancel(
    tx: &mut Tx<'_>,
    actor: Actor,
    workflow: &Workflow,
    decided_in: DecidedIn,
    now: Timestamp,
) -> Result<()> {
    // A large workflow is cancelled in several transactions, of which the first one has recorded it.
    if is_being_cancelled(workflow) {
        return Ok(());
    }
    if workflow.status != WorkflowStatus::Escalated && decided_in == DecidedIn::Workflow {
        let open = load_open_questions(tx, workflow.id)?;
        let Some(asked) = open.of_discussion() else { return Ok(()) };
        return record(tx, actor, AuditAction::WorkflowCancel, workflow.id, asked, now);
    }
    record_decision(tx, actor, AuditAction::WorkflowCancel, workflow, decided_in, now)
}

/// Records that a workflow which waits for a person goes on. The caller has not changed it yet.
pub(super) fn record_resume(
    tx: &mut Tx<'_>,
    actor: Actor,
    workflow: &Workflow,
    decided_in: DecidedIn,
    now: Timestamp,
) -> Result<()> {
    record_decision(tx, actor, AuditAction::WorkflowResume, workflow, decided_in, now)
}

fn record_decision(
    tx: &mut Tx<'_>,
    actor: Actor,
    action: AuditAction,
    workflow: &Workflow,
    decided_in: DecidedIn,
    now: Timestamp,
) -> Result<()> {
    if workflow.status != WorkflowStatus::Escalated || decided_in != DecidedIn::Workflow {
        return Ok(());
    }
    record(tx, actor, action, workflow.id, &waited_for(workflow), now)
}

fn record(
    tx: &mut Tx<'_>,
    actor: Actor,
    action: AuditAction,
    workflow: WorkflowId,
    waited_for: &str,
    now: Timestamp,
) -> Result<()> {
    let entry = NewAuditEntry::new(action, Some(actor.project), waited_for).id(workflow);
    Ok(audit::record(tx, &entry, now)?)
}

/// Records what a person does with a task of a workflow that waits. The caller has not changed the workflow yet.
pub(super) fn record_task_command(
    tx: &mut Tx<'_>,
    actor: Actor,
    workflow: &Workflow,
    task: &Task,
    command: &TaskCommand,
    now: Timestamp,
) -> Result<()> {
    if workflow.status != WorkflowStatus::Escalated {
        return Ok(());
    }
    let action = match command {
        TaskCommand::Retry { .. } => AuditAction::TaskRetry,
        TaskCommand::Reassign { .. } => AuditAction::TaskReassign,
        TaskCommand::Skip { .. } => AuditAction::TaskSkip,
    };
    let entry = NewAuditEntry::new(action, Some(actor.project), &task.title)
        .id(task.id)
        .detail("workflow", workflow.id.to_string());
    let entry = match command {
        TaskCommand::Reassign { agent, .. } => entry.detail("agent", agent.as_str()),
        TaskCommand::Retry { .. } | TaskCommand::Skip { .. } => entry,
    };
    Ok(audit::record(tx, &entry, now)?)
}

/// Records that tasks of a cancelled workflow go on in another one.
pub(super) fn record_take_over(
    tx: &mut Tx<'_>,
    actor: Actor,
    from: &Workflow,
    tasks: usize,
    why: &str,
    now: Timestamp,
) -> Result<()> {
    let entry = NewAuditEntry::new(AuditAction::WorkflowTakeOver, Some(actor.project), first_line(from))
        .id(from.id)
        .detail("tasks", tasks)
        .detail("why", why);
    Ok(audit::record(tx, &entry, now)?)
}

/// Records that the budget of a workflow is another one, unless it is the same. `workflow` has the budget before.
pub(super) fn record_budget(
    tx: &mut Tx<'_>,
    actor: Actor,
    workflow: &Workflow,
    limit: Limit,
    now: Timestamp,
) -> Result<()> {
    let (before, id): (Limit, WorkflowId) = (workflow.settings.budget, workflow.id);
    if before == limit {
        return Ok(());
    }
    let entry = NewAuditEntry::new(AuditAction::WorkflowSetBudget, Some(actor.project), first_line(workflow))
        .id(id)
        .detail("microusd", limit.microusd)
        .detail("tokens", limit.tokens)
        .detail("microusdBefore", before.microusd)
        .detail("tokensBefore", before.tokens);
    Ok(audit::record(tx, &entry, now)?)
}

/// What a workflow waits for, or else what it is about.
fn waited_for(workflow: &Workflow) -> String {
    let reason = workflow.escalation.as_ref().map(|why| why.reason.clone());
    reason.unwrap_or_else(|| first_line(workflow).to_owned())
}

fn first_line(workflow: &Workflow) -> &str {
    workflow.description.lines().next().unwrap_or_default()
}
