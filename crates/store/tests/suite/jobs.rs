use std::{collections::BTreeMap, sync::Arc, time::Duration};

use emergent_domain::{
    cursor::Page,
    ids::JobId,
    json::JsonObject,
    time::{Clock, Timestamp},
};
use emergent_store::{
    Db, Error,
    jobs::{self, FailOutcome, Job, JobStatus, NewJob, QueueCount},
    leases,
};
use emergent_testkit::both_engines;

const LEASE: Duration = Duration::from_secs(30);

fn at(second: u64) -> Timestamp {
    Timestamp::from_micros(1_000_000_000_000) + Duration::from_secs(second)
}

async fn add(db: &Db, new: NewJob<'static>) -> Option<JobId> {
    db.write(move |tx| jobs::enqueue(tx, &new)).await.unwrap()
}

async fn claim(db: &Db, owner: &'static str, second: u64) -> Vec<Job> {
    db.write(move |tx| jobs::claim(tx, "q", owner, LEASE, at(second), 10)).await.unwrap()
}

async fn fail(db: &Db, id: JobId, owner: &'static str, second: u64) -> FailOutcome {
    db.write(move |tx| jobs::fail(tx, id, owner, "it broke", at(second))).await.unwrap()
}

async fn complete(db: &Db, id: JobId, owner: &'static str) -> bool {
    db.write(move |tx| jobs::complete(tx, id, owner, at(99))).await.unwrap()
}

async fn job(db: &Db, id: JobId) -> Job {
    db.read(move |tx| jobs::get(tx, id)).await.unwrap().expect("the job")
}

