//! Writes the start of an attempt: its task, its session with the sessions it builds on, and its run.

use emergent_domain::{
    cursor::Page,
    ids::ObjectId,
    relationship::{Relationship, RelationshipPatch},
    task::TaskStatus,
    workflow::WorkflowLink,
    workflow_event::{AttemptStart, WorkflowEventBody},
};
use emergent_executor::StartOptions;
use emergent_graph::relationships;
use emergent_rules::workflow::{question::truncate, threading::newest_failure};
use emergent_store::{relationships as rows, tasks};
use serde_json::{Map, json};

use super::NewAttempt;
use crate::{
    error::{Error, Result},
    workflow_tx::{NewEdge, RunAdmission, WorkflowTx, run_author},
};

/// The most characters of the prompt that a session stores. The first message of the session has more of it, and each
/// version of the session is stored in full.
const MAX_CONTEXT_CHARS: usize = 300;
/// The most characters of the reason for a retry that a session stores.
const MAX_REASON_CHARS: usize = 500;
/// The type of the edge that says which agent a task is assigned to.
const ASSIGNMENT_TYPE: &str = "assigned_to_agent";

impl WorkflowTx<'_, '_> {
    /// Marks the task as in progress, drafts a session, and admits the run. Fails as stale if the task is
    /// blocked again.
    pub(super) fn start_attempt(&mut self, attempt: &NewAttempt) -> Result<()> {
        let (task, run, session) = (&attempt.task, attempt.run, attempt.session);
        let number = attempt.number;
        // Another workflow may have reopened its blocker, which does not change the revision of this one.
        if attempt.has_foreign_blocker
            && attempt.resumed_run.is_none()
            && tasks::is_blocked(self.tx, task.id)?
        {
            return Err(Error::Stale(self.workflow.id));
        }
        let changes = json!({
            "status": TaskStatus::InProgress.as_str(),
            "assigned_agent": attempt.agent_name,
            "run_id": run.to_string(),
            "resumes": if attempt.resumed_run.is_some() { task.resumes + 1 } else { 0 },
            "metrics": { "start_time": self.now },
        });
        let change_reason = format!("attempt {number} by `{}`: {}", attempt.agent_name, attempt.reason);
        self.update_task(task.id, task.version, changes, &change_reason)?;
        let author = run_author(run);
        let mut properties = json!({
            "status": "active",
            "agent_name": attempt.agent_name,
            "task_context": truncate(&attempt.prompt, MAX_CONTEXT_CHARS),
            "started_at": self.now,
            "run_id": run.to_string(),
        });
        // An edge to each of them would be a third of all edges, and a reader can follow those of the direct blockers.
        if !attempt.earlier_sessions.is_empty() {
            properties["earlier_sessions"] = json!(attempt.earlier_sessions);
        }
        if let Some(previous) = attempt.previous_session {
            properties["retry_of"] = json!(previous.to_string());
            let reason = match attempt.resumed_run {
                Some(_) => attempt.reason.clone(),
                // A verifying task also runs again without having failed.
                None if task.failure_context.is_empty() => {
                    "a task that it verifies was done again".to_owned()
                }
                None => truncate(newest_failure(&task.failure_context), MAX_REASON_CHARS),
            };
            properties["retry_reason"] = json!(reason);
        }
        self.draft_object(author, session, "Session", properties)?;
        let mut edges = vec![NewEdge::new("has_session", task.id, session)];
        edges.extend(attempt.previous_session.map(|previous| NewEdge::new("follows_up", session, previous)));
        edges.extend(attempt.informed_by.iter().map(|other| NewEdge::new("informed_by", session, *other)));
        self.draft_edges(author, &edges)?;
        self.record_assignment(attempt)?;
        let link = WorkflowLink {
            workflow: Some(self.workflow.id),
            task: Some(task.id),
            session: Some(session),
            discussion: None,
            deliverable: attempt.deliverable,
        };
        let start = StartOptions {
            output_schema: attempt.task.output_schema.clone(),
            ..self.start_options(attempt.prompt.clone())
        };
        self.admit_run(RunAdmission {
            agent: attempt.agent,
            resumed_run: attempt.resumed_run,
            start,
            link,
            child_index: 0,
            run,
            task: Some(task.id),
        })?;
        let started = AttemptStart {
            agent: attempt.agent_name.clone(),
            attempt: number,
            reason: attempt.reason.clone(),
        };
        let event = match attempt.resumed_run {
            Some(_) => WorkflowEventBody::TaskResumed(started),
            None => WorkflowEventBody::TaskStarted(started),
        };
        self.push_event(Some(task.id), Some(run), &event);
        Ok(())
    }

    /// Writes who does the task since when, as an edge from the task to itself. A task that was assigned before has
    /// the edge already, whose versions are the history of its assignments.
    fn record_assignment(&mut self, attempt: &NewAttempt) -> Result<()> {
        let task = attempt.task.id;
        let agent = attempt.agent_name.as_str();
        let author = run_author(attempt.run);
        let properties = Map::from_iter([
            ("agent_name".to_owned(), json!(agent)),
            ("assigned_at".to_owned(), json!(self.now)),
        ]);
        let earlier = match attempt.number {
            1 => None,
            _ => self.find_assignment(task)?,
        };
        let Some(earlier) = earlier else {
            let edge = NewEdge::new(ASSIGNMENT_TYPE, task, task).with_properties(properties);
            return self.draft_edges(author, &[edge]);
        };
        if earlier.properties.to_map().get("agent_name") == Some(&json!(agent)) {
            return Ok(());
        }
        let patch = RelationshipPatch { properties: Some(properties), ..RelationshipPatch::default() };
        let mut writer = self.writer.clone();
        writer.author = author;
        match relationships::update(self.tx, &writer, earlier.id, &patch) {
            Ok(_) => Ok(()),
            // Somebody deleted the edge in the meantime.
            Err(emergent_graph::Error::NotFound { .. }) => Err(Error::Stale(self.workflow.id)),
            Err(other) => Err(other.into()),
        }
    }

    fn find_assignment(&mut self, task: ObjectId) -> Result<Option<Relationship>> {
        let filter = rows::RelationshipFilter {
            types: vec![ASSIGNMENT_TYPE.to_owned()],
            from: Some(task),
            to: Some(task),
        };
        Ok(rows::list(self.tx, self.workflow.project, &filter, &Page::first(1))?.items.into_iter().next())
    }
}
