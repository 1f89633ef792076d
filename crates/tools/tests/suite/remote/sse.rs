//! A server of 2024-11-05 that asks its client without end: it says so on its one stream, and holds
//! on to every answer that is posted.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use emergent_testkit::TestDb;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::remote::support::{Site, alone, eventually, open_ends};

const PINGS: usize = 1_000;

#[derive(Default)]
struct Asking {
    stream: Mutex<Option<mpsc::UnboundedSender<Value>>>,
    /// Answers to its questions that were posted, and how many of them it holds on to now.
    answers: AtomicUsize,
    held: AtomicUsize,
    lets_go: AtomicBool,
}

impl Asking {
    async fn start() -> (Arc<Self>, String, tokio::task::JoinHandle<()>) {
        let asking = Arc::new(Self::default());
        let routes = Router::new().route("/sse", get(events)).route("/post", post(posted));
        let app = routes.with_state(Arc::clone(&asking));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("http://{}/sse", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (asking, at, serving)
    }

    fn say(&self, message: Value) {
        if let Some(stream) = self.stream.lock().unwrap().as_ref() {
            let _ = stream.send(message);
        }
    }
}

async fn events(State(asking): State<Arc<Asking>>) -> Response {
    let (send, said) = mpsc::unbounded_channel();
    *asking.stream.lock().unwrap() = Some(send);
    let first = stream::iter(["event: endpoint\ndata: /post\n\n".to_owned()]);
    let later = stream::unfold(said, |mut said| async move {
        let message = said.recv().await?;
        Some((format!("event: message\ndata: {message}\n\n"), said))
    });
    let body = Body::from_stream(first.chain(later).map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn posted(State(asking): State<Arc<Asking>>, body: Bytes) -> StatusCode {
    let message: Value = serde_json::from_slice(&body).unwrap();
    let Some(method) = message["method"].as_str() else {
        asking.answers.fetch_add(1, Ordering::SeqCst);
        asking.held.fetch_add(1, Ordering::SeqCst);
        while !asking.lets_go.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        asking.held.fetch_sub(1, Ordering::SeqCst);
        return StatusCode::ACCEPTED;
    };
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED };
    let answer = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    match method {
        "initialize" => {
            asking.say(answer(
                json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {} }),
            ));
        }
        "tools/list" => {
            let tool = json!({ "name": "ask", "inputSchema": { "type": "object" } });
            asking.say(answer(json!({ "tools": [tool] })));
        }
        "tools/call" => {
            for n in 0..PINGS {
                asking.say(json!({ "jsonrpc": "2.0", "id": n, "method": "ping" }));
            }
            asking.say(answer(json!({ "content": [{ "type": "text", "text": "asked" }] })));
        }
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            asking.say(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    }
    StatusCode::ACCEPTED
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_without_end_on_its_stream_gets_sixteen_answers_at_once() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (asking, at, serving) = Asking::start().await;
    let before = open_ends();
    site.add(json!({ "name": "asking", "transport": "sse", "url": at })).await;
    assert_eq!(site.call("ask", json!({})).await, Ok(json!("asked")), "its questions hold up nothing");
    eventually("as many as may are on their way", || asking.held.load(Ordering::SeqCst) == 16).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(asking.answers.load(Ordering::SeqCst), 16, "the others go without");
    asking.lets_go.store(true, Ordering::SeqCst);
    eventually("they are let go", || asking.held.load(Ordering::SeqCst) == 0).await;
    assert_eq!(site.call("ask", json!({})).await, Ok(json!("asked")));
    eventually("those that are done make room", || asking.answers.load(Ordering::SeqCst) > 16).await;
    site.servers.shutdown().await;
    *asking.stream.lock().unwrap() = None;
    eventually("pipes and sockets are as before", || open_ends() == before).await;
    site.close().await;
    serving.abort();
}
