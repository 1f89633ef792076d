//! Resumes a paused run as a new run with the same conversation and the settings of the old one.

use emergent_domain::{
    agent::Agent,
    ids::{RunId, ScheduleId},
    run::{MAX_STEPS, Origin, Run, RunStatus},
};
use emergent_graph::Actor;
use emergent_store::{Tx, agents, conversations::messages, idempotency::accept_once, runs, schedules};

use crate::{
    Error, Executor, Result, StartOptions,
    admission::{Admission, Resumable, admit_in_batch, author_token},
    admission_batch::AdmissionBatch,
    internal_agents::check_resume,
};

impl Executor {
    /// Resumes a paused run as a new run with the same conversation.
    pub async fn resume(&self, actor: Actor, run: RunId, input: Option<String>) -> Result<Run> {
        self.check_queue_capacity(actor.project).await?;
        let (executor, slots) = (self.clone(), self.try_acquire_slots(actor.project, 1));
        let start = StartOptions { input: input.unwrap_or_default(), ..StartOptions::default() };
        let start = start.with_trace_context();
        let resume = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
            let paused = runs::get_for_update(tx, actor.project, run)?;
            let paused = paused.ok_or_else(|| Error::not_found("run", run))?;
            check_resume(tx, actor, &paused, &start.input)?;
            if paused.origin.answers_messages()
                && messages::conversation_of_run(tx, actor.project, run)?.is_some()
            {
                let reason = "answered a message of a conversation: send another message there to go on";
                return Err(Error::Conflict(format!("run `{run}` {reason}")));
            }
            let admission = Admission { started_by: author_token(actor), ..Admission::new(Origin::Resume) };
            resume_in_batch(tx, &executor, admissions, &paused, admission, &start)
        };
        let work = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
            accept_once(tx, |tx| resume(tx, admissions))
        };
        self.commit_and_drive(slots, work).await
    }
}

/// Admits a run that resumes a paused one. It gets the next free slot of this server, and is queued without one.
pub(crate) fn resume_in_batch(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    paused: &Run,
    admission: Admission<'_>,
    start: &StartOptions,
) -> Result<Run> {
    let (agent, admission, start) = resume_admission(tx, paused, admission, start)?;
    admit_in_batch(tx, executor, admissions, &agent, &admission, &start)
}

/// Checks that a run may be resumed, and prepares the admission of the run that resumes it.
fn resume_admission<'a>(
    tx: &mut Tx<'_>,
    paused: &'a Run,
    admission: Admission<'a>,
    start: &StartOptions,
) -> Result<(Agent, Admission<'a>, StartOptions)> {
    let may_resume = match paused.status {
        RunStatus::Paused => true,
        RunStatus::Completed => admission.resumable == Resumable::PausedOrCompleted,
        _ => false,
    };
    if !may_resume {
        return Err(Error::Conflict(format!(
            "run `{}` is {}: only a paused run can be resumed",
            paused.id, paused.status
        )));
    }
    if let Some(successor) = runs::resumed_as(tx, paused.id)? {
        return Err(Error::Conflict(format!("run `{}` was already resumed as `{successor}`", paused.id)));
    }
    let agent = agents::get(tx, paused.project, paused.agent)?
        .filter(|agent| agent.deleted_at.is_none())
        .ok_or_else(|| {
            Error::Conflict(format!("the agent `{}` of this run was deleted", paused.agent_name))
        })?;
    // The resumed run keeps the step limit and the timeout of the paused one; admission keeps its model. A
    // step limit that was stored before there was a maximum may exceed it.
    let start = StartOptions {
        max_steps: start.max_steps.or(paused.max_steps.map(|steps| steps.min(MAX_STEPS))),
        timeout_seconds: start.timeout_seconds.or(Some(paused.timeout_seconds)),
        ..start.clone()
    };
    let schedule = lock_schedule(tx, paused)?;
    Ok((agent, Admission { resumed: Some(paused), schedule, ..admission }, start))
}

/// Locks and returns the schedule that started the paused run. A schedule has at most one active run.
fn lock_schedule(tx: &mut Tx<'_>, paused: &Run) -> Result<Option<ScheduleId>> {
    let Some(schedule) = paused.schedule else { return Ok(None) };
    if !schedules::lock(tx, schedule)? {
        return Ok(None);
    }
    match schedules::active_run(tx, schedule)? {
        Some(active) => Err(Error::Conflict(format!(
            "run `{active}` of the same schedule is active: resume `{}` after it has ended, or cancel it",
            paused.id
        ))),
        None => Ok(Some(schedule)),
    }
}
