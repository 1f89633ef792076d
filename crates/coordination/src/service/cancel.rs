//! Cancels a workflow with its tasks.
//!
//! That is one transaction, unless it takes longer than a transaction may, because there are many large tasks.
//! Then the workflow is escalated first, so that no dispatcher drives it. Its tasks are ended in several
//! transactions, and the last one cancels the workflow. If the server stops in between, the workflow waits for a
//! person and says why: it can be cancelled again, which continues, or resumed.

use emergent_domain::{
    approval::Decision,
    ids::{ObjectId, RunId, WorkflowId},
    task::{Task, TaskStatus},
    time::Timestamp,
    workflow::{Escalation, Workflow, WorkflowStatus},
    workflow_event::{WorkflowEventBody, WorkflowMove},
};
use emergent_graph::{Actor, Graph, WriteContext};
use emergent_rules::workflow::{snapshot::Snapshot, summary::summary_text, threading::append_failure};
use emergent_store::{Tx, budget, inbox_items, tasks, workflows};
use serde_json::{Value, json};
use tracing::warn;

use super::{
    changes::{check_note, token_of},
    decision_audit::record_cancel,
    inbox::DecidedIn,
};
use crate::{
    decision_rights::CANCELLING_REASON,
    dispatcher::Dispatcher,
    error::{Error, Result},
    session_end::end_open_sessions,
    transactions::{lock_workflow, new_event, update_properties},
    workflow_runs::cancel_workflow_runs,
};

/// The reason that the runs and tasks of a cancelled workflow record.
const CANCELLED_REASON: &str = "its workflow was cancelled";
/// How many tasks one transaction ends, if there are too many for a single one.
pub(super) const TASK_BATCH: usize = 64;

impl Dispatcher {
    /// Cancels a workflow and all of its runs.
    pub async fn cancel(&self, actor: Actor, id: WorkflowId) -> Result<Workflow> {
        self.cancel_in(actor, id, None, DecidedIn::Workflow).await
    }

