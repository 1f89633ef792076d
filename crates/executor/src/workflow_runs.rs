//! The dispatcher's interface to runs: it admits and cancels the runs of a workflow's tasks and
//! discussions in its own transactions.

use emergent_domain::{
    agent::Agent,
    ids::{ProjectId, RunId, TokenId, WorkflowId},
    run::{Origin, Run},
    workflow::WorkflowLink,
};
use emergent_store::{Tx, runs, workflows};

use crate::{
    Executor, Result, StartOptions,
    admission::{self, Admission},
    admission_batch::AdmissionBatch,
    resume,
};

/// Starts a run for a workflow if a slot is free, and queues it otherwise. The caller chooses the id,
/// because the session of the run refers to it before the run exists. `child_index` is the index of its
/// turn in a discussion.
#[expect(clippy::too_many_arguments, reason = "what a run is started with, once")]
pub fn admit_workflow_run(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    agent: &Agent,
    start: StartOptions,
    link: WorkflowLink,
    child_index: i64,
    run: RunId,
    started_by: Option<TokenId>,
) -> Result<Run> {
    let admission = Admission {
        id: Some(run),
        child_index,
        started_by,
        workflow_link: Some(link),
        ..Admission::new(Origin::Dispatch)
    };
    admission::admit_in_batch(tx, executor, admissions, agent, &admission, &start)
}

/// Starts or queues a run that resumes a paused run of a workflow, or a completed one that did not
/// submit its deliverable. The caller has locked that run. The new run has its own session, and keeps
/// the workflow and the task.
pub fn admit_resumed_workflow_run(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    paused: &Run,
    link: WorkflowLink,
    run: RunId,
    input: String,
) -> Result<Run> {
    let link =
        WorkflowLink { workflow: paused.workflow_link.workflow, task: paused.workflow_link.task, ..link };
    let admission = Admission {
        id: Some(run),
        child_index: paused.child_index,
        started_by: paused.started_by,
        workflow_link: Some(link),
        ..Admission::new(Origin::Resume)
    };
    resume::resume_in_batch(
        tx,
        executor,
        admissions,
        paused,
        admission,
        &StartOptions { input, ..StartOptions::default() },
    )
}

impl Executor {
    /// Cancels all active runs of a workflow and their descendants, and returns their ids. After the
    /// commit, call [`Executor::stop_driving`] with them.
    pub fn cancel_workflow_runs(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        workflow: WorkflowId,
        reason: &str,
    ) -> Result<Vec<RunId>> {
        let roots = workflows::list_active_runs(tx, workflow)?;
        Ok(runs::record::cancel_trees(tx, project, roots, reason, self.clock().now())?)
    }
}
