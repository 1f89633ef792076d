//! The store's behaviour, the same on both engines: `scripts/postgres run cargo test -p emergent-store`.

mod agents;
mod audit;
mod backup;
mod budget_counters;
mod cursors;
mod day_limits;
mod deferred;
mod due_firings;
mod hot_plans;
mod jobs;
mod leases;
mod limits;
mod locked_objects;
mod migrations;
mod object_versions;
mod plans;
mod row_numbers;
mod run_lists;
mod sources;
mod stalled_postgres;
mod states_at;
mod storage;
mod transactions;
mod trigger_totals;
mod unreadable;
mod unreadable_claims;
mod unreadable_runs;
mod values;
mod vector_indexes;
mod waiting;
mod wake;
mod workflow_decisions;

use emergent_store::{Db, Result, Tx, params};

/// Runs one statement as a transaction of its own.
async fn run(db: &Db, sql: &'static str) -> Result<u64> {
    db.write(move |tx| tx.execute(sql, params![])).await
}

/// The one number that a query gives.
async fn number(db: &Db, sql: &'static str) -> i64 {
    let read = move |tx: &mut Tx<'_>| tx.query_opt(sql, params![], |row| row.get::<i64>(0));
    db.read(read).await.expect("the query runs").expect("one row")
}
