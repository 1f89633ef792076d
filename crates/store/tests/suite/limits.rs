//! Deadlines of reads and writes, and the share of each requester.

use std::time::{Duration, Instant};

use emergent_domain::{ids::ProjectId, indexed_text::IndexedText};
use emergent_store::{
    Db, Error, Result, TimeLimits, Tx, params,
    requester::{Requester, on_behalf_of},
    search::write::{self, Entry, SearchIndex},
};
use emergent_testkit::both_engines;
use futures_util::future::join_all;

use crate::{number, run};

/// Counts for minutes.
const SLOW: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1000000000)
                    SELECT count(*) FROM n";
const ROWS: &str = "SELECT count(*) FROM leases";

async fn open(db: &emergent_testkit::TestDb, read: Duration, write: Duration) -> Db {
    Db::open_with(db.config().clone(), TimeLimits { read, write }).await.expect("the same database")
}

fn slow(tx: &mut Tx<'_>) -> Result<Option<i64>> {
    tx.query_opt(SLOW, params![], |row| row.get(0))
}

fn add(tx: &mut Tx<'_>, name: &str) -> Result<u64> {
    tx.execute(
        "INSERT INTO leases (name, owner, until) SELECT $1, 'x', max(applied_at) FROM schema_migrations",
        params![name],
    )
}

fn a_project() -> Requester {
    Requester::Project(ProjectId::new())
}

const MINUTE: Duration = Duration::from_secs(60);

