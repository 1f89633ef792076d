//! An attempt begins: its task, its session with where it knows things from, its run.

use emergent_domain::{task::TaskStatus, workflow::WorkflowLink};
use emergent_executor::StartOptions;
use emergent_rules::workflow::question::truncate;
use emergent_store::tasks;
use serde_json::json;

use super::{NewAttempt, WorkflowTx, run_author};
use crate::{Error, Result};

impl WorkflowTx<'_, '_> {
    pub(super) fn start_attempt(&mut self, begin: &NewAttempt) -> Result<()> {
        let (task, run, session) = (&begin.task, begin.run, begin.session);
        let attempt = task.retry_count + 1;
        // Nobody tells this workflow when another takes back what it had done.
        if begin.has_foreign_blocker && begin.resumed_run.is_none() && tasks::is_blocked(self.tx, task.id)? {
            return Err(Error::Stale(self.workflow.id));
        }
        let changes = json!({
            "status": TaskStatus::InProgress.as_str(),
            "assigned_agent": begin.agent_name,
            "run_id": run.to_string(),
            "resumes": if begin.resumed_run.is_some() { task.resumes + 1 } else { 0 },
            "metrics": { "start_time": self.now },
        });
        let why = format!("attempt {attempt} by `{}`: {}", begin.agent_name, begin.reason);
        self.update_task(task.id, task.version, changes, &why)?;
        let author = run_author(run);
        let mut properties = json!({
            "status": "active",
            "agent_name": begin.agent_name,
            "task_context": truncate(&begin.prompt, 1_000),
            "started_at": self.now,
            "run_id": run.to_string(),
        });
        if let Some(before) = begin.previous_session {
            properties["retry_of"] = json!(before.to_string());
            let reason = match begin.resumed_run {
                Some(_) => begin.reason.clone(),
                // A judge that is asked again has not failed.
                None if task.failure_context.is_empty() => "what it stands on was done again".to_owned(),
                None => last_failure(&task.failure_context),
            };
            properties["retry_reason"] = json!(reason);
        }
        self.draft_object(author, session, "Session", properties)?;
        let mut edges = vec![("has_session", task.id, session, None)];
        edges.extend(begin.previous_session.map(|before| ("follows_up", session, before, None)));
        edges.extend(begin.informed_by.iter().map(|other| ("informed_by", session, *other, None)));
        self.draft_edges(author, &edges)?;
        let duty = WorkflowLink {
            workflow: Some(self.workflow.id),
            task: Some(task.id),
            session: Some(session),
            discussion: None,
            deliverable: begin.deliverable,
        };
        let start = StartOptions { input: begin.prompt.clone(), ..StartOptions::default() };
        self.admit_run(begin.agent, begin.resumed_run, start, duty, 0, run, Some(task.id))?;
        let kind = if begin.resumed_run.is_some() { "task_resumed" } else { "task_started" };
        let data = json!({ "agent": begin.agent_name, "attempt": attempt, "reason": begin.reason });
        self.push_event(kind, Some(task.id), Some(run), data);
        Ok(())
    }
}

/// The newest of the failures, for the session that comes after it.
fn last_failure(context: &str) -> String {
    let at = context.rfind("Attempt ").unwrap_or(0);
    truncate(&context[at..], 500)
}
