//! The plans of PostgreSQL for what a search reads beside its hits, counted in blocks as in the module above.

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    query::{Direction, ObjectFilter},
};
use emergent_store::{
    Db, Error, Tx, params, relationships,
    search::{self, SearchTarget},
};
use emergent_testkit::TestDb;
use uuid::Uuid;

use super::blocks_read;
use crate::run;

const PROJECT: ProjectId = ProjectId(Uuid::from_u128(7));
const HUB: ObjectId = ObjectId(Uuid::from_u128(8));
const SESSION: ObjectId = ObjectId(Uuid::from_u128(9));

/// How many blocks a read takes.
async fn count_blocks(db: &Db, read: fn(&mut Tx<'_>) -> Result<(), Error>) -> i64 {
    let count = move |tx: &mut Tx<'_>| {
        let before = blocks_read(tx);
        read(tx)?;
        Ok::<_, Error>(blocks_read(tx) - before)
    };
    db.write(count).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_is_found_without_reading_relationships_of_other_types() {
    let test = TestDb::postgres().await;
    let db = &test.db;
    let fill = |tx: &mut Tx<'_>| {
        let head = "INSERT INTO graph_relationships
            (no, id, project_id, type, from_id, to_id, properties, version, created_at, updated_at)";
        let mentions = format!(
            "{head} SELECT n, gen_random_uuid(), $1, 'mentions', $2, gen_random_uuid(), '{{}}', 1, now(), now()
             FROM generate_series(1, 20000) AS n"
        );
        tx.execute(&mentions, params![PROJECT, HUB])?;
        let part_of = format!(
            "{head} VALUES (20001, gen_random_uuid(), $1, 'part_of', $2, $3, '{{}}', 1, now(), now())"
        );
        tx.execute(&part_of, params![PROJECT, HUB, SESSION])
    };
    db.write(fill).await.unwrap();
    run(db, "ANALYZE graph_relationships").await.unwrap();
    let blocks = count_blocks(db, |tx| {
        let parents = relationships::parents(tx, PROJECT, &[HUB], "part_of", Direction::Out)?;
        assert_eq!(parents.get(&HUB), Some(&SESSION));
        Ok(())
    });
    let blocks = blocks.await;
    assert!(blocks <= 80, "{blocks} blocks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_of_names_is_found_beside_the_vectors_of_other_projects() {
    let test = TestDb::postgres().await;
    let db = &test.db;
    let sample = |tx: &mut Tx<'_>| {
        let target = SearchTarget::Objects(ObjectFilter::default());
        search::are_common_names(tx, PROJECT, &target, &["Ada".to_owned()]).map(drop)
    };
    // A statement is planned for good when it was run a few times.
    for _ in 0..8 {
        count_blocks(db, sample).await;
    }
    let fill = |tx: &mut Tx<'_>| {
        let vectors = "INSERT INTO graph_embeddings (no, project_id, model, version, vector)
            SELECT n, CASE WHEN n <= 2000 THEN $1 ELSE gen_random_uuid() END, 'test', 1, '[1,0]'
            FROM generate_series(1, 40000) AS n";
        tx.execute(vectors, params![PROJECT])?;
        let texts = "INSERT INTO graph_objects_fts (no, project_id, tsv)
            SELECT n, $1, to_tsvector('english', 'Ada') FROM generate_series(1, 2000) AS n";
        tx.execute(texts, params![PROJECT])
    };
    db.write(fill).await.unwrap();
    for statistics in [false, true] {
        if statistics {
            run(db, "ANALYZE graph_embeddings").await.unwrap();
            run(db, "ANALYZE graph_objects_fts").await.unwrap();
        }
        // Each of the 500 texts takes a few blocks of the index of its number, and one of the table.
        let blocks = count_blocks(db, sample).await;
        assert!(blocks <= 500 * 5, "{blocks} blocks, with statistics: {statistics}");
    }
}
