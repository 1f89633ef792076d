use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use emergent_store::{Error, Tx, params};
use emergent_testkit::{TestDb, both_engines};
use futures_util::future::join_all;

use crate::{number, run};

const ROWS: &str = "SELECT count(*) FROM leases";

fn add(tx: &mut Tx<'_>, name: &str) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO leases (name, owner, until) SELECT $1, 'x', max(applied_at) FROM schema_migrations",
        params![name],
    )?;
    Ok(())
}

both_engines! {
    async fn a_transaction_that_fails_leaves_nothing(db: TestDb) {
        let done: Result<(), Error> = db
            .write(|tx| {
                add(tx, "half")?;
                Err(Error::Closed)
            })
            .await;
        assert!(matches!(done, Err(Error::Closed)), "the caller gets its own error back");
        assert_eq!(number(&db, ROWS).await, 0);
    }

    async fn a_transaction_that_is_rolled_back_returns_its_result_and_leaves_nothing(db: TestDb) {
        let count: Result<i64, Error> = db
            .write_and_roll_back(|tx| {
                add(tx, "tried")?;
                Ok(tx.query_opt(ROWS, params![], |row| row.get::<i64>(0))?.unwrap_or_default())
            })
            .await;
        assert_eq!(count.expect("the result of the transaction"), 1);
        assert_eq!(number(&db, ROWS).await, 0);
        let failed: Result<(), Error> = db
            .write_and_roll_back(|tx| {
                add(tx, "tried")?;
                Err(Error::Closed)
            })
            .await;
        assert!(matches!(failed, Err(Error::Closed)), "the caller gets its own error back");
        assert_eq!(number(&db, ROWS).await, 0);
    }

    async fn a_panic_is_rolled_back_and_reported(db: TestDb) {
        let done: Result<(), Error> = db
            .write(|tx| {
                add(tx, "half")?;
                panic!("the pot fell")
            })
            .await;
        let error = done.unwrap_err();
        assert_eq!(error.to_string(), "a transaction panicked and was rolled back: the pot fell");
        assert_eq!(number(&db, ROWS).await, 0);
        db.write(|tx| add(tx, "next")).await.expect("the store goes on");
        assert_eq!(number(&db, ROWS).await, 1);
    }

    async fn a_read_that_panics_is_reported_and_the_store_goes_on(db: TestDb) {
        for _ in 0..20 {
            let done: Result<(), Error> = db.snapshot(|_| panic!("no")).await;
            assert!(matches!(done, Err(Error::Panicked { .. })));
        }
        assert_eq!(number(&db, ROWS).await, 0);
    }

    async fn a_refused_row_is_told_by_its_constraint(db: TestDb) {
        db.write(|tx| add(tx, "one")).await.unwrap();
        let refused = db.write(|tx| add(tx, "one")).await.unwrap_err();
        let Error::Duplicate { constraint } = refused else { panic!("{refused:?}") };
        assert!(constraint.contains("leases"), "{constraint}");
        assert_eq!(number(&db, ROWS).await, 1);
    }

    async fn a_failed_statement_fails_its_transaction_even_if_nobody_minds(db: TestDb) {
        db.write(|tx| add(tx, "one")).await.unwrap();
        let done: Result<(), Error> = db
            .write(|tx| {
                add(tx, "two")?;
                let _ = add(tx, "one");
                Ok(())
            })
            .await;
        assert!(matches!(done, Err(Error::Broken)), "{done:?}");
        assert_eq!(number(&db, ROWS).await, 1);
    }

    async fn readers_that_leave_do_not_use_up_the_connections(db: TestDb) {
        for _ in 0..100 {
            let slow = db.read(|_| {
                std::thread::sleep(Duration::from_millis(5));
                Ok::<_, Error>(())
            });
            let _ = tokio::time::timeout(Duration::from_millis(1), slow).await;
        }
        assert_eq!(number(&db, ROWS).await, 0);
    }

    async fn hooks_run_after_the_commit_and_only_then(db: TestDb) {
        let ran = Arc::new(AtomicUsize::new(0));
        for fails in [true, false] {
            let count = Arc::clone(&ran);
            let _: Result<(), Error> = db
                .write(move |tx| {
                    let count = Arc::clone(&count);
                    tx.after_commit(move || {
                        count.fetch_add(1, Ordering::SeqCst);
                    });
                    add(tx, "row")?;
                    if fails { Err(Error::Closed) } else { Ok(()) }
                })
                .await;
            assert_eq!(ran.load(Ordering::SeqCst), usize::from(!fails));
        }
    }

    async fn a_snapshot_sees_one_moment_and_a_read_the_newest(db: TestDb) {
        let writer = db.db.clone();
        let count = |tx: &mut Tx<'_>| tx.query_opt(ROWS, params![], |row| row.get::<i64>(0));
        let runtime = tokio::runtime::Handle::current();
        let add_one = move |name: &'static str| {
            let writer = writer.clone();
            runtime.block_on(async move { writer.write(move |tx| add(tx, name)).await }).unwrap();
        };
        let also = add_one.clone();
        let seen = db
            .snapshot(move |tx| {
                let before = count(tx)?;
                add_one("meanwhile");
                Ok::<_, Error>((before, count(tx)?))
            })
            .await
            .unwrap();
        assert_eq!(seen, (Some(0), Some(0)));
        let seen = db
            .read(move |tx| {
                let before = count(tx)?;
                also("more");
                Ok::<_, Error>((before, count(tx)?))
            })
            .await
            .unwrap();
        assert_eq!(seen, (Some(1), Some(2)));
    }

    async fn each_of_many_at_once_stands_or_falls_alone(db: TestDb) {
        // Every third leaves a trace and fails, every fifth panics, every seventh fails clean.
        let outcomes = join_all((0..200_u32).map(|n| {
            let db = db.db.clone();
            async move {
                let done: Result<u32, Error> = db
                    .write(move |tx| {
                        if n % 7 == 0 {
                            return Err(Error::Closed);
                        }
                        add(tx, &format!("row {n}"))?;
                        if n % 5 == 0 {
                            panic!("{n}");
                        }
                        if n % 3 == 0 { Err(Error::Closed) } else { Ok(n) }
                    })
                    .await;
                (n, done)
            }
        }))
        .await;
        let mut good = 0;
        for (n, done) in outcomes {
            let fails = n % 7 == 0 || n % 5 == 0 || n % 3 == 0;
            assert_eq!(done.is_err(), fails, "{n}: {done:?}");
            good += i64::from(!fails);
        }
        assert_eq!(number(&db, ROWS).await, good);
    }

    async fn what_a_refused_row_left_is_taken_back_from_the_group(db: TestDb) {
        // All race for one name and each writes a row of its own first: one pair stays.
        let won = join_all((0..32).map(|n| {
            let db = db.db.clone();
            async move {
                db.write(move |tx| {
                    add(tx, &format!("own {n}"))?;
                    add(tx, "the one")
                })
                .await
                .is_ok()
            }
        }))
        .await;
        assert_eq!(won.into_iter().filter(|won| *won).count(), 1);
        assert_eq!(number(&db, ROWS).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_writers_that_queue_up_share_commits() {
    let db = TestDb::sqlite().await;
    let before = db.commits();
    // Longer than a group may take: those that come meanwhile queue behind it.
    let slow = db.db.clone();
    let slow = tokio::spawn(async move {
        slow.write(|tx| {
            std::thread::sleep(Duration::from_millis(300));
            add(tx, "slow")
        })
        .await
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let queued = join_all((0..50).map(|n| {
        let db = db.db.clone();
        async move { db.write(move |tx| add(tx, &format!("{n}"))).await }
    }));
    assert!(queued.await.into_iter().all(|done| done.is_ok()));
    slow.await.unwrap().unwrap();
    assert_eq!(number(&db, ROWS).await, 51);
    let commits = db.commits() - before;
    assert!(commits <= 10, "51 transactions took {commits} commits");
}

#[tokio::test]
async fn an_embedded_commit_is_on_the_disk_when_it_is_acknowledged() {
    let db = TestDb::sqlite().await;
    let pragma = |sql: &'static str| {
        let db = db.db.clone();
        async move {
            db.write(move |tx| {
                let conn = tx.sqlite().expect("the embedded engine");
                Ok::<_, Error>(conn.query_row(sql, [], |row| row.get::<_, i64>(0)))
            })
            .await
            .unwrap()
            .unwrap()
        }
    };
    assert_eq!(pragma("PRAGMA synchronous").await, 2, "FULL: the log is synced at each commit");
    assert_eq!(pragma("SELECT journal_mode = 'wal' FROM pragma_journal_mode").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_there_when_the_file_is_opened_again() {
    let db = TestDb::sqlite().await;
    for n in 0..20 {
        db.write(move |tx| add(tx, &format!("{n}"))).await.unwrap();
        let other = db.second_connection().await;
        assert_eq!(number(&other, ROWS).await, n + 1);
    }
    run(&db, "DELETE FROM leases").await.unwrap();
    assert_eq!(number(&db.second_connection().await, ROWS).await, 0);
}
