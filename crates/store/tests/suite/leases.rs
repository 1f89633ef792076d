use std::time::Duration;

use emergent_domain::{ids::JobId, time::Timestamp};
use emergent_store::{
    jobs::{self, NewJob},
    leases,
    transition::transition,
};
use emergent_testkit::both_engines;
use futures_util::future::join_all;

fn at(second: u64) -> Timestamp {
    Timestamp::from_micros(0) + Duration::from_secs(second)
}

both_engines! {
    async fn a_lease_has_one_holder_until_it_lapses(db: TestDb) {
        db.write(|tx| {
            assert!(leases::acquire(tx, "sweep", "a", at(10), at(0))?);
            assert!(!leases::acquire(tx, "sweep", "b", at(19), at(9))?, "another holds it");
            assert!(leases::acquire(tx, "other", "b", at(19), at(9))?, "names do not meet");
            assert!(leases::renew(tx, "sweep", "a", at(20))?);
            assert!(!leases::renew(tx, "sweep", "b", at(30))?);
            assert!(!leases::acquire(tx, "sweep", "b", at(30), at(19))?, "it was renewed");
            assert!(leases::acquire(tx, "sweep", "b", at(30), at(20))?, "it lapsed");
            assert!(!leases::renew(tx, "sweep", "a", at(40))?, "a finds that it lost it");
            assert!(!leases::release(tx, "sweep", "a")?);
            assert!(leases::release(tx, "sweep", "b")?);
            assert!(leases::acquire(tx, "sweep", "a", at(50), at(21))?, "it is free");
            Ok::<_, emergent_store::Error>(())
        })
        .await
        .unwrap();
    }

    async fn of_32_that_want_a_lapsed_lease_one_gets_it(db: TestDb) {
        let other = db.second_connection().await;
        for round in 0..10 {
            let won = join_all((0..32).map(|n| {
                let db = if n % 2 == 0 { db.db.clone() } else { other.clone() };
                async move {
                    let owner = format!("worker {round} {n}");
                    let taken = db.write(move |tx| leases::acquire(tx, "sweep", &owner, at(round + 1), at(round)));
                    taken.await.unwrap()
                }
            }))
            .await;
            assert_eq!(won.into_iter().filter(|won| *won).count(), 1, "round {round}");
        }
    }

    async fn of_32_that_move_a_row_one_hears_yes(db: TestDb) {
        let other = db.second_connection().await;
        for round in 0..10 {
            let id: JobId = db
                .write(|tx| jobs::enqueue(tx, &NewJob::new("race", at(0))))
                .await
                .unwrap()
                .expect("no key, no conflict");
            let won = join_all((0..32).map(|n| {
                let db = if n % 2 == 0 { db.db.clone() } else { other.clone() };
                async move { db.write(move |tx| transition(tx, "jobs", id.0, "queued", "dead")).await.unwrap() }
            }))
            .await;
            assert_eq!(won.into_iter().filter(|won| *won).count(), 1, "round {round}");
        }
        let id = JobId::new();
        assert!(!db.write(move |tx| transition(tx, "jobs", id.0, "queued", "dead")).await.unwrap());
    }
}
