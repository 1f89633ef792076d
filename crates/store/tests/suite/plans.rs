//! The plans of PostgreSQL for lookups by id or by run. A prepared statement keeps its plan until its tables are
//! analysed, so a plan that was made when a table was empty has to be good when the table has grown. Counted are the
//! blocks that a lookup reads, which do not depend on how busy the machine is.

use std::collections::BTreeSet;

use emergent_domain::{
    ids::{ObjectId, ProjectId, RunId},
    query::ObjectFilter,
    text_query::TextQuery,
};
use emergent_store::{
    Db, Error, Tx, objects, params, relationships, revert,
    search::{SearchTarget, links::FindableRows},
    statistics, tasks, transfer,
};
use emergent_testkit::TestDb;
use uuid::Uuid;

use crate::number;

mod search;

const ROWS: i64 = 30_000;
const PROJECT: ProjectId = ProjectId(Uuid::from_u128(7));

/// The object with this number. Its relationship leads to the next one.
fn object(number: i64) -> ObjectId {
    ObjectId(Uuid::from_u128(0x7000_8000_0000_0000_0000 + u128::try_from(number).unwrap()))
}

/// The number of the `n`th object that is looked up.
fn row(n: i64) -> i64 {
    1_000 + n * ROWS / 10
}

/// How many blocks of tables and indexes this connection has read since its counters were reported.
pub fn blocks_read(tx: &mut Tx<'_>) -> i64 {
    let sql = "SELECT CAST(sum(pg_stat_get_xact_blocks_fetched(oid)) AS bigint) FROM pg_class
               WHERE relnamespace = 'kb'::regnamespace";
    tx.query_opt(sql, params![], |row| row.get(0)).unwrap().unwrap()
}

