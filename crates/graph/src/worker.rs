//! A worker for one job queue: claims due jobs, extends the lease of each while its handler runs,
//! and records the outcome.

use std::{fmt::Display, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use emergent_domain::{ids::JobId, time::Clock};
use emergent_net::errors;
use emergent_store::{
    Db, Tx,
    jobs::{self, Job},
    lease_keeper::LeaseKeeper,
};
use futures_util::FutureExt;
use tokio::{sync::watch, task::JoinSet};
use tracing::{debug, warn};

/// The settings of a worker.
#[derive(Debug, Clone)]
pub struct Worker {
    pub queue: &'static str,
    /// The maximum number of concurrent jobs.
    pub concurrency: usize,
    /// The maximum number of running jobs of one project; `None` means any number.
    pub per_project: Option<usize>,
    /// How long a job belongs to a worker that has stopped renewing its lease.
    pub lease: Duration,
    /// The poll interval while no wake-up arrives.
    pub poll: Duration,
    /// How long running jobs may continue after a shutdown request. After that they are released.
    pub grace: Duration,
}

impl Worker {
    pub fn new(queue: &'static str) -> Self {
        Self {
            queue,
            concurrency: 1,
            per_project: None,
            // As long as the lease of a run: when a server is killed, people wait for either.
            lease: Duration::from_secs(9),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(5),
        }
    }

    /// A worker whose jobs call other systems, such as webhooks. A call that was made cannot be taken back, and a job whose
    /// lease is lost makes it again: the lease outlives a restart of the database.
    pub fn for_outside_calls(queue: &'static str) -> Self {
        Self { lease: Duration::from_secs(60), ..Self::new(queue) }
    }
}

/// A claimed job. Each claim has a new owner, which is part of every later write about the job.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedJob {
    pub job: Job,
    pub owner: String,
}

/// How a handler ended successfully.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    /// The worker completes the job.
    Done,
    /// The handler completed the job in its own transaction, together with its results.
    Completed,
    /// There is more to do. Other due jobs of the queue have their turn first.
    More,
}

impl Worker {
    /// Runs until `stop` is true or its sender is dropped, then finishes the claimed jobs.
    ///
    /// A handler may be dropped at any await point: when the lease of its job is lost or cannot be
    /// renewed, or after the grace period of a shutdown. Handlers must therefore be idempotent.
    pub async fn run<H, F, E>(self, db: Db, clock: Clock, mut stop: watch::Receiver<bool>, handler: H)
    where
        H: Fn(ClaimedJob) -> F + Send + Sync + 'static,
        F: Future<Output = Result<JobOutcome, E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let handler = Arc::new(handler);
        let worker_loop = Arc::new(WorkerLoop { worker: self, db, clock });
        // The waiter is registered before the first poll, so that no job is missed between polling
        // and waiting.
        let mut waiter = worker_loop.db.waiter(&jobs::queue_channel(worker_loop.worker.queue));
        let mut running = JoinSet::new();
        while !*stop.borrow() {
            let free = worker_loop.worker.concurrency.saturating_sub(running.len());
            let name = format!("a job of `{}`", worker_loop.worker.queue);
            // Created before the claim, so that it never believes in a lease longer than others do.
            let keeper = LeaseKeeper::new(name, &worker_loop.clock, worker_loop.worker.lease);
            let claimed = worker_loop.claim(free).await;
            let full = claimed.len() == free;
            for claimed in claimed {
                let (worker_loop, handler) = (Arc::clone(&worker_loop), Arc::clone(&handler));
                let keeper = keeper.clone();
                running.spawn(async move { worker_loop.run_job(claimed, keeper, handler.as_ref()).await });
            }
            tokio::select! {
                stopped = stop.changed() => if stopped.is_err() { break },
                Some(_) = running.join_next() => {},
                () = waiter.wait(worker_loop.worker.poll), if !full => {},
            }
        }
        let finish = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(worker_loop.worker.grace, finish).await.is_err() {
            running.shutdown().await;
        }
    }
}

struct WorkerLoop {
    worker: Worker,
    db: Db,
    clock: Clock,
}

