//! The workflow itself moves: planned, escalated, ended.

use emergent_domain::{
    ids::{AgentId, RunId},
    workflow::{Duty, Escalation, WorkflowStatus},
};
use emergent_executor::Start;
use emergent_store::workflows;
use serde_json::json;

use super::Writing;
use crate::{Error, Result, plan::Trouble};

impl Writing<'_, '_> {
    pub(super) fn plan(&mut self, agent: AgentId, prompt: &str, run: RunId) -> Result<()> {
        let duty = Duty { workflow: Some(self.workflow.id), ..Duty::default() };
        let start = Start { input: prompt.to_owned(), ..Start::default() };
        self.admit(agent, None, start, duty, 0, run, None)?;
        let from = self.workflow.status;
        self.workflow.planner_run = Some(run);
        self.workflow.plan_attempts += 1;
        self.save(from)?;
        let data = json!({ "attempt": self.workflow.plan_attempts });
        self.tell("planning_started", None, Some(run), data);
        Ok(())
    }

    fn escalation(&self, trouble: &Trouble) -> Escalation {
        Escalation {
            reason: trouble.reason.clone(),
            task: trouble.task,
            discussion: trouble.discussion,
            options: trouble.options.clone(),
            at: self.now,
        }
    }

    pub(super) fn move_to(
        &mut self,
        to: WorkflowStatus,
        why: &str,
        summary: Option<String>,
        escalation: Option<&Trouble>,
    ) -> Result<()> {
        let from = self.workflow.status;
        self.workflow.status = to;
        let mut data = json!({ "status": to.as_str(), "reason": why });
        if let Some(trouble) = escalation {
            self.workflow.escalation = Some(self.escalation(trouble));
            data["options"] = json!(trouble.options);
        }
        if to.is_over() {
            self.workflow.completed_at = Some(self.now);
            self.workflow.escalation = None;
        }
        if summary.is_some() {
            self.workflow.summary = summary;
            data["summary"] = json!(self.workflow.summary);
        }
        self.save(from)?;
        let kind = match to {
            WorkflowStatus::Running => "plan_made",
            WorkflowStatus::Escalated => "escalated",
            _ => "workflow_ended",
        };
        let task = escalation.and_then(|trouble| trouble.task);
        self.tell(kind, task, None, data);
        Ok(())
    }

    fn save(&mut self, from: WorkflowStatus) -> Result<()> {
        self.workflow.updated_at = self.now;
        match workflows::update(self.tx, from, &self.workflow)? {
            true => Ok(()),
            false => Err(Error::Lost(self.workflow.id)),
        }
    }
}
