//! Admits runs with a link, in the transaction of the layer that starts them.

use emergent_domain::{
    agent::Agent,
    ids::{RunId, TokenId},
    run::{Origin, Run},
    workflow::WorkflowLink,
};
use emergent_store::Tx;

use crate::{
    Executor, Result, StartOptions,
    admission::{self, Admission, Resumable, TriggerCause},
    admission_batch::AdmissionBatch,
    resume,
};

/// A run that the caller admits in its own transaction. The caller chooses the id, because it may refer to
/// the run before the run exists.
#[derive(Debug, Clone, Copy)]
pub struct LinkedRun {
    pub id: RunId,
    pub link: WorkflowLink,
    /// The index of the run among the runs of the same link.
    pub child_index: i64,
    pub started_by: Option<TokenId>,
    /// The run that wrote the change that started the workflow, and how many runs triggered one another before.
    pub cause: Option<RunId>,
    pub cause_depth: i64,
}

/// Starts a run if a slot is free, and queues it otherwise.
pub fn admit_linked_run(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    agent: &Agent,
    run: LinkedRun,
    start: &StartOptions,
) -> Result<Run> {
    let admission = linked_admission(run, Origin::Dispatch);
    admission::admit_in_batch(tx, executor, admissions, agent, &admission, start)
}

/// Starts or queues a run that resumes another one, which the caller has locked.
pub fn resume_linked_run(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    earlier: &Run,
    resumable: Resumable,
    run: LinkedRun,
    input: String,
) -> Result<Run> {
    let admission = Admission { resumable, ..linked_admission(run, Origin::Resume) };
    let start = StartOptions { input, ..StartOptions::default() };
    resume::resume_in_batch(tx, executor, admissions, earlier, admission, &start)
}

fn linked_admission(run: LinkedRun, origin: Origin) -> Admission<'static> {
    let LinkedRun { id, link, child_index, started_by, cause, cause_depth } = run;
    Admission {
        id: Some(id),
        child_index,
        started_by,
        cause: Some(TriggerCause { run: cause, depth: cause_depth }),
        workflow_link: Some(link),
        ..Admission::new(origin)
    }
}
