//! Takes what is queued and drives it, as many runs at once as there are places; takes over what a
//! runner that died had in hand. One lease stands for all runs of a runner. When the lease cannot be
//! kept, the runner drops everything before anybody else can take it up.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use emergent_domain::{ids::RunId, run::Run};
use emergent_store::runs::{self, claim};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Duration, Instant, MissedTickBehavior, interval, sleep},
};
use tracing::{info, warn};

use crate::{Error, Executor, Result, place::RunnerHandle, run_task};

/// How long a runner that has gone silent keeps its runs. With the look every second, another has
/// them within eleven seconds.
const LEASE: Duration = Duration::from_secs(9);
const HEARTBEAT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often to make sure of runs that nobody said anything about.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(2);
/// How long runs may go on to their next record when the server is told to stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
const CLAIM_BATCH: usize = 256;

impl Executor {
    /// Drives runs until `stop` says true. What is not finished then stays as it is recorded: the
    /// next start, or another server, goes on with it.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let owner: Arc<str> = uuid::Uuid::now_v7().to_string().into();
            let runner = RunnerHandle::new(owner, self.settings().max_runs);
            let shift = Runner { executor: self.clone(), runner };
            let worked = shift.run(&mut stop).await;
            drop(shift);
            if let Err(error) = worked {
                warn!(error = %error, "the runner starts anew");
                tokio::select! { () = sleep(POLL_INTERVAL) => {}, _ = stop.changed() => {} }
            }
        }
    }

    /// Stops driving runs that were cancelled, once that is committed. Nothing they still try can be
    /// written; those that other servers drive are stopped there.
    pub fn stop_driving(&self, cancelled: &[RunId]) {
        self.telemetry().record_cancelled(cancelled);
        self.abort_runs(cancelled);
    }

    fn abort_runs(&self, ids: &[RunId]) {
        let mut live = self.driven().lock();
        for id in ids {
            if let Some(handle) = live.remove(id) {
                handle.abort();
            }
        }
    }

    /// How many runs this process drives.
    pub fn driven_count(&self) -> usize {
        self.driven().lock().len()
    }
}

/// One runner under one name.
struct Runner {
    executor: Executor,
    runner: RunnerHandle,
}

impl Drop for Runner {
    /// Nobody is given a place any more.
    fn drop(&mut self) {
        self.executor.runner().lock().take();
    }
}

impl Runner {
    async fn run(&self, stop: &mut watch::Receiver<bool>) -> Result<()> {
        self.register().await?;
        *self.executor.runner().lock() = Some(self.runner.clone());
        let (db, mut kept, mut unknown) = (self.executor.db(), Instant::now(), HashMap::new());
        let mut queued = db.waiter(runs::QUEUED_CHANNEL);
        let mut cancelled = db.waiter(runs::CANCELLED_CHANNEL);
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut check = interval(RECONCILE_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if *stop.borrow() {
                return self.shut_down().await;
            }
            let full = self.claim_runs().await;
            tokio::select! {
                biased;
                _ = heartbeat.tick() => {
                    if self.renew_lease().await { kept = Instant::now() }
                    if kept.elapsed() > LEASE - HEARTBEAT {
                        self.abort_all();
                        return Err(Error::Conflict("the lease of this runner could not be kept".into()));
                    }
                }
                stopped = stop.changed() => if stopped.is_err() { return self.shut_down().await },
                _ = check.tick() => self.reconcile(&mut unknown).await,
                () = cancelled.wait(RECONCILE_INTERVAL) => self.reconcile(&mut unknown).await,
                () = self.runner.freed.notified(), if full => {}
                () = queued.wait(POLL_INTERVAL), if !full => {}
            }
        }
    }

    async fn register(&self) -> Result<()> {
        let (owner, now) = (Arc::clone(&self.runner.owner), self.executor.clock().now());
        let done = self.executor.db().write(move |tx| claim::register(tx, &owner, now + LEASE, now)).await;
        done.map(|_| ()).map_err(Error::from)
    }

