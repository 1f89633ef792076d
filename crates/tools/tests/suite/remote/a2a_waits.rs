//! An agent that makes its callers wait: for an authorisation that a person of its own system has to give, and for its
//! rate limit. It also accepts one token only, which can change.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use emergent_domain::ids::RunId;
use emergent_testkit::TestDb;
use emergent_tools::{
    CallInput, CallReport, CallReporter, Form, FormAnswer, GuardedOutput, InputHandler, ToolContext,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::remote::support::{Site, eventually};

const TOOL: &str = "careful_agent";

struct Peer {
    base: String,
    /// The state of the only task.
    state: Mutex<&'static str>,
    /// The methods that were called.
    heard: Mutex<Vec<String>>,
    /// The token that is accepted.
    token: Mutex<&'static str>,
    /// How many more messages are refused because of the rate limit.
    refusals: AtomicU32,
}

impl Peer {
    async fn start() -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = Arc::new(Self {
            base: format!("http://{}", listener.local_addr().unwrap()),
            state: Mutex::new("TASK_STATE_AUTH_REQUIRED"),
            heard: Mutex::default(),
            token: Mutex::new(""),
            refusals: AtomicU32::new(0),
        });
        let app = Router::new()
            .route("/.well-known/agent-card.json", get(card))
            .route("/a2a", post(answer))
            .with_state(Arc::clone(&peer));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        peer
    }

    fn spec(&self) -> Value {
        json!({ "name": "careful", "transport": "a2a", "url": self.base })
    }

    fn spec_with_token(&self) -> Value {
        let mut spec = self.spec();
        spec["headers"] = json!({ "Authorization": "Bearer ${PEER_TOKEN}" });
        spec
    }

    fn authorise(&self) {
        *self.state.lock().unwrap() = "TASK_STATE_COMPLETED";
    }

    fn accept(&self, token: &'static str) {
        *self.token.lock().unwrap() = token;
    }

    fn heard(&self, method: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|one| *one == method).count()
    }
}

