//! The writes of one pass of the driver.

use emergent_domain::{ids::ObjectId, task::Task};
use emergent_rules::workflow::conclude::fail_unstarted;

use crate::{apply::WorkflowWrite, judge::JudgeFailure, loaded_workflow::LoadedWorkflow};

/// The writes of one pass over a workflow. Each write changes the snapshot as soon as it is decided,
/// because the decisions after it build on it. If the commit fails, the workflow is loaded again.
pub(super) struct Pass<'a> {
    pub loaded: &'a mut LoadedWorkflow,
    pub writes: Vec<WorkflowWrite>,
}

impl Pass<'_> {
    pub fn push(&mut self, write: WorkflowWrite) {
        if let Some(change) = write.change() {
            self.loaded.snapshot.apply(&change);
        }
        if let WorkflowWrite::StartAttempt(attempt) = &write {
            self.loaded.sessions.insert(attempt.task.id, attempt.session);
        }
        self.writes.push(write);
    }

    /// Records that models gave no usable answers to questions about a task, so that the rules decided.
    pub fn report_judge_failures(&mut self, task: ObjectId, failures: Vec<JudgeFailure>) {
        for JudgeFailure { role, reason } in failures {
            self.push(WorkflowWrite::ReportJudgeFailure { task, role, why: reason });
        }
    }

    /// Fails a task that no agent can do, or whose run was refused.
    pub fn fail_unstarted(&mut self, task: &Task, reason: &str, options: &[&str]) {
        let step = fail_unstarted(&self.loaded.snapshot, task, reason, options);
        self.push(WorkflowWrite::ChangeTask { step, before: Box::new(task.clone()) });
    }
}
