//! Writes the end of an attempt: its session, its verdict, and the transitions that follow.

use emergent_domain::{
    ids::{ObjectId, RunId},
    task::{Task, TaskStatus},
    workflow_event::{EventActor, TaskMove, WorkflowEventBody},
};
use emergent_rules::workflow::transition::{Transition, TransitionTo, stored_summary};
use emergent_store::{
    runs,
    workflows::{self, ConversationStats},
};
use serde_json::{Value, json};

use super::AttemptEnd;
use crate::{
    error::{Error, Result},
    run_times::RunTimes,
    session_end::end_session,
    workflow_tx::{NewEdge, WorkflowTx, run_author},
};

impl WorkflowTx<'_, '_> {
    /// Closes the session of an ended attempt, stores its verdict, and writes the transitions of tasks.
    pub(super) fn conclude_attempt(&mut self, end: &AttemptEnd) -> Result<()> {
        let times = match end.times {
            Some(times) => Some(times),
            None => runs::get(self.tx, self.workflow.project, end.run)?.as_ref().map(RunTimes::from),
        };
        self.applied.queue_times.extend(times.and_then(|times| times.queued()));
        let author = run_author(end.run);
        let mut known_stats = None;
        if let Some(session) = end.session {
            let ended = end_session(self.tx, &self.writer, session, end.run, end.status, self.now);
            let stats = ended.map_err(|error| match error {
                // The session was deleted in the meantime. Loading the workflow again finds no session.
                Error::Graph(emergent_graph::Error::NotFound { .. }) => Error::Stale(self.workflow.id),
                other => other,
            })?;
            known_stats = Some((end.run, stats));
            if let Some(verdict) = &end.verdict {
                let result = ObjectId::new();
                let mut properties = verdict.to_properties();
                properties["run_id"] = json!(end.run.to_string());
                self.draft_object(author, result, verdict.object_type(), properties)?;
                self.draft_edges(author, &[NewEdge::new("has_result", session, result)])?;
            }
        }
        let runs = match times.filter(|_| end.is_only_run) {
            Some(times) => vec![(end.run, times)],
            None => {
                let runs = workflows::list_task_runs(self.tx, self.workflow.id, end.task)?;
                runs.iter().map(|run| (run.id, RunTimes::from(run))).collect()
            }
        };
        let metrics = self.task_metrics(&runs, known_stats)?;
        for (step, task) in &end.transitions {
            let is_own_task = step.task == end.task;
            let mut changes = transition_properties(step, task);
            if is_own_task {
                changes["summary"] = json!(stored_summary(&end.summary));
                changes["metrics"] = metrics.clone();
            }
            self.update_task(step.task, task.version, changes, &step.reason)?;
            let verdict = end.verdict.as_ref().filter(|_| is_own_task).map(|verdict| verdict.word);
            let moved = TaskMove { verdict, ..TaskMove::new(step.reason.clone()) };
            self.push_event(
                Some(step.task),
                is_own_task.then_some(end.run),
                &transition_event(step, is_own_task, moved),
            );
        }
        Ok(())
    }

    /// The metrics of a task that these runs worked at: its attempts, and the turns of its discussions. The counts of one
    /// of them may be known.
    fn task_metrics(
        &mut self,
        runs: &[(RunId, RunTimes)],
        known_stats: Option<(RunId, ConversationStats)>,
    ) -> Result<Value> {
        let (mut seconds, mut tokens, mut model_calls) = (0.0, 0, 0);
        for (run, times) in runs {
            let stats = match known_stats {
                Some((known, stats)) if known == *run => stats,
                _ => workflows::conversation_stats(self.tx, *run)?,
            };
            tokens += stats.input_tokens + stats.output_tokens;
            model_calls += stats.model_calls;
            if let Some(started) = times.started {
                seconds += times.ended.unwrap_or(self.now).since(started).as_secs_f64();
            }
        }
        let started = runs.iter().filter_map(|(_, times)| times.started).min().unwrap_or(self.now);
        Ok(json!({
            "start_time": started,
            "completion_time": self.now,
            "duration_seconds": seconds,
            "llm_calls": model_calls,
            "tokens_used": tokens,
        }))
    }
}

/// The properties that a transition writes on its task.
pub(super) fn transition_properties(step: &Transition, task: &Task) -> Value {
    let agent = if task.agent_is_named { json!(task.assigned_agent) } else { Value::Null };
    let pending_again = |failure_context: &str, agent: Value| {
        json!({
            "status": TaskStatus::Pending.as_str(),
            "retry_count": task.retry_count + 1,
            "failure_context": failure_context,
            "assigned_agent": agent,
            "run_id": null,
        })
    };
    match &step.to {
        TransitionTo::Completed { output } => {
            json!({ "status": TaskStatus::Completed.as_str(), "output": output })
        }
        TransitionTo::Retry { failure_context, agent: Some(other) } => {
            pending_again(failure_context, json!(other))
        }
        TransitionTo::Retry { failure_context, agent: None } | TransitionTo::SentBack { failure_context } => {
            pending_again(failure_context, agent)
        }
        TransitionTo::ReturnedToAgent { failure_context, agent } => json!({
            "status": TaskStatus::Pending.as_str(),
            "failure_context": failure_context,
            "assigned_agent": agent,
            "run_id": null,
        }),
        TransitionTo::FailureNoted { failure_context } => json!({ "failure_context": failure_context }),
        TransitionTo::Reopened => {
            json!({ "status": TaskStatus::Pending.as_str(), "assigned_agent": agent, "run_id": null })
        }
        TransitionTo::Failed { failure_context, needs_person } => {
            let mut failed =
                json!({ "status": TaskStatus::Failed.as_str(), "failure_context": failure_context });
            if let Some(needs) = needs_person {
                failed["needs_person"] = needs.to_json();
            }
            failed
        }
        TransitionTo::Skipped => json!({ "status": TaskStatus::Skipped.as_str(), "needs_person": null }),
        TransitionTo::Paused | TransitionTo::AskedAgain => json!({ "status": TaskStatus::Paused.as_str() }),
    }
}

/// The event of a transition. `is_own_task`: whether it is the task whose attempt has ended.
pub(super) fn transition_event(step: &Transition, is_own_task: bool, moved: TaskMove) -> WorkflowEventBody {
    match &step.to {
        TransitionTo::Completed { .. } => WorkflowEventBody::TaskCompleted(moved),
        TransitionTo::Retry { .. } => WorkflowEventBody::TaskRetried(moved),
        TransitionTo::ReturnedToAgent { .. } => {
            WorkflowEventBody::TaskRetried(TaskMove { by: Some(EventActor::Person), ..moved })
        }
        TransitionTo::SentBack { .. } | TransitionTo::FailureNoted { .. } => {
            WorkflowEventBody::TaskSentBack(moved)
        }
        TransitionTo::Reopened if is_own_task => WorkflowEventBody::TaskVerdict(moved),
        TransitionTo::Reopened => WorkflowEventBody::TaskReopened(moved),
        TransitionTo::Failed { .. } => WorkflowEventBody::TaskFailed(moved),
        TransitionTo::Skipped => WorkflowEventBody::TaskSkipped(moved),
        TransitionTo::Paused => WorkflowEventBody::TaskPaused(moved),
        TransitionTo::AskedAgain => WorkflowEventBody::TaskAskedAgain(moved),
    }
}
