//! Going on with a paused run: a new run with the same conversation, which keeps what the old one was
//! started with.

use emergent_domain::{
    agent::Agent,
    ids::{RunId, ScheduleId},
    run::{Origin, Run, RunStatus},
};
use emergent_graph::Actor;
use emergent_store::{Tx, agents, runs, schedules};

use crate::{
    Error, Executor, Result, StartOptions,
    admission::{Admission, admit, admit_in_batch, author_token},
    place::AdmissionBatch,
};

/// What a resumed run is told before what was said at its resumption.
const RESUME_PREFIX: &str = "Continue your work. Here is additional context: ";

impl Executor {
    /// Goes on with a paused run, as a new run with the same conversation.
    pub async fn resume(&self, actor: Actor, run: RunId, input: Option<String>) -> Result<Run> {
        self.check_queue_capacity().await?;
        let executor = self.clone();
        let start = StartOptions { input: input.unwrap_or_default(), ..StartOptions::default() };
        let work = move |tx: &mut Tx<'_>| {
            let paused = runs::get_for_update(tx, actor.project, run)?;
            let paused = paused.ok_or_else(|| Error::not_found("run", run))?;
            let door = Admission { started_by: author_token(actor), ..Admission::new(Origin::Resume) };
            resume(tx, &executor, &paused, door, &start)
        };
        self.db().write(work).await
    }
}

/// What it is told first, when something was said.
pub(crate) fn resume_message(said: &str) -> String {
    format!("{RESUME_PREFIX}{said}")
}

/// What was said at a resumption, out of the message it became; empty when that was nothing.
pub(crate) fn resume_input(message: &str) -> &str {
    message.strip_prefix(RESUME_PREFIX).unwrap_or_default()
}

/// Queues the run that goes on with a paused one. One that completed is gone on with only by whoever
/// it owes something: the dispatcher, for what it had to hand in.
pub(crate) fn resume(
    tx: &mut Tx<'_>,
    executor: &Executor,
    paused: &Run,
    door: Admission<'_>,
    start: &StartOptions,
) -> Result<Run> {
    let (agent, door, start) = resume_admission(tx, paused, door, start)?;
    admit(tx, executor, &agent, &door, &start)
}

/// As [`resume`], into the next place on this server.
pub(crate) fn resume_in_batch(
    tx: &mut Tx<'_>,
    executor: &Executor,
    doorman: &mut AdmissionBatch,
    paused: &Run,
    door: Admission<'_>,
    start: &StartOptions,
) -> Result<Run> {
    let (agent, door, start) = resume_admission(tx, paused, door, start)?;
    admit_in_batch(tx, executor, doorman, &agent, &door, &start)
}

fn resume_admission<'a>(
    tx: &mut Tx<'_>,
    paused: &'a Run,
    door: Admission<'a>,
    start: &StartOptions,
) -> Result<(Agent, Admission<'a>, StartOptions)> {
    let owes = paused.status == RunStatus::Completed
        && door.workflow_link.is_some_and(|duty| duty.deliverable.is_some());
    if paused.status != RunStatus::Paused && !owes {
        return Err(Error::Conflict(format!(
            "run `{}` is {}: only a paused run can be resumed",
            paused.id, paused.status
        )));
    }
    if let Some(by) = runs::resumed_as(tx, paused.id)? {
        return Err(Error::Conflict(format!("run `{}` was resumed already, as `{by}`", paused.id)));
    }
    let agent = agents::get(tx, paused.project, paused.agent)?
        .filter(|agent| agent.deleted_at.is_none())
        .ok_or_else(|| Error::Conflict(format!("the agent `{}` of this run is gone", paused.agent_name)))?;
    // A run keeps what it was started with: its own step budget, time and model.
    let start = StartOptions {
        max_steps: start.max_steps.or(paused.max_steps),
        timeout_seconds: start.timeout_seconds.or(Some(paused.timeout_seconds)),
        model: start.model.clone().or_else(|| Some(paused.model.clone())),
        ..start.clone()
    };
    let schedule = lock_schedule(tx, paused)?;
    Ok((agent, Admission { resumed: Some(paused), schedule, ..door }, start))
}

/// The schedule whose run a resumption goes on with; a schedule has one live run at most.
fn lock_schedule(tx: &mut Tx<'_>, paused: &Run) -> Result<Option<ScheduleId>> {
    let Some(schedule) = paused.schedule else { return Ok(None) };
    if !schedules::lock(tx, schedule)? {
        return Ok(None);
    }
    match schedules::active_run(tx, schedule)? {
        Some(live) => Err(Error::Conflict(format!(
            "run `{live}` of the same schedule is under way: resume `{}` when that has ended, or cancel that one",
            paused.id
        ))),
        None => Ok(Some(schedule)),
    }
}
