//! Agents with `config.remember`: what people write in conversations reaches the extraction once, with the message as
//! its source, and no answer waits for it.

use crate::{
    chat::{answer_queued, ask, conversation, last, messages, serve},
    common::{Client, Server},
};

use std::time::Duration;

use emergent_llm::Models;
use emergent_store::{
    Tx,
    conversations::memories,
    jobs::{self, NewJob},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, replies, says},
};
use serde_json::{Value, json};
use tokio::sync::watch;

const REMEMBERS: fn() -> Value = || json!({ "config": { "remember": true } });

/// Starts agents for new documents until the answer is dropped.
fn fire(server: &Server) -> watch::Sender<bool> {
    let (stop, stopping) = watch::channel(false);
    let executor = server.executor.clone();
    tokio::spawn(async move { executor.run_triggers(stopping).await });
    stop
}

/// An agent that extracts one person from each document, with its first chunk as the source.
async fn extractor(client: &Client, model: &ScriptedModel, documents: usize) {
    let tools = json!({ "tools": ["entities_create"], "trigger": "on_document_ingested" });
    client.agent("extractor", tools).await;
    for _ in 0..documents {
        let extract = replies(|asked| {
            let text = asked.last_text();
            let chunks = text.split_once("\"chunks\"").expect("chunks").1;
            let chunk = chunks.split_once("\"id\":").expect("an id").1.trim_start().trim_start_matches('"');
            let chunk = chunk.split('"').next().expect("a chunk").to_owned();
            calls(
                "entities_create",
                json!({
                    "merge": true, "source": { "chunkId": chunk },
                    "objects": [{ "type": "Person", "key": "ada", "properties": { "name": "Ada" } }],
                }),
            )
        });
        model.add("extractor", [extract, says("Extracted.")]);
    }
}

