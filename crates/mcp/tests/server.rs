//! The protocol of the server with a host of this test: messages before a result, cancellation, and the
//! end of a session. What the official conformance suite covers is not repeated here.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_mcp::server::{
    CallOutcome, Fault, Host, HostCall, JsonFields, Level, ListKind, Reply, ReplyBody, Server, ServerInfo,
    ToolList,
};
use futures_util::{StreamExt, stream, stream::BoxStream};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc};

/// Offers the tools `talk`, which logs and returns at once, and `wait`, which never returns.
struct TestHost {
    about: ServerInfo,
    changed: broadcast::Sender<ListKind>,
    /// Receives a message when a call of `wait` is dropped.
    dropped: mpsc::UnboundedSender<String>,
}

struct OnDrop(mpsc::UnboundedSender<String>, String);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(std::mem::take(&mut self.1));
    }
}

fn small() -> (Arc<Server<TestHost>>, mpsc::UnboundedReceiver<String>, broadcast::Sender<ListKind>) {
    let (dropped, drops) = mpsc::unbounded_channel();
    let changed = broadcast::channel(8).0;
    let capabilities = json!({ "tools": { "listChanged": true } });
    let about =
        ServerInfo { server: json!({ "name": "small", "version": "1" }), capabilities, instructions: None };
    (Arc::new(Server::new(Arc::new(TestHost { about, changed: changed.clone(), dropped }))), drops, changed)
}

#[async_trait]
impl Host for TestHost {
    type Caller = &'static str;

    fn server_info(&self) -> &ServerInfo {
        &self.about
    }

    async fn tools(&self, _: &&'static str) -> Result<Arc<ToolList>, Fault> {
        Ok(Arc::default())
    }

    async fn call(&self, call: HostCall<&'static str>) -> Result<CallOutcome, Fault> {
        match call.name.as_str() {
            "talk" => {
                call.channel.log(Level::Debug, "small", &json!("fine"));
                call.channel.log(Level::Error, "small", &json!("loud"));
                call.channel.progress(1.0, None, Some("half way"));
                Ok(CallOutcome::Done(JsonFields::from_object(&json!({ "content": [] }))?))
            }
            _ => {
                let _told = OnDrop(self.dropped.clone(), call.name);
                std::future::pending().await
            }
        }
    }

    async fn prompts(&self, _: &&'static str) -> Result<JsonFields, Fault> {
        JsonFields::from_object(&json!({ "prompts": [] }))
    }

    async fn prompt(&self, _: HostCall<&'static str>) -> Result<CallOutcome, Fault> {
        Err(Fault::MethodNotFound)
    }

    async fn resources(&self, _: &&'static str, _: Option<&str>) -> Result<JsonFields, Fault> {
        Err(Fault::MethodNotFound)
    }

    async fn templates(&self, _: &&'static str) -> Result<JsonFields, Fault> {
        Err(Fault::MethodNotFound)
    }

    async fn read(&self, _: &&'static str, uri: &str) -> Result<JsonFields, Fault> {
        Err(Fault::ResourceNotFound { uri: uri.to_owned() })
    }

    fn changes(&self, _: &&'static str) -> BoxStream<'static, ListKind> {
        let heard = self.changed.subscribe();
        stream::unfold(heard, |mut heard| async move { heard.recv().await.ok().map(|one| (one, heard)) })
            .boxed()
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

async fn post(server: &Server<TestHost>, session: &str, message: Value) -> Reply {
    server.post(&"ada", &headers(&[("mcp-session-id", session)]), message.to_string().as_bytes()).await
}

async fn session(server: &Server<TestHost>) -> String {
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} });
    let reply = server.post(&"ada", &HeaderMap::new(), hello.to_string().as_bytes()).await;
    reply.session.expect("a session")
}

fn call(id: u64, tool: &str) -> Value {
    let meta = json!({ "progressToken": "p" });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "_meta": meta } })
}

fn text(reply: Reply) -> Value {
    let ReplyBody::Json(text) = reply.body else { panic!("not JSON") };
    serde_json::from_slice(&text).unwrap()
}

/// Returns the messages of a stream that ends.
async fn frames(reply: Reply) -> Vec<Value> {
    let ReplyBody::Events(frames) = reply.body else { panic!("no stream") };
    let all: Vec<_> = frames.collect().await;
    let text = String::from_utf8(all.concat()).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test]
async fn what_a_tool_says_goes_before_its_result_and_only_as_loud_as_was_wanted() {
    let (server, _drops, _) = small();
    let session = session(&server).await;
    let quiet = frames(post(&server, &session, call(1, "talk")).await).await;
    let methods = |all: &[Value]| {
        all.iter().map(|one| one["method"].as_str().unwrap_or("result").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(methods(&quiet), ["notifications/progress", "result"], "the client did not ask for logs");
    let level =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": { "level": "warning" } });
    assert_eq!(text(post(&server, &session, level).await)["result"], json!({}));
    let loud = frames(post(&server, &session, call(3, "talk")).await).await;
    assert_eq!(methods(&loud), ["notifications/message", "notifications/progress", "result"]);
    assert_eq!((&loud[0]["params"]["data"], &loud[2]["id"]), (&json!("loud"), &json!(3)));
    let wrong =
        json!({ "jsonrpc": "2.0", "id": 4, "method": "logging/setLevel", "params": { "level": "noisy" } });
    assert_eq!(text(post(&server, &session, wrong).await)["error"]["code"], -32602);
}

#[tokio::test]
async fn a_request_ends_when_it_is_taken_back_and_when_its_session_ends() {
    let (server, mut drops, _) = small();
    let id = session(&server).await;
    for end in ["cancelled", "deleted"] {
        let (waiting, by, named) = (Arc::clone(&server), id.clone(), format!("wait-{end}"));
        let name = named.clone();
        let request = tokio::spawn(async move { post(&waiting, &by, call(7, &name)).await.status });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let other =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 8 } });
        assert_eq!(post(&server, &id, other).await.status, 202);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!request.is_finished(), "another request was taken back, not this one");
        if end == "cancelled" {
            let this = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
            assert_eq!(post(&server, &id, this).await.status, 202);
        } else {
            assert_eq!(server.delete(&"ada", &headers(&[("mcp-session-id", &id)])).status, 204);
        }
        assert_eq!(request.await.unwrap(), 202, "nothing is answered");
        assert_eq!(drops.recv().await.as_deref(), Some(named.as_str()), "and nothing goes on");
    }
    assert_eq!(post(&server, &id, call(9, "talk")).await.status, 404);
}

