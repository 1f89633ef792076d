//! Somebody who follows an answer, loses the connection with each kill, and comes back after the last frame.

use std::time::Duration;

use emergent_net::sse::Decoder;
use futures_util::StreamExt;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::common::Api;

/// Nobody waits longer than this for the next bytes. On PostgreSQL the lease of a killed server expires first.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a message, and returns the stream of its answer; `None` when the server is gone.
pub async fn send(api: &Api, message: &Value) -> Option<Response> {
    let response = api.request(Method::POST, "/api/chat/stream").json(message).send().await.ok()?;
    assert_eq!(response.status(), 200, "nothing is in the way of the message");
    Some(response)
}

pub struct Follower {
    conversation: String,
    last: Option<String>,
    frames: Vec<Value>,
    /// How often the connection was lost before the answer was complete.
    pub cuts: usize,
}

impl Follower {
    pub fn new(conversation: &str) -> Self {
        Self { conversation: conversation.to_owned(), last: None, frames: Vec::new(), cuts: 0 }
    }

    /// Follows the answer after the last frame, until it is complete or the server is gone.
    pub async fn follow(&mut self, api: &Api) {
        if self.is_done() {
            return;
        }
        let path = format!("/api/chat/conversations/{}/stream", self.conversation);
        // The default deadline of a request is too short for those who wait for a lease.
        let mut request = api.request(Method::GET, &path).timeout(PATIENCE * 2);
        if let Some(last) = &self.last {
            request = request.header("last-event-id", last);
        }
        let Ok(response) = request.send().await else { return };
        match response.status().as_u16() {
            200 => self.read(response).await,
            // The message was not stored before the kill.
            204 => assert!(self.frames.is_empty(), "there is more to follow after {:?}", self.last),
            status => panic!("{status} after {:?}", self.last),
        }
    }

    /// Reads frames until the stream ends. A frame that was not received completely is not one.
    pub async fn read(&mut self, response: Response) {
        let (mut bytes, mut decoder) = (response.bytes_stream(), Decoder::new(1 << 20));
        while let Some(Ok(part)) = tokio::time::timeout(PATIENCE, bytes.next()).await.expect("more in time") {
            for event in decoder.push(&part).expect("a frame") {
                let Some(data) = event.data else { continue };
                let frame: Value = serde_json::from_str(&data).expect("JSON");
                assert_ne!(frame["error"]["code"], "internal", "{frame}");
                self.last = event.id.or(self.last.take());
                self.frames.push(frame);
            }
        }
        self.cuts += usize::from(!self.is_done());
    }

    pub fn is_done(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame["type"] == "done")
    }

    pub fn has_frames(&self) -> bool {
        !self.frames.is_empty()
    }

    /// The answer that was followed.
    pub fn answer(&self) -> &str {
        self.frames[0]["answerId"].as_str().expect("the first frame names the answer")
    }

    /// What a reader has seen at the end: the text of each step, and every other frame.
    pub fn shown(&self) -> Vec<Value> {
        let mut shown: Vec<Value> = Vec::new();
        for frame in self.frames.iter().filter(|frame| frame["queued"] != true) {
            if frame["type"] != "token" {
                shown.push(frame.clone());
                continue;
            }
            let text = frame["text"].as_str().expect("a text");
            let known = shown.iter_mut().find(|one| one["type"] == "token" && one["step"] == frame["step"]);
            match known {
                None => shown.push(json!({ "type": "token", "step": frame["step"], "text": text })),
                Some(known) if frame["replace"] == true => known["text"] = json!(text),
                Some(known) => {
                    known["text"] = json!(format!("{}{text}", known["text"].as_str().expect("a text")));
                }
            }
        }
        shown
    }

    /// The text that a reader has seen.
    pub fn text(&self) -> String {
        self.shown().iter().filter_map(|frame| frame["text"].as_str()).collect()
    }
}
