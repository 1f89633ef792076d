//! A worker over one job queue: claims what is due, keeps each lease alive while its handler
//! works, and says how it ended.

use std::{fmt::Display, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use emergent_domain::time::Clock;
use emergent_net::errors;
use emergent_store::{
    Db,
    jobs::{self, Job},
};
use futures_util::FutureExt;
use tokio::{sync::watch, task::JoinSet};
use tracing::{debug, warn};

/// How a queue is worked on.
#[derive(Debug, Clone)]
pub struct Worker {
    pub queue: &'static str,
    /// Jobs at once.
    pub concurrency: usize,
    /// How long a job stays with a worker that has gone silent.
    pub lease: Duration,
    /// How often to look without being woken.
    pub poll: Duration,
    /// How long running jobs may go on after a shutdown was asked for; then they are given back.
    pub grace: Duration,
}

impl Worker {
    pub fn new(queue: &'static str) -> Self {
        Self {
            queue,
            concurrency: 1,
            lease: Duration::from_secs(60),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(5),
        }
    }
}

/// A job in hand. The owner is new for every claim, and goes into everything said about the job.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedJob {
    pub job: Job,
    pub owner: String,
}

/// How a handler ended, when it did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    /// The worker completes the job.
    Done,
    /// The handler completed it in a transaction of its own, together with what it wrote.
    Completed,
}

impl Worker {
    /// Works until `stop` says true (or its sender is gone), then ends what it has in hand.
    ///
    /// A handler may be dropped at any await: when another worker took its job over, or after the
    /// grace of a shutdown. What it does must bear repeating.
    pub async fn run<H, F, E>(self, db: Db, clock: Clock, mut stop: watch::Receiver<bool>, handler: H)
    where
        H: Fn(ClaimedJob) -> F + Send + Sync + 'static,
        F: Future<Output = Result<JobOutcome, E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let handler = Arc::new(handler);
        let shop = Arc::new(WorkerLoop { worker: self, db, clock });
        // Before the first look, so that nothing falls between looking and listening.
        let mut waiter = shop.db.waiter(&jobs::queue_channel(shop.worker.queue));
        let mut running = JoinSet::new();
        while !*stop.borrow() {
            let free = shop.worker.concurrency.saturating_sub(running.len());
            let claimed = shop.claim(free).await;
            let full = claimed.len() == free;
            for claimed in claimed {
                let (shop, handler) = (Arc::clone(&shop), Arc::clone(&handler));
                running.spawn(async move { shop.run_job(claimed, handler.as_ref()).await });
            }
            tokio::select! {
                stopped = stop.changed() => if stopped.is_err() { break },
                Some(_) = running.join_next() => {},
                () = waiter.wait(shop.worker.poll), if !full => {},
            }
        }
        let finish = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(shop.worker.grace, finish).await.is_err() {
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
        let (queue, lease, now, who) =
            (self.worker.queue, self.worker.lease, self.clock.now(), owner.clone());
        match self.db.write(move |tx| jobs::claim(tx, queue, &who, lease, now, limit)).await {
            Ok(jobs) => jobs.into_iter().map(|job| ClaimedJob { job, owner: owner.clone() }).collect(),
            Err(error) => {
                warn!(queue, error = %error, "could not look for jobs in `{queue}`, trying again");
                Vec::new()
            }
        }
    }

    async fn run_job<F, E>(&self, claimed: ClaimedJob, handler: &(impl Fn(ClaimedJob) -> F + Sync))
    where
        F: Future<Output = Result<JobOutcome, E>> + Send,
        E: Display,
    {
        let (id, owner) = (claimed.job.id, claimed.owner.clone());
        // Given back when this future is dropped before the end.
        let unfinished = ReleaseOnDrop { shop: self, claimed: Some(claimed.clone()) };
        let handled = AssertUnwindSafe(async { handler(claimed).await }).catch_unwind();
        let outcome = tokio::select! {
            outcome = handled => Some(outcome),
            () = self.renew_until_lost(&unfinished) => None,
        };
        unfinished.disarm();
        let now = self.clock.now();
        let told = match outcome {
            None | Some(Ok(Ok(JobOutcome::Completed))) => Ok(true),
            Some(Ok(Ok(JobOutcome::Done))) => {
                self.db.write(move |tx| jobs::complete(tx, id, &owner, now)).await
            }
            Some(Ok(Err(error))) => self.fail(id, owner, error.to_string()).await,
            Some(Err(panic)) => {
                let message = errors::panic_message(panic.as_ref()).unwrap_or("no message");
                self.fail(id, owner, format!("its handler panicked: {message}")).await
            }
        };
        match told {
            Ok(true) => {}
            Ok(false) => debug!(job.id = %id, "job `{id}` was another worker's by the time it ended"),
            // The lease lapses, and the job is tried again.
            Err(error) => warn!(job.id = %id, error = %error, "could not record how job `{id}` ended"),
        }
    }

    async fn fail(
        &self,
        id: emergent_domain::ids::JobId,
        owner: String,
        error: String,
    ) -> emergent_store::Result<bool> {
        let (now, text) = (self.clock.now(), error.clone());
        let failed = self.db.write(move |tx| jobs::fail(tx, id, &owner, &text, now)).await?;
        match failed {
            jobs::FailOutcome::Retry { at } => {
                warn!(job.id = %id, error, "job `{id}` of `{}` failed, trying again at {at}", self.worker.queue);
            }
            jobs::FailOutcome::Dead => {
                warn!(job.id = %id, error, "job `{id}` of `{}` failed for good", self.worker.queue)
            }
            jobs::FailOutcome::NotYours => return Ok(false),
        }
        Ok(true)
    }

    /// Returns when the lease is lost.
    async fn renew_until_lost(&self, unfinished: &ReleaseOnDrop<'_>) {
        let Some(ClaimedJob { job, owner }) = &unfinished.claimed else { return };
        let id = job.id;
        loop {
            tokio::time::sleep(self.worker.lease / 3).await;
            let (owner, until) = (owner.clone(), self.clock.now() + self.worker.lease);
            match self.db.write(move |tx| jobs::heartbeat(tx, id, &owner, until)).await {
                Ok(true) => {}
                Ok(false) => {
                    // Also when the handler has just completed it by itself.
                    debug!(job.id = %id, "job `{id}` is no longer this worker's");
                    return;
                }
                Err(error) => warn!(job.id = %id, error = %error, "could not keep the lease of job `{id}`"),
            }
        }
    }
}

/// Returns a job to the queue when its work is dropped half way.
struct ReleaseOnDrop<'a> {
    shop: &'a WorkerLoop,
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
        let (db, now) = (self.shop.db.clone(), self.shop.clock.now());
        // If the process ends first, the lease lapses: later, but as well.
        runtime.spawn(async move { db.write(move |tx| jobs::release(tx, job.id, &owner, now)).await });
    }
}