#[tokio::test]
async fn a_session_has_one_stream_and_hears_each_change_once() {
    let (server, _drops, changed) = small();
    let id = session(&server).await;
    let named = headers(&[("mcp-session-id", &id)]);
    let open = || match server.get(&"ada", &named).body {
        ReplyBody::Changes(frames) => frames,
        _ => panic!("no stream"),
    };
    let old = open();
    let new = open();
    let heard = async |frames: BoxStream<'static, bytes::Bytes>| {
        let all = frames
            .take_until(Box::pin(tokio::time::sleep(Duration::from_millis(300))))
            .collect::<Vec<_>>()
            .await;
        String::from_utf8(all.concat()).unwrap().matches("list_changed").count()
    };
    changed.send(ListKind::Tools).unwrap();
    // The host does not declare prompts, so the client is not notified.
    changed.send(ListKind::Prompts).unwrap();
    assert_eq!(tokio::join!(heard(old), heard(new)), (0, 1));
    assert_eq!(server.get(&"eve", &named).status, 404);
    assert_eq!(server.get(&"ada", &HeaderMap::new()).status, 405);
}

#[tokio::test]
async fn a_modern_call_is_dropped_with_its_future() {
    let (server, mut drops, _) = small();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "wait", "_meta": meta } });
    let headers = headers(&[
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "wait"),
    ]);
    let text = message.to_string();
    let request = server.post(&"ada", &headers, text.as_bytes());
    assert!(tokio::time::timeout(Duration::from_millis(50), request).await.is_err());
    assert_eq!(drops.recv().await.as_deref(), Some("wait"));
}

#[tokio::test]
async fn capabilities_are_kept_only_when_they_are_short() {
    let (server, _drops, _) = small();
    for (length, taken) in [(16_000, true), (17_000, false)] {
        let capabilities = json!({ "experimental": { "x": "x".repeat(length) } });
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "capabilities": capabilities },
        });
        let reply = server.post(&"ada", &HeaderMap::new(), hello.to_string().as_bytes()).await;
        assert_eq!(reply.session.is_some(), taken, "{length}");
        if !taken {
            let error = text(reply)["error"].clone();
            assert_eq!(error["code"], -32602);
            assert!(error["message"].as_str().unwrap().contains("16 KiB"), "{error}");
        }
    }
}

#[tokio::test]
async fn an_id_that_is_being_worked_on_is_refused_and_the_first_request_goes_on() {
    let (server, mut drops, _) = small();
    let id = session(&server).await;
    let (waiting, by) = (Arc::clone(&server), id.clone());
    let first = tokio::spawn(async move { post(&waiting, &by, call(7, "wait")).await.status });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let error = text(post(&server, &id, call(7, "talk")).await)["error"].clone();
    assert_eq!(error["code"], -32600);
    assert!(error["message"].as_str().unwrap().contains("`7`"), "{error}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!first.is_finished() && drops.try_recv().is_err(), "the first was not asked to stop");
    first.abort();
}

#[tokio::test]
async fn a_caller_has_so_many_sessions_at_work_and_no_more() {
    let (server, _drops, _) = small();
    let mut streams = Vec::new();
    for _ in 0..100 {
        let id = session(&server).await;
        streams.push(server.get(&"ada", &headers(&[("mcp-session-id", &id)])));
    }
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} }).to_string();
    let refused = server.post(&"ada", &HeaderMap::new(), hello.as_bytes()).await;
    assert_eq!(refused.status, 429);
    assert_eq!(text(refused)["error"]["code"], -32004);
    assert_eq!(server.post(&"eve", &HeaderMap::new(), hello.as_bytes()).await.status, 200);
    streams.pop();
    assert_eq!(server.post(&"ada", &HeaderMap::new(), hello.as_bytes()).await.status, 200);
}

#[tokio::test]
async fn a_caller_has_so_many_subscriptions_and_no_more() {
    let (server, _drops, _) = small();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": { "_meta": meta } });
    let (message, headers) = (
        message.to_string(),
        headers(&[("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")]),
    );
    let listen = async |caller| server.post(&caller, &headers, message.as_bytes()).await;
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(listen("ada").await);
    }
    assert!(open.iter().all(|reply| matches!(reply.body, ReplyBody::Changes(_))));
    assert_eq!(listen("ada").await.status, 429);
    assert_eq!(listen("eve").await.status, 200);
    open.pop();
    assert_eq!(listen("ada").await.status, 200);
}
