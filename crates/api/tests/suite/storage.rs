//! A full disk: writes are refused with its own code, reads go on, and everything resumes by itself.

use std::time::Duration;

use emergent_store::{Db, Error};
use emergent_testkit::{
    TestDb,
    scripted::{ScriptedModel, says},
};
use serde_json::json;

use crate::common::Server;

const LONGER_THAN_A_CHECK_COUNTS: Duration = Duration::from_millis(1_100);

/// Lets the database have this many more pages of 8 KiB, or as many as it wants.
async fn limit_pages(db: &Db, more: Option<i64>) {
    db.write(move |tx| {
        let conn = tx.sqlite().expect("SQLite");
        let used: i64 = conn.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        conn.pragma_update(None, "max_page_count", more.map_or(1 << 30, |more| used + more))?;
        Ok::<_, Error>(())
    })
    .await
    .expect("a limit");
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_fails_readiness_until_there_is_room() {
    let db = TestDb::sqlite().await;
    let server = Server::start(&db).await;
    let client = server.admin();
    client.get("/ready").await.is(200);
    limit_pages(&db.db, Some(4)).await;
    let large = json!({ "type": "Note", "properties": { "text": "word ".repeat(60_000) } });
    let message = client.post("/api/graph/objects", large.clone()).await;
    let message = message.refused(507, "storage_full").to_string();
    assert!(message.contains("no room left"), "{message}");
    client.get("/ready").await.refused(503, "storage_full");
    client.get("/api/graph/objects").await.is(200);
    client.get("/health").await.is(200);

    // A small write fits, and the server is not ready for that.
    client.post("/api/graph/objects", json!({ "type": "Note" })).await.is(201);
    tokio::time::sleep(LONGER_THAN_A_CHECK_COUNTS).await;
    client.get("/ready").await.refused(503, "storage_full");

    limit_pages(&db.db, None).await;
    client.post("/api/graph/objects", large).await.is(201);
    tokio::time::sleep(LONGER_THAN_A_CHECK_COUNTS).await;
    client.get("/ready").await.is(200);
}

#[tokio::test]
async fn a_run_waits_for_room_and_goes_on() {
    let db = TestDb::sqlite().await;
    // Each answer is larger than what fits, and is asked for again until it can be recorded.
    let answers = (0..40).map(|_| says("word ".repeat(40_000)));
    let server = Server::with_models(&db, 1_024, ScriptedModel::new(answers).models()).await;
    let client = server.admin();
    let agent = client.agent("writer", json!({})).await;
    let run = client.trigger(&agent, "go").await;
    limit_pages(&db.db, Some(8)).await;
    let _runner = server.drive();
    let wait_for_problem = async {
        while db.db.storage_problem().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait_for_problem).await.expect("the answer does not fit");
    tokio::time::sleep(Duration::from_millis(500)).await;
    limit_pages(&db.db, None).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "completed", "{ended}");
}