async fn card(State(peer): State<Arc<Peer>>) -> Json<Value> {
    let url = format!("{}/a2a", peer.base);
    Json(json!({ "name": "Careful agent", "description": "Asks first.", "version": "1",
                 "supportedInterfaces": [{ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
                 "capabilities": {}, "defaultInputModes": [], "defaultOutputModes": [], "skills": [] }))
}

async fn answer(State(peer): State<Arc<Peer>>, headers: HeaderMap, Json(request): Json<Value>) -> Response {
    let method = request["method"].as_str().unwrap().to_owned();
    peer.heard.lock().unwrap().push(method.clone());
    let token = *peer.token.lock().unwrap();
    let sent = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !token.is_empty() && sent != format!("Bearer {token}") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let refuse = |left: u32| left.checked_sub(1);
    if peer.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuse).is_ok() {
        return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")], "slow down").into_response();
    }
    let state = *peer.state.lock().unwrap();
    let text = if state == "TASK_STATE_COMPLETED" { "The letter is sent." } else { "Approve the letter." };
    let task = json!({ "id": "t-1", "contextId": "c-1",
                       "status": { "state": state, "message": { "role": "ROLE_AGENT", "parts": [{ "text": text }] } } });
    let result = if method == "SendMessage" { json!({ "task": task }) } else { task };
    Json(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).into_response()
}

struct Nobody;

#[async_trait::async_trait]
impl InputHandler for Nobody {
    async fn ask(&self, _: Form) -> Result<FormAnswer, String> {
        Err("nobody is here".into())
    }
}

/// Calls the agent as the run that it executes, which has this much time. Returns the result with the reports of the call.
async fn call_for_run(site: &Site, input: Value, time: Duration) -> (Result<Value, String>, Vec<CallReport>) {
    let tool = site.tool(TOOL).await.expect("the agent is a tool");
    let reports = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&reports);
    let reporter = CallReporter {
        report: Arc::new(move |report| sink.lock().unwrap().push(report)),
        waits_until: Some(Instant::now() + time),
    };
    let context = ToolContext {
        input: Some(CallInput::new(Arc::new(Nobody))),
        reporter: Some(reporter),
        ..ToolContext::new(site.graph.clone(), site.project, None)
    };
    let result = match site.guard.call(tool.as_ref(), &context, input).await {
        GuardedOutput::Answer(answer) => Ok(answer),
        GuardedOutput::Error(why) => Err(why),
        GuardedOutput::Change(_) => Err("a change".into()),
    };
    let reports = reports.lock().unwrap().clone();
    (result, reports)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_of_a_task_that_needs_an_authorisation_is_fetched_with_its_id() {
    let peer = Peer::start().await;
    let site = Site::open(TestDb::sqlite().await).await;
    site.add(peer.spec()).await;
    let asked = site.call(TOOL, json!({ "message": "Send the letter." })).await.unwrap();
    assert_eq!((&asked["state"], &asked["text"]), (&json!("auth_required"), &json!("Approve the letter.")));
    assert!(asked["next"].as_str().unwrap().contains("without a message"), "{asked}");

    let follow = json!({ "taskId": asked["taskId"] });
    let waiting = site.call(TOOL, follow.clone()).await.unwrap();
    assert_eq!(waiting["state"], json!("auth_required"), "{waiting}");
    peer.authorise();
    let done = site.call(TOOL, follow).await.unwrap();
    assert_eq!((&done["state"], &done["text"]), (&json!("completed"), &json!("The letter is sent.")));
    assert_eq!(
        (peer.heard("SendMessage"), peer.heard("CancelTask")),
        (1, 0),
        "one task, which is not cancelled"
    );

    let neither = site.call(TOOL, json!({})).await.unwrap_err();
    assert!(neither.contains("`message`") && neither.contains("`taskId`"), "{neither}");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_waits_for_an_authorisation_longer_than_a_call_may_take() {
    let peer = Peer::start().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let server = site.add(peer.spec()).await;
    site.timeout(server.id, 1).await;
    let approving = Arc::clone(&peer);
    tokio::spawn(async move {
        sleep(Duration::from_secs(7)).await;
        approving.authorise();
    });
    let message = json!({ "message": "Send the letter." });
    let (answer, reports) = call_for_run(&site, message, Duration::from_secs(60)).await;
    assert_eq!(answer.unwrap()["text"], json!("The letter is sent."));
    assert_eq!(peer.heard("SendMessage"), 1);
    let [CallReport::Waits { server, reason, count: 1, .. }] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!(server, "careful");
    assert!(reason.contains("authorisation") && reason.contains("Approve the letter."), "{reason}");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_without_a_reporter_waits_as_well_and_follows_the_task_it_names() {
    let peer = Peer::start().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let server = site.add(peer.spec()).await;
    site.timeout(server.id, 1).await;
    let tool = site.tool(TOOL).await.unwrap();
    let approving = Arc::clone(&peer);
    tokio::spawn(async move {
        sleep(Duration::from_secs(7)).await;
        approving.authorise();
    });
    let context = ToolContext {
        call: Some(3),
        input: Some(CallInput::new(Arc::new(Nobody))),
        ..ToolContext::new(site.graph.clone(), site.project, Some(RunId::new()))
    };
    let answered = site.guard.call(tool.as_ref(), &context, json!({ "taskId": "t-1" })).await;
    let GuardedOutput::Answer(answer) = answered else { panic!("no answer") };
    assert_eq!(answer["text"], json!("The letter is sent."));
    assert_eq!((peer.heard("SendMessage"), peer.heard("CancelTask")), (0, 0));
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_waits_for_an_authorisation_is_cancelled_when_nobody_waits() {
    let peer = Peer::start().await;
    let site = Site::open(TestDb::sqlite().await).await;
    site.add(peer.spec()).await;
    let call = call_for_run(&site, json!({ "message": "Send the letter." }), Duration::from_secs(60));
    assert!(tokio::time::timeout(Duration::from_secs(2), call).await.is_err());
    eventually("the task is cancelled", || peer.heard("CancelTask") == 1).await;
    assert_eq!(peer.heard("SendMessage"), 1);
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_is_awaited_and_does_not_open_the_circuit_breaker() {
    let peer = Peer::start().await;
    peer.authorise();
    let site = Site::open(TestDb::sqlite().await).await;
    let server = site.add(peer.spec()).await;
    site.timeout(server.id, 10).await;
    peer.refusals.store(2, Ordering::SeqCst);
    let started = Instant::now();
    let (answer, reports) = call_for_run(&site, json!({ "message": "Go." }), Duration::from_secs(60)).await;
    assert_eq!(answer.unwrap()["text"], json!("The letter is sent."));
    assert!(started.elapsed() >= Duration::from_secs(2), "the agent named the time");
    let delays: Vec<_> = reports
        .iter()
        .map(|report| match report {
            CallReport::Waits { delay, count, .. } => (*count, *delay),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(delays, [(1, Duration::from_secs(1)), (2, Duration::from_secs(1))]);

    // A run that has no time for the wait is told so, and others can still call the agent.
    for _ in 0..4 {
        peer.refusals.store(1, Ordering::SeqCst);
        let (late, _) = call_for_run(&site, json!({ "message": "Go." }), Duration::from_millis(500)).await;
        let late = late.unwrap_err();
        assert!(late.contains("too many requests") && late.contains("1 seconds"), "{late}");
    }
    let (row, ..) = site.servers.get(site.project, server.id).await.unwrap();
    assert_eq!((row.last_error.as_deref(), site.servers.breaker_open_until(&row)), (None, None));
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_or_deleted_secret_applies_from_the_next_call() {
    let peer = Peer::start().await;
    peer.authorise();
    peer.accept("first-token");
    let site = Site::open(TestDb::sqlite().await).await;
    site.put_secret("PEER_TOKEN", "first-token").await;
    let server = site.add(peer.spec_with_token()).await;
    let tool = site.tool(TOOL).await.unwrap();
    let call = async || site.call_tool(tool.as_ref(), json!({ "message": "Go." })).await;
    call().await.unwrap();

    // The agent refuses the old token until the breaker opens; the new value is used at once all the same.
    peer.accept("second-token");
    for _ in 0..4 {
        call().await.unwrap_err();
    }
    assert!(site.servers.breaker_open_until(&server).is_some());
    site.put_secret("PEER_TOKEN", "second-token").await;
    assert_eq!(call().await.unwrap()["text"], json!("The letter is sent."));

    site.secrets.delete(site.project, &"PEER_TOKEN".parse().unwrap()).await.unwrap();
    let sent = peer.heard("SendMessage");
    let missing = call().await.unwrap_err();
    assert!(missing.contains("`PEER_TOKEN`"), "{missing}");
    assert_eq!(peer.heard("SendMessage"), sent, "the old value is not sent any more");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_started_again_with_a_new_secret() {
    let site = Site::open(TestDb::sqlite().await).await;
    site.put_secret("PROGRAM_TOKEN", "first-token").await;
    let mut spec = site.rogue("program");
    spec["env"]["PROGRAM_TOKEN"] = json!("${PROGRAM_TOKEN}");
    let server = site.add(spec).await;
    site.servers.inspect(site.project, server.id).await.unwrap();
    let before = site.processes();
    assert!(!before.is_empty());
    site.secrets.delete(site.project, &"PROGRAM_TOKEN".parse().unwrap()).await.unwrap();
    site.servers.close_stale().await;
    eventually("the program that has the deleted value has ended", || site.processes().is_empty()).await;
    let seen = site.servers.inspect(site.project, server.id).await.unwrap();
    assert!(seen.error.unwrap().contains("`PROGRAM_TOKEN`"));
    site.put_secret("PROGRAM_TOKEN", "second-token").await;
    let seen = site.servers.inspect(site.project, server.id).await.unwrap();
    assert_eq!(seen.error, None);
    site.close().await;
}
