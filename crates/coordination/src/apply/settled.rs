//! An attempt has ended: its session, its verdict, and what follows for its task and for others.

use emergent_domain::{
    ids::ObjectId,
    object::ObjectPatch,
    run::RunStatus,
    task::{Task, TaskStatus},
};
use emergent_graph::{Writer, objects};
use emergent_store::{runs, workflows};
use serde_json::{Value, json};

use super::{Settle, Writing, as_run};
use crate::{
    Error, Result,
    question::cut,
    settle::{Move, To},
};

impl Writing<'_, '_> {
    pub(super) fn settle(&mut self, settle: &Settle) -> Result<()> {
        let run = runs::get(self.tx, self.workflow.project, settle.run)?;
        let queued = run.as_ref().and_then(|run| Some(run.started_at?.since(run.created_at)));
        self.applied.waited.extend(queued);
        let (messages, tokens_in, tokens_out, answers) = workflows::told(self.tx, settle.run)?;
        let author = as_run(settle.run);
        if let Some(session) = settle.session {
            let status = match settle.status {
                RunStatus::Completed | RunStatus::Paused => "completed",
                RunStatus::Cancelled => "cancelled",
                _ => "failed",
            };
            let properties = json!({
                "status": status,
                "completed_at": self.now,
                "message_count": messages,
                "tokens_in": tokens_in,
                "tokens_out": tokens_out,
            });
            let Value::Object(properties) = properties else { return Ok(()) };
            let patch = ObjectPatch { properties: Some(properties), ..ObjectPatch::default() };
            let writer = Writer { author, embeds: false, ..self.writer.clone() };
            objects::update(self.tx, &writer, session, &patch).map_err(|error| match error {
                // Somebody took it away this moment: look again, it is not known then.
                emergent_graph::Error::NotFound { .. } => Error::Stale(self.workflow.id),
                other => other.into(),
            })?;
            if let Some(verdict) = &settle.verdict {
                let result = ObjectId::new();
                let mut properties = verdict.properties();
                properties["run_id"] = json!(settle.run.to_string());
                self.make(author, result, verdict.type_(), properties)?;
                self.join(author, &[("has_result", session, result, None)])?;
            }
        }
        let started = run.as_ref().and_then(|run| run.started_at).unwrap_or(self.now);
        let ended = run.as_ref().and_then(|run| run.completed_at).unwrap_or(self.now);
        let metrics = json!({
            "start_time": started,
            "completion_time": ended,
            "duration_seconds": ended.since(started).as_secs_f64(),
            "llm_calls": answers,
            "tokens_used": tokens_in + tokens_out,
        });
        for (step, task) in &settle.moves {
            let own = step.task == settle.task;
            let mut changes = changes(step, task);
            if own {
                changes["summary"] = json!(cut(&settle.summary, 2_000));
                changes["metrics"] = metrics.clone();
            }
            self.change(step.task, task.version, changes, &step.why)?;
            let mut data = json!({ "reason": step.why });
            if let Some(verdict) = settle.verdict.as_ref().filter(|_| own) {
                data["verdict"] = json!(verdict.word.as_str());
            }
            self.tell(event_of(step, own), Some(step.task), own.then_some(settle.run), data);
        }
        Ok(())
    }
}

/// What a move writes on its task.
pub(super) fn changes(step: &Move, task: &Task) -> Value {
    let agent = if task.agent_is_named { json!(task.assigned_agent) } else { Value::Null };
    let again = |failure_context: &str, agent: Value| {
        json!({
            "status": TaskStatus::Pending.as_str(),
            "retry_count": task.retry_count + 1,
            "failure_context": failure_context,
            "assigned_agent": agent,
            "run_id": null,
        })
    };
    match &step.to {
        To::Completed { output } => json!({ "status": TaskStatus::Completed.as_str(), "output": output }),
        To::Retry { failure_context, agent: Some(other) } => again(failure_context, json!(other)),
        To::Retry { failure_context, agent: None } | To::SentBack { failure_context } => {
            again(failure_context, agent)
        }
        To::Noted { failure_context } => json!({ "failure_context": failure_context }),
        To::Reopened => {
            json!({ "status": TaskStatus::Pending.as_str(), "assigned_agent": agent, "run_id": null })
        }
        To::Failed { failure_context, needs_person } => {
            let mut failed =
                json!({ "status": TaskStatus::Failed.as_str(), "failure_context": failure_context });
            if let Some(needs) = needs_person {
                failed["needs_person"] = needs.value();
            }
            failed
        }
        To::Skipped => json!({ "status": TaskStatus::Skipped.as_str(), "needs_person": null }),
        To::Paused | To::AskedAgain => json!({ "status": TaskStatus::Paused.as_str() }),
    }
}

pub(super) fn event_of(step: &Move, own: bool) -> &'static str {
    match &step.to {
        To::Completed { .. } => "task_completed",
        To::Retry { .. } => "task_retried",
        To::SentBack { .. } | To::Noted { .. } => "task_sent_back",
        To::Reopened if own => "task_verdict",
        To::Reopened => "task_reopened",
        To::Failed { .. } => "task_failed",
        To::Skipped => "task_skipped",
        To::Paused => "task_paused",
        To::AskedAgain => "task_asked_again",
    }
}
