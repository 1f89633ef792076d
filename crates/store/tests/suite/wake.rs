use std::time::{Duration, Instant};

use emergent_store::{Db, Error};
use emergent_testkit::{TestDb, both_engines};

const NET: Duration = Duration::from_secs(20);

async fn wake(db: &Db, channel: &'static str) {
    db.write(move |tx| tx.wake(channel)).await.unwrap();
}

async fn wakes_within_a_second(mut waiter: emergent_store::wake::Waiter) {
    let started = Instant::now();
    waiter.wait(NET).await;
    assert!(started.elapsed() < Duration::from_secs(1), "it took {:?}", started.elapsed());
}

both_engines! {
    async fn a_commit_wakes_who_waits_on_its_channel(db: TestDb) {
        let waiter = db.waiter("events:a");
        wake(&db, "events:a").await;
        wakes_within_a_second(waiter).await;
    }

    async fn one_that_is_rolled_back_or_elsewhere_wakes_nobody(db: TestDb) {
        // The listener's own start wakes everybody once.
        let mut waiter = db.waiter("events:a");
        waiter.wait(Duration::from_millis(500)).await;
        let failed: Result<(), Error> = db
            .write(|tx| {
                tx.wake("events:a")?;
                Err(Error::Closed)
            })
            .await;
        assert!(failed.is_err());
        wake(&db, "events:b").await;
        let started = Instant::now();
        waiter.wait(Duration::from_millis(300)).await;
        assert!(started.elapsed() >= Duration::from_millis(290));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_on_one_server_wakes_another() {
    let db = TestDb::postgres().await;
    let other = db.second_connection().await;
    for _ in 0..5 {
        let mut waiter = other.waiter("jobs:embed");
        waiter.wait(Duration::from_millis(300)).await;
        wake(&db, "jobs:embed").await;
        wakes_within_a_second(waiter).await;
    }
}