impl WorkerLoop {
    async fn claim(&self, limit: usize) -> Vec<ClaimedJob> {
        if limit == 0 {
            return Vec::new();
        }
        let owner = uuid::Uuid::now_v7().to_string();
        let (queue, lease, now, claim_owner) =
            (self.worker.queue, self.worker.lease, self.clock.now(), owner.clone());
        let per_project = self.worker.per_project;
        let work = move |tx: &mut Tx<'_>| match per_project {
            None => jobs::claim(tx, queue, &claim_owner, lease, now, limit),
            Some(share) => jobs::claim_in_shares(tx, queue, &claim_owner, lease, now, limit, share),
        };
        match self.db.write(work).await {
            Ok(jobs) => jobs.into_iter().map(|job| ClaimedJob { job, owner: owner.clone() }).collect(),
            Err(error) => {
                warn!(queue, error = %error, "could not claim jobs of `{queue}`; the next poll tries again");
                Vec::new()
            }
        }
    }

    async fn run_job<F, E>(
        &self,
        claimed: ClaimedJob,
        keeper: LeaseKeeper,
        handler: &(impl Fn(ClaimedJob) -> F + Sync),
    ) where
        F: Future<Output = Result<JobOutcome, E>> + Send,
        E: Display,
    {
        let (id, owner) = (claimed.job.id, claimed.owner.clone());
        // The guard releases the job if this future is dropped before it ends.
        let unfinished = ReleaseOnDrop { worker_loop: self, claimed: Some(claimed.clone()) };
        let handled = AssertUnwindSafe(async { handler(claimed).await }).catch_unwind();
        let outcome = tokio::select! {
            outcome = handled => Some(outcome),
            () = self.keep_lease(keeper, id, &owner) => None,
        };
        unfinished.disarm();
        let now = self.clock.now();
        let recorded = match outcome {
            None | Some(Ok(Ok(JobOutcome::Completed))) => Ok(true),
            Some(Ok(Ok(JobOutcome::Done))) => {
                self.db.write(move |tx| jobs::complete(tx, id, &owner, now)).await
            }
            Some(Ok(Ok(JobOutcome::More))) => {
                self.db.write(move |tx| jobs::release(tx, id, &owner, now)).await
            }
            Some(Ok(Err(error))) => self.fail(id, owner, error.to_string()).await,
            Some(Err(panic)) => {
                let message = errors::panic_message(panic.as_ref()).unwrap_or("no message");
                self.fail(id, owner, format!("its handler panicked: {message}")).await
            }
        };
        match recorded {
            Ok(true) => {}
            Ok(false) => {
                debug!(job.id = %id, "job `{id}` had been taken over by another worker when it ended")
            }
            // The lease expires, and the job is retried.
            Err(error) => warn!(job.id = %id, error = %error, "could not record the outcome of job `{id}`"),
        }
    }

    async fn fail(&self, id: JobId, owner: String, error: String) -> emergent_store::Result<bool> {
        let (now, text) = (self.clock.now(), error.clone());
        let failed = self.db.write(move |tx| jobs::fail(tx, id, &owner, &text, now)).await?;
        match failed {
            jobs::FailOutcome::Retry { at } => {
                warn!(job.id = %id, error, "job `{id}` of `{}` failed, trying again at {at}", self.worker.queue);
            }
            jobs::FailOutcome::Dead => {
                warn!(job.id = %id, error, "job `{id}` of `{}` failed permanently", self.worker.queue)
            }
            jobs::FailOutcome::NotYours => return Ok(false),
        }
        Ok(true)
    }

    /// Renews the lease of a job. Returns when the job is lost, or has to be given up because the lease
    /// could not be renewed: another worker claims it then.
    async fn keep_lease(&self, mut keeper: LeaseKeeper, id: JobId, owner: &str) {
        loop {
            let renewal = |until| {
                let owner = owner.to_owned();
                self.db.write(move |tx| jobs::heartbeat(tx, id, &owner, until))
            };
            match keeper.renew(renewal).await {
                Ok(Some(true) | None) => {}
                Ok(Some(false)) => {
                    // This also happens if the handler has just completed the job itself.
                    debug!(job.id = %id, "this worker no longer owns job `{id}`");
                    return;
                }
                Err(expired) => {
                    warn!(job.id = %id, error = %expired, "gave up job `{id}`");
                    return;
                }
            }
        }
    }
}

/// Releases a job if its handler is dropped before it ends.
struct ReleaseOnDrop<'a> {
    worker_loop: &'a WorkerLoop,
    claimed: Option<ClaimedJob>,
}

impl ReleaseOnDrop<'_> {
    fn disarm(mut self) {
        self.claimed = None;
    }
}

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        let Some(ClaimedJob { job, owner }) = self.claimed.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (db, now) = (self.worker_loop.db.clone(), self.worker_loop.clock.now());
        // If the process exits first, the lease expires, which has the same effect later.
        runtime.spawn(async move { db.write(move |tx| jobs::release(tx, job.id, &owner, now)).await });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// Whether a job keeps its lease when the database is away for ten seconds, from the moment of a renewal on.
    async fn outlives_a_restart(worker: Worker) -> bool {
        let mut keeper = LeaseKeeper::new("a job", &Clock::system(), worker.lease);
        let mut back_at = None;
        loop {
            let renewal = |_| {
                let back_at = *back_at.get_or_insert(Instant::now() + Duration::from_secs(10));
                std::future::ready(if Instant::now() < back_at { Err("no connection") } else { Ok(()) })
            };
            match keeper.renew(renewal).await {
                Ok(Some(())) => return true,
                Ok(None) => {}
                Err(_) => return false,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_of_the_database_does_not_repeat_calls_to_other_systems() {
        assert!(outlives_a_restart(Worker::for_outside_calls("q")).await);
        assert!(
            !outlives_a_restart(Worker::new("q")).await,
            "its work can be repeated, and is taken over sooner"
        );
    }
}
