//! A deleted conversation is removed with its messages after a time. Its runs are kept as other runs.

use crate::{
    chat::{answer_queued, ask, conversation, serve},
    common::Server,
};

use std::time::Duration;

use emergent_domain::time::Timestamp;
use emergent_graph::cleanup::CleanupSettings;
use emergent_store::Tx;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};
use serde_json::json;

const TABLES: [&str; 3] = ["chat_conversations", "chat_messages", "chat_memories"];

async fn counts(server: &Server) -> Vec<i64> {
    let read = |tx: &mut Tx<'_>| {
        TABLES
            .iter()
            .map(|table| {
                let count = tx.query_opt(&format!("SELECT count(*) FROM {table}"), &[], |row| row.get(0))?;
                Ok(count.unwrap_or(0))
            })
            .collect::<Result<Vec<i64>, emergent_store::Error>>()
    };
    server.graph.db().read(read).await.unwrap()
}

async fn delete_expired(server: &Server, retention: Duration) {
    let settings = CleanupSettings { deleted_project_retention: retention };
    server.graph.delete_expired(settings).await.unwrap();
}

const DAY: Duration = Duration::from_secs(86_400);

both_engines! {
    async fn a_deleted_conversation_is_removed_after_a_time_and_its_run_stays(db: TestDb) {
        let model = ScriptedModel::always(|_| says("Noted."));
        let (server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({ "config": { "remember": true } })).await;
        client.agent("extractor", json!({ "trigger": "on_document_ingested" })).await;
        let gone = ask(&client, json!({ "message": "Ada wrote programs.", "agentDefinitionId": agent })).await;
        let stays = ask(&client, json!({ "message": "Hello", "agentDefinitionId": agent })).await;
        let _worker = answer_queued(&server);
        while client.get("/api/documents").await.is(200).as_array().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        client.delete(&format!("/api/chat/conversations/{}", conversation(&gone))).await.is(200);
        // A job deletes the document that its message is.
        while client.get("/api/documents").await.is(200).as_array().unwrap().len() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        delete_expired(&server, DAY).await;
        assert_eq!(counts(&server).await, [2, 4, 2], "its time is not up");
        delete_expired(&server, Duration::ZERO).await;
        assert_eq!(counts(&server).await, [1, 2, 1]);
        let run = gone[0].1["runId"].as_str().unwrap();
        assert_eq!(client.ended(run).await["status"], "completed", "the run stays as long as other runs");
        client.get(&format!("/api/chat/conversations/{}", conversation(&stays))).await.is(200);
    }

    async fn a_conversation_whose_messages_are_still_documents_is_not_removed(db: TestDb) {
        let model = ScriptedModel::always(|_| says("Noted."));
        let (server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({ "config": { "remember": true } })).await;
        let gone = ask(&client, json!({ "message": "Hello", "agentDefinitionId": agent })).await;
        client.delete(&format!("/api/chat/conversations/{}", conversation(&gone))).await.is(200);
        for (status, left) in [("stored", [1, 2, 1]), ("skipped", [0, 0, 0])] {
            let change = move |tx: &mut Tx<'_>| tx.execute("UPDATE chat_memories SET status = $1", &[status.into()]);
            server.graph.db().write(change).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
            delete_expired(&server, Duration::ZERO).await;
            assert_eq!(counts(&server).await, left, "{status}");
        }
    }

    async fn a_project_that_keeps_runs_for_less_keeps_deleted_conversations_for_less(db: TestDb) {
        let model = ScriptedModel::always(|_| says("Noted."));
        let (server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        let gone = ask(&client, json!({ "message": "Hello", "agentDefinitionId": agent })).await;
        ask(&client, json!({ "message": "Hello", "agentDefinitionId": agent })).await;
        client.delete(&format!("/api/chat/conversations/{}", conversation(&gone))).await.is(200);
        let two_days_ago: Timestamp = server.graph.clock().now() - 2 * DAY;
        let age = move |tx: &mut Tx<'_>| {
            let sql = "UPDATE chat_conversations SET deleted_at = $1 WHERE deleted_at IS NOT NULL";
            tx.execute(sql, &[two_days_ago.into()])
        };
        server.graph.db().write(age).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        delete_expired(&server, 30 * DAY).await;
        assert_eq!(counts(&server).await[..2], [2, 4]);
        let path = format!("/api/projects/{}", server.default_project);
        client.patch(&path, json!({ "retention": { "runsDays": 3 } })).await.is(200);
        delete_expired(&server, 30 * DAY).await;
        assert_eq!(counts(&server).await[..2], [2, 4]);
        client.patch(&path, json!({ "retention": { "runsDays": 1 } })).await.is(200);
        delete_expired(&server, 30 * DAY).await;
        assert_eq!(counts(&server).await[..2], [1, 2]);
    }
}
