//! The indexes of vectors on PostgreSQL: when they are built, by whom, and what a search finds before and after.

use emergent_domain::{ids::ProjectId, query::ObjectFilter};
use emergent_store::{
    Db, Tx, embedding_queue, params,
    search::{
        self, ComparedVectors, SearchTarget, VectorQuery,
        vector_index::{self, MissingIndex},
    },
};
use emergent_testkit::{TestDb, fixed_clock};
use uuid::Uuid;

use crate::{number, run};

const PROJECT: ProjectId = ProjectId(Uuid::from_u128(7));
const VALID_INDEXES: &str = "SELECT count(*) FROM pg_index
    WHERE indexrelid = to_regclass('graph_embeddings_hnsw_3') AND indisvalid";

async fn record_model(db: &Db) {
    let now = fixed_clock().now();
    db.write(move |tx| embedding_queue::record_model(tx, PROJECT, "test/three", 3, now)).await.unwrap();
}

/// 6,000 vectors that are spread over a sphere, from the top downwards.
const POINTS: &str = "SELECT n, $1, 'test/three', 1, CAST(
         '[' || cos(2.399963 * n) * sqrt(1 - z * z) || ',' || sin(2.399963 * n) * sqrt(1 - z * z) || ',' || z || ']'
         AS vector)
     FROM (SELECT n, CAST(1 - (2 * n - 1) / 6000.0 AS double precision) AS z
           FROM generate_series(1, 6000) AS n) AS points";

/// Stores the vectors of 6,000 objects.
async fn fill(db: &Db) {
    let sql = format!("INSERT INTO graph_embeddings (no, project_id, model, version, vector) {POINTS}");
    db.write(move |tx| tx.execute(&sql, params![PROJECT])).await.unwrap();
}

/// Stores 6,000 objects, each with a vector of one further part. The ten objects at the bottom have a type of their own.
async fn fill_parts(db: &Db) {
    let points = POINTS.replacen("SELECT n,", "SELECT n, n,", 1);
    let parts = format!(
        "INSERT INTO object_part_embeddings (no, object_no, project_id, model, version, vector) {points}"
    );
    let objects = "INSERT INTO graph_objects
            (no, id, project_id, type, labels, properties, version, created_at, updated_at)
         SELECT n, gen_random_uuid(), $1, CASE WHEN n > 5990 THEN 'Low' ELSE 'Note' END, '[]', '{}', 1, now(), now()
         FROM generate_series(1, 6000) AS n";
    let fill = move |tx: &mut Tx<'_>| {
        tx.execute(objects, params![PROJECT])?;
        tx.execute(&parts, params![PROJECT])
    };
    db.write(fill).await.unwrap();
}

async fn nearest(db: &Db) -> Vec<i64> {
    let indexes = db.vectors().clone();
    let hits = db.snapshot(move |tx| {
        let target = SearchTarget::Objects(ObjectFilter::default());
        let query = VectorQuery {
            model: "test/three",
            vector: &[0.6, 0.8, 0.1],
            limit: 5,
            compared: ComparedVectors::AllParts,
            min_score: -1.0,
        };
        search::search_vectors(tx, &indexes, PROJECT, &target, &query)
    });
    hits.await.unwrap().into_iter().map(|hit| hit.id).collect()
}

async fn list_missing(db: &Db) -> Vec<MissingIndex> {
    db.read(vector_index::list_missing).await.unwrap()
}

/// The indexes that are due while nothing is written.
async fn list_due(db: &Db) -> Vec<MissingIndex> {
    let previous = list_missing(db).await;
    let missing = list_missing(db).await;
    missing.into_iter().filter(|index| index.is_due(&previous)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_is_built_once_when_there_are_many_vectors() {
    let test = TestDb::postgres().await;
    let (db, other) = (&test.db, test.second_connection().await);
    record_model(db).await;
    let before = list_missing(db).await;
    assert_eq!(before.len(), 3, "those of objects, of chunks and of parts");
    assert!(list_due(db).await.is_empty(), "there is nothing to index");
    fill(db).await;
    assert!(!list_missing(db).await.iter().any(|index| index.is_due(&before)), "the table grows");

    let exact = nearest(db).await;
    assert_eq!(exact.len(), 5);
    let due = list_due(db).await;
    assert_eq!(due.len(), 1, "there are no chunks");
    let (built, built_by_other) =
        tokio::join!(db.build_vector_index(&due[0]), other.build_vector_index(&due[0]));
    assert!(built.unwrap() ^ built_by_other.unwrap(), "one of the two servers builds it");
    assert_eq!(number(db, VALID_INDEXES).await, 1);
    assert_eq!(nearest(db).await, exact);
    assert_eq!(list_missing(db).await.len(), 2);
    assert!(!db.build_vector_index(&due[0]).await.unwrap(), "it exists");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_whose_build_was_interrupted_is_not_used_and_built_anew() {
    let test = TestDb::postgres().await;
    let db = &test.db;
    record_model(db).await;
    fill(db).await;
    let exact = nearest(db).await;
    let due = list_due(db).await;
    assert!(db.build_vector_index(&due[0]).await.unwrap());
    // What an interrupted build leaves.
    let sql =
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('graph_embeddings_hnsw_3')";
    assert_eq!(run(db, sql).await.unwrap(), 1);
    assert_eq!(nearest(db).await, exact);
    assert_eq!(list_due(db).await.len(), 1);
    assert!(db.build_vector_index(&due[0]).await.unwrap());
    assert_eq!(number(db, VALID_INDEXES).await, 1);
    assert_eq!(nearest(db).await, exact);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_few_objects_that_match_are_found_though_the_scan_of_the_index_ends_early() {
    let test = TestDb::postgres().await;
    let db = &test.db;
    record_model(db).await;
    fill_parts(db).await;
    let due = list_due(db).await;
    assert_eq!(due.len(), 1, "only parts have vectors");
    assert!(db.build_vector_index(&due[0]).await.unwrap());
    let indexes = db.vectors().clone();
    let lowest = db.snapshot(move |tx| {
        // As in a table of millions: the index is the cheapest way, and its scan gives up before it comes to the bottom.
        tx.execute("SET LOCAL enable_sort = off", params![])?;
        tx.execute("SET LOCAL hnsw.max_scan_tuples = 100", params![])?;
        let filter = ObjectFilter { types: vec!["Low".to_owned()], ..ObjectFilter::default() };
        let query = VectorQuery {
            model: "test/three",
            vector: &[0.0, 0.1, 1.0],
            limit: 5,
            compared: ComparedVectors::AllParts,
            min_score: -1.0,
        };
        search::search_vectors(tx, &indexes, PROJECT, &SearchTarget::Objects(filter), &query)
    });
    let lowest: Vec<i64> = lowest.await.unwrap().into_iter().map(|hit| hit.id).collect();
    assert_eq!(lowest.len(), 5);
    assert!(lowest.iter().all(|no| *no > 5_990), "{lowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_has_no_index_of_vectors() {
    let test = TestDb::sqlite().await;
    record_model(&test.db).await;
    assert!(list_missing(&test.db).await.is_empty());
}
