//! Writes changes of the workflow itself: its planner is started, or its status changes.

use emergent_domain::{
    ids::{AgentId, RunId},
    workflow::{Escalation, WorkflowLink, WorkflowStatus},
    workflow_event::{WorkflowEventBody, WorkflowMove},
};
use emergent_rules::workflow::decide::NewEscalation;
use emergent_store::workflows;

use crate::{
    error::{Error, Result},
    workflow_tx::{RunAdmission, WorkflowTx},
};

impl WorkflowTx<'_, '_> {
    /// Admits the run of the planner and counts the attempt to plan.
    pub(super) fn start_planner(&mut self, agent: AgentId, prompt: &str, run: RunId) -> Result<()> {
        let link = WorkflowLink { workflow: Some(self.workflow.id), ..WorkflowLink::default() };
        let start = self.start_options(prompt.to_owned());
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
        let attempt = self.workflow.plan_attempts;
        self.push_event(None, Some(run), &WorkflowEventBody::PlanningStarted { attempt });
        Ok(())
    }

    fn escalation(&self, new: &NewEscalation) -> Escalation {
        Escalation {
            reason: new.reason.clone(),
            task: new.task,
            discussion: new.discussion,
            options: new.options.clone(),
            at: self.now,
        }
    }

    /// Changes the status of the workflow. A `summary` or `escalation` replaces the stored one.
    pub(super) fn move_to(
        &mut self,
        to: WorkflowStatus,
        reason: &str,
        summary: Option<String>,
        escalation: Option<&NewEscalation>,
    ) -> Result<()> {
        let from = self.workflow.status;
        self.workflow.status = to;
        if let Some(escalation) = escalation {
            self.workflow.escalation = Some(self.escalation(escalation));
        }
        if to.is_terminal() {
            self.workflow.completed_at = Some(self.now);
            self.workflow.escalation = None;
        }
        let moved = WorkflowMove {
            status: to,
            reason: reason.to_owned(),
            options: escalation.map(|escalation| escalation.options.clone()),
            summary: summary.clone(),
        };
        if summary.is_some() {
            self.workflow.summary = summary;
        }
        self.save_workflow(from)?;
        let event = match to {
            WorkflowStatus::Running => WorkflowEventBody::PlanMade(moved),
            WorkflowStatus::Escalated => WorkflowEventBody::Escalated(moved),
            _ => WorkflowEventBody::WorkflowEnded(moved),
        };
        self.push_event(escalation.and_then(|escalation| escalation.task), None, &event);
        Ok(())
    }

    /// Saves the workflow if its stored status is still `from`.
    fn save_workflow(&mut self, from: WorkflowStatus) -> Result<()> {
        self.workflow.updated_at = self.now;
        match workflows::update(self.tx, from, &self.workflow)? {
            true => Ok(()),
            false => Err(Error::Lost(self.workflow.id)),
        }
    }
}
