//! The dispatcher's doors: runs for the tasks and discussions of a workflow, admitted and cancelled
//! in the transaction of whatever it decides.

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
    place::AdmissionBatch,
    resume,
};

/// Starts a run for a workflow where there is a place, and queues it otherwise, under an id that nobody has: its session refers to it before it is
/// there. `part` is its place in a discussion.
#[expect(clippy::too_many_arguments, reason = "what a run is started with, once")]
pub fn admit_workflow_run(
    tx: &mut Tx<'_>,
    executor: &Executor,
    doorman: &mut AdmissionBatch,
    agent: &Agent,
    start: StartOptions,
    duty: WorkflowLink,
    part: i64,
    run: RunId,
    started_by: Option<TokenId>,
) -> Result<Run> {
    let door = Admission {
        id: Some(run),
        part,
        started_by,
        workflow_link: Some(duty),
        ..Admission::new(Origin::Dispatch)
    };
    admission::admit_in_batch(tx, executor, doorman, agent, &door, &start)
}

/// Starts or queues the run that goes on with a paused one of a workflow, or with one that completed and owes
/// what it had to hand in, with a session of its own. The caller holds that one. It stays with its
/// workflow and its task.
pub fn admit_resumed_workflow_run(
    tx: &mut Tx<'_>,
    executor: &Executor,
    doorman: &mut AdmissionBatch,
    paused: &Run,
    duty: WorkflowLink,
    run: RunId,
    input: String,
) -> Result<Run> {
    let duty =
        WorkflowLink { workflow: paused.workflow_link.workflow, task: paused.workflow_link.task, ..duty };
    let door = Admission {
        id: Some(run),
        part: paused.child_index,
        started_by: paused.started_by,
        workflow_link: Some(duty),
        ..Admission::new(Origin::Resume)
    };
    resume::resume_in_batch(
        tx,
        executor,
        doorman,
        paused,
        door,
        &StartOptions { input, ..StartOptions::default() },
    )
}

impl Executor {
    /// Cancels every live run of a workflow and everything below; which runs that were. Once this is
    /// committed, [`Executor::stop_driving`] them.
    pub fn cancel_workflow_runs(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        workflow: WorkflowId,
        why: &str,
    ) -> Result<Vec<RunId>> {
        let roots = workflows::list_active_runs(tx, workflow)?;
        Ok(runs::record::cancel_trees(tx, project, roots, why, self.clock().now())?)
    }
}
