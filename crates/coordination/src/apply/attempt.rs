//! An attempt begins: its task, its session with where it knows things from, its run.

use emergent_domain::{task::TaskStatus, workflow::Duty};
use emergent_executor::Start;
use emergent_store::tasks;
use serde_json::json;

use super::{Begin, Writing, as_run};
use crate::{Error, Result, question::cut};

impl Writing<'_, '_> {
    pub(super) fn begin(&mut self, begin: &Begin) -> Result<()> {
        let (task, run, session) = (&begin.task, begin.run, begin.session);
        let attempt = task.retry_count + 1;
        // Nobody tells this workflow when another takes back what it had done.
        if begin.has_outside && begin.resumes.is_none() && tasks::is_held_up(self.tx, task.id)? {
            return Err(Error::Stale(self.workflow.id));
        }
        let changes = json!({
            "status": TaskStatus::InProgress.as_str(),
            "assigned_agent": begin.agent_name,
            "run_id": run.to_string(),
            "resumes": if begin.resumes.is_some() { task.resumes + 1 } else { 0 },
            "metrics": { "start_time": self.now },
        });
        let why = format!("attempt {attempt} by `{}`: {}", begin.agent_name, begin.why);
        self.change(task.id, task.version, changes, &why)?;
        let author = as_run(run);
        let mut properties = json!({
            "status": "active",
            "agent_name": begin.agent_name,
            "task_context": cut(&begin.prompt, 1_000),
            "started_at": self.now,
            "run_id": run.to_string(),
        });
        if let Some(before) = begin.before {
            properties["retry_of"] = json!(before.to_string());
            let reason = match begin.resumes {
                Some(_) => begin.why.clone(),
                // A judge that is asked again has not failed.
                None if task.failure_context.is_empty() => "what it stands on was done again".to_owned(),
                None => last_failure(&task.failure_context),
            };
            properties["retry_reason"] = json!(reason);
        }
        self.make(author, session, "Session", properties)?;
        let mut edges = vec![("has_session", task.id, session, None)];
        edges.extend(begin.before.map(|before| ("follows_up", session, before, None)));
        edges.extend(begin.informed_by.iter().map(|other| ("informed_by", session, *other, None)));
        self.join(author, &edges)?;
        let duty = Duty {
            workflow: Some(self.workflow.id),
            task: Some(task.id),
            session: Some(session),
            discussion: None,
            hands: begin.hands,
        };
        let start = Start { input: begin.prompt.clone(), ..Start::default() };
        self.admit(begin.agent, begin.resumes, start, duty, 0, run, Some(task.id))?;
        let kind = if begin.resumes.is_some() { "task_resumed" } else { "task_started" };
        let data = json!({ "agent": begin.agent_name, "attempt": attempt, "reason": begin.why });
        self.tell(kind, Some(task.id), Some(run), data);
        Ok(())
    }
}

/// The newest of the failures, for the session that comes after it.
fn last_failure(context: &str) -> String {
    let at = context.rfind("Attempt ").unwrap_or(0);
    cut(&context[at..], 500)
}