both_engines! {
    async fn a_read_is_stopped_at_its_deadline_and_the_connection_goes_on(db: TestDb) {
        let limited = open(&db, Duration::from_millis(300), MINUTE).await;
        for _ in 0..3 {
            let started = Instant::now();
            let stopped = on_behalf_of(a_project(), limited.snapshot(slow)).await;
            assert!(matches!(stopped, Err(Error::TooSlow { .. })), "{stopped:?}");
            assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
            assert_eq!(number(&limited, ROWS).await, 0);
        }
    }

    async fn many_short_statements_have_a_deadline_together(db: TestDb) {
        let limited = open(&db, Duration::from_millis(300), MINUTE).await;
        let endless = |tx: &mut Tx<'_>| -> Result<()> {
            loop {
                tx.query_opt(ROWS, params![], |row| row.get::<i64>(0))?;
            }
        };
        let stopped = on_behalf_of(a_project(), limited.read(endless)).await;
        assert!(matches!(stopped, Err(Error::TooSlow { .. })), "{stopped:?}");
    }

    async fn a_write_is_stopped_at_its_deadline_and_leaves_nothing(db: TestDb) {
        let limited = open(&db, MINUTE, Duration::from_millis(400)).await;
        let stopped = limited.write(|tx| { add(tx, "half")?; slow(tx) });
        let others = join_all(["a", "b", "c"].map(|name| limited.write(move |tx| add(tx, name))));
        let (stopped, others) = tokio::join!(stopped, others);
        assert!(matches!(stopped, Err(Error::TooSlow { .. })), "{stopped:?}");
        assert!(others.iter().all(Result::is_ok), "{others:?}");
        assert_eq!(number(&limited, ROWS).await, 3);
        assert_eq!(run(&limited, "DELETE FROM leases").await.unwrap(), 3);
    }

    async fn a_computation_between_statements_is_stopped_as_a_statement_is(db: TestDb) {
        let limited = open(&db, MINUTE, Duration::from_millis(300)).await;
        let endless = |tx: &mut Tx<'_>| -> Result<()> {
            add(tx, "half")?;
            loop {
                tx.check_deadline()?;
            }
        };
        let stopped = limited.write(endless).await;
        assert!(matches!(stopped, Err(Error::TooSlow { .. })), "{stopped:?}");
        // Also if the computation ignores it.
        let ignored = limited.write(|tx| {
            add(tx, "half")?;
            while tx.check_deadline().is_ok() {}
            Ok::<_, Error>(())
        });
        assert!(ignored.await.is_err());
        assert_eq!(number(&limited, ROWS).await, 0);
    }

    async fn the_longest_text_can_be_read(db: TestDb) {
        let sql = match db.engine() {
            emergent_store::Engine::Sqlite => "SELECT hex(zeroblob(33554432))",
            emergent_store::Engine::Postgres => "SELECT repeat('x', 67108864)",
        };
        let text = on_behalf_of(
            a_project(),
            db.read(move |tx| tx.query_opt(sql, params![], |row| row.get::<String>(0))),
        );
        assert_eq!(text.await.unwrap().unwrap().len(), emergent_store::MAX_TEXT_BYTES);
    }

    async fn a_read_whose_caller_is_gone_is_stopped(db: TestDb) {
        let limited = open(&db, MINUTE, MINUTE).await;
        let project = a_project();
        let gone = join_all((0..30).map(|_| {
            let read = on_behalf_of(project, limited.read(slow));
            tokio::time::timeout(Duration::from_millis(300), read)
        }));
        assert!(gone.await.iter().all(Result::is_err));
        let started = Instant::now();
        assert_eq!(on_behalf_of(project, number(&limited, ROWS)).await, 0);
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    }

    async fn slow_reads_of_one_project_leave_connections_for_others(db: TestDb) {
        let limited = open(&db, MINUTE, MINUTE).await;
        let project = a_project();
        let slow_reads = join_all((0..40).map(|_| on_behalf_of(project, limited.read(slow))));
        let others = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            for requester in [a_project(), Requester::AllProjects, Requester::Priority, Requester::Server] {
                let started = Instant::now();
                assert_eq!(on_behalf_of(requester, number(&limited, ROWS)).await, 0);
                assert!(started.elapsed() < Duration::from_secs(2), "{requester:?}: {:?}", started.elapsed());
            }
        };
        tokio::select! { _ = slow_reads => panic!("they count for minutes"), () = others => {} }
    }

    async fn a_result_that_is_too_large_is_refused(db: TestDb) {
        let sql = match db.engine() {
            emergent_store::Engine::Sqlite => {
                "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 80)
                 SELECT hex(zeroblob(524288)) FROM n"
            }
            emergent_store::Engine::Postgres => "SELECT repeat('x', 1048576) FROM generate_series(1, 80)",
        };
        let all = move |tx: &mut Tx<'_>| tx.query(sql, params![], |row| row.get::<String>(0));
        let refused = on_behalf_of(a_project(), db.read(all)).await;
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{:?}", refused.map(|rows| rows.len()));
        let (part, is_cut) = db
            .read(move |tx| tx.query_up_to(8 << 20, sql, params![], |row| row.get::<String>(0)))
            .await
            .unwrap();
        // PostgreSQL also counts what it sends around a value, so the eighth row does not fit.
        let expected = if db.engine() == emergent_store::Engine::Sqlite { 8 } else { 7 };
        assert_eq!((part.len(), is_cut), (expected, true));
        assert_eq!(number(&db, ROWS).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_on_sqlite_is_short_whatever_the_settings_say() {
    let db = emergent_testkit::TestDb::sqlite().await;
    let limited = open(&db, MINUTE, MINUTE).await;
    let started = Instant::now();
    let stopped = limited.write(slow).await;
    assert!(matches!(stopped, Err(Error::TooSlow { .. })), "{stopped:?}");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_written_before_the_writes_that_wait() {
    let db = emergent_testkit::TestDb::sqlite().await;
    let (order, orders) = std::sync::mpsc::channel();
    let wait = |name: &'static str| {
        let order = order.clone();
        db.write(move |_| {
            std::thread::sleep(Duration::from_millis(100));
            order.send(name).expect("a receiver");
            Ok::<_, Error>(())
        })
    };
    let lease = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        on_behalf_of(Requester::Priority, wait("lease")).await
    };
    let (first, second, third, lease) = tokio::join!(wait("first"), wait("second"), wait("third"), lease);
    assert!(first.is_ok() && second.is_ok() && third.is_ok() && lease.is_ok());
    assert_eq!(orders.try_iter().collect::<Vec<_>>(), ["first", "lease", "second", "third"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_slow_writes_of_one_project_do_not_delay_those_of_another() {
    let db = emergent_testkit::TestDb::sqlite().await;
    let project = a_project();
    let busy = join_all((0..30).map(|_| {
        on_behalf_of(
            project,
            db.write(|_| {
                std::thread::sleep(Duration::from_millis(100));
                Ok::<_, Error>(())
            }),
        )
    }));
    let other = async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        for (number, requester) in
            [a_project(), Requester::AllProjects, Requester::Server].into_iter().enumerate()
        {
            let started = Instant::now();
            let name = format!("other {number}");
            on_behalf_of(requester, db.write(move |tx| add(tx, &name))).await.unwrap();
            assert!(started.elapsed() < Duration::from_millis(700), "{requester:?}: {:?}", started.elapsed());
        }
    };
    tokio::select! { _ = busy => panic!("they take three seconds"), () = other => {} }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_caller_is_gone_before_it_starts_is_not_made() {
    let db = emergent_testkit::TestDb::sqlite().await;
    let first = db.write(|_| {
        std::thread::sleep(Duration::from_millis(500));
        Ok::<_, Error>(())
    });
    let gone = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        tokio::time::timeout(Duration::from_millis(50), db.write(|tx| add(tx, "gone"))).await
    };
    let (first, gone) = tokio::join!(first, gone);
    assert!(first.is_ok() && gone.is_err());
    db.write(|tx| add(tx, "next")).await.unwrap();
    assert_eq!(number(&db, ROWS).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_full_text_index_of_a_write_counts_for_its_limit() {
    let db = emergent_testkit::TestDb::sqlite().await;
    let limited = open(&db, MINUTE, Duration::from_millis(250)).await;
    let text = IndexedText { name: String::new(), body: "kettle sings of tea ".repeat(9_000) };
    let project = ProjectId::new();
    let large = limited.write(move |tx| {
        for no in 1..400 {
            write::insert(tx, SearchIndex::Objects, project, &[Entry { no, text: &text }])?;
        }
        add(tx, "large")
    });
    let (large, small) = tokio::join!(large, limited.write(|tx| add(tx, "small")));
    assert!(matches!(large, Err(Error::TooSlow { .. })), "{large:?}");
    assert!(small.is_ok());
    assert_eq!(number(&limited, ROWS).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_has_the_database_to_itself_may_write_for_long() {
    let db = emergent_testkit::TestDb::sqlite().await;
    let alone = Db::open_with(db.config().clone(), TimeLimits::ALONE).await.unwrap();
    let long = alone.write(|tx| {
        std::thread::sleep(Duration::from_millis(2_600));
        add(tx, "long")
    });
    assert_eq!(long.await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_does_not_read_the_rest_of_a_result_that_is_cut() {
    let db = emergent_testkit::TestDb::postgres().await;
    run(&db, "CREATE SEQUENCE read_rows").await.unwrap();
    let rows = "SELECT repeat('x', 1048576), nextval('read_rows') FROM generate_series(1, 300)";
    let page = |tx: &mut Tx<'_>| tx.query_up_to(4 << 20, rows, params![], |row| row.get::<String>(0));
    let (part, is_cut) = db.write(page).await.unwrap();
    assert_eq!((part.len(), is_cut), (3, true));
    let read = number(&db, "SELECT last_value FROM read_rows").await;
    assert!(read < 16, "the database computed {read} rows for 3");

    // Several pages can be read in one transaction, with or without a snapshot, and a page may be the whole
    // result.
    let small = "SELECT n::bigint FROM generate_series(1, $1::bigint) AS n";
    let pages = move |tx: &mut Tx<'_>| -> Result<Vec<usize>> {
        [10_000_usize, 40, 1, 0]
            .iter()
            .map(|count| {
                let (page, is_cut) =
                    tx.query_up_to(8 << 20, small, params![*count], |row| row.get::<i64>(0))?;
                assert!(!is_cut && page.iter().copied().eq(1..=*count as i64));
                Ok(page.len())
            })
            .collect()
    };
    assert_eq!(db.read(pages).await.unwrap(), [10_000, 40, 1, 0]);
    assert_eq!(db.snapshot(pages).await.unwrap(), [10_000, 40, 1, 0]);
    assert_eq!(db.write(pages).await.unwrap(), [10_000, 40, 1, 0]);
    assert_eq!(run(&db, "DELETE FROM leases").await.unwrap(), 0, "the connection can write again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_keeps_its_result_when_its_transaction_cannot_be_rolled_back() {
    let db = emergent_testkit::TestDb::postgres().await;
    let read = |tx: &mut Tx<'_>| -> Result<Option<i64>> {
        let rows = tx.query_opt(ROWS, params![], |row| row.get(0))?;
        // Ends this connection.
        let _ = tx.query("SELECT pg_terminate_backend(pg_backend_pid())", params![], |_| Ok(()));
        Ok(rows)
    };
    assert_eq!(db.snapshot(read).await.unwrap(), Some(0));
    assert_eq!(number(&db, ROWS).await, 0, "another connection is used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_slow_to_end_is_too_slow_while_the_database_answers_others() {
    let db = emergent_testkit::TestDb::postgres().await;
    let limited = open(&db, Duration::from_millis(300), MINUTE).await;
    // It goes on for longer after its cancellation than the server waits for that.
    let function = "CREATE FUNCTION kb.stubborn() RETURNS bigint LANGUAGE plpgsql AS $$
                    BEGIN PERFORM pg_sleep(30); RETURN 0;
                    EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(6); RETURN 1; END $$";
    run(&db, function).await.unwrap();
    let stubborn = |tx: &mut Tx<'_>| tx.query_opt("SELECT kb.stubborn()", params![], |row| row.get::<i64>(0));
    let others = async {
        loop {
            assert_eq!(number(&limited, ROWS).await, 0);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        stopped = on_behalf_of(a_project(), limited.read(stubborn)) => {
            assert!(matches!(stopped, Err(Error::TooSlow { .. })), "{stopped:?}");
        }
        () = others => {}
    }
    assert_eq!(
        on_behalf_of(a_project(), number(&limited, ROWS)).await,
        0,
        "its connection is not used again"
    );
}

/// With one writer, a write of somebody else waits at least for the one that is under way. If a project always had one
/// that is stopped only at its deadline, each write of others would wait for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_writes_of_one_project_leave_most_of_the_writer_to_others() {
    const LIMIT: Duration = Duration::from_millis(1_000);
    let db = emergent_testkit::TestDb::sqlite().await;
    let limited = open(&db, MINUTE, LIMIT).await;
    let (attacker, other) = (a_project(), a_project());
    let attack = async || loop {
        let stopped = on_behalf_of(
            attacker,
            limited.write(|tx| {
                add(tx, "half")?;
                slow(tx)
            }),
        )
        .await;
        assert!(matches!(stopped, Err(Error::TooSlow { .. })), "{stopped:?}");
    };
    let bystander = async {
        let (started, mut waits) = (Instant::now(), Vec::new());
        while started.elapsed() < LIMIT * 9 {
            let began = Instant::now();
            on_behalf_of(other, limited.write(move |tx| tx.execute("DELETE FROM leases", params![])))
                .await
                .unwrap();
            waits.push(began.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        waits
    };
    let waits = tokio::select! {
        waits = bystander => waits,
        _ = async { tokio::join!(attack(), attack(), attack()) } => unreachable!("the attack never ends"),
    };
    let total: Duration = waits.iter().filter(|wait| **wait > LIMIT / 4).sum();
    assert!(total < LIMIT * 5, "{total:?} of {:?}, {} writes", LIMIT * 9, waits.len());
    let longest = waits.iter().max().unwrap();
    assert!(*longest < LIMIT * 2, "at most one write is ahead: {longest:?}");
    assert!(waits.len() > 100, "{}", waits.len());
}
