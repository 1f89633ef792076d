//! The statistics by which PostgreSQL plans: they are made after bulk work, and for tables that have none.

use std::time::Duration;

use emergent_graph::Graph;
use emergent_llm::{Credentials, EmbedderSpec};
use emergent_store::{Db, Tx, statistics};
use emergent_testkit::{TestDb, both_engines, fixed_clock};
use serde_json::json;
use tokio::sync::watch;

use crate::support::{Harness, change_kinds, new, project};

async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

both_engines! {
    async fn when_embedding_has_ended_the_statistics_of_the_vectors_are_there(db: TestDb) {
        let embedder = emergent_llm::embedder(&EmbedderSpec::Builtin, &Credentials::default()).unwrap();
        let graph = Graph::new(db.db.clone(), fixed_clock(), embedder);
        let harness = Harness { actor: project(&graph, "test", false).await, graph };
        let objects = (0..400).map(|n| new("Note", "", json!({ "text": format!("note {n}") })));
        harness.graph.bulk_create_objects(harness.actor, objects.collect(), true).await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let running = tokio::spawn({
            let graph = harness.graph.clone();
            async move { graph.run_embedder(stopped).await }
        });
        until("the end of embedding", async || {
            change_kinds(&harness.graph, harness.project()).await.iter().any(|kind| kind == "embeddings_done")
        })
        .await;
        let grown = harness.graph.db().read(statistics::list_grown).await.unwrap();
        assert!(!grown.contains(&"graph_embeddings".to_owned()), "{grown:?}");
        stop.send(true).unwrap();
        running.await.unwrap();
    }
}

async fn run(db: &Db, sql: &'static str) {
    db.write(move |tx| tx.execute(sql, &[])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_cannot_be_analysed_is_tried_again_and_does_not_delay_the_others() {
    let test = TestDb::postgres().await;
    let graph = Graph::new(test.db.clone(), fixed_clock(), None);
    let db = graph.db();
    // The expression of its index fails while the other table has no row.
    run(db, "CREATE TABLE kb.a_switch (is_on boolean)").await;
    run(db, "INSERT INTO kb.a_switch VALUES (true)").await;
    run(
        db,
        "CREATE FUNCTION kb.needs_switch(n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE
         AS 'BEGIN RETURN n / (SELECT count(*) FROM kb.a_switch); END'",
    )
    .await;
    for table in ["a_failing", "b_other"] {
        let create = format!("CREATE TABLE kb.{table} (n bigint) WITH (autovacuum_enabled = false)");
        let fill = format!("INSERT INTO kb.{table} SELECT n FROM generate_series(1, 20000) AS n");
        db.write(move |tx| tx.execute(&create, &[]).and_then(|_| tx.execute(&fill, &[]))).await.unwrap();
    }
    run(db, "CREATE INDEX a_failing_index ON kb.a_failing (kb.needs_switch(n))").await;
    run(db, "DELETE FROM kb.a_switch").await;

    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn({
        let graph = graph.clone();
        async move { graph.run_statistics(stopped).await }
    });
    let unanalysed = async || db.read(|tx: &mut Tx<'_>| statistics::list_unanalysed(tx)).await.unwrap();
    until("the other table has statistics", async || unanalysed().await == ["a_failing"]).await;
    run(db, "INSERT INTO kb.a_switch VALUES (true)").await;
    until("so has the one that failed", async || unanalysed().await.is_empty()).await;
    stop.send(true).unwrap();
    running.await.unwrap();
}