    pub(super) async fn cancel_in(
        &self,
        actor: Actor,
        id: WorkflowId,
        reason: Option<String>,
        decided_in: DecidedIn,
    ) -> Result<Workflow> {
        check_note("reason", reason.as_deref())?;
        match self.cancel_at_once(actor, id, reason.clone(), decided_in, true).await {
            Err(error) if error.is_too_slow() => {}
            done => return done,
        }
        self.begin_cancelling(actor, id, reason.clone(), decided_in).await?;
        let mut limit = TASK_BATCH;
        loop {
            match self.end_some_tasks(actor, id, limit).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.is_too_slow() && limit > 1 => limit /= 2,
                Err(error) => return Err(error),
            }
        }
        Ok(self.add_summary(self.cancel_at_once(actor, id, reason, decided_in, false).await?).await)
    }

    /// Cancels a workflow in one transaction. A summary reads all tasks, which may take long.
    async fn cancel_at_once(
        &self,
        actor: Actor,
        id: WorkflowId,
        reason: Option<String>,
        decided_in: DecidedIn,
        with_summary: bool,
    ) -> Result<Workflow> {
        let (graph, executor) = (self.executor().graph().clone(), self.executor().clone());
        let work = move |tx: &mut Tx<'_>| {
            let mut workflow = lock_active(tx, actor, id)?;
            let now = graph.clock().now();
            decided_in.check(tx, &workflow, now)?;
            store_decision(tx, actor, id, decided_in, reason.clone(), now)?;
            record_cancel(tx, actor, &workflow, decided_in, now)?;
            let from = workflow.status;
            workflow.status = WorkflowStatus::Cancelled;
            workflow.escalation = None;
            workflow.completed_at = Some(now);
            workflow.updated_at = now;
            workflows::update(tx, from, &workflow)?;
            let cancelled = cancel_workflow_runs(tx, &executor, actor.project, id, CANCELLED_REASON)?;
            end_tasks(tx, &graph, actor, id, usize::MAX)?;
            workflows::bump_revision(tx, actor.project, id)?;
            if with_summary {
                workflow.summary = Some(summarise(tx, &workflow, now)?);
                workflows::update(tx, WorkflowStatus::Cancelled, &workflow)?;
            }
            let ended = WorkflowEventBody::WorkflowEnded(WorkflowMove {
                status: WorkflowStatus::Cancelled,
                reason: "cancelled by request".to_owned(),
                options: None,
                summary: workflow.summary.clone(),
            });
            workflows::append_events(tx, id, &[new_event(None, None, &ended, now)])?;
            Ok::<_, Error>((workflow, cancelled))
        };
        let (workflow, cancelled): (Workflow, Vec<RunId>) = self.executor().graph().db().write(work).await?;
        self.executor().stop_driving(&cancelled);
        self.counters().record_workflow_end(WorkflowStatus::Cancelled);
        Ok(workflow)
    }

    /// Adds a summary to a cancelled workflow. If that takes too long, because its tasks are large, the workflow is
    /// cancelled without one.
    async fn add_summary(&self, workflow: Workflow) -> Workflow {
        let (graph, cancelled) = (self.executor().graph().clone(), workflow.clone());
        let work = move |tx: &mut Tx<'_>| {
            let summary = summarise(tx, &cancelled, graph.clock().now())?;
            let with_summary = Workflow { summary: Some(summary), ..cancelled.clone() };
            workflows::update(tx, WorkflowStatus::Cancelled, &with_summary)?;
            Ok::<_, Error>(with_summary)
        };
        match self.executor().graph().db().write(work).await {
            Ok(with_summary) => with_summary,
            Err(error) => {
                warn!(workflow.id = %workflow.id, %error, "could not write the summary of a cancelled workflow");
                workflow
            }
        }
    }

    /// Cancels the runs of a workflow, and escalates it, so that nothing more is started.
    async fn begin_cancelling(
        &self,
        actor: Actor,
        id: WorkflowId,
        denial: Option<String>,
        decided_in: DecidedIn,
    ) -> Result<()> {
        let (graph, executor) = (self.executor().graph().clone(), self.executor().clone());
        let work = move |tx: &mut Tx<'_>| {
            let mut workflow = lock_active(tx, actor, id)?;
            decided_in.check_waiting(tx, &workflow)?;
            let now = graph.clock().now();
            // The discussion is abandoned with the tasks, which ends its item. What was decided is stored before.
            if matches!(decided_in, DecidedIn::Discussion(_)) {
                store_decision(tx, actor, id, decided_in, denial.clone(), now)?;
            }
            let cancelled = cancel_workflow_runs(tx, &executor, actor.project, id, CANCELLED_REASON)?;
            if is_being_cancelled(&workflow) {
                return Ok::<_, Error>(cancelled);
            }
            record_cancel(tx, actor, &workflow, decided_in, now)?;
            let from = workflow.status;
            let (reason, options) =
                (CANCELLING_REASON.to_owned(), ["resume", "cancel"].map(str::to_owned).to_vec());
            let escalated = WorkflowEventBody::Escalated(WorkflowMove {
                status: WorkflowStatus::Escalated,
                reason: reason.clone(),
                options: Some(options.clone()),
                summary: None,
            });
            workflow.status = WorkflowStatus::Escalated;
            workflow.updated_at = now;
            workflow.escalation = Some(Escalation { reason, task: None, discussion: None, options, at: now });
            workflows::update(tx, from, &workflow)?;
            workflows::bump_revision(tx, actor.project, id)?;
            workflows::append_events(tx, id, &[new_event(None, None, &escalated, now)])?;
            Ok(cancelled)
        };
        let cancelled = self.executor().graph().db().write(work).await?;
        self.executor().stop_driving(&cancelled);
        Ok(())
    }

    /// Ends at most `limit` tasks and sessions of a workflow that is being cancelled, and returns their number.
    async fn end_some_tasks(&self, actor: Actor, id: WorkflowId, limit: usize) -> Result<usize> {
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            let workflow = lock_active(tx, actor, id)?;
            if !is_being_cancelled(&workflow) {
                let message =
                    format!("workflow `{id}` was changed while it was being cancelled; cancel it again");
                return Err(Error::Conflict(message));
            }
            let ended = end_tasks(tx, &graph, actor, id, limit)?;
            workflows::bump_revision(tx, actor.project, id)?;
            Ok(ended)
        };
        self.executor().graph().db().write(work).await
    }
}

