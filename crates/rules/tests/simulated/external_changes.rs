//! What others do to the workflow while it is walked.

use emergent_domain::{
    task::{TaskAuthority, TaskStatus},
    workflow::{Limit, WorkflowStatus},
};
use rand::Rng;

use super::{MOST_TASKS, World};

impl World {
    /// An agent or a person adds a task.
    pub(super) fn outside(&mut self) {
        if self.db.workflow.status == WorkflowStatus::Running && self.db.tasks.len() < MOST_TASKS {
            self.add_task(0.1);
            self.db.workflow.revision += 1;
        }
    }

    /// A person helps a workflow that waits, a few times, then gives up on it.
    pub fn person(&mut self) {
        let workflow = &mut self.db.workflow;
        if workflow.status != WorkflowStatus::Escalated {
            return;
        }
        workflow.revision += 1;
        if self.helped >= 3 || self.rng.random_bool(0.1) {
            workflow.status = WorkflowStatus::Cancelled;
            return;
        }
        self.helped += 1;
        workflow.status = WorkflowStatus::Running;
        workflow.escalation = None;
        let raise = Limit { microusd: workflow.settings.budget.microusd.map(|most| most * 2), tokens: None };
        workflow.settings.budget = raise;
        for task in &mut self.db.tasks {
            if matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped) {
                assert!(task.status.can_become(TaskStatus::Pending, TaskAuthority::Workflow));
                task.status = TaskStatus::Pending;
                (task.run, task.assigned_agent, task.needs_person) = (None, None, None);
                task.version += 1;
            }
        }
    }
}
