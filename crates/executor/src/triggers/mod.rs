//! Triggers: schedules and events that start agents. The rules are in `domain`; this module loads them,
//! applies them and writes the results.
//!
//! Every server does this. A schedule is claimed, its firing inserted and its run admitted in one
//! transaction. Events have a cursor per project: reading them inserts firings and moves the cursor in
//! one transaction, and firing admits the run and settles the firing in another. A server that crashes
//! at any point therefore leaves a state from which the next pass of any server continues. Nothing is
//! cached in memory, so a change of a trigger takes effect with its commit, on all servers. No more
//! runs are started than fit into the run queue; the other firings stay due.

mod backoff;
mod event_context;
mod events;
mod fire;
pub mod firing_counts;
mod save;
mod schedules;

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{AgentId, ProjectId, ScheduleId},
    time::Timestamp,
    trigger::{EventTrigger, Schedule},
};
use emergent_store::{Engine, agents, events as feed_wake, schedules as schedule_rows, triggers as rows};
use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};
use tracing::warn;

use crate::{Error, Executor, Result};
use backoff::Backoff;
use firing_counts::FiringCounts;

pub use emergent_store::triggers::firings::{FiringFilter, ListedFiring};
pub use save::{JobRow, delete_job, delete_jobs, save_job};
pub(crate) use save::{resave, save};

/// How often triggers are polled when no wake-up arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The delay until the next poll when a wake-up arrived before its change could be read.
const REPOLL_DELAY: Duration = Duration::from_millis(5);
/// The minimum time between two passes, so that a burst of changes is read together.
const PASS_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum number of firings per transaction.
const BATCH_SIZE: usize = 50;
/// How often the log repeats that an agent cannot be started.
const WARN_INTERVAL: Duration = Duration::from_secs(3_600);

/// When this process last warned about each agent.
#[derive(Default)]
pub(crate) struct TriggerWarnings(Mutex<HashMap<AgentId, Instant>>);

/// An agent that a trigger could not start, and the reason.
pub(crate) struct RefusedStart {
    pub agent: AgentId,
    pub name: String,
    pub reason: String,
}

/// A schedule that cannot be read, and the reason.
pub(crate) struct SuspendedSchedule {
    pub id: ScheduleId,
    pub name: String,
    pub reason: String,
}

/// The result of one transaction that fires triggers.
#[derive(Default)]
pub(crate) struct FiringOutcome {
    /// The number of firings settled, or of schedules checked.
    pub count: usize,
    /// The number of runs queued.
    pub admitted: usize,
    /// True if something is still due, but the run queue is full.
    pub full: bool,
    pub refusals: Vec<RefusedStart>,
    pub suspended: Vec<SuspendedSchedule>,
    pub tally: FiringCounts,
}

/// The triggers of a project.
#[derive(Debug, Clone, PartialEq)]
pub struct Triggers {
    pub schedules: Vec<Schedule>,
    pub events: Vec<EventTrigger>,
    /// The names of the agents, by id.
    pub agents: HashMap<AgentId, String>,
}

impl Executor {
    /// Fires triggers until `stop` becomes true.
    pub async fn run_triggers(&self, mut stop: watch::Receiver<bool>) {
        let mut changed = self.db().waiter(schedule_rows::CHANGED_CHANNEL);
        let mut feed_changes = self.db().waiter(feed_wake::ANY_FEED_CHANNEL);
        let mut empty_looks = 0_u32;
        let mut backoff = Backoff::default();
        while !*stop.borrow() {
            let (did, next) = self.fire_due(&mut backoff).await;
            empty_looks = if did { 0 } else { empty_looks.saturating_add(1) };
            let pause = if did { PASS_INTERVAL } else { self.next_wait(next, empty_looks) };
            let woken = tokio::select! {
                biased;
                _ = stop.changed() => false,
                () = changed.wait(POLL_INTERVAL * 60), if !did => true,
                () = feed_changes.wait(POLL_INTERVAL * 60), if !did => true,
                () = sleep(pause) => false,
            };
            if woken {
                empty_looks = 0;
                sleep(PASS_INTERVAL).await;
            }
        }
    }

    /// Returns how long to wait unless a wake-up arrives. On PostgreSQL, a wake-up may arrive before its
    /// change can be read, if an older transaction is still open.
    fn next_wait(&self, next: Option<Timestamp>, empty_looks: u32) -> Duration {
        let due =
            next.map_or(POLL_INTERVAL, |next| next.since(self.clock().now()).max(Duration::from_millis(1)));
        let soon = match self.db().engine() {
            Engine::Sqlite => POLL_INTERVAL,
            Engine::Postgres => REPOLL_DELAY * 2_u32.saturating_pow(empty_looks.min(16)),
        };
        POLL_INTERVAL.min(due).min(soon)
    }

