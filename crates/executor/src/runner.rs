//! Takes what is queued and drives it, as many runs at once as there are places; takes over what a
//! runner that died had in hand. One lease stands for all runs of a runner. When the lease cannot be
//! kept, the runner drops everything before anybody else can take it up.

use std::{panic::AssertUnwindSafe, sync::Arc};

use emergent_domain::{
    ids::RunId,
    run::{Reason, Run, RunEnd, RunStatus},
};
use emergent_store::{
    Engine, budget,
    runs::{self, claim},
};
use futures_util::FutureExt;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    task::AbortHandle,
    time::{Duration, Instant, MissedTickBehavior, interval, sleep},
};
use tracing::{Instrument, error, info, warn};

use crate::{
    Error, Executor, Result,
    driver::{Driver, Loaded},
    flow::{self, Flow},
    hands,
    recorder::{Batch, Recorder},
    spans,
};

/// How long a runner that has gone silent keeps its runs. With the look every second, another has
/// them within eleven seconds.
const LEASE: Duration = Duration::from_secs(9);
const HEARTBEAT: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_secs(1);
/// How often to make sure of runs that nobody said anything about.
const CHECK: Duration = Duration::from_secs(2);
/// How long runs may go on to their next record when the server is told to stop.
const GRACE: Duration = Duration::from_secs(2);
/// Failures of the database in a row before a run is given up.
const PATIENCE: u32 = 20;
const CLAIM_AT_ONCE: usize = 256;

/// A place among the runs that are driven at once. A run that waits for others leaves it.
pub(crate) struct Slot {
    places: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Slot {
    pub fn leave(&mut self) {
        if self.held.take().is_some() {
            self.freed.notify_one();
        }
    }

    pub async fn enter(&mut self) {
        if self.held.is_none() {
            // The semaphore is never closed.
            self.held = Arc::clone(&self.places).acquire_owned().await.ok();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Executor {
    /// Drives runs until `stop` says true. What is not finished then stays as it is recorded: the
    /// next start, or another server, goes on with it.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let owner: Arc<str> = uuid::Uuid::now_v7().to_string().into();
            let shift = Shift {
                executor: self.clone(),
                places: Arc::new(Semaphore::new(self.settings().max_runs)),
                freed: Arc::new(Notify::new()),
                owner,
            };
            if let Err(error) = shift.work(&mut stop).await {
                warn!(error = %error, "the runner starts anew");
                tokio::select! { () = sleep(LOOK) => {}, _ = stop.changed() => {} }
            }
        }
    }

    /// Stops driving runs that were cancelled, once that is committed. Nothing they still try can be
    /// written; those that other servers drive are stopped there.
    pub fn stop_driving(&self, cancelled: &[RunId]) {
        self.telemetry().runs_cancelled(cancelled);
        self.drop_runs(cancelled);
    }

    fn drop_runs(&self, ids: &[RunId]) {
        let mut live = self.live().lock();
        for id in ids {
            if let Some(handle) = live.remove(id) {
                handle.abort();
            }
        }
    }

    /// How many runs this process drives.
    pub fn driving(&self) -> usize {
        self.live().lock().len()
    }
}

/// One runner under one name.
struct Shift {
    executor: Executor,
    places: Arc<Semaphore>,
    freed: Arc<Notify>,
    owner: Arc<str>,
}

impl Shift {
    async fn work(&self, stop: &mut watch::Receiver<bool>) -> Result<()> {
        self.register().await?;
        let (db, mut kept) = (self.executor.db(), Instant::now());
        let mut queued = db.waiter(runs::QUEUED);
        let mut cancelled = db.waiter(runs::CANCELLED);
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut check = interval(CHECK);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if *stop.borrow() {
                return self.leave().await;
            }
            let full = self.take_up().await;
            tokio::select! {
                biased;
                _ = heartbeat.tick() => {
                    if self.keep_alive().await { kept = Instant::now() }
                    if kept.elapsed() > LEASE - HEARTBEAT {
                        self.drop_everything();
                        return Err(Error::Conflict("the lease of this runner could not be kept".into()));
                    }
                }
                stopped = stop.changed() => if stopped.is_err() { return self.leave().await },
                _ = check.tick() => self.drop_lost().await,
                () = cancelled.wait(CHECK) => self.drop_lost().await,
                () = self.freed.notified(), if full => {}
                () = queued.wait(LOOK), if !full => {}
            }
        }
    }

    async fn register(&self) -> Result<()> {
        let (owner, now) = (Arc::clone(&self.owner), self.executor.clock().now());
        let done = self.executor.db().write(move |tx| claim::register(tx, &owner, now + LEASE, now)).await;
        done.map(|_| ()).map_err(Error::from)
    }

    async fn keep_alive(&self) -> bool {
        let (owner, until) = (Arc::clone(&self.owner), self.executor.clock().now() + LEASE);
        let kept = self.executor.db().write(move |tx| claim::keep_alive(tx, &owner, until));
        match tokio::time::timeout(HEARTBEAT, kept).await {
            Ok(Ok(kept)) => kept,
            Ok(Err(error)) => {
                let error: emergent_store::Error = error;
                warn!(error = %error, "could not keep the lease of this runner, trying again");
                false
            }
            Err(_) => false,
        }
    }

    /// Claims what there are places for; true when there are none left.
    async fn take_up(&self) -> bool {
        let free = self.places.available_permits();
        if free == 0 {
            return true;
        }
        let (owner, now, limit) =
            (Arc::clone(&self.owner), self.executor.clock().now(), free.min(CLAIM_AT_ONCE));
        // Looking costs nothing when there is nothing: a write transaction only for what was seen.
        let seen = self.executor.db().read(move |tx| claim::anything(tx, now)).await;
        if matches!(seen, Ok(false)) {
            return false;
        }
        let claimed = self
            .executor
            .db()
            .write(move |tx| {
                let mut claimed = claim::orphaned(tx, &owner, LEASE, now, limit)?;
                if claimed.len() < limit {
                    claimed.extend(claim::queued(tx, &owner, now, limit - claimed.len())?);
                }
                Ok::<_, emergent_store::Error>(claimed)
            })
            .await;
        match claimed {
            Ok(claimed) => {
                let some = !claimed.is_empty();
                claimed.into_iter().for_each(|run| self.start(run));
                if some {
                    // There may be more than one claim takes.
                    self.freed.notify_one();
                }
                self.places.available_permits() == 0 || some
            }
            Err(error) => {
                warn!(error = %error, "could not look for runs, trying again");
                false
            }
        }
    }

    fn start(&self, run: Run) {
        let id = run.id;
        let held = Arc::clone(&self.places).try_acquire_owned().ok();
        let slot = Slot { places: Arc::clone(&self.places), held, freed: Arc::clone(&self.freed) };
        let (executor, owner) = (self.executor.clone(), Arc::clone(&self.owner));
        // Held until the handle is in the map, so that the task cannot take itself out before.
        let mut live = self.executor.live().lock();
        let task = tokio::spawn(async move {
            let _gone = Gone(executor.clone(), id);
            drive_to_its_end(executor, run, owner, slot).await;
        });
        live.insert(id, task.abort_handle());
    }

    /// Drops runs that are no longer this runner's: cancelled elsewhere, or taken over.
    async fn drop_lost(&self) {
        let ids: Vec<RunId> = self.executor.live().lock().keys().copied().collect();
        if ids.is_empty() || self.executor.db().engine() == Engine::Sqlite {
            // With one process, whoever cancels a run stops it as well.
            return;
        }
        let owner = Arc::clone(&self.owner);
        match self.executor.db().read(move |tx| claim::lost(tx, &owner, &ids)).await {
            Ok(lost) => self.executor.drop_runs(&lost),
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(error = %error, "could not look after the runs in hand");
            }
        }
    }

