//! The runner drives runs, as many concurrently as it has slots: queued ones, and those of runners that
//! crashed; `claims` decides which. One lease covers all runs of a runner. If the lease cannot be
//! renewed, the runner aborts all its runs before another runner can claim them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use emergent_domain::{
    ids::RunId,
    run::{Reason, Run, RunEnd, RunStatus},
    text::counted,
};
use emergent_store::{
    lease_keeper::LeaseKeeper,
    runs::{self, claim},
};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Duration, Instant, MissedTickBehavior, interval, sleep},
};
use tracing::{info, warn};

use crate::{
    Error, Executor, Result,
    claims::{Claimed, Claims, POLL_INTERVAL},
    run_task,
    slots::RunnerHandle,
};

/// How often the runner compares the runs it drives with the runs it owns in the database.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(2);
/// How long runs may continue to their next record when the server shuts down.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

impl Executor {
    /// Drives runs until `stop` becomes true. Unfinished runs stay as they are recorded: this server after
    /// its restart, or another one, continues them.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let owner: Arc<str> = uuid::Uuid::now_v7().to_string().into();
            let settings = self.settings();
            let runner = RunnerHandle::new(owner, settings.max_runs, settings.project_runs());
            let runner = Runner { executor: self.clone(), runner };
            let ended = runner.run(&mut stop).await;
            drop(runner);
            let Err(error) = ended else { return };
            warn!(error = %error, "the runner restarts under a new owner name");
            tokio::select! { () = sleep(POLL_INTERVAL) => {}, _ = stop.changed() => {} }
        }
    }

    /// Stops driving runs whose cancellation is committed. They cannot write anything any more; other
    /// servers stop the runs that they drive themselves.
    pub fn stop_driving(&self, cancelled: &[RunId]) {
        for id in cancelled {
            info!(run.id = %id, "run `{id}` was cancelled");
        }
        self.telemetry().record_cancelled(cancelled);
        self.open_spans().mark_status(cancelled, RunStatus::Cancelled);
        self.abort_runs(cancelled);
    }

    /// Stops driving runs that their parent paused because their time is up. The driver of such a run recorded no
    /// end, so its end is logged and counted here.
    pub(crate) fn stop_timed_out(&self, paused: &[RunId]) {
        let end = RunEnd::Paused { reason: Reason::Timeout, summary: String::new() };
        for id in paused {
            info!(run.id = %id, "run `{id}` ended: {end}");
            self.telemetry().record_run_end(&end);
        }
        self.open_spans().mark_status(paused, end.status());
        self.abort_runs(paused);
    }

    /// Stops the drivers of these runs, if this process drives them.
    pub(crate) fn abort_runs(&self, ids: &[RunId]) {
        let mut driven = self.driven().lock();
        for id in ids {
            if let Some(handle) = driven.remove(id) {
                handle.abort();
            }
        }
    }

    /// Returns how many runs this process drives.
    pub fn driven_count(&self) -> usize {
        self.driven().lock().len()
    }
}

/// A runner with one owner name and one lease.
struct Runner {
    executor: Executor,
    runner: RunnerHandle,
}

impl Drop for Runner {
    /// From now on, no slot is given to a new run.
    fn drop(&mut self) {
        self.executor.runner().lock().take();
    }
}

impl Runner {
    async fn run(&self, stop: &mut watch::Receiver<bool>) -> Result<()> {
        let keeper = LeaseKeeper::new("this runner", self.executor.clock(), self.executor.settings().lease);
        self.register().await?;
        *self.executor.runner().lock() = Some(self.runner.clone());
        tokio::select! {
            // The lease is renewed concurrently with the loop: a slow query of the loop must not delay a
            // renewal, or hide that the lease has expired.
            biased;
            reason = self.keep_lease(keeper) => {
                self.abort_all();
                return Err(Error::Conflict(reason));
            }
            () = self.claim_until_stopped(stop) => {}
        }
        self.shut_down().await
    }

    /// Renews the lease. Returns why this runner must stop driving its runs.
    async fn keep_lease(&self, mut keeper: LeaseKeeper) -> String {
        loop {
            let owner = Arc::clone(&self.runner.owner);
            let renewal = |until| self.executor.db().write(move |tx| claim::renew_lease(tx, &owner, until));
            match keeper.renew::<_, emergent_store::Error, _>(renewal).await {
                Ok(Some(true) | None) => {}
                Ok(Some(false)) => return "the lease of this runner was deleted".to_owned(),
                Err(expired) => return expired.to_string(),
            }
        }
    }

