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
use emergent_tools::{CallInput, Form, FormAnswer, InputHandler, remote::RemoteSettings};
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
    /// The trace contexts of the calls, in the header and in the message.
    traces: Mutex<Vec<(Option<String>, Value)>>,
    /// Answers to its own questions are let go; until then it holds on to each.
    lets_go: AtomicBool,
    /// The answer to its request for input.
    input: Mutex<Option<Value>>,
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
    if id == "question" {
        *rogue.input.lock().unwrap() = Some(message["result"].clone());
        return StatusCode::ACCEPTED.into_response();
    }
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
    if method == "tools/call" {
        let trace = (header("traceparent"), message["params"]["_meta"]["traceparent"].clone());
        rogue.traces.lock().unwrap().push(trace);
    }
    match (method.as_str(), message["params"]["name"].as_str().unwrap_or_default()) {
        ("tools/list", _) => {
            let names =
                "echo hang die flood garbage big big_event forget broken pings refuses asks".split(' ');
            let tools: Vec<Value> =
                names.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).collect();
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
        ("tools/call", "refuses") => {
            (StatusCode::UNPROCESSABLE_ENTITY, "`a` must be a number").into_response()
        }
        ("tools/call", "asks") if rogue.modern => match message["params"].get("inputResponses") {
            Some(answers) => {
                json_of(&id, json!({ "content": [{ "type": "text", "text": answers["name"].to_string() }] }))
            }
            None => json_of(
                &id,
                json!({ "resultType": "input_required", "requestState": "s", "inputRequests": {
                    "name": { "method": "elicitation/create", "params": question() } } }),
            ),
        },
        ("tools/call", "asks") => {
            let request = json!({ "jsonrpc": "2.0", "id": "question", "method": "elicitation/create", "params": question() });
            let reply = async move {
                loop {
                    if let Some(answer) = rogue.input.lock().unwrap().take() {
                        let content = json!([{ "type": "text", "text": answer.to_string() }]);
                        let reply = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": content } });
                        return Ok(format!("data: {reply}\n\n"));
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            events(stream::iter([Ok(format!("data: {request}\n\n"))]).chain(stream::once(reply)))
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

/// What the server asks a person.
fn question() -> Value {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    json!({ "message": "What is your name?", "requestedSchema": schema })
}

/// A person who takes longer than the timeout of the call.
struct SlowPerson;

#[async_trait::async_trait]
impl InputHandler for SlowPerson {
    async fn ask(&self, form: Form) -> Result<FormAnswer, String> {
        assert_eq!(
            (form.message.as_str(), &form.schema),
            ("What is your name?", &question()["requestedSchema"])
        );
        tokio::time::sleep(Duration::from_millis(1_300)).await;
        Ok(FormAnswer::Accept(json!({ "name": "Ada" })))
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
async fn a_server_of_either_era_gets_the_input_that_it_asks_for_and_the_time_of_the_person_does_not_count() {
    let _alone = alone().await;
    for modern in [false, true] {
        let site = Site::open(TestDb::sqlite().await).await;
        let (_, at, serving) = Rogue::start(modern).await;
        let server = site.add(spec("rogue", &at)).await;
        site.timeout(server.id, 1).await;
        let asks = site.tool("asks").await.unwrap();
        let person = CallInput::new(Arc::new(SlowPerson));
        let answered =
            site.call_with_input(asks.as_ref(), json!({}), Some(person)).await.unwrap().to_string();
        assert!(answered.contains("accept") && answered.contains("Ada"), "modern {modern}: {answered}");
        // A modern server is told with each call whether there is somebody to ask, and is not obliged to answer.
        match site.call_with_input(asks.as_ref(), json!({}), None).await {
            Ok(declined) => assert!(!modern && declined.to_string().contains("decline"), "{declined}"),
            Err(error) => assert!(modern && error.contains("needs input from a person"), "{error}"),
        }
        assert!(site.call("echo", json!({})).await.is_ok());
        site.close().await;
        serving.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_arguments_of_one_caller_do_not_close_the_server_for_the_others() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (_, at, serving) = Rogue::start(false).await;
    site.add(spec("rogue", &at)).await;
    for _ in 0..4 {
        let refused = site.call("refuses", json!({ "a": "x" })).await.unwrap_err();
        assert!(refused.contains("`a` must be a number"), "{refused}");
    }
    assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")), "the breaker is closed");
    site.close().await;
    serving.abort();
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
                "die" => "the MCP server `rogue` lost the connection",
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
async fn a_run_hears_of_a_server_that_was_reached_before_and_is_gone() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (_, at, serving) = Rogue::start(false).await;
    site.add(spec("rogue", &at)).await;
    assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")));
    let (error, lost) = site.call_for_reports(&site.servers, "die").await;
    assert!(error.unwrap_err().contains("`rogue` lost the connection: "));
    assert!(lost[0].reason.starts_with("lost the connection: "), "{lost:?}");
    site.servers.shutdown().await;
    serving.abort();
    let _ = serving.await;

    let restarted = site.other_servers();
    let (error, gone) = site.call_for_reports(&restarted, "echo").await;
    let error = error.unwrap_err();
    assert!(error.starts_with("the call failed: the MCP server `rogue` could not be reached: "), "{error}");
    assert_eq!((gone.len(), gone[0].server.as_str()), (1, "rogue"));
    assert!(gone[0].reason.starts_with("could not be reached: "), "{gone:?}");
    restarted.shutdown().await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_carries_the_trace_context_of_its_run() {
    use emergent_net::trace_context;
    let _alone = alone().await;
    let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for modern in [false, true] {
        let site = Site::open(TestDb::sqlite().await).await;
        let (rogue, at, serving) = Rogue::start(modern).await;
        site.add(spec("rogue", &at)).await;
        let within = trace_context::with_parent(trace_context::parse(context), site.call("echo", json!({})));
        within.await.unwrap();
        site.call("echo", json!({})).await.unwrap();
        let expected = [(Some(context.to_owned()), json!(context)), (None, Value::Null)];
        assert_eq!(*rogue.traces.lock().unwrap(), expected, "modern {modern}");
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
async fn a_server_that_fails_in_one_project_is_not_left_alone_in_another() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let (_, at, serving) = Rogue::start(false).await;
    site.add(spec("rogue", &at)).await;
    for _ in 0..3 {
        site.call("broken", json!({})).await.unwrap_err();
    }
    assert!(site.call("echo", json!({})).await.unwrap_err().contains("left alone until"));
    let other = site.call_in_other_project(spec("rogue", &at), "echo").await;
    assert_eq!(other, Ok(json!("{}")), "the breaker belongs to a project");
    site.close().await;
    serving.abort();
}

/// The longest prefix of a secret that occurs in a text.
fn shown_prefix<'a>(text: &str, secret: &'a str) -> &'a str {
    let prefixes = (0..=secret.len()).rev().map(|length| &secret[..length]);
    prefixes.into_iter().find(|prefix| text.contains(prefix)).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_body_shows_no_part_of_a_secret_wherever_it_is_cut() {
    let _alone = alone().await;
    let secret = "Zq7-value-of-the-key-0123456789";
    let site = Site::open(TestDb::sqlite().await).await;
    site.put_secret("KEY", secret).await;
    let at = Arc::new(AtomicUsize::new(0));
    let app =
        Router::new().route("/mcp", any(fail_with_secret)).with_state((secret.to_owned(), Arc::clone(&at)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let server = site
        .add(json!({ "name": "rogue", "transport": "http", "url": url, "headers": { "X-Key": "${KEY}" } }))
        .await;
    for offset in (230..420).step_by(7) {
        at.store(offset, Ordering::SeqCst);
        let seen = site.servers.inspect(site.project, server.id).await.unwrap();
        let (row, ..) = site.servers.get(site.project, server.id).await.unwrap();
        for shown in [seen.error.unwrap(), row.last_error.unwrap()] {
            assert!(shown_prefix(&shown, secret).len() < 4, "{offset}: {shown}");
            assert!(shown.len() < 500, "{shown}");
        }
    }
    site.close().await;
    serving.abort();
}

/// Fails with a body that repeats the secret at an offset.
async fn fail_with_secret(State((secret, at)): State<(String, Arc<AtomicUsize>)>) -> Response {
    let body = format!("{}{secret} {}", "x".repeat(at.load(Ordering::SeqCst)), "y".repeat(2_000));
    (StatusCode::INTERNAL_SERVER_ERROR, body).into_response()
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
