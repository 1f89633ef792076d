//! The workflow itself moves: planned, escalated, ended.

use emergent_domain::{
    ids::{AgentId, RunId},
    workflow::{Escalation, WorkflowLink, WorkflowStatus},
};
use emergent_executor::StartOptions;
use emergent_rules::workflow::decide::NewEscalation;
use emergent_store::workflows;
use serde_json::json;

use crate::{
    error::{Error, Result},
    workflow_tx::{RunAdmission, WorkflowTx},
};

impl WorkflowTx<'_, '_> {
    pub(super) fn start_planner(&mut self, agent: AgentId, prompt: &str, run: RunId) -> Result<()> {
        let link = WorkflowLink { workflow: Some(self.workflow.id), ..WorkflowLink::default() };
        let start = StartOptions { input: prompt.to_owned(), ..StartOptions::default() };
        self.admit_run(RunAdmission {
            agent,
            resumed_run: None,
            start,
            link,
            child_index: 0,
            run,
            task: None,
        })?;
        let from = self.workflow.status;
        self.workflow.planner_run = Some(run);
        self.workflow.plan_attempts += 1;
        self.save_workflow(from)?;
        let data = json!({ "attempt": self.workflow.plan_attempts });
        self.push_event("planning_started", None, Some(run), data);
        Ok(())
    }

    fn escalation(&self, trouble: &NewEscalation) -> Escalation {
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
        escalation: Option<&NewEscalation>,
    ) -> Result<()> {
        let from = self.workflow.status;
        self.workflow.status = to;
        let mut data = json!({ "status": to.as_str(), "reason": why });
        if let Some(trouble) = escalation {
            self.workflow.escalation = Some(self.escalation(trouble));
            data["options"] = json!(trouble.options);
        }
        if to.is_terminal() {
            self.workflow.completed_at = Some(self.now);
            self.workflow.escalation = None;
        }
        if summary.is_some() {
            self.workflow.summary = summary;
            data["summary"] = json!(self.workflow.summary);
        }
        self.save_workflow(from)?;
        let kind = match to {
            WorkflowStatus::Running => "plan_made",
            WorkflowStatus::Escalated => "escalated",
            _ => "workflow_ended",
        };
        let task = escalation.and_then(|trouble| trouble.task);
        self.push_event(kind, task, None, data);
        Ok(())
    }

    fn save_workflow(&mut self, from: WorkflowStatus) -> Result<()> {
        self.workflow.updated_at = self.now;
        match workflows::update(self.tx, from, &self.workflow)? {
            true => Ok(()),
            false => Err(Error::Lost(self.workflow.id)),
        }
    }
}