    /// Claims and reconciles runs until the server stops.
    async fn claim_until_stopped(&self, stop: &mut watch::Receiver<bool>) {
        let (db, mut unknown) = (self.executor.db(), HashMap::new());
        let mut claims = Claims::new(&self.executor, &self.runner);
        let mut queued = db.waiter(runs::QUEUED_CHANNEL);
        let mut cancelled = db.waiter(runs::CANCELLED_CHANNEL);
        let mut check = interval(RECONCILE_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !*stop.borrow() {
            let claimed = claims.claim().await;
            let pause = if claimed == Claimed::Some { Duration::ZERO } else { POLL_INTERVAL };
            tokio::select! {
                biased;
                stopped = stop.changed() => if stopped.is_err() { return },
                _ = check.tick() => self.reconcile(&mut unknown).await,
                () = cancelled.wait(RECONCILE_INTERVAL) => self.reconcile(&mut unknown).await,
                () = self.runner.slots.freed.notified(), if claimed == Claimed::Waiting => {}
                is_queued = queued.wait_for_wake(pause) => if is_queued { claims.note_queued() },
            }
        }
    }

    async fn register(&self) -> Result<()> {
        let (owner, now) = (Arc::clone(&self.runner.owner), self.executor.clock().now());
        let until = now + self.executor.settings().lease;
        let registered = self.executor.db().write(move |tx| claim::register(tx, &owner, until, now)).await;
        registered.map(|_| ()).map_err(Error::from)
    }

    /// Aborts runs that this runner no longer owns, because they were cancelled or taken over. Also drives
    /// runs it owns but never started, which happens when the reply to a commit is lost. `unknown` records
    /// since when such a run has been seen: every run is in this state briefly, between its commit and its
    /// driver.
    async fn reconcile(&self, unknown: &mut HashMap<RunId, Instant>) {
        let driven_before: HashSet<RunId> = self.executor.driven().lock().keys().copied().collect();
        let owner = Arc::clone(&self.runner.owner);
        let owned_and_lost = self.executor.db().read(move |tx| {
            let owned = claim::list_owned(tx, &owner)?;
            let not_owned: Vec<RunId> = driven_before.difference(&owned).copied().collect();
            Ok((owned, claim::list_lost(tx, &owner, &not_owned)?))
        });
        let (owned, lost) = match owned_and_lost.await {
            Ok(owned_and_lost) => owned_and_lost,
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(error = %error, "could not reconcile the owned runs");
                return;
            }
        };
        self.executor.abort_runs(&lost);
        let driven: HashSet<RunId> = self.executor.driven().lock().keys().copied().collect();
        unknown.retain(|id, _| owned.contains(id) && !driven.contains(id));
        let missing: Vec<RunId> = owned.difference(&driven).copied().collect();
        for id in missing {
            if unknown.entry(id).or_insert_with(Instant::now).elapsed() >= RECONCILE_INTERVAL {
                unknown.remove(&id);
                self.drive_undriven(id).await;
            }
        }
    }

    /// Drives a run that this runner owns but does not drive.
    async fn drive_undriven(&self, id: RunId) {
        let owner = Arc::clone(&self.runner.owner);
        let owned: Result<Option<Run>, emergent_store::Error> =
            self.executor.db().read(move |tx| claim::get_owned(tx, &owner, id)).await;
        if let Ok(Some(run)) = owned
            && !self.executor.driven().lock().contains_key(&id)
        {
            warn!(run.id = %id, "this runner owns run `{id}` without driving it; driving it now");
            let slot = self.runner.unacquired_slot(run.project);
            run_task::spawn(&self.executor, run, Arc::clone(&self.runner.owner), slot, None);
        }
    }

    fn abort_all(&self) {
        self.executor.runner().lock().take();
        let handles: Vec<AbortHandle> =
            self.executor.driven().lock().drain().map(|(_, handle)| handle).collect();
        handles.iter().for_each(AbortHandle::abort);
    }

    async fn shut_down(&self) -> Result<()> {
        // From now on, no slot is given to a new run.
        self.executor.runner().lock().take();
        let end = Instant::now() + SHUTDOWN_GRACE;
        while self.executor.driven_count() > 0 && Instant::now() < end {
            sleep(Duration::from_millis(20)).await;
        }
        let unfinished = self.executor.driven_count();
        self.abort_all();
        if unfinished > 0 {
            info!(
                runs = unfinished,
                "{} stay queued for the next server",
                counted(unfinished as u64, "unfinished run")
            );
        }
        let (owner, now) = (Arc::clone(&self.runner.owner), self.executor.clock().now());
        let retired: Result<(), emergent_store::Error> =
            self.executor.db().write(move |tx| claim::retire(tx, &owner, now)).await;
        retired.map_err(Error::from)
    }
}