    async fn renew_lease(&self) -> bool {
        let (owner, until) = (Arc::clone(&self.runner.owner), self.executor.clock().now() + LEASE);
        let kept = self.executor.db().write(move |tx| claim::renew_lease(tx, &owner, until));
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
    async fn claim_runs(&self) -> bool {
        if self.runner.is_full() {
            return true;
        }
        let (owner, now) = (Arc::clone(&self.runner.owner), self.executor.clock().now());
        // Looking costs nothing when there is nothing: a write transaction only for what was seen.
        let seen = self.executor.db().read(move |tx| claim::has_claimable(tx, now)).await;
        if matches!(seen, Ok(false)) {
            return false;
        }
        // Taken before the runs are: nobody else is given them meanwhile.
        let slots = self.runner.try_acquire_slots(CLAIM_BATCH);
        let limit = slots.len();
        let claimed = self
            .executor
            .db()
            .write(move |tx| {
                let mut claimed = claim::claim_orphaned(tx, &owner, LEASE, now, limit)?;
                if claimed.len() < limit {
                    claimed.extend(claim::claim_queued(tx, &owner, now, limit - claimed.len())?);
                }
                Ok::<_, emergent_store::Error>(claimed)
            })
            .await;
        match claimed {
            Ok(claimed) => {
                let some = !claimed.is_empty();
                for (run, slot) in claimed.into_iter().zip(slots) {
                    run_task::spawn(&self.executor, run, Arc::clone(&self.runner.owner), slot, None);
                }
                if some {
                    // There may be more than one claim takes.
                    self.runner.freed.notify_one();
                }
                self.runner.is_full() || some
            }
            Err(error) => {
                warn!(error = %error, "could not look for runs, trying again");
                false
            }
        }
    }

    /// Drops runs that are no longer this runner's: cancelled, or taken over. And drives those that
    /// are its own without its knowing: the answer to a commit was lost on the way. `unknown` says
    /// since when they are; a moment is what any run takes from its commit to its driver.
    async fn reconcile(&self, unknown: &mut HashMap<RunId, Instant>) {
        let before: HashSet<RunId> = self.executor.driven().lock().keys().copied().collect();
        let owner = Arc::clone(&self.runner.owner);
        let looked = self.executor.db().read(move |tx| {
            let held = claim::list_owned(tx, &owner)?;
            let gone: Vec<RunId> = before.difference(&held).copied().collect();
            Ok((held, claim::list_lost(tx, &owner, &gone)?))
        });
        let (held, lost) = match looked.await {
            Ok(looked) => looked,
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(error = %error, "could not look after the runs in hand");
                return;
            }
        };
        self.executor.abort_runs(&lost);
        let live: HashSet<RunId> = self.executor.driven().lock().keys().copied().collect();
        unknown.retain(|id, _| held.contains(id) && !live.contains(id));
        let missing: Vec<RunId> = held.difference(&live).copied().collect();
        for id in missing {
            if unknown.entry(id).or_insert_with(Instant::now).elapsed() >= RECONCILE_INTERVAL {
                unknown.remove(&id);
                self.drive_unclaimed(id).await;
            }
        }
    }

    async fn drive_unclaimed(&self, id: RunId) {
        let owner = Arc::clone(&self.runner.owner);
        let found: Result<Option<Run>, emergent_store::Error> =
            self.executor.db().read(move |tx| claim::get_owned(tx, &owner, id)).await;
        if let Ok(Some(run)) = found
            && !self.executor.driven().lock().contains_key(&id)
        {
            warn!(run.id = %id, "run `{id}` is this runner's and nobody drives it, taking it up");
            run_task::spawn(
                &self.executor,
                run,
                Arc::clone(&self.runner.owner),
                self.runner.unacquired_slot(),
                None,
            );
        }
    }

    fn abort_all(&self) {
        self.executor.runner().lock().take();
        let handles: Vec<AbortHandle> =
            self.executor.driven().lock().drain().map(|(_, handle)| handle).collect();
        handles.iter().for_each(AbortHandle::abort);
    }

    async fn shut_down(&self) -> Result<()> {
        // Nobody is given a place any more.
        self.executor.runner().lock().take();
        let end = Instant::now() + SHUTDOWN_GRACE;
        while self.executor.driven_count() > 0 && Instant::now() < end {
            sleep(Duration::from_millis(20)).await;
        }
        let left = self.executor.driven_count();
        self.abort_all();
        if left > 0 {
            info!(runs = left, "{left} runs were left where they are recorded");
        }
        let (owner, now) = (Arc::clone(&self.runner.owner), self.executor.clock().now());
        let retired: Result<(), emergent_store::Error> =
            self.executor.db().write(move |tx| claim::retire(tx, &owner, now)).await;
        retired.map_err(Error::from)
    }
}
