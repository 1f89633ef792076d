//! The row numbers that a server takes from PostgreSQL in advance, when another database takes over whose sequences are
//! behind: no number is used twice.

use emergent_store::{Db, params};
use emergent_testkit::TestDb;

use crate::{number, object_versions::insert, run};

const OBJECTS: &str = "SELECT count(*) FROM graph_objects";
/// The sequence of a database that took over before it knew of the numbers after the first.
const FALL_BEHIND: &str = "SELECT setval('graph_objects_no_seq', 1)";

async fn set_sequence_back(db: &Db) {
    db.write(|tx| tx.query(FALL_BEHIND, params![], |row| row.get::<i64>(0))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_that_were_taken_before_the_connections_broke_are_not_used() {
    let test = TestDb::postgres().await;
    let (db, other) = (&test.db, test.second_connection().await);
    insert(db).await;
    set_sequence_back(&other).await;
    let end_connections = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                           WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert!(number(&other, end_connections).await > 0);
    // The other server has used no numbers yet, so it gets those that this one had taken.
    for _ in 0..3 {
        insert(&other).await;
    }
    // A statement that fails on a broken connection would do as well.
    while number_of_objects(db).await != Some(4) {}
    insert(db).await;
    assert_eq!(number(db, OBJECTS).await, 5);
}

async fn number_of_objects(db: &Db) -> Option<i64> {
    db.read(|tx| tx.query_opt(OBJECTS, params![], |row| row.get(0))).await.ok().flatten()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_whose_number_is_in_use_is_tried_again_with_another() {
    let test = TestDb::postgres().await;
    let (db, other) = (&test.db, test.second_connection().await);
    insert(db).await;
    set_sequence_back(&other).await;
    insert(&other).await;
    for _ in 0..3 {
        insert(db).await;
        insert(&other).await;
    }
    assert_eq!(number(db, OBJECTS).await, 8);
    assert_eq!(
        run(db, "DELETE FROM graph_objects_fts WHERE no NOT IN (SELECT no FROM graph_objects)")
            .await
            .unwrap(),
        0
    );
}
