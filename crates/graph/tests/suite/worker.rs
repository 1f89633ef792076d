//! The worker of a job queue: leases, retries and shutdown.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use emergent_domain::{
    ids::JobId,
    time::{Clock, Timestamp},
};
use emergent_graph::worker::{ClaimedJob, JobOutcome, Worker};
use emergent_store::{
    Db,
    jobs::{self, Job, JobStatus, NewJob},
};
use emergent_testkit::both_engines;
use tokio::{sync::watch, task::JoinHandle};

fn worker() -> Worker {
    Worker { lease: Duration::from_millis(1_200), poll: Duration::from_millis(100), ..Worker::new("q") }
}

/// A running worker, and the means to stop it.
struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    fn start<F>(worker: Worker, db: &Db, handler: impl Fn(ClaimedJob) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<JobOutcome, String>> + Send + 'static,
    {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(worker.run(db.clone(), Clock::system(), stopped, handler));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.send(true).unwrap();
        tokio::time::timeout(Duration::from_secs(20), self.task).await.expect("it ends").unwrap();
    }
}

async fn add(db: &Db) -> JobId {
    db.write(|tx| jobs::enqueue(tx, &NewJob { max_attempts: 2, ..NewJob::new("q", Timestamp::now()) }))
        .await
        .unwrap()
        .unwrap()
}

/// Waits until a job satisfies a condition.
async fn until(db: &Db, id: JobId, wanted: impl Fn(&Job) -> bool) -> Job {
    let started = Instant::now();
    loop {
        let job = db.read(move |tx| jobs::get(tx, id)).await.unwrap().unwrap();
        if wanted(&job) {
            return job;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{job:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

both_engines! {
    async fn jobs_are_done_as_they_come(db: TestDb) {
        let running = Running::start(Worker { poll: Duration::from_secs(60), ..worker() }, &db, async |_| Ok(JobOutcome::Done));
        for _ in 0..3 {
            let id = add(&db).await;
            until(&db, id, |job| job.status == JobStatus::Done).await;
        }
        running.stop().await;
    }

    async fn no_more_run_at_once_than_allowed_and_all_get_done(db: TestDb) {
        let mut ids = Vec::new();
        for _ in 0..20 {
            ids.push(add(&db).await);
        }
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&most);
        let running = Running::start(Worker { concurrency: 4, ..worker() }, &db, move |_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(20)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(JobOutcome::Done)
            }
        });
        for id in ids {
            until(&db, id, |job| job.status == JobStatus::Done).await;
        }
        running.stop().await;
        assert!((2..=4).contains(&seen.load(Ordering::SeqCst)));
    }

    async fn what_fails_or_panics_is_tried_again_and_then_dead(db: TestDb) {
        let running = Running::start(worker(), &db, async |claimed: ClaimedJob| {
            if claimed.job.attempts == 1 {
                panic!("the pot fell");
            }
            Err("no water".to_owned())
        });
        let id = add(&db).await;
        let first = until(&db, id, |job| job.last_error.is_some()).await;
        assert_eq!(first.last_error.as_deref(), Some("its handler panicked: the pot fell"));
        let dead = until(&db, id, |job| job.status == JobStatus::Dead).await;
        assert_eq!((dead.attempts, dead.last_error.as_deref()), (2, Some("no water")));
        running.stop().await;
    }

    async fn a_long_job_keeps_its_lease(db: TestDb) {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let handler = move |_| {
            let count = Arc::clone(&count);
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(3)).await;
                Ok(JobOutcome::Done)
            }
        };
        let both = [Running::start(worker(), &db, handler.clone()), Running::start(worker(), &db, handler)];
        let id = add(&db).await;
        let done = until(&db, id, |job| job.status == JobStatus::Done).await;
        assert_eq!((done.attempts, runs.load(Ordering::SeqCst)), (1, 1));
        for running in both {
            running.stop().await;
        }
    }

    async fn a_worker_whose_job_was_taken_over_drops_it(db: TestDb) {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ended);
        let running = Running::start(worker(), &db, move |_| {
            let count = Arc::clone(&count);
            async move {
                tokio::time::sleep(Duration::from_secs(4)).await;
                count.fetch_add(1, Ordering::SeqCst);
                Ok(JobOutcome::Done)
            }
        });
        let id = add(&db).await;
        until(&db, id, |job| job.status == JobStatus::Running).await;
        // Another worker, whose clock is far ahead.
        let later = Timestamp::now() + Duration::from_secs(60);
        let taken = db.write(move |tx| jobs::claim(tx, "q", "another", Duration::from_secs(60), later, 1)).await.unwrap();
        assert_eq!(taken[0].id, id);
        tokio::time::sleep(Duration::from_millis(700)).await;
        running.stop().await;
        assert_eq!(ended.load(Ordering::SeqCst), 0, "it was dropped");
        let job = until(&db, id, |_| true).await;
        assert_eq!((job.status, job.lease_owner.as_deref()), (JobStatus::Running, Some("another")));
    }

    async fn at_the_end_running_jobs_finish_or_are_given_back(db: TestDb) {
        let grace = Duration::from_millis(300);
        let running = Running::start(Worker { concurrency: 2, grace, ..worker() }, &db, async |claimed: ClaimedJob| {
            let pause = if claimed.job.key.is_some() { 10_000 } else { 200 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
            Ok(JobOutcome::Done)
        });
        let long = db
            .write(|tx| jobs::enqueue(tx, &NewJob { key: Some("long"), ..NewJob::new("q", Timestamp::now()) }))
            .await
            .unwrap()
            .unwrap();
        let short = add(&db).await;
        until(&db, long, |job| job.status == JobStatus::Running).await;
        until(&db, short, |job| job.status == JobStatus::Running).await;
        running.stop().await;
        until(&db, short, |job| job.status == JobStatus::Done).await;
        let back = until(&db, long, |job| job.status == JobStatus::Queued).await;
        assert_eq!(back.attempts, 0, "the attempt does not count");
    }

    async fn a_handler_may_complete_the_job_with_its_own_writes(db: TestDb) {
        let store = db.db.clone();
        let running = Running::start(worker(), &db, move |claimed: ClaimedJob| {
            let db = store.clone();
            async move {
                let id = claimed.job.id;
                let done = db.write(move |tx| jobs::complete(tx, id, &claimed.owner, Timestamp::now())).await;
                assert!(done.unwrap());
                Ok(JobOutcome::Completed)
            }
        });
        let id = add(&db).await;
        let done = until(&db, id, |job| job.status == JobStatus::Done).await;
        assert_eq!(done.last_error, None);
        running.stop().await;
    }
}
