//! Runs the children of a run: admits a few at a time, waits for them, and stops them at the deadline of
//! the parent. The children are recorded in the database, so a recovered parent finds them and starts none
//! twice.

use std::sync::Arc;

use emergent_domain::{
    ids::{RunId, ToolCallId},
    run::{MAX_CONCURRENT_CHILDREN, Reason, Run, RunStatus},
};
use emergent_store::{
    Tx,
    runs::{self, record::TimedOutRun},
};
use tokio::time::{Duration, Instant};

use crate::{
    Error, Executor, Result,
    admission_batch::AdmissionBatch,
    event_hub::EventHub,
    recorder::{Recorder, fence},
    scrub,
};

/// How often the database is polled when no wake-up arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Admits the child at an index, into a slot if the batch has one. An error that can be shown to the model is
/// a failure of this child only.
pub(crate) type AdmitChild =
    Arc<dyn Fn(&mut Tx<'_>, &mut AdmissionBatch, usize) -> Result<Run> + Send + Sync>;

/// A child, or why there is none.
#[derive(Debug, Clone)]
pub(crate) enum Child {
    Run(Box<Run>),
    /// It may not be started.
    Refused(Refusal),
    /// The time of the parent was up before it was started.
    NotStarted,
}

/// Why a child is not started.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    /// The reason with which a flow ends if this was its part.
    pub reason: Reason,
    pub text: String,
}

impl Refusal {
    fn new(error: &Error) -> Self {
        let reason = match error {
            Error::BudgetUsedUp(_) => Reason::Budget,
            // There is no such agent, or no server can call its model.
            Error::NotFound { what: "agent", .. } | Error::NoModel(_) => Reason::Definition,
            _ => Reason::Flow,
        };
        Self { reason, text: error.to_string() }
    }
}

/// The children of one tool call, or of one round of a flow.
pub(crate) struct ChildBatch {
    /// The tool call that spawns the children; `None` for a flow.
    pub call: Option<ToolCallId>,
    /// The child index of the first child of this batch.
    pub first_part: i64,
    /// One entry per index: the child that an earlier run of the resume chain completed there, if any.
    pub existing: Vec<Option<Run>>,
    pub deadline: Instant,
    pub admit: AdmitChild,
}

/// Starts children, only a few of them concurrently, and waits until all have ended. Children that have not ended at the
/// deadline are paused if their own time is up, and cancelled otherwise. If all that are left wait for a person, the parent
/// waits as well, and the result is [`Error::Waiting`]: the parent is driven again when one of them goes on or ends.
pub(crate) async fn run_children(
    executor: &Executor,
    parent: &Run,
    recorder: &mut Recorder,
    steps: i64,
    batch: ChildBatch,
) -> Result<Vec<Child>> {
    let ChildBatch { call, first_part, existing, deadline, admit } = batch;
    let count = existing.len();
    let mut waiter = executor.db().waiter(&runs::ended_channel(parent.id));
    let mut refused: Vec<Option<Child>> = vec![None; count];
    let mut told = recorder.told_requests().await?;
    loop {
        let (id, last_part) = (parent.id, first_part + i64::try_from(count).unwrap_or(i64::MAX));
        let rows = executor.db().read(move |tx| runs::list_children(tx, id, call)).await?;
        let mut children = existing.clone();
        for run in rows.into_iter().filter(|run| (first_part..last_part).contains(&run.child_index)) {
            let index = usize::try_from(run.child_index - first_part).unwrap_or(0);
            children[index] = Some(run);
        }
        recorder.tell_decisions(&mut told, steps).await?;
        let active = children.iter().flatten().filter(|run| !run.status.is_terminal()).count();
        let missing: Vec<usize> =
            (0..count).filter(|index| children[*index].is_none() && refused[*index].is_none()).collect();
        if active == 0 && missing.is_empty() {
            return Ok(children
                .into_iter()
                .zip(refused)
                .map(|(run, refused)| match run {
                    Some(run) => Child::Run(Box::new(run)),
                    None => refused.unwrap_or(Child::NotStarted),
                })
                .collect());
        }
        if Instant::now() >= deadline {
            stop_children(executor, parent, children.into_iter().flatten().collect()).await?;
            missing.into_iter().for_each(|index| refused[index] = Some(Child::NotStarted));
            continue;
        }
        let mut admitted = false;
        for index in missing.into_iter().take(MAX_CONCURRENT_CHILDREN.saturating_sub(active)) {
            let (admit, at) = (Arc::clone(&admit), recorder.position(steps));
            let slots = executor.try_acquire_slots(parent.project, 1);
            let work = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
                // The fence locks the parent's row until the commit, so a concurrent cancel either sees
                // this child or comes first and stops it here.
                fence(tx, &at)?;
                admit(tx, admissions, index)
            };
            match executor.commit_and_drive(slots, work).await {
                Ok(_) => admitted = true,
                Err(error @ (Error::Store(_) | Error::Lost(_))) => return Err(error),
                Err(error) => refused[index] = Some(Child::Refused(Refusal::new(&error))),
            }
        }
        let is_waiting = |run: &&Run| run.status == RunStatus::Waiting;
        let waiting = children.iter().flatten().filter(is_waiting).count();
        if !admitted && active > 0 && waiting == active {
            if recorder.wait_for_children(call, active, steps).await? {
                return Err(Error::Waiting(parent.id));
            }
            continue;
        }
        if !admitted && active > 0 {
            let remaining = deadline.saturating_duration_since(Instant::now());
            waiter.wait(POLL_INTERVAL.min(remaining.max(Duration::from_millis(1)))).await;
        }
    }
}

/// Stops the children that have not ended. One whose own time is up is only summing up: it is paused with
/// what it has written so far, also in an answer that it has not finished, if this server drives it. The others are
/// cancelled.
async fn stop_children(executor: &Executor, parent: &Run, children: Vec<Run>) -> Result<()> {
    let (project, now) = (parent.project, executor.clock().now());
    // The time of a run that waits for a person does not count.
    let is_timed_out = |run: &Run| {
        run.status != RunStatus::Waiting && run.deadline().is_some_and(|deadline| deadline <= now)
    };
    let active = children.into_iter().filter(|run| !run.status.is_terminal());
    let (timed_out, others): (Vec<Run>, Vec<Run>) = active.partition(is_timed_out);
    let ids = |runs: Vec<Run>| runs.into_iter().map(|run| run.id).collect::<Vec<_>>();
    let (timed_out, others) = (ids(timed_out), ids(others));
    let reason = "the time of its parent was up";
    let hub = executor.hub().clone();
    let work = move |tx: &mut Tx<'_>| {
        let timed_out: Vec<TimedOutRun> = timed_out.iter().map(|id| timed_out_run(&hub, *id)).collect();
        runs::record::pause_timed_out(tx, project, &timed_out, &others, reason, now)
    };
    let stopped: Result<_, emergent_store::Error> = executor.db().write(work).await;
    let (paused, cancelled) = stopped?;
    executor.stop_timed_out(&paused);
    executor.stop_driving(&cancelled);
    Ok(())
}

/// A run whose time is up, with the text that its model has streamed on this server, as it would be recorded.
fn timed_out_run(hub: &EventHub, id: RunId) -> TimedOutRun {
    let mut unfinished = hub.unfinished_texts(id);
    unfinished.iter_mut().for_each(|unfinished| scrub::scrub_text(&mut unfinished.text));
    TimedOutRun { id, unfinished }
}
