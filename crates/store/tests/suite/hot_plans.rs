//! The plans of the statements that steps, tasks, claims and readers of the change feed repeat, on PostgreSQL. Each
//! operation of the store may read a few blocks in an empty database, in one that has grown to 200,000 rows without
//! statistics, and in one with statistics. Counted are blocks, which do not depend on how busy the machine is.

use emergent_store::{Db, Error, params, statistics};
use emergent_testkit::TestDb;

use crate::plans::blocks_read;

mod operations;
mod rows;

use operations::{OPERATIONS, Operation};

/// The plan of all executions of a prepared statement but the first five of a connection.
const GENERIC: &str = "force_generic_plan";
/// The plan of the first five. Without statistics it is a choice among indexes that seem equal to PostgreSQL, so it is
/// checked with statistics only; the server renews them within seconds ([`statistics`]).
const CUSTOM: &str = "force_custom_plan";
/// Operations whose generic plan needs statistics, too.
const NEED_STATISTICS: [&str; 3] =
    ["finding objects by their keys", "finding an edge", "listing the neighbours of a task"];

/// How a measured transaction ends. It is always rolled back, so that the next one finds the same rows.
struct Measured(Result<i64, Error>);

impl From<Error> for Measured {
    fn from(error: Error) -> Self {
        Self(Err(error))
    }
}

/// How many blocks an operation reads with plans of this mode.
async fn measure(db: &Db, mode: &'static str, run: Operation) -> Result<i64, Error> {
    let measured = db.write(move |tx| -> Result<(), Measured> {
        tx.execute(&format!("SET LOCAL plan_cache_mode = {mode}"), params![])?;
        let before = blocks_read(tx);
        run(tx)?;
        Err(Measured(Ok(blocks_read(tx) - before)))
    });
    match measured.await {
        Ok(()) => unreachable!("the transaction returns an error"),
        Err(Measured(blocks)) => blocks,
    }
}

/// Runs every operation, and returns what is to be said about those that read too much.
async fn check_operations(db: &Db, has_statistics: bool, when: &str) -> Vec<String> {
    let mut slow = Vec::new();
    for &(name, max_blocks, run) in OPERATIONS {
        let modes: &[&'static str] = match has_statistics {
            true => &[CUSTOM, GENERIC],
            false if NEED_STATISTICS.contains(&name) => &[],
            false => &[GENERIC],
        };
        // The first execution of a connection also reserves row numbers.
        let _ = measure(db, GENERIC, run).await;
        for &mode in modes {
            match measure(db, mode, run).await {
                Ok(blocks) if blocks <= max_blocks => {}
                Ok(blocks) => {
                    slow.push(format!("{name} {when}, {mode}: {blocks} blocks, allowed are {max_blocks}"));
                }
                Err(error) => panic!("{name} {when}, {mode}: {error}"),
            }
        }
    }
    slow
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_often_reads_few_blocks_whatever_the_statistics_say() {
    let test = TestDb::postgres().await;
    let db = &test.db;
    rows::disable_autovacuum(db).await;
    rows::insert_first(db).await;
    let mut slow = check_operations(db, false, "in an empty database").await;

    rows::grow(db).await;
    slow.extend(check_operations(db, false, "with plans for an empty database").await);
    let new_server = test.second_connection().await;
    slow.extend(check_operations(&new_server, false, "without statistics").await);

    let outgrown = db.read(statistics::list_outgrown).await.unwrap();
    assert!(outgrown.iter().any(|table| table == "graph_objects"), "{outgrown:?}");
    for table in outgrown {
        db.write(move |tx| statistics::renew(tx, &table)).await.unwrap();
    }
    slow.extend(check_operations(db, true, "with statistics").await);
    assert!(slow.is_empty(), "{} operations read too much:\n{}", slow.len(), slow.join("\n"));
}
