//! The dispatcher's doors: runs for the tasks and discussions of a workflow, admitted and cancelled
//! in the transaction of whatever it decides.

use emergent_domain::{
    agent::Agent,
    ids::{ProjectId, RunId, TokenId, WorkflowId},
    run::{Origin, Run},
    workflow::Duty,
};
use emergent_store::{Tx, runs, workflows};

use crate::{
    Executor, Result, Start,
    admit::{self, Door},
    place::Doorman,
    resume,
};

/// Starts a run for a workflow where there is a place, and queues it otherwise, under an id that nobody has: its session refers to it before it is
/// there. `part` is its place in a discussion.
#[expect(clippy::too_many_arguments, reason = "what a run is started with, once")]
pub fn dispatch(
    tx: &mut Tx<'_>,
    executor: &Executor,
    doorman: &mut Doorman,
    agent: &Agent,
    start: Start,
    duty: Duty,
    part: i64,
    run: RunId,
    started_by: Option<TokenId>,
) -> Result<Run> {
    let door = Door { id: Some(run), part, started_by, duty: Some(duty), ..Door::new(Origin::Dispatch) };
    admit::admit_into(tx, executor, doorman, agent, &door, &start)
}

/// Starts or queues the run that goes on with a paused one of a workflow, or with one that completed and owes
/// what it had to hand in, with a session of its own. The caller holds that one. It stays with its
/// workflow and its task.
pub fn dispatch_resume(
    tx: &mut Tx<'_>,
    executor: &Executor,
    doorman: &mut Doorman,
    paused: &Run,
    duty: Duty,
    run: RunId,
    input: String,
) -> Result<Run> {
    let duty = Duty { workflow: paused.duty.workflow, task: paused.duty.task, ..duty };
    let door = Door {
        id: Some(run),
        part: paused.part,
        started_by: paused.started_by,
        duty: Some(duty),
        ..Door::new(Origin::Resume)
    };
    resume::resume_into(tx, executor, doorman, paused, door, &Start { input, ..Start::default() })
}

impl Executor {
    /// Cancels every live run of a workflow and everything below; which runs that were. Once this is
    /// committed, [`Executor::stop_driving`] them.
    pub fn cancel_runs_of_workflow(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        workflow: WorkflowId,
        why: &str,
    ) -> Result<Vec<RunId>> {
        let roots = workflows::live_runs(tx, workflow)?;
        Ok(runs::record::cancel_trees(tx, project, roots, why, self.clock().now())?)
    }
}