    fn drop_everything(&self) {
        let handles: Vec<AbortHandle> =
            self.executor.live().lock().drain().map(|(_, handle)| handle).collect();
        handles.iter().for_each(AbortHandle::abort);
    }

    async fn leave(&self) -> Result<()> {
        let end = Instant::now() + GRACE;
        while self.executor.driving() > 0 && Instant::now() < end {
            sleep(Duration::from_millis(20)).await;
        }
        let left = self.executor.driving();
        self.drop_everything();
        if left > 0 {
            info!(runs = left, "{left} runs were left where they are recorded");
        }
        let (owner, now) = (Arc::clone(&self.owner), self.executor.clock().now());
        let retired: Result<(), emergent_store::Error> =
            self.executor.db().write(move |tx| claim::retire(tx, &owner, now)).await;
        retired.map_err(Error::from)
    }
}

/// Takes a run out of the map when its task ends, however it does.
struct Gone(Executor, RunId);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.live().lock().remove(&self.1);
    }
}

/// Drives a run until it ends or is lost. When the database fails, the run is taken up again from
/// the record, as after a crash.
async fn drive_to_its_end(executor: Executor, run: Run, owner: Arc<str>, slot: Slot) {
    let (id, project) = (run.id, run.project);
    let (places, freed) = (Arc::clone(&slot.places), Arc::clone(&slot.freed));
    let (mut run, mut slot) = (run, Some(slot));
    for failures in 0.. {
        let mut place = slot.take().unwrap_or_else(|| Slot {
            places: Arc::clone(&places),
            held: None,
            freed: Arc::clone(&freed),
        });
        place.enter().await;
        let span = spans::run(&executor, &run);
        let driven = drive(&executor, run.clone(), Arc::clone(&owner), place).instrument(span.span());
        let driven = AssertUnwindSafe(driven).catch_unwind().await;
        let failed = match driven {
            Ok(Ok(()) | Err(Error::Lost(_))) => return,
            Ok(Err(error)) => with_causes(&error),
            Err(panic) => {
                let said = panic.downcast_ref::<&str>().copied().map(str::to_owned);
                let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                error!(run.id = %id, "run `{id}` met a defect of the server: {said}");
                let why = "the server met a defect of its own while driving this run";
                give_up(&executor, &run, &owner, why).instrument(span.span()).await;
                return;
            }
        };
        spans::interrupted(&span);
        drop(span);
        warn!(run.id = %id, error = failed, "run `{id}` was interrupted, taking it up again from its record");
        sleep(Duration::from_millis(100 << failures.min(8))).await;
        let who = Arc::clone(&owner);
        match executor.db().read(move |tx| runs::get(tx, project, id)).await {
            Ok(Some(now)) if now.status == RunStatus::Running && now.owner.as_deref() == Some(&*who) => {
                run = now
            }
            Ok(_) => return,
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(run.id = %id, error = %error, "run `{id}` could not be read");
            }
        }
        if failures >= PATIENCE {
            give_up(&executor, &run, &owner, &failed).await;
            return;
        }
    }
}

