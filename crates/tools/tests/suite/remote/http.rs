//! Servers behind an address: those that misbehave, both eras, sessions that end, and addresses that
//! must not be reached.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::any,
};
use emergent_domain::time::Clock;
use emergent_testkit::TestDb;
use emergent_tools::remote::RemoteSettings;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::remote::support::{Site, alone, eventually, open_ends, settings};

const MODERN: &str = "2026-07-28";

#[derive(Default)]
struct Rogue {
    modern: bool,
    sessions: AtomicUsize,
    /// The only session it knows.
    session: Mutex<Option<String>>,
    /// Every request, as `method` or HTTP verb.
    heard: Mutex<Vec<String>>,
    /// Answers to its own questions are let go; until then it holds on to each.
    lets_go: AtomicBool,
}

impl Rogue {
    async fn start(modern: bool) -> (Arc<Self>, String, tokio::task::JoinHandle<()>) {
        let rogue = Arc::new(Self { modern, ..Self::default() });
        let app = Router::new()
            .route("/mcp", any(answer))
            .route("/elsewhere", any(|| async { Redirect::temporary("http://localhost:9/mcp") }))
            .with_state(Arc::clone(&rogue));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (rogue, at, serving)
    }

    fn heard(&self, what: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|one| *one == what).count()
    }
}

async fn answer(
    State(rogue): State<Arc<Rogue>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if method != Method::POST {
        rogue.heard.lock().unwrap().push(method.to_string());
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let method = message["method"].as_str().unwrap_or("(answer)").to_owned();
    rogue.heard.lock().unwrap().push(method.clone());
    let Some(id) = message.get("id").cloned() else { return StatusCode::ACCEPTED.into_response() };
    if message.get("method").is_none() {
        while !rogue.lets_go.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        return StatusCode::ACCEPTED.into_response();
    }
    if rogue.modern {
        let says = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        let agrees = header("mcp-protocol-version").as_deref() == Some(MODERN)
            && header("mcp-method").as_ref() == Some(&method)
            && says == MODERN;
        if !agrees {
            return refuse(&id, -32020, "headers and body differ");
        }
        if method == "server/discover" {
            return json_of(
                &id,
                json!({ "resultType": "complete", "supportedVersions": [MODERN], "capabilities": { "tools": {} } }),
            );
        }
    } else {
        let session = rogue.session.lock().unwrap().clone();
        match method.as_str() {
            "server/discover" => return refuse(&Value::Null, -32000, "Bad Request: Server not initialized"),
            "initialize" => {
                let new = format!("session-{}", rogue.sessions.fetch_add(1, Ordering::SeqCst));
                *rogue.session.lock().unwrap() = Some(new.clone());
                let mut begun = json_of(
                    &id,
                    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {} }),
                );
                begun.headers_mut().insert("mcp-session-id", new.parse().unwrap());
                return begun;
            }
            _ if header("mcp-session-id") != session => return StatusCode::NOT_FOUND.into_response(),
            _ => {}
        }
    }
    match (method.as_str(), message["params"]["name"].as_str().unwrap_or_default()) {
        ("tools/list", _) => {
            let names =
                ["echo", "hang", "die", "flood", "garbage", "big", "big_event", "forget", "broken", "pings"];
            let tools = names.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
            json_of(&id, json!({ "tools": tools, "ttlMs": 0, "cacheScope": "private" }))
        }
        ("tools/call", "echo") => {
            let text = message["params"]["arguments"].to_string();
            let reply = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": text }] } });
            events(stream::iter([Ok(format!("event: message\ndata: {reply}\n\n"))]))
        }
        ("tools/call", "pings") => {
            let ping = |n| json!({ "jsonrpc": "2.0", "id": n, "method": "ping" });
            let reply = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [] } });
            events(
                stream::iter((0..1_000).map(ping).chain([reply])).map(|one| Ok(format!("data: {one}\n\n"))),
            )
        }
        ("tools/call", "hang") => std::future::pending().await,
        ("tools/call", "die") => {
            let cut = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Err(std::io::Error::other("the line is cut"))
            };
            events(stream::iter([Ok("data: {\"jsonrpc\":".to_owned())]).chain(stream::once(cut)))
        }
        ("tools/call", "broken") => {
            let text = format!("a stack trace of {}", message["params"]["arguments"]);
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
        ("tools/call", "flood") => {
            let notice =
                json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": "x" } });
            let line = format!("data: {notice}\n\n").repeat(100);
            events(stream::repeat(line).map(Ok))
        }
        ("tools/call", "garbage") => ([(header::CONTENT_TYPE, "application/json")], "<html>").into_response(),
        ("tools/call", "big") => {
            let megabyte = Bytes::from(vec![b'x'; 1 << 20]);
            let body = Body::from_stream(stream::repeat(megabyte).take(50).map(Ok::<_, Infallible>));
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        ("tools/call", "big_event") => events(stream::repeat("x".repeat(1 << 20)).take(50).map(Ok)),
        ("tools/call", "forget") => {
            *rogue.session.lock().unwrap() = Some("another".into());
            json_of(&id, json!({ "content": [] }))
        }
        _ => refuse(&id, -32601, "no such method"),
    }
}

