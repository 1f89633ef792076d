//! Resumes and cancels the runs of a workflow's tasks and discussions, in the transactions of the
//! dispatcher.

use emergent_domain::{
    ids::{ProjectId, RunId, WorkflowId},
    run::Run,
    workflow::WorkflowLink,
};
use emergent_executor::{AdmissionBatch, Executor, LinkedRun, Result, Resumable, resume_linked_run};
use emergent_store::{Tx, runs, workflows};

/// Starts or queues a run that resumes a paused run of a workflow, or a completed one that did not submit
/// its deliverable. The caller has locked that run. The new run has its own session; its workflow and task
/// are those of the earlier run.
pub fn resume_workflow_run(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    earlier: &Run,
    link: WorkflowLink,
    id: RunId,
    input: String,
) -> Result<Run> {
    let WorkflowLink { workflow, task, .. } = earlier.workflow_link;
    let resumable = if link.deliverable.is_some() { Resumable::PausedOrCompleted } else { Resumable::Paused };
    let run = LinkedRun {
        id,
        link: WorkflowLink { workflow, task, ..link },
        child_index: earlier.child_index,
        started_by: earlier.started_by,
        cause: earlier.cause,
        cause_depth: earlier.cause_depth,
    };
    resume_linked_run(tx, executor, admissions, earlier, resumable, run, input)
}

/// Cancels all active runs of a workflow and their descendants, and returns their ids. After the commit,
/// call [`Executor::stop_driving`] with them.
pub fn cancel_workflow_runs(
    tx: &mut Tx<'_>,
    executor: &Executor,
    project: ProjectId,
    workflow: WorkflowId,
    reason: &str,
) -> Result<Vec<RunId>> {
    let roots = workflows::list_active_runs(tx, workflow)?;
    Ok(runs::record::cancel_trees(tx, project, roots, reason, executor.graph().clock().now())?)
}
