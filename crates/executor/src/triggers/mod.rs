//! Triggers: schedules and events that start agents or workflows by themselves. The rules are in `domain`; this module
//! loads triggers, applies the rules and writes the results.
//!
//! Every server fires triggers. A schedule is locked, its firing is inserted and its run is admitted in one
//! transaction. Events are read with one cursor per project: a read compares them with the triggers, a first transaction
//! inserts firings and moves the cursor, and a second one admits a run and settles its firings. After a crash at any point, the next
//! pass of any server continues. Nothing is cached in memory, so a change of a trigger applies on all
//! servers as soon as it is committed. While the run queue is full, nothing is started: firings stay due. So do those of
//! a trigger that has as many unfinished runs as it may have.

mod backoff;
mod comparison;
mod concurrency;
mod due_triggers;
mod event_context;
mod events;
mod fire;
pub mod firing_counts;
mod limits;
mod pause;
mod save;
mod schedules;
mod skip;
mod start_failure;
mod start_rights;
mod workflow_triggers;
mod workflows;

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

use crate::{Error, Executor, Result, queue::PROJECT_LIMIT};
use backoff::Backoffs;
use firing_counts::FiringCounts;

pub use concurrency::HeldBack;
pub use emergent_store::triggers::firings::{FiringFilter, ListedFiring};
pub(crate) use events::StartedChanges;
pub use limits::TriggerLimits;
pub use save::{JobRow, delete_job, delete_jobs, save_job};
pub(crate) use save::{resave, save};
pub use skip::SkippedTriggers;
pub use workflow_triggers::{WorkflowTriggerSpec, delete_workflow_trigger, save_workflow_trigger};

/// How often triggers are checked when no wake-up arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The delay before the next check, if a wake-up arrived before its change could be read.
const REPOLL: net::Backoff = net::Backoff::new(Duration::from_millis(5), POLL_INTERVAL);
/// The timeout of the wake-up waiters. The sleep beside them always ends first.
const WAITER_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause between two passes, so that a burst of changes is read together.
const PASS_INTERVAL: Duration = Duration::from_millis(20);
/// The most firings that one transaction starts.
const BATCH_SIZE: usize = 50;
/// The log warns about an agent that cannot be started at most once in this time.
const WARN_INTERVAL: Duration = Duration::from_secs(3_600);

/// When this process last warned about each agent that a trigger could not start.
#[derive(Default)]
pub(crate) struct TriggerWarnings(Mutex<HashMap<AgentId, Instant>>);

/// An agent that a trigger could not start, and why.
pub(crate) struct RefusedStart {
    pub agent: AgentId,
    pub name: String,
    pub reason: String,
}

/// A schedule that cannot be read and was suspended, and why.
pub(crate) struct SuspendedSchedule {
    pub id: ScheduleId,
    pub name: String,
    pub reason: String,
}

/// The outcome of one transaction that fires triggers.
#[derive(Default)]
pub(crate) struct FiringOutcome {
    /// How many firings were settled, or how many schedules were handled.
    pub count: usize,
    /// How many runs were queued.
    pub admitted: usize,
    /// The limit of the run queue because of which firings are still due; `None` if it has free capacity.
    pub full: Option<&'static str>,
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
    /// The event triggers whose events wait for a run to end, by agent.
    pub held_back: HashMap<AgentId, HeldBack>,
}

impl Executor {
    /// Fires triggers until `stop` becomes true.
    pub async fn run_triggers(&self, mut stop: watch::Receiver<bool>) {
        let mut triggers_changed = self.db().waiter(schedule_rows::CHANGED_CHANNEL);
        let mut feed_changed = self.db().waiter(feed::ANY_FEED_CHANNEL);
        let mut idle_passes = 0_u32;
        let mut backoffs = Backoffs::default();
        while !*stop.borrow() {
            let (fired, next) = self.fire_due(&mut backoffs).await;
            idle_passes = if fired { 0 } else { idle_passes.saturating_add(1) };
            let pause = if fired { PASS_INTERVAL } else { self.next_wait(next, idle_passes) };
            let woken = tokio::select! {
                biased;
                _ = stop.changed() => false,
                () = triggers_changed.wait(WAITER_TIMEOUT), if !fired => true,
                () = feed_changed.wait(WAITER_TIMEOUT), if !fired => true,
                () = sleep(pause) => false,
            };
            if woken {
                idle_passes = 0;
                sleep(PASS_INTERVAL).await;
            }
        }
    }

    /// How long to sleep until the next pass, unless a wake-up arrives. On PostgreSQL, a wake-up can arrive
    /// before its change can be read, if an older transaction is still open; the first idle passes therefore
    /// follow each other quickly.
    fn next_wait(&self, next: Option<Timestamp>, idle_passes: u32) -> Duration {
        let until_due =
            next.map_or(POLL_INTERVAL, |next| next.since(self.clock().now()).max(Duration::from_millis(1)));
        let until_repoll = match self.db().engine() {
            Engine::Sqlite => POLL_INTERVAL,
            Engine::Postgres => REPOLL.delay(idle_passes),
        };
        POLL_INTERVAL.min(until_due).min(until_repoll)
    }