    /// Makes one pass over all triggers. Returns whether there was anything to do, and when the next
    /// schedule is due.
    async fn fire_due(&self, backoff: &mut Backoff) -> (bool, Option<Timestamp>) {
        let mut did = false;
        match self.poll_once(&mut did, backoff).await {
            Ok(next) => (did, next),
            Err(error) => {
                warn!(error = %error, "could not load due triggers, trying again");
                (did, None)
            }
        }
    }

    async fn poll_once(&self, did: &mut bool, backoff: &mut Backoff) -> Result<Option<Timestamp>> {
        // The read comes first, because a write transaction is needed only if something is due.
        let seen = self.db().read(|tx| {
            Ok::<_, Error>((schedule_rows::next_due_at(tx)?, rows::projects_with_unread_changes(tx)?))
        });
        let (schedule, unread) = seen.await?;
        if schedule.is_some_and(|at| at <= self.clock().now()) && !backoff.is_waiting() {
            let fired = self.fire_schedules(BATCH_SIZE).await;
            backoff.record(&fired);
            *did |= did_any(fired);
        }
        for project in unread {
            *did |= did_any(self.read_events(project).await);
        }
        let now = self.clock().now();
        let overdue = self.db().read(move |tx| Ok::<_, Error>(rows::projects_with_due_firings(tx, now)?));
        for project in overdue.await? {
            if backoff.is_waiting() {
                break;
            }
            let fired = self.fire_events(project, BATCH_SIZE).await;
            backoff.record(&fired);
            *did |= did_any(fired);
        }
        let next = self
            .db()
            .read(|tx| Ok::<_, Error>([schedule_rows::next_due_at(tx)?, rows::firings::next_due_at(tx)?]));
        let now = self.clock().now();
        Ok(next.await?.into_iter().flatten().filter(|next| *next > now).min())
    }

    /// Returns the schedules and event triggers of a project.
    pub async fn list_triggers(&self, project: ProjectId) -> Result<Triggers> {
        self.db()
            .snapshot(move |tx| {
                let agents = agents::list_all(tx, project)?;
                Ok(Triggers {
                    schedules: schedule_rows::list(tx, project)?,
                    events: rows::list(tx, project)?,
                    agents: agents.into_iter().map(|agent| (agent.id, agent.definition.name)).collect(),
                })
            })
            .await
    }

    /// Lists firings with their outcomes, newest first. Settled firings are stored for 30 days.
    pub async fn list_firings(
        &self,
        project: ProjectId,
        filter: FiringFilter,
        page: Page,
    ) -> Result<ResultPage<ListedFiring>> {
        Ok(self.db().read(move |tx| rows::firings::list(tx, project, &filter, &page)).await?)
    }

    /// Reports a committed transaction, and returns how many firings it settled. If it settled none because
    /// the run queue is full, that is an error, so that the caller retries later.
    fn report_outcome(&self, done: FiringOutcome) -> Result<usize> {
        self.queue().add(done.admitted);
        self.telemetry().record_firings(done.tally);
        self.warn_refused(done.refusals);
        for SuspendedSchedule { id, name, reason } in done.suspended {
            warn!(schedule.id = %id, schedule.name = %name, "suspended the schedule `{name}` until it is saved again: {reason}");
        }
        match done.count {
            0 if done.full => {
                let waiting = i64::try_from(self.settings().max_queued).unwrap_or(i64::MAX);
                Err(Error::Overloaded { limit: "max_queued", waiting })
            }
            count => Ok(count),
        }
    }

    /// Logs refused starts, once an hour for each agent, because nobody waits for the result of a trigger.
    fn warn_refused(&self, refusals: Vec<RefusedStart>) {
        let mut warned = self.trigger_warnings().0.lock();
        for RefusedStart { agent, name, reason } in refusals {
            if warned.get(&agent).is_none_or(|at| at.elapsed() > WARN_INTERVAL) {
                warned.insert(agent, Instant::now());
                warn!(agent.id = %agent, agent.name = %name, "a trigger could not start agent `{name}`: {reason}");
            }
        }
    }
}

/// Whether there was anything to do.
fn did_any(done: Result<usize>) -> bool {
    match done {
        Ok(count) => count > 0,
        // Due triggers stay due, and are fired when the queue has capacity.
        Err(Error::Overloaded { .. }) => false,
        // A failure in one project must not stop the others.
        Err(error) => {
            warn!(error = %error, "could not fire triggers, trying again");
            false
        }
    }
}