both_engines! {
    async fn a_job_is_claimed_once_and_completed(db: TestDb) {
        let payload = JsonObject::from_text(r#"{"n":1}"#.to_owned()).unwrap();
        let id = add(&db, NewJob { payload: payload.clone(), ..NewJob::new("q", at(0)) }).await.unwrap();
        add(&db, NewJob::new("another queue", at(0))).await.unwrap();
        let claimed = claim(&db, "a", 0).await;
        assert_eq!(claimed.iter().map(|job| (job.id, job.attempts)).collect::<Vec<_>>(), [(id, 1)]);
        assert_eq!(claimed[0].payload, payload);
        assert_eq!(claimed[0], job(&db, id).await);
        assert!(claim(&db, "b", 1).await.is_empty(), "it is a's");
        assert!(complete(&db, id, "a").await);
        assert!(!complete(&db, id, "a").await, "once is enough");
        assert_eq!(job(&db, id).await.status, JobStatus::Done);
        assert!(claim(&db, "b", 1_000).await.is_empty());
    }

    async fn a_process_that_is_alone_does_not_wait_for_the_leases_of_the_dead(db: TestDb) {
        let id = add(&db, NewJob::new("q", at(0))).await.unwrap();
        assert_eq!(claim(&db, "dead", 0).await.len(), 1);
        assert!(claim(&db, "next", 1).await.is_empty());
        db.write(|tx| leases::expire_all(tx, at(1))).await.unwrap();
        let again = claim(&db, "next", 1).await;
        assert_eq!(again.iter().map(|job| (job.id, job.attempts)).collect::<Vec<_>>(), [(id, 2)], "it counts");
        assert!(!complete(&db, id, "dead").await);
    }

    async fn a_job_waits_for_its_time_and_older_ones_go_first(db: TestDb) {
        let late = add(&db, NewJob { run_at: at(60), ..NewJob::new("q", at(0)) }).await.unwrap();
        let first = add(&db, NewJob { run_at: at(10), ..NewJob::new("q", at(1)) }).await.unwrap();
        assert!(claim(&db, "a", 9).await.is_empty());
        let ids: Vec<_> = claim(&db, "a", 60).await.into_iter().map(|job| job.id).collect();
        assert_eq!(ids, [first, late]);
    }

    async fn two_live_jobs_never_share_a_key(db: TestDb) {
        let keyed = || NewJob { key: Some("project 1"), ..NewJob::new("q", at(0)) };
        let id = add(&db, keyed()).await.unwrap();
        assert_eq!(add(&db, keyed()).await, None, "while it is queued");
        assert!(add(&db, NewJob { queue: "r", ..keyed() }).await.is_some(), "another queue's keys are its own");
        assert!(add(&db, NewJob::new("q", at(0))).await.is_some(), "no key is no key");
        claim(&db, "a", 0).await;
        assert_eq!(add(&db, keyed()).await, None, "while it runs");
        assert!(complete(&db, id, "a").await);
        assert!(add(&db, keyed()).await.is_some(), "once it is done");
    }

    async fn of_many_that_add_one_key_one_does(db: TestDb) {
        let other = db.second_connection().await;
        let added = futures_util::future::join_all((0..32).map(|n| {
            let db = if n % 2 == 0 { db.db.clone() } else { other.clone() };
            async move { add(&db, NewJob { key: Some("k"), ..NewJob::new("q", at(0)) }).await }
        }));
        assert_eq!(added.await.into_iter().flatten().count(), 1);
    }

    async fn a_lapsed_lease_is_taken_over_and_the_late_worker_refused(db: TestDb) {
        let id = add(&db, NewJob::new("q", at(0))).await.unwrap();
        claim(&db, "a", 0).await;
        assert!(claim(&db, "b", 29).await.is_empty());
        assert!(db.write(move |tx| jobs::heartbeat(tx, id, "a", at(45))).await.unwrap());
        assert!(claim(&db, "b", 44).await.is_empty(), "the heartbeat kept it");
        let taken = claim(&db, "b", 45).await;
        assert_eq!((taken[0].id, taken[0].attempts), (id, 2), "taking over is an attempt");
        assert!(!db.write(move |tx| jobs::heartbeat(tx, id, "a", at(90))).await.unwrap());
        assert!(!db.write(move |tx| jobs::lock_owned(tx, id, "a")).await.unwrap());
        assert!(!complete(&db, id, "a").await);
        assert_eq!(fail(&db, id, "a", 46).await, FailOutcome::NotYours);
        assert_eq!(job(&db, id).await, taken[0], "nothing the late one said counts");
        assert!(db.write(move |tx| jobs::lock_owned(tx, id, "b")).await.unwrap());
        assert!(complete(&db, id, "b").await);
    }

    async fn a_job_that_is_given_back_has_lost_nothing(db: TestDb) {
        let id = add(&db, NewJob::new("q", at(0))).await.unwrap();
        claim(&db, "a", 0).await;
        assert!(!db.write(move |tx| jobs::release(tx, id, "b", at(1))).await.unwrap());
        assert!(db.write(move |tx| jobs::release(tx, id, "a", at(1))).await.unwrap());
        assert_eq!(claim(&db, "b", 1).await[0].attempts, 1);
    }

    async fn a_failed_job_comes_back_later_each_time_and_dies_in_the_end(db: TestDb) {
        let id = add(&db, NewJob { max_attempts: 3, ..NewJob::new("q", at(0)) }).await.unwrap();
        let mut now = at(0);
        for attempt in 1..=2 {
            let taken = db.write(move |tx| jobs::claim(tx, "q", "a", LEASE, now, 1)).await.unwrap();
            assert_eq!(taken[0].attempts, attempt);
            let FailOutcome::Retry { at } = db.write(move |tx| jobs::fail(tx, id, "a", "it broke", now)).await.unwrap()
            else { panic!("there are attempts left") };
            assert_eq!(at, now + jobs::backoff(id, attempt));
            let early = at - Duration::from_micros(1);
            assert!(db.write(move |tx| jobs::claim(tx, "q", "a", LEASE, early, 1)).await.unwrap().is_empty());
            now = at;
        }
        db.write(move |tx| jobs::claim(tx, "q", "a", LEASE, now, 1)).await.unwrap();
        assert_eq!(db.write(move |tx| jobs::fail(tx, id, "a", "for good", now)).await.unwrap(), FailOutcome::Dead);
        let dead = job(&db, id).await;
        assert_eq!((dead.status, dead.last_error.as_deref()), (JobStatus::Dead, Some("for good")));
        assert!(claim(&db, "a", 100_000).await.is_empty());
    }

    async fn a_worker_that_always_vanishes_uses_up_the_attempts(db: TestDb) {
        let id = add(&db, NewJob { max_attempts: 2, ..NewJob::new("q", at(0)) }).await.unwrap();
        assert_eq!(claim(&db, "a", 0).await.len(), 1);
        assert_eq!(claim(&db, "b", 100).await.len(), 1);
        assert!(claim(&db, "c", 200).await.is_empty());
        let dead = job(&db, id).await;
        assert_eq!(dead.status, JobStatus::Dead);
        assert_eq!(dead.last_error.unwrap(), "its worker vanished on attempt 2 of 2");
    }

    async fn a_job_past_its_age_is_not_tried_again(db: TestDb) {
        let aged = || NewJob { expires_at: Some(at(60)), ..NewJob::new("q", at(0)) };
        let waited = add(&db, aged()).await.unwrap();
        let fresh = add(&db, NewJob { run_at: at(1), ..NewJob::new("q", at(0)) }).await.unwrap();
        let ids: Vec<_> =
            db.write(|tx| jobs::claim(tx, "q", "a", LEASE, at(60), 1)).await.unwrap().into_iter().map(|job| job.id).collect();
        assert_eq!(ids, [fresh], "what has expired takes no place");
        let dead = job(&db, waited).await;
        assert_eq!(dead.status, JobStatus::Dead);
        assert!(dead.last_error.unwrap().starts_with("it was not done by "));

        // Its next attempt would come too late.
        let tried = add(&db, aged()).await.unwrap();
        db.write(|tx| jobs::claim(tx, "q", "b", LEASE, at(59), 1)).await.unwrap();
        assert_eq!(fail(&db, tried, "b", 59).await, FailOutcome::Dead);
    }

    async fn dead_letters_can_be_read_revived_and_forgotten(db: TestDb) {
        let new = || NewJob { max_attempts: 1, key: Some("k"), ..NewJob::new("q", at(0)) };
        let id = add(&db, new()).await.unwrap();
        claim(&db, "a", 0).await;
        assert_eq!(fail(&db, id, "a", 1).await, FailOutcome::Dead);
        let letters = |queue: Option<&'static str>| {
            let db = db.db.clone();
            async move { db.read(move |tx| jobs::dead_letters(tx, queue, Page::first(10))).await.unwrap().items }
        };
        assert_eq!(letters(Some("q")).await.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
        assert_eq!(letters(None).await.len(), 1);
        assert!(letters(Some("r")).await.is_empty());

        let live = add(&db, new()).await.expect("a dead job does not hold its key");
        assert!(!db.write(move |tx| jobs::requeue_dead(tx, id, at(2))).await.unwrap(), "its key is in use");
        claim(&db, "a", 2).await;
        complete(&db, live, "a").await;
        assert!(db.write(move |tx| jobs::requeue_dead(tx, id, at(2))).await.unwrap());
        assert!(!db.write(move |tx| jobs::requeue_dead(tx, id, at(2))).await.unwrap(), "it lives already");
        assert_eq!(claim(&db, "a", 2).await[0].attempts, 1, "with fresh attempts");
        assert_eq!(fail(&db, id, "a", 3).await, FailOutcome::Dead);

        let count = |status, jobs| QueueCount { queue: "q".to_owned(), status, jobs };
        assert_eq!(db.read(jobs::counts).await.unwrap(), [count(JobStatus::Done, 1), count(JobStatus::Dead, 1)]);
        assert_eq!(db.write(|tx| jobs::prune(tx, JobStatus::Dead, at(3), 9)).await.unwrap(), 0);
        assert_eq!(db.write(|tx| jobs::prune(tx, JobStatus::Dead, at(4), 9)).await.unwrap(), 1);
        assert_eq!(db.write(|tx| jobs::prune(tx, JobStatus::Done, at(100), 9)).await.unwrap(), 1);
        assert!(db.read(jobs::counts).await.unwrap().is_empty());
    }

    async fn no_job_is_run_by_two_at_once(db: TestDb) {
        const JOBS: usize = 120;
        let other = db.second_connection().await;
        for _ in 0..JOBS {
            add(&db, NewJob::new("q", Timestamp::from_micros(0))).await;
        }
        let clock = Clock::system();
        let seen = Arc::new(parking_lot::Mutex::new(BTreeMap::<JobId, (usize, bool)>::new()));
        let workers = (0..16).map(|n| {
            let (db, clock, seen) = (if n % 2 == 0 { db.db.clone() } else { other.clone() }, clock.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                loop {
                    let (owner, now) = (format!("worker {n}"), clock.now());
                    let who = owner.clone();
                    let got = db.write(move |tx| jobs::claim(tx, "q", &who, LEASE, now, 3)).await.unwrap();
                    if got.is_empty() {
                        return;
                    }
                    for job in got {
                        {
                            let mut seen = seen.lock();
                            let (runs, running) = seen.entry(job.id).or_default();
                            assert!(!*running, "two have job {} at once", job.id);
                            (*runs, *running) = (*runs + 1, true);
                        }
                        tokio::task::yield_now().await;
                        seen.lock().get_mut(&job.id).unwrap().1 = false;
                        let (who, now) = (owner.clone(), clock.now());
                        assert!(db.write(move |tx| jobs::complete(tx, job.id, &who, now)).await.unwrap());
                    }
                }
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await.unwrap();
        }
        let seen = seen.lock();
        assert_eq!(seen.len(), JOBS);
        assert!(seen.values().all(|(runs, _)| *runs == 1));
    }

    async fn a_job_that_others_count_on_does_not_finish_behind_their_backs(db: TestDb) {
        // Writers add a row of work and count on the live job; the worker finishes only when it
        // sees no row. Nothing may be left without a live job.
        let other = db.second_connection().await;
        for round in 0..20_u64 {
            let writers = (0..8).map(|n| {
                let db = if n % 2 == 0 { db.db.clone() } else { other.clone() };
                tokio::spawn(async move {
                    let name = format!("work {round} {n}");
                    db.write(move |tx| {
                        emergent_store::leases::acquire(tx, &name, "work", at(0), at(0))?;
                        jobs::enqueue(tx, &NewJob { key: Some("k"), ..NewJob::new("q", at(0)) })?;
                        Ok::<_, Error>(())
                    })
                    .await
                    .unwrap();
                })
            });
            let writers: Vec<_> = writers.collect();
            let worker = async |db: &Db| {
                for job in claim(db, "w", 0).await {
                    let done = db
                        .write(move |tx| {
                            assert!(jobs::lock_owned(tx, job.id, "w")?);
                            tx.execute("DELETE FROM leases WHERE owner = 'work'", emergent_store::params![])?;
                            jobs::complete(tx, job.id, "w", at(1))
                        })
                        .await;
                    assert!(done.unwrap());
                }
            };
            while !writers.iter().all(|writer| writer.is_finished()) {
                worker(&db).await;
            }
            for writer in writers {
                writer.await.unwrap();
            }
            worker(&db).await;
            assert_eq!(crate::number(&db, "SELECT count(*) FROM leases").await, 0, "round {round}");
        }
    }
}
