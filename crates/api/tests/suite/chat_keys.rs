//! `Idempotency-Key` of a message: it is stored and answered once, and whoever repeats the request follows the same
//! answer. And readers of messages that wait: they are woken.

use crate::{
    chat::{self, Frame, Frames, answer_queued, conversation, kinds, last, messages, serve, shown},
    common::{Client, Server},
};

use std::time::Duration;

use axum::{
    body::Body,
    http::{Method, Request},
};
use emergent_domain::ids::ConversationId;
use emergent_store::{Engine, Tx, conversations};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, hangs, says},
};
use serde_json::{Value, json};

fn keyed(client: &Client, key: &str, body: &Value) -> Request<Body> {
    let request = client.request(Method::POST, "/api/chat/stream").header("content-type", "application/json");
    request.header("idempotency-key", key).body(Body::from(body.to_string())).unwrap()
}

/// Sends a message with a key, and returns whether the request was accepted before, and the frames.
async fn send_once(client: &Client, key: &str, body: &Value) -> (bool, Frames) {
    let response = client.open(keyed(client, key, body)).await;
    assert_eq!(response.status(), 200);
    let was_accepted = response.headers().get("idempotency-replayed").is_some_and(|value| value == "true");
    (was_accepted, Frames::from_response(response))
}

async fn count(client: &Client, path: &str) -> usize {
    client.get(path).await.is(200).as_array().unwrap().len()
}

both_engines! {
    async fn a_message_that_is_sent_again_with_its_key_is_stored_once_and_streams_the_same_answer(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", [says("Once.").with_delay(Duration::from_millis(200))]);
        let body = json!({ "message": "go", "agentDefinitionId": agent });
        let (was_accepted, mut first) = send_once(&client, "order 1", &body).await;
        assert!(!was_accepted);
        let meta = first.next().await.unwrap();
        // While it is being answered, by another server, and when it is answered.
        let second = Server::with_models(&db, 1_024, model.models()).await.admin();
        let (was_accepted, again) = send_once(&client, "order 1", &body).await;
        let (on_second, elsewhere) = send_once(&second, "order 1", &body).await;
        assert!(was_accepted && on_second);
        let (rest, again, elsewhere) = tokio::join!(first.all(), again.all(), elsewhere.all());
        let all: Vec<Frame> = std::iter::once(meta).chain(rest).collect();
        assert_eq!((shown(&again), shown(&elsewhere)), (shown(&all), shown(&all)));
        let (_, later) = send_once(&client, "order 1", &body).await;
        assert_eq!(shown(&later.all().await), shown(&all));
        assert_eq!(messages(&client, &conversation(&all)).await.len(), 2);
        assert_eq!(count(&client, "/api/admin/runs").await, 1);
        assert_eq!(count(&client, "/api/chat/conversations").await, 1);
        // Without a key, the same words are another message.
        model.add("helper", [says("Twice.")]);
        chat::ask(&client, body).await;
        assert_eq!(count(&client, "/api/chat/conversations").await, 2);
    }

    async fn another_message_with_the_same_key_is_refused_and_a_refused_one_uses_no_key(db: TestDb) {
        let model = ScriptedModel::default();
        let (_server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", [says("Once."), says("Twice.")]);
        let missing = json!({ "message": "go", "agentDefinitionId": chat::NOBODY });
        client.send(keyed(&client, "k", &missing)).await.refused(404, "not_found");
        let body = json!({ "message": "go", "agentDefinitionId": agent });
        let (was_accepted, frames) = send_once(&client, "k", &body).await;
        assert!(!was_accepted, "the refused request did not use the key");
        let frames = frames.all().await;
        let other = json!({ "message": "stop", "agentDefinitionId": agent });
        client.send(keyed(&client, "k", &other)).await.refused(409, "idempotency_key_reused");
        assert_eq!(messages(&client, &conversation(&frames)).await.len(), 2);
        client.send(keyed(&client, "", &body)).await.refused(400, "invalid");
        // The answer of a deleted conversation is gone, and the message is not sent again.
        client.delete(&format!("/api/chat/conversations/{}", conversation(&frames))).await.is(200);
        client.send(keyed(&client, "k", &body)).await.refused(404, "not_found");
        assert_eq!(count(&client, "/api/admin/runs").await, 1);
    }

    async fn a_queued_message_is_queued_once(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", [hangs(), says("Two.")]);
        let mut first = chat::send(&client, json!({ "message": "one", "agentDefinitionId": agent })).await;
        let id = first.next().await.unwrap().1["conversationId"].as_str().unwrap().to_owned();
        let body = json!({ "message": "two", "conversationId": id, "queue": true });
        let (_, waits) = send_once(&client, "two", &body).await;
        let (was_accepted, again) = send_once(&client, "two", &body).await;
        assert!(was_accepted);
        let _worker = answer_queued(&server);
        client.post(&format!("/api/chat/conversations/{id}/stop"), json!({})).await.is(200);
        let (waits, again) = tokio::join!(waits.all(), again.all());
        assert_eq!((kinds(&waits), shown(&again)), (vec!["meta", "token", "done"], shown(&waits)));
        assert_eq!(last(&waits)["message"]["content"], "Two.");
        assert_eq!(messages(&client, &id).await.len(), 4);
    }

    async fn a_reader_of_a_message_that_waits_is_woken_and_does_not_poll(db: TestDb) {
        let model = ScriptedModel::default();
        let (server, client, _runner) = serve(&db, &model).await;
        let agent = client.agent("helper", json!({})).await;
        model.add("helper", [hangs()]);
        let mut first = chat::send(&client, json!({ "message": "one", "agentDefinitionId": agent })).await;
        let id = first.next().await.unwrap().1["conversationId"].as_str().unwrap().to_owned();
        let mut waits = chat::send(&client, json!({ "message": "two", "conversationId": id, "queue": true })).await;
        let (_, meta) = waits.next().await.unwrap();
        assert_eq!(meta["queued"], true);
        let message: uuid::Uuid = meta["messageId"].as_str().unwrap().parse().unwrap();
        // The reader has read the message, and waits.
        let none = tokio::time::timeout(Duration::from_millis(500), waits.next()).await;
        assert!(none.is_err(), "{none:?}");
        // Its status changes, and nobody is told: the reader finds it later than this.
        let mute = move |tx: &mut Tx<'_>| {
            let sql = "UPDATE chat_messages SET status = 'answered' WHERE id = $1";
            tx.execute(sql, &[message.into()])
        };
        server.graph.db().write(mute).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        let early = tokio::time::timeout(Duration::from_millis(900), waits.next()).await;
        assert!(early.is_err(), "{early:?}");
        // Another server tells, where there can be one.
        let other = match db.engine() {
            Engine::Postgres => db.second_connection().await,
            Engine::Sqlite => server.graph.db().clone(),
        };
        let conversation: ConversationId = id.parse().unwrap();
        let wake = move |tx: &mut Tx<'_>| tx.wake(&conversations::changed_channel(conversation));
        other.write(wake).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        let woken = tokio::time::timeout(Duration::from_secs(3), waits.next()).await;
        assert!(woken.is_ok_and(|frame| frame.is_some()), "the reader was not woken");
    }
}
