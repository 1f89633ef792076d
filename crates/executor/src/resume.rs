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
    Error, Executor, Result, Start,
    admit::{Door, admit, admit_into, token_of},
    place::Doorman,
};

/// What a resumed run is told before what was said at its resumption.
const GO_ON_WITH: &str = "Continue your work. Here is additional context: ";

impl Executor {
    /// Goes on with a paused run, as a new run with the same conversation.
    pub async fn resume(&self, actor: Actor, run: RunId, input: Option<String>) -> Result<Run> {
        self.refuse_when_full().await?;
        let executor = self.clone();
        let start = Start { input: input.unwrap_or_default(), ..Start::default() };
        let work = move |tx: &mut Tx<'_>| {
            let paused = runs::get_for_update(tx, actor.project, run)?;
            let paused = paused.ok_or_else(|| Error::not_found("run", run))?;
            let door = Door { started_by: token_of(actor), ..Door::new(Origin::Resume) };
            resume(tx, &executor, &paused, door, &start)
        };
        self.db().write(work).await
    }
}

/// What it is told first, when something was said.
pub(crate) fn told(said: &str) -> String {
    format!("{GO_ON_WITH}{said}")
}

/// What was said at a resumption, out of the message it became; empty when that was nothing.
pub(crate) fn said_at_resumption(message: &str) -> &str {
    message.strip_prefix(GO_ON_WITH).unwrap_or_default()
}

/// Queues the run that goes on with a paused one. One that completed is gone on with only by whoever
/// it owes something: the dispatcher, for what it had to hand in.
pub(crate) fn resume(
    tx: &mut Tx<'_>,
    executor: &Executor,
    paused: &Run,
    door: Door<'_>,
    start: &Start,
) -> Result<Run> {
    let (agent, door, start) = going_on(tx, paused, door, start)?;
    admit(tx, executor, &agent, &door, &start)
}

/// As [`resume`], into the next place on this server.
pub(crate) fn resume_into(
    tx: &mut Tx<'_>,
    executor: &Executor,
    doorman: &mut Doorman,
    paused: &Run,
    door: Door<'_>,
    start: &Start,
) -> Result<Run> {
    let (agent, door, start) = going_on(tx, paused, door, start)?;
    admit_into(tx, executor, doorman, &agent, &door, &start)
}

fn going_on<'a>(
    tx: &mut Tx<'_>,
    paused: &'a Run,
    door: Door<'a>,
    start: &Start,
) -> Result<(Agent, Door<'a>, Start)> {
    let owes = paused.status == RunStatus::Completed && door.duty.is_some_and(|duty| duty.hands.is_some());
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
    let start = Start {
        max_steps: start.max_steps.or(paused.max_steps),
        timeout_seconds: start.timeout_seconds.or(Some(paused.timeout_seconds)),
        model: start.model.clone().or_else(|| Some(paused.model.clone())),
        ..start.clone()
    };
    let schedule = schedule_of(tx, paused)?;
    Ok((agent, Door { resumes: Some(paused), schedule, ..door }, start))
}

/// The schedule whose run a resumption goes on with; a schedule has one live run at most.
fn schedule_of(tx: &mut Tx<'_>, paused: &Run) -> Result<Option<ScheduleId>> {
    let Some(schedule) = paused.schedule else { return Ok(None) };
    if !schedules::hold(tx, schedule)? {
        return Ok(None);
    }
    match schedules::live_run(tx, schedule)? {
        Some(live) => Err(Error::Conflict(format!(
            "run `{live}` of the same schedule is under way: resume `{}` when that has ended, or cancel that one",
            paused.id
        ))),
        None => Ok(Some(schedule)),
    }
}