/// Stores what a person decided in the inbox; nothing if the workflow was cancelled elsewhere.
fn store_decision(
    tx: &mut Tx<'_>,
    actor: Actor,
    id: WorkflowId,
    decided_in: DecidedIn,
    reason: Option<String>,
    at: Timestamp,
) -> Result<()> {
    let Some((item, choice)) = decided_in.decision(id) else { return Ok(()) };
    let by = token_of(actor.author);
    let decision =
        Decision { choice, edited_input: None, answer: None, reason, objects_digest: None, by, at };
    Ok(inbox_items::store_decision(tx, actor.project, item, &decision)?)
}

/// The summary of a workflow whose tasks were skipped or failed because it was cancelled.
fn summarise(tx: &mut Tx<'_>, workflow: &Workflow, now: Timestamp) -> Result<String> {
    let (project, id) = (workflow.project, workflow.id);
    let tasks = tasks::list_for_workflow(tx, project, id)?.iter().map(Task::from_object).collect();
    let mut snapshot = Snapshot::new(workflow.clone(), tasks, &[], &[]);
    for (task, _) in workflows::list_attempts(tx, id)?.iter().filter(|(_, run)| !run.is_resumed) {
        *snapshot.attempt_counts.entry(*task).or_default() += 1;
    }
    let spent = budget::workflow_spend(tx, project, id)?.spent;
    Ok(summary_text(&snapshot, WorkflowStatus::Cancelled, spent, now))
}

pub(super) fn is_being_cancelled(workflow: &Workflow) -> bool {
    workflow.status == WorkflowStatus::Escalated
        && workflow.escalation.as_ref().is_some_and(|escalation| escalation.reason == CANCELLING_REASON)
}

/// Locks a workflow that has not ended.
fn lock_active(tx: &mut Tx<'_>, actor: Actor, id: WorkflowId) -> Result<Workflow> {
    let workflow = lock_workflow(tx, actor.project, id)?;
    if workflow.status.is_terminal() {
        return Err(Error::Conflict(format!("workflow `{id}` has ended: it is {}", workflow.status)));
    }
    Ok(workflow)
}

/// Ends at most `limit` tasks and sessions of a workflow, and the discussions of the tasks. Returns the number of the
/// tasks and sessions.
fn end_tasks(tx: &mut Tx<'_>, graph: &Graph, actor: Actor, id: WorkflowId, limit: usize) -> Result<usize> {
    let (mut writer, _) = graph.workflow_write_context(tx, actor, id)?;
    writer.reason = Some(CANCELLED_REASON.to_owned());
    let open = [TaskStatus::Pending, TaskStatus::Paused, TaskStatus::InProgress];
    let tasks = tasks::list_in_status(tx, actor.project, id, &open, limit)?;
    for object in &tasks {
        update_properties(tx, &writer, object.id, ended_properties(&Task::from_object(object)))?;
    }
    // A task may have ended while its discussion goes on, so those of all tasks are checked in the end.
    if tasks.len() < limit {
        let all = tasks::list_keys(tx, actor.project, id)?;
        abandon_discussions(tx, &writer, &all.into_iter().map(|(_, id)| id).collect::<Vec<_>>())?;
    }
    let sessions = end_open_sessions(tx, &writer, id, limit - tasks.len())?;
    Ok(tasks.len() + sessions)
}

/// What ends a task of a cancelled workflow. An attempt that was made has failed, and says why: nobody else would know.
fn ended_properties(task: &Task) -> Value {
    match task.status {
        TaskStatus::InProgress => json!({
            "status": TaskStatus::Failed.as_str(),
            "failure_context": append_failure(&task.failure_context, task.retry_count + 1, CANCELLED_REASON),
        }),
        _ => json!({ "status": TaskStatus::Skipped.as_str() }),
    }
}

/// Ends the discussions of these tasks that are not decided: nobody conducts them any more.
fn abandon_discussions(tx: &mut Tx<'_>, writer: &WriteContext, tasks: &[ObjectId]) -> Result<()> {
    for (_, discussion) in tasks::list_discussions(tx, writer.project.id, tasks)? {
        let properties = discussion.properties.to_map();
        let status = properties.get("status").and_then(Value::as_str).unwrap_or_default();
        if matches!(status, "active" | "escalated") {
            update_properties(tx, writer, discussion.id, json!({ "status": "abandoned" }))?;
        }
    }
    Ok(())
}