    /// Makes one pass over all projects. Returns whether anything was fired or read, and when the next
    /// trigger is due.
    async fn fire_due(&self, backoffs: &mut Backoffs) -> (bool, Option<Timestamp>) {
        let mut did_work = false;
        match self.poll_once(&mut did_work, backoffs).await {
            Ok(next) => (did_work, next),
            Err(error) => {
                warn!(error = %error, "could not check the triggers, trying again");
                (did_work, None)
            }
        }
    }

    /// Like [`Executor::fire_due`], but sets `did_work` also if an error follows.
    async fn poll_once(&self, did_work: &mut bool, backoffs: &mut Backoffs) -> Result<Option<Timestamp>> {
        // The read comes first, because write transactions are needed only if something is due.
        let pending = self.db().read(|tx| {
            let due = [schedule_rows::next_due_at(tx)?, rows::firings::next_due_at(tx)?];
            Ok::<_, Error>((due, rows::projects_with_unread_changes(tx)?))
        });
        let (due, unread) = pending.await?;
        let now = self.clock().now();
        // Most passes follow a commit that concerns no trigger, and the one read has told so.
        if unread.is_empty() && due.into_iter().flatten().all(|at| at > now) {
            return Ok(due.into_iter().flatten().min());
        }
        let [schedule_due_at, _] = due;
        if schedule_due_at.is_some_and(|at| at <= self.clock().now()) && !backoffs.queue.is_waiting() {
            let fired = self.fire_schedules(BATCH_SIZE).await;
            backoffs.queue.record(&fired);
            *did_work |= did_any(fired);
            *did_work |= did_any(self.fire_workflow_schedules(BATCH_SIZE).await);
        }
        for project in unread {
            *did_work |= did_any(self.read_events(project).await);
        }
        let now = self.clock().now();
        let overdue = self.db().read(move |tx| due_triggers::projects_to_fire(tx, now)).await?;
        backoffs.keep_projects(&overdue);
        for project in overdue {
            *did_work |= did_any(self.fire_workflow_events(project, BATCH_SIZE).await);
            if backoffs.is_waiting(project) {
                continue;
            }
            let fired = self.fire_events(project, BATCH_SIZE).await;
            backoffs.record(project, &fired);
            *did_work |= did_any(fired);
        }
        let now = self.clock().now();
        let next = self.db().read(move |tx| {
            Ok::<_, Error>([schedule_rows::next_due_at(tx)?, rows::firings::next_due_after(tx, now)?])
        });
        Ok(next.await?.into_iter().flatten().filter(|next| *next > now).min())
    }

    /// Lists the schedules and event triggers of a project.
    pub async fn list_triggers(&self, project: ProjectId) -> Result<Triggers> {
        let now = self.clock().now();
        self.db()
            .snapshot(move |tx| {
                let agents = agents::list_all(tx, project)?;
                let events = rows::list(tx, project)?;
                Ok(Triggers {
                    schedules: schedule_rows::list(tx, project)?,
                    held_back: concurrency::list_held_back(tx, project, &events, now)?,
                    events,
                    agents: agents.into_iter().map(|agent| (agent.id, agent.definition.name)).collect(),
                })
            })
            .await
    }

    /// Lists firings and their outcomes, newest first. Settled firings stay as long as the project keeps them.
    pub async fn list_firings(
        &self,
        project: ProjectId,
        filter: FiringFilter,
        page: Page,
    ) -> Result<ResultPage<ListedFiring>> {
        Ok(self.db().read(move |tx| rows::firings::list(tx, project, &filter, &page)).await?)
    }

    /// Updates metrics and writes warnings after a transaction that fired triggers is committed. Returns how
    /// many firings were settled, or [`Error::Overloaded`] if none was because the run queue is full.
    fn report_outcome(&self, outcome: FiringOutcome) -> Result<usize> {
        self.queue().add(outcome.admitted);
        self.telemetry().record_firings(outcome.tally);
        self.warn_refused(outcome.refusals);
        for SuspendedSchedule { id, name, reason } in outcome.suspended {
            warn!(schedule.id = %id, schedule.name = %name, "the schedule `{name}` is suspended until it is saved again: {reason}");
        }
        match (outcome.count, outcome.full) {
            (0, Some(limit)) => {
                let max = match limit {
                    PROJECT_LIMIT => self.settings().project_queued(),
                    _ => self.settings().max_queued,
                };
                Err(Error::Overloaded { limit, waiting: i64::try_from(max).unwrap_or(i64::MAX) })
            }
            (count, _) => Ok(count),
        }
    }

    /// Warns in the log about agents that could not be started, because nobody waits for the result of a
    /// trigger. Each agent is reported at most once in [`WARN_INTERVAL`].
    fn warn_refused(&self, refusals: Vec<RefusedStart>) {
        let mut warned = self.trigger_warnings().0.lock();
        for RefusedStart { agent, name, reason } in refusals {
            if warned.get(&agent).is_none_or(|at| at.elapsed() > WARN_INTERVAL) {
                warned.insert(agent, Instant::now());
                warn!(agent.id = %agent, agent.name = %name, "a trigger could not start `{name}`: {reason}");
            }
        }
    }
}

/// Whether a step of a pass did anything. Errors are logged, so that the other projects continue.
fn did_any(result: Result<usize>) -> bool {
    match result {
        Ok(count) => count > 0,
        // The firings stay due until the run queue has free capacity.
        Err(Error::Overloaded { .. }) => false,
        Err(error) => {
            warn!(error = %error, "could not fire triggers, trying again");
            false
        }
    }
}