/// The memory of the first message of a conversation, when it has one of these statuses.
async fn memory(client: &Client, conversation: &str, place: usize, status: &str) -> Value {
    for _ in 0..500 {
        let memory = messages(client, conversation).await[place]["memory"].clone();
        if memory["status"] == status {
            return memory;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", messages(client, conversation).await);
}

/// The runs of the extractor that have ended, when there are so many.
async fn extractions(client: &Client, wanted: usize) -> Vec<Value> {
    for _ in 0..500 {
        let found = client.get("/api/admin/runs?agent=extractor&status=completed").await.is(200).clone();
        if found.as_array().unwrap().len() >= wanted {
            return found.as_array().unwrap().clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{}", client.get("/api/admin/runs").await.text);
}

async fn documents(client: &Client) -> Vec<Value> {
    client.get("/api/documents").await.is(200).as_array().unwrap().clone()
}

/// Waits until no job of the memory is left.
async fn jobs_done(server: &Server) {
    for _ in 0..500 {
        let count = |tx: &mut Tx<'_>| {
            let sql =
                "SELECT count(*) FROM jobs WHERE queue = 'chat_memory' AND status IN ('queued', 'running')";
            tx.query_opt(sql, &[], |row| row.get::<i64>(0))
        };
        let left = server.graph.db().read(count).await;
        if left.unwrap_or_else(|error: emergent_store::Error| panic!("{error}")) == Some(0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("a job is left");
}

both_engines! {
    async fn facts_of_a_message_reach_the_graph_once_whenever_a_server_dies(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        extractor(&client, &model, 1).await;
        let agent = client.agent("helper", REMEMBERS()).await;
        model.add("helper", [says("Noted.")]);
        let frames = ask(&client, json!({ "message": "Ada wrote programs.", "agentDefinitionId": agent })).await;
        let (id, meta) = (conversation(&frames), &frames[0].1);
        assert_eq!(last(&frames)["status"], "completed", "the answer does not wait for the extraction");
        // The server dies here: the job was written with the answer. A second one dies when it has claimed the job.
        assert_eq!(memory(&client, &id, 0, "queued").await, json!({ "status": "queued" }));
        assert_eq!(messages(&client, &id).await[1].get("memory"), None, "only what people write is extracted");
        let now = server.graph.clock().now();
        let claim = move |tx: &mut Tx<'_>| jobs::claim(tx, memories::QUEUE, "dead", Duration::from_millis(1), now, 1);
        assert_eq!(server.graph.db().write(claim).await.unwrap().len(), 1);
        assert!(documents(&client).await.is_empty());

        let third = Server::with_models(&db, 1_024, model.models()).await;
        let _workers = (answer_queued(&third), answer_queued(&server), fire(&third));
        let stored = memory(&client, &id, 0, "stored").await;
        let run = extractions(&client, 1).await.remove(0);
        // The job comes again, for whatever reason.
        let (project, message) = (server.default_project, meta["messageId"].as_str().unwrap().to_owned());
        let again = move |tx: &mut Tx<'_>| {
            jobs::enqueue(tx, &NewJob { project: Some(project), key: Some(&message), ..NewJob::new(memories::QUEUE, now) })
        };
        server.graph.db().write(again).await.unwrap();
        jobs_done(&server).await;
        let documents = documents(&client).await;
        assert_eq!((documents.len(), &documents[0]["id"]), (1, &stored["documentId"]));
        let expected = json!({ "conversationId": id, "messageId": meta["messageId"], "runId": meta["runId"] });
        assert_eq!(documents[0]["metadata"], expected);

        // From the object to the conversation, the message and both runs.
        let people = client.get("/api/graph/objects?type=Person").await.is(200).clone();
        assert_eq!(people.as_array().unwrap().len(), 1);
        let ada = client.get(&format!("/api/graph/objects/{}", people[0]["id"].as_str().unwrap())).await.is(200).clone();
        assert_eq!(ada["author"]["runId"], run["id"], "{ada}");
        let source = &ada["sources"][0];
        assert_eq!((ada["sources"].as_array().unwrap().len(), &source["documentId"]), (1, &stored["documentId"]));
        for field in ["conversationId", "messageId", "runId"] {
            assert_eq!(source[field], meta[field], "{field} of {source}");
        }
        assert_eq!(client.get("/api/admin/runs?agent=extractor").await.is(200).as_array().unwrap().len(), 1);
    }

    async fn the_same_words_in_another_message_are_another_source(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        let _workers = (answer_queued(&server), fire(&server));
        extractor(&client, &model, 2).await;
        let agent = client.agent("helper", REMEMBERS()).await;
        model.add("helper", [says("Noted."), says("I know.")]);
        let first = ask(&client, json!({ "message": "Ada wrote programs.", "agentDefinitionId": agent })).await;
        let id = conversation(&first);
        memory(&client, &id, 0, "stored").await;
        extractions(&client, 1).await;
        ask(&client, json!({ "message": "Ada wrote programs.", "conversationId": id })).await;
        memory(&client, &id, 2, "stored").await;
        extractions(&client, 2).await;
        assert_eq!(documents(&client).await.len(), 2);
        let ada = client.get("/api/graph/objects?type=Person").await.is(200)[0]["id"].as_str().unwrap().to_owned();
        let ada = client.get(&format!("/api/graph/objects/{ada}")).await.is(200).clone();
        assert_eq!((ada["sources"].as_array().unwrap().len(), &ada["version"]), (2, &json!(1)), "{ada}");
    }

    async fn a_message_that_cannot_be_extracted_says_why(db: TestDb) {
        let model = ScriptedModel::always(|_| says("Noted."));
        let (server, client, _runner) = serve(&db, &model).await;
        let _worker = answer_queued(&server);
        let agent = client.agent("helper", REMEMBERS()).await;
        let frames = ask(&client, json!({ "message": "Ada wrote programs.", "agentDefinitionId": agent })).await;
        let id = conversation(&frames);
        let skipped = memory(&client, &id, 0, "skipped").await;
        assert!(skipped["reason"].as_str().unwrap().contains("`emergent.memory`"), "{skipped}");
        // An agent that extracts has no model that this server can call.
        let gemini = json!({ "provider": "google", "name": "gemini-2.5-flash" });
        client.agent("extractor", json!({ "trigger": "on_document_ingested", "model": gemini })).await;
        ask(&client, json!({ "message": "And poems.", "conversationId": id })).await;
        let skipped = memory(&client, &id, 2, "skipped").await;
        let reason = skipped["reason"].as_str().unwrap();
        assert!(reason.contains("`extractor` cannot run") && reason.contains("GEMINI_API_KEY"), "{reason}");
        assert!(documents(&client).await.is_empty());
        // An agent that does not remember, and no agent.
        let other = client.agent("other", json!({ "config": { "remember": false } })).await;
        let frames = ask(&client, json!({ "message": "Hello", "agentDefinitionId": other })).await;
        assert_eq!(messages(&client, &conversation(&frames)).await[0].get("memory"), None);
        let wrong = client.post("/api/admin/agents", json!({ "name": "wrong", "config": { "remember": "yes" } })).await;
        wrong.refused(400, "invalid");
        assert_eq!(wrong.field(), "config.remember");
    }

    async fn a_server_without_models_loses_no_message(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", REMEMBERS()).await;
        extractor(&client, &model, 1).await;
        model.add("helper", [says("Noted.")]);
        let frames = ask(&client, json!({ "message": "Ada wrote programs.", "agentDefinitionId": agent })).await;
        let without = Server::with_models(&db, 1_024, Models::default()).await;
        let _worker = answer_queued(&without);
        let skipped = memory(&client, &conversation(&frames), 0, "skipped").await;
        assert!(skipped["reason"].as_str().unwrap().contains("cannot run"), "{skipped}");
        drop(server);
    }
}