fn json_of(id: &Value, result: Value) -> Response {
    let text = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn refuse(id: &Value, code: i64, message: &str) -> Response {
    let text =
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string();
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn events(
    pieces: impl futures_util::Stream<Item = Result<String, std::io::Error>> + Send + 'static,
) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces)).into_response()
}

fn spec(name: &str, at: &str) -> Value {
    json!({ "name": name, "transport": "http", "url": format!("{at}/mcp") })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_server_answers_its_call_ends_with_a_clear_error_and_nothing_is_left_behind() {
    let _alone = alone().await;
    for modern in [false, true] {
        let site = Site::open(TestDb::sqlite().await).await;
        let (_, at, serving) = Rogue::start(modern).await;
        let before = open_ends();
        for name in ["hang", "die", "flood", "garbage", "big", "big_event", "broken"] {
            let server = site.add(spec("rogue", &at)).await;
            site.timeout(server.id, if name == "hang" { 2 } else { 20 }).await;
            let began = Instant::now();
            let error = site.call(name, json!({})).await.unwrap_err();
            let expected = match name {
                "hang" => "gave no answer within 2 seconds",
                "die" => "the connection was lost",
                "flood" => "messages a second that nobody asked for",
                "garbage" => "sent something that is not MCP",
                "broken" => "answered HTTP 500: a stack trace",
                _ => "sent a message of more than 8388608 bytes",
            };
            assert!(error.contains(expected), "{name}, modern {modern}: {error}");
            if name != "hang" {
                assert!(began.elapsed() < Duration::from_secs(15), "{name} took {:?}", began.elapsed());
            }
            assert_eq!(site.call("echo", json!({ "a": 1 })).await, Ok(json!(r#"{"a":1}"#)), "after {name}");
            site.servers.delete(site.project, server.id).await.unwrap();
            assert_eq!(site.servers.open_connections(), 0, "after {name}");
        }
        eventually("pipes and sockets are as before", || open_ends() == before).await;
        site.close().await;
        serving.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_error_of_a_server_confirms_no_guess_of_a_caller() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (_, at, serving) = Rogue::start(false).await;
    site.put_secret("KEY", "value-of-the-key").await;
    let mut keyed = spec("rogue", &at);
    keyed["headers"] = json!({ "X-Key": "${KEY}" });
    let server = site.add(keyed).await;
    let mut told = Vec::new();
    for guess in ["value-of-the-key", "another-guess-xx"] {
        for _ in 0..3 {
            let error = site.call("broken", json!({ "text": guess })).await.unwrap_err();
            assert!(error.contains(guess), "the caller gets back what it sent: {error}");
        }
        // The breaker is open now, and says why, to every caller.
        let left_alone = site.call("echo", json!({})).await.unwrap_err();
        let (row, ..) = site.servers.get(site.project, server.id).await.unwrap();
        let last = row.last_error.unwrap();
        assert!(left_alone.contains("left alone until") && left_alone.contains("HTTP 500"), "{left_alone}");
        let (_, reason) = left_alone.split_once("Z: ").unwrap();
        told.push((reason.to_owned(), last));
        site.servers.inspect(site.project, server.id).await.unwrap();
    }
    assert_eq!(told[0], told[1], "a right guess and a wrong one look the same");
    site.close().await;
    serving.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_without_end_gets_sixteen_answers_at_once() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (rogue, at, serving) = Rogue::start(false).await;
    let before = open_ends();
    site.add(spec("rogue", &at)).await;
    site.call("pings", json!({})).await.unwrap();
    eventually("as many as may are on their way", || rogue.heard("(answer)") == 16).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // It holds on to every one, so each is a connection.
    assert_eq!(rogue.heard("(answer)"), 16);
    rogue.lets_go.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(300)).await;
    site.call("pings", json!({})).await.unwrap();
    eventually("those that are done make room", || rogue.heard("(answer)") > 16).await;
    site.servers.shutdown().await;
    eventually("pipes and sockets are as before", || open_ends() == before).await;
    site.close().await;
    serving.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_era_is_found_out_once_and_a_lost_session_is_begun_again() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (old, at, serving) = Rogue::start(false).await;
    let server = site.add(spec("rogue", &at)).await;
    let seen = site.servers.inspect(site.project, server.id).await.unwrap();
    assert_eq!((seen.protocol.as_deref(), seen.error), (Some("2025-11-25"), None));
    assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")));
    assert_eq!((old.heard("server/discover"), old.heard("initialize")), (1, 1));
    site.call("forget", json!({})).await.unwrap();
    assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")), "in a new session");
    assert_eq!((old.heard("server/discover"), old.heard("initialize")), (1, 2));
    site.servers.delete(site.project, server.id).await.unwrap();
    assert_eq!(old.heard("DELETE"), 1, "it said goodbye");
    serving.abort();

    let (modern, at, serving) = Rogue::start(true).await;
    let server = site.add(spec("modern", &at)).await;
    let seen = site.servers.inspect(site.project, server.id).await.unwrap();
    assert_eq!((seen.protocol.as_deref(), seen.error), (Some(MODERN), None));
    assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")));
    assert_eq!((modern.heard("initialize"), modern.heard("GET")), (0, 0));
    serving.abort();
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_this_machine_are_not_reached_unless_the_operator_allows_it() {
    let _alone = alone().await;
    let strict = RemoteSettings { allow_private_hosts: false, ..settings() };
    let site = Site::with(TestDb::sqlite().await, strict, Clock::system()).await;
    let (rogue, at, serving) = Rogue::start(false).await;
    let port = at.rsplit(':').next().unwrap();
    for (n, host) in ["127.0.0.1", "localhost", "[::1]", "0x7f000001", "169.254.169.254"].iter().enumerate() {
        for transport in ["http", "sse"] {
            let url = format!("http://{host}:{port}/mcp");
            let server = site
                .add(json!({ "name": format!("s{n}-{transport}"), "transport": transport, "url": url }))
                .await;
            let seen = site.servers.inspect(site.project, server.id).await.unwrap();
            let error = seen.error.unwrap();
            assert!(error.contains("not a public address"), "{host}: {error}");
        }
    }
    assert!(rogue.heard.lock().unwrap().is_empty());
    site.close().await;
    serving.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_to_another_server_is_not_followed() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (_, at, serving) = Rogue::start(false).await;
    let spec = json!({ "name": "moved", "transport": "http", "url": format!("{at}/elsewhere") });
    let server = site.add(spec).await;
    let seen = site.servers.inspect(site.project, server.id).await.unwrap();
    assert!(seen.error.as_deref().unwrap().contains("redirects to another server"), "{seen:?}");
    site.close().await;
    serving.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_found_again_when_it_is_back() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (_, at, serving) = Rogue::start(false).await;
    site.add(spec("rogue", &at)).await;
    assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")));
    serving.abort();
    let _ = serving.await;
    let error = site.call("echo", json!({})).await.unwrap_err();
    assert!(error.contains("the MCP server `rogue` could not be reached"), "{error}");
    site.close().await;
}
