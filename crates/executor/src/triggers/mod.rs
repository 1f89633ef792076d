//! What starts agents without anybody asking: schedules and events. The rules are the domain's;
//! here they are looked up, applied and written.
//!
//! Every server does this. A schedule is claimed, its firing noted and its run admitted in one
//! transaction. Events go by a cursor per project: reading them writes firings and moves the cursor
//! in one transaction, and firing admits the run and settles the firing in another, so a server
//! that dies at any point leaves what the next pass of any server goes on with. Nothing is kept in
//! memory, so a change of a trigger counts from its commit, everywhere. No more is started than may
//! wait for a runner: the rest stays due.

mod backoff;
mod event_context;
mod events;
mod fire;
pub mod firing_counts;
mod save;
mod schedules;

use std::{collections::HashMap, time::Duration};

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{AgentId, ProjectId, ScheduleId},
    time::Timestamp,
    trigger::{EventTrigger, Schedule},
};
use emergent_net::backoff as net;
use emergent_store::{Engine, agents, feed, schedules as schedule_rows, triggers as rows};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::warn;

use crate::{Error, Executor, Result};
use backoff::Backoff;
use firing_counts::FiringCounts;

pub use emergent_store::triggers::firings::{FiringFilter, ListedFiring};
pub use save::{JobRow, delete_job, delete_jobs, save_job};
pub(crate) use save::{resave, save};

/// How often to look without being woken.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How soon to look again when a wake came before its change could be read.
const REPOLL: net::Backoff = net::Backoff::new(Duration::from_millis(5), POLL_INTERVAL);
/// Between two passes: what comes in a burst is read together.
const PASS_INTERVAL: Duration = Duration::from_millis(20);
/// Started in one transaction.
const BATCH_SIZE: usize = 50;
/// An agent that cannot be started is told of once in this time.
const WARN_INTERVAL: Duration = Duration::from_secs(3_600);

/// What this process remembers: which agents it has warned about.
#[derive(Default)]
pub(crate) struct TriggerWarnings(Mutex<HashMap<AgentId, Instant>>);

/// An agent that a trigger wanted to start, and why it could not.
pub(crate) struct RefusedStart {
    pub agent: AgentId,
    pub name: String,
    pub reason: String,
}

/// A schedule that nobody can go by, and what is wrong with it.
pub(crate) struct SuspendedSchedule {
    pub id: ScheduleId,
    pub name: String,
    pub reason: String,
}

/// What one transaction of firing came to.
#[derive(Default)]
pub(crate) struct FiringOutcome {
    /// Firings settled, or schedules looked at.
    pub count: usize,
    /// Runs queued.
    pub admitted: usize,
    /// Something is still due, and too many runs wait already.
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
    /// The names of the agents.
    pub agents: HashMap<AgentId, String>,
}

impl Executor {
    /// Fires triggers until told to stop.
    pub async fn run_triggers(&self, mut stop: watch::Receiver<bool>) {
        let mut changed = self.db().waiter(schedule_rows::CHANGED_CHANNEL);
        let mut told = self.db().waiter(feed::ANY_FEED_CHANNEL);
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
                () = told.wait(POLL_INTERVAL * 60), if !did => true,
                () = sleep(pause) => false,
            };
            if woken {
                empty_looks = 0;
                sleep(PASS_INTERVAL).await;
            }
        }
    }

    /// How long nothing will happen, unless somebody wakes us. On PostgreSQL a commit wakes before
    /// its change can be read, if an older transaction is still open.
    fn next_wait(&self, next: Option<Timestamp>, empty_looks: u32) -> Duration {
        let due =
            next.map_or(POLL_INTERVAL, |next| next.since(self.clock().now()).max(Duration::from_millis(1)));
        let soon = match self.db().engine() {
            Engine::Sqlite => POLL_INTERVAL,
            Engine::Postgres => REPOLL.delay(empty_looks),
        };
        POLL_INTERVAL.min(due).min(soon)
    }

    /// One pass over everything; whether there was anything to do, and when there will be.
    async fn fire_due(&self, backoff: &mut Backoff) -> (bool, Option<Timestamp>) {
        let mut did = false;
        match self.poll_once(&mut did, backoff).await {
            Ok(next) => (did, next),
            Err(error) => {
                warn!(error = %error, "could not look for triggers, trying again");
                (did, None)
            }
        }
    }

    async fn poll_once(&self, did: &mut bool, backoff: &mut Backoff) -> Result<Option<Timestamp>> {
        // A look first: a transaction that writes is only for what was seen.
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

    /// The schedules and event triggers of a project.
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

    /// What fired and what became of it, newest first. Settled firings are kept for 30 days.
    pub async fn list_firings(
        &self,
        project: ProjectId,
        filter: FiringFilter,
        page: Page,
    ) -> Result<ResultPage<ListedFiring>> {
        Ok(self.db().read(move |tx| rows::firings::list(tx, project, &filter, &page)).await?)
    }

    /// What follows a committed transaction of firing; how much it settled. With nothing settled for
    /// want of room, that is an error: whoever asked comes back later.
    fn report_outcome(&self, done: FiringOutcome) -> Result<usize> {
        self.queue().add(done.admitted);
        self.telemetry().record_firings(done.tally);
        self.warn_refused(done.refusals);
        for SuspendedSchedule { id, name, reason: why } in done.suspended {
            warn!(schedule.id = %id, schedule.name = %name, "set the schedule `{name}` aside until it is saved again: {why}");
        }
        match done.count {
            0 if done.full => {
                let waiting = i64::try_from(self.settings().max_queued).unwrap_or(i64::MAX);
                Err(Error::Overloaded { limit: "max_queued", waiting })
            }
            count => Ok(count),
        }
    }

    /// Nobody watches a trigger, so the log says what it could not start; once an hour each.
    fn warn_refused(&self, refusals: Vec<RefusedStart>) {
        let mut warned = self.trigger_warnings().0.lock();
        for RefusedStart { agent, name, reason: why } in refusals {
            if warned.get(&agent).is_none_or(|at| at.elapsed() > WARN_INTERVAL) {
                warned.insert(agent, Instant::now());
                warn!(agent.id = %agent, agent.name = %name, "a trigger could not start agent `{name}`: {why}");
            }
        }
    }
}

/// Whether there was anything to do.
fn did_any(done: Result<usize>) -> bool {
    match done {
        Ok(count) => count > 0,
        // What waits is kept; it is taken up when there is room.
        Err(Error::Overloaded { .. }) => false,
        // One project's trouble is not the others'.
        Err(error) => {
            warn!(error = %error, "could not fire triggers, trying again");
            false
        }
    }
}