/// An error with everything that led to it, for the log.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        text.push_str(&format!(": {one}"));
        cause = one.source();
    }
    text
}

async fn give_up(executor: &Executor, run: &Run, owner: &Arc<str>, why: &str) {
    let project = run.project;
    let id = run.id;
    let newest = executor.db().read(move |tx| runs::get(tx, project, id)).await;
    let newest: Result<Option<Run>, emergent_store::Error> = newest;
    let Ok(Some(run)) = newest else { return };
    let mut recorder = Recorder::new(executor, &run, Arc::clone(owner));
    let mut batch = Batch::default();
    Recorder::loses_open_calls(&mut batch);
    Recorder::end(&mut batch, RunEnd::failed(Reason::Error, why));
    if let Err(error) = recorder.commit(batch, run.step_count - run.steps_before).await {
        warn!(run.id = %run.id, error = %error, "could not record that run `{}` failed", run.id);
    }
}

async fn drive(executor: &Executor, run: Run, owner: Arc<str>, slot: Slot) -> Result<()> {
    let (loaded, parent) = load(executor, &run).await?;
    let Some(loaded) = loaded else {
        let mut recorder = Recorder::new(executor, &run, owner);
        let mut batch = Batch::default();
        Recorder::loses_open_calls(&mut batch);
        Recorder::end(&mut batch, RunEnd::failed(Reason::Definition, "the agent's definition is gone"));
        return recorder.commit(batch, 0).await;
    };
    if flow::is_flow(&run, &loaded.definition, parent.as_ref()) {
        let left = run.deadline().map_or(Duration::ZERO, |end| end.since(executor.clock().now()));
        let recorder = Recorder::new(executor, &run, owner);
        let flow = Flow::new(executor, run, &loaded.definition, recorder, Instant::now() + left, slot);
        return flow.drive(&loaded).await;
    }
    let definition = &loaded.definition;
    let mut tools = executor
        .tools()
        .resolve(run.project, &definition.tools, run.depth, definition.allows_delegation())
        .await;
    // A pool that grew in the meantime gives a run that is taken up again nothing new.
    if let Some(names) = &loaded.own.tools {
        tools.keep(names);
    }
    hands::give(&mut tools, run.duty.hands);
    let own = loaded.own.clone();
    Driver::new(executor, run, owner, loaded, tools, slot).drive(&own).await
}

/// Everything a run goes on from; `None` when its definition is not there any more.
async fn load(executor: &Executor, run: &Run) -> Result<(Option<Loaded>, Option<Run>)> {
    let run = run.clone();
    let work = move |tx: &mut emergent_store::Tx<'_>| {
        let Some(definition) = emergent_store::agents::version(tx, run.agent, run.agent_version)? else {
            return Ok((None, None));
        };
        let mut chain = runs::resume_chain(tx, &run)?;
        chain.reverse();
        let before =
            chain.into_iter().map(|id| runs::conversation::load(tx, id)).collect::<Result<_, _>>()?;
        let own = runs::conversation::load(tx, run.id)?;
        let limits = budget::limits_for(tx, run.project, run.duty.workflow, &run.agent_name)?;
        let parent = match run.parent {
            Some(parent) => runs::get(tx, run.project, parent)?,
            None => None,
        };
        let limited = !limits.scopes().is_empty();
        Ok::<_, emergent_store::Error>((Some(Loaded { definition, before, own, limited }), parent))
    };
    Ok(executor.db().read(work).await?)
}