/// What finds the tables whose statistics are to be renewed: at regular intervals, after a bulk load and at the start.
type ListTables = fn(&mut Tx<'_>) -> Result<Vec<String>, Error>;
const LISTS: [ListTables; 3] =
    [statistics::list_outgrown, statistics::list_grown, statistics::list_unanalysed];

type Lookup = fn(&mut Tx<'_>, &[ObjectId]);

const LOOKUPS: &[(&str, Lookup)] = &[
    ("get", |tx, ids| drop(objects::get(tx, PROJECT, ids[0]).unwrap())),
    ("lock", |tx, ids| drop(objects::lock(tx, PROJECT, ids[0]).unwrap())),
    ("lock_live", |tx, ids| drop(objects::lock_live(tx, PROJECT, ids).unwrap())),
    ("find_live", |tx, ids| drop(objects::find_live(tx, PROJECT, &ids[..1]).unwrap())),
    ("count_from", |tx, ids| assert!(relationships::count_from(tx, PROJECT, ids[0], "next").unwrap() <= 1)),
    ("list_blocks_of", |tx, ids| assert!(tasks::list_blocks_of(tx, ids).unwrap().is_empty())),
    ("edges_between", |tx, ids| {
        let keys: Vec<_> = ids.iter().map(|id| (*id, "next", *id)).collect();
        assert!(transfer::edges_between(tx, &keys).unwrap().is_empty());
    }),
    ("task_names", |tx, ids| drop(tasks::task_names(tx, PROJECT, ids).unwrap())),
    ("what a run wrote", |tx, _| {
        let run = RunId(PROJECT.0);
        assert!(revert::objects(tx, PROJECT, run).unwrap().is_empty());
        assert!(revert::relationships(tx, PROJECT, run, &BTreeSet::new(), &[]).unwrap().is_empty());
        assert!(revert::list_hubs(tx, PROJECT, run, 1).unwrap().is_empty());
    }),
    (STANDING_WRITES, |tx, _| {
        let (run, reasons) = (RunId(PROJECT.0), ["reverted".to_owned()]);
        assert!(revert::count_standing_writes(tx, PROJECT, run, &reasons).unwrap().is_empty());
    }),
    ("who wrote after a run", |tx, ids| {
        assert!(revert::object_authors_since(tx, ids[0], 1).unwrap().is_empty());
    }),
    ("the rows that a linked search may find", |tx, ids| {
        let types = vec!["SpecTask".to_owned()];
        let target = SearchTarget::Objects(ObjectFilter { types, ..ObjectFilter::default() });
        let rows = FindableRows::new(tx, PROJECT, &target, &TextQuery::parse("task -word")).unwrap();
        let nos: Vec<i64> = (0..).map(row).take(ids.len()).collect();
        assert!([0, nos.len()].contains(&rows.among(tx, &nos).unwrap().len()));
    }),
    ("objects_by_id", |tx, ids| drop(transfer::objects_by_id(tx, PROJECT, ids).unwrap())),
];

/// A few for each of eight objects.
const MAX_BLOCKS: i64 = 8 * 8;
/// The statement that names five tables with many indexes: until it has a plan for good, its planning reads the first block
/// of each of them as well, which were 71 blocks.
const MAX_BLOCKS_OF_STANDING_WRITES: i64 = 80;
const STANDING_WRITES: &str = "what of the writes of a run stands";

/// Makes every lookup for eight objects, and fails if one of them reads more than a few blocks for each.
async fn check_lookups(db: &Db, when: &'static str) {
    for (name, lookup) in LOOKUPS {
        let read = db.write(move |tx| {
            let ids: Vec<ObjectId> = (0..8).map(|n| object(row(n))).collect();
            let before = blocks_read(tx);
            lookup(tx, &ids);
            Ok::<_, Error>(blocks_read(tx) - before)
        });
        let blocks = read.await.unwrap();
        let max = if *name == STANDING_WRITES { MAX_BLOCKS_OF_STANDING_WRITES } else { MAX_BLOCKS };
        assert!(blocks <= max, "`{name}` reads {blocks} blocks {when}");
    }
}

/// Keeps the database from renewing statistics by itself. Plans for these tables are made anew after it.
async fn disable_autovacuum(db: &Db) {
    for table in ["graph_objects", "graph_relationships"] {
        let sql = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        db.write(move |tx| tx.execute(&sql, params![])).await.unwrap();
    }
}

async fn fill(db: &Db) {
    db.write(|tx| {
        let id = "CAST('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') AS uuid)";
        let objects = format!(
            "INSERT INTO graph_objects (no, id, project_id, type, key, labels, properties, version, created_at, updated_at)
             SELECT n, {id}, $1, 'SpecTask', 'k' || n, '[]', '{{\"key\": \"k\"}}', 1, now(), now()
             FROM generate_series(1, $2) AS n"
        );
        tx.execute(&objects, params![PROJECT, ROWS])?;
        let next = id.replace("to_hex(n)", "to_hex(n + 1)");
        let edges = format!(
            "INSERT INTO graph_relationships
                (no, id, project_id, type, from_id, to_id, properties, version, created_at, updated_at)
             SELECT n, {id}, $1, 'next', {id}, {next}, '{{}}', 1, now(), now() FROM generate_series(1, $2) AS n"
        );
        tx.execute(&edges, params![PROJECT, ROWS])
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_made_for_an_empty_table_is_good_for_a_large_one() {
    let test = TestDb::postgres().await;
    let db = &test.db;
    disable_autovacuum(db).await;
    // A statement is planned for good when it was run a few times.
    for _ in 0..8 {
        check_lookups(db, "in an empty table").await;
    }
    fill(db).await;
    check_lookups(db, "with a plan for an empty table").await;
    disable_autovacuum(db).await;
    check_lookups(db, "with a plan for a table without statistics").await;

    let outgrown = db.read(statistics::list_outgrown).await.unwrap();
    assert_eq!(outgrown, ["graph_objects", "graph_relationships"]);
    assert_eq!(db.read(statistics::list_unanalysed).await.unwrap(), outgrown);
    for table in outgrown {
        db.write(move |tx| statistics::renew(tx, &table)).await.unwrap();
    }
    for list in LISTS {
        assert_eq!(db.read(list).await.unwrap(), [""; 0]);
    }
    for _ in 0..8 {
        check_lookups(db, "with statistics").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_needs_no_statistics() {
    let test = TestDb::sqlite().await;
    for list in LISTS {
        assert_eq!(test.db.read(list).await.unwrap(), [""; 0]);
    }
    test.db.write(|tx| statistics::renew(tx, "graph_objects")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_grow_with_the_work_are_analysed_early() {
    let test = TestDb::postgres().await;
    let sql = "SELECT count(*) FROM pg_class WHERE relnamespace = 'kb'::regnamespace
                   AND array_to_string(reloptions, ' ') LIKE '%autovacuum_analyze_scale_factor%'";
    assert_eq!(number(&test.db, sql).await, 16);
}
