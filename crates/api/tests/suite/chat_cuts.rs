//! The stream of an answer is cut off after any byte, also inside of a frame or of a letter. A client that comes back
//! after the last complete frame has in the end what a client has whose connection was never cut off.

use std::collections::HashMap;

use axum::{
    body::{Body, to_bytes},
    http::Method,
};
use emergent_net::sse::Decoder;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

use crate::common::{Client, Server};

/// What a client has received: frames, and the position of the last one.
#[derive(Default, Clone)]
struct Received {
    frames: Vec<Value>,
    last: Option<String>,
}

impl Received {
    /// Takes the bytes of one connection. A frame that is not complete at their end is not one.
    fn take(&mut self, bytes: &[u8]) {
        for event in Decoder::new(1 << 20).push(bytes).expect("frames") {
            let Some(data) = event.data else { continue };
            self.frames.push(serde_json::from_str(&data).expect("JSON"));
            self.last = Some(event.id.expect("every frame has a position"));
        }
    }

    fn is_done(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame["type"] == "done")
    }

    /// What a client shows: pieces of text are joined, step by step.
    fn shown(&self) -> Vec<Value> {
        let mut shown: Vec<Value> = Vec::new();
        for frame in &self.frames {
            assert_ne!(frame["replace"], true, "nothing is said again: {frame}");
            let known = shown.iter_mut().find(|one| one["type"] == "token" && one["step"] == frame["step"]);
            match (frame["type"] == "token", known) {
                (true, Some(known)) => {
                    let text = [&known["text"], &frame["text"]].map(|text| text.as_str().expect("a text"));
                    known["text"] = json!(text.concat());
                }
                _ => shown.push(frame.clone()),
            }
        }
        shown
    }
}

/// The connections of a client that comes back, each by the position after which it starts.
struct Connections<'a> {
    client: &'a Client,
    path: String,
    known: HashMap<Option<String>, Vec<u8>>,
}

impl Connections<'_> {
    async fn after(&mut self, last: &Option<String>) -> &[u8] {
        if !self.known.contains_key(last) {
            let mut request = self.client.request(Method::GET, &self.path);
            if let Some(last) = last {
                request = request.header("last-event-id", last);
            }
            let response = self.client.open(request.body(Body::empty()).expect("a request")).await;
            assert_eq!(response.status(), 200, "{last:?}");
            let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("a whole stream");
            self.known.insert(last.clone(), bytes.to_vec());
        }
        &self.known[last]
    }
}

both_engines! {
    async fn an_answer_that_is_cut_off_after_any_byte_is_whole_after_coming_back(db: TestDb) {
        let model = ScriptedModel::default();
        let server = Server::with_models(&db, 1_024, model.models()).await;
        let (_runner, client) = (server.drive(), server.admin());
        client.object("Person", "ada", json!({ "name": "Ada" })).await;
        model.add("helper", [
            says("Grüße, ich suche jetzt. ").and(calls("entities_query", json!({ "type": "Person" }))),
            says("Noch einmal. ").and(calls("no_such_tool", json!({}))),
            says("Es gibt eine Person, und sie heißt Ada. ✓"),
        ]);
        let agent = client.agent("helper", json!({ "tools": ["entities_query"] })).await;
        let body = json!({ "message": "wer?", "agentDefinitionId": agent }).to_string();
        let request = client.request(Method::POST, "/api/chat/stream").header("content-type", "application/json");
        let response = client.open(request.body(Body::from(body)).expect("a request")).await;
        let whole = to_bytes(response.into_body(), 1 << 20).await.expect("a whole stream");
        let mut uncut = Received::default();
        uncut.take(&whole);
        assert!(uncut.is_done());
        let conversation = uncut.frames[0]["conversationId"].as_str().expect("an id");
        let path = format!("/api/chat/conversations/{conversation}/stream");
        let mut connections = Connections { client: &client, path, known: HashMap::new() };
        for cut in 0..whole.len() {
            let mut received = Received::default();
            received.take(&whole[..cut]);
            // The second connection is cut off as well, after each first cut somewhere else.
            let second = connections.after(&received.last).await;
            received.take(&second[..cut * 7 % second.len()]);
            if !received.is_done() {
                let rest = connections.after(&received.last).await.to_vec();
                received.take(&rest);
            }
            assert_eq!(received.shown(), uncut.shown(), "cut off after {cut} bytes");
        }
        assert!(connections.known.len() > 5, "there were positions to come back to");
    }
}
