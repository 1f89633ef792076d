//! What the real binary sends by OTLP: the spans of a run and of the run below it, what they count,
//! and nothing of what was said unless asked for.

mod common;

use std::{collections::HashMap, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Uri},
    response::{IntoResponse, Response},
};
use common::{Home, Server};
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::ExportMetricsServiceRequest as Metrics, trace::v1::ExportTraceServiceRequest as Traces,
    },
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::metric::Data,
    trace::v1::Span,
};
use prost::Message;
use serde_json::json;

const SCRIPT: &str = r#"
rules:
  - when: { agent: lead, turn: 1 }
    answer:
      text: A secret answer.
      calls: [{ tool: spawn_agents, input: { tasks: [{ agent_name: helper, task: a secret task }] } }]
  - when: { agent: lead }
    answer: { text: A secret end. }
  - when: { agent: helper, turn: 1 }
    answer:
      calls:
        - { tool: project_info, input: {} }
        - { tool: entities_create, input: { objects: [{ type: Note, key: seen, properties: { title: secret } }] } }
        - { tool: no_such_tool, input: {} }
  - when: { agent: helper }
    answer: { text: Done. }
"#;

type Received = Arc<std::sync::Mutex<Vec<(String, HeaderMap, Bytes)>>>;

/// Takes whatever comes, as a collector would.
async fn collector() -> (String, Received) {
    async fn take(State(all): State<Received>, uri: Uri, headers: HeaderMap, body: Bytes) {
        all.lock().unwrap().push((uri.path().to_owned(), headers, body));
    }
    let received = Received::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(take).with_state(received.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, received)
}

fn home() -> Home {
    let home = Home::sqlite();
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).unwrap();
    std::fs::write(scripts.join("tour.yaml"), SCRIPT).unwrap();
    home
}

/// One run with one below it, then the end of the server; returns the run.
async fn tour(home: &Home) -> serde_json::Value {
    tour_in(home, None).await
}

/// As [`tour`], within the trace of a caller.
async fn tour_in(home: &Home, traceparent: Option<&str>) -> serde_json::Value {
    let Server { mut launched, api } = home.start().await;
    let model = json!({ "provider": "rehearsal", "name": "tour", "temperature": 0.5, "maxTokens": 900 });
    let tools = json!(["project_info", "entities_create"]);
    let helper =
        json!({ "name": "helper", "model": model, "systemPrompt": "A secret prompt.", "tools": tools });
    api.post("/api/admin/agents", &helper).await.data();
    let lead = json!({ "name": "lead", "model": model, "systemPrompt": "A secret prompt.", "tools": ["spawn_agents"] });
    let lead = api.post("/api/admin/agents", &lead).await.data()["id"].as_str().unwrap().to_owned();
    let input = json!({ "input": "a secret wish" });
    let path = format!("/api/admin/agents/{lead}/trigger");
    let mut request = api.request(reqwest::Method::POST, &path).json(&input);
    if let Some(context) = traceparent {
        request = request.header("traceparent", context);
    }
    let started: serde_json::Value =
        serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap();
    let run = started["data"]["runId"].as_str().unwrap().to_owned();
    let path = format!("/api/admin/runs/{run}");
    let ended =
        async || !["queued", "running"].contains(&api.get(&path).await.data()["status"].as_str().unwrap());
    common::eventually("the run ends", std::time::Duration::from_secs(20), ended).await;
    let run = api.get(&path).await.data();
    launched.signal("TERM");
    let status = launched.ended();
    assert!(status.success(), "{status}: {}", launched.log());
    run
}

fn attribute(all: &[KeyValue], key: &str) -> Option<Value> {
    all.iter().find(|one| one.key == key)?.value.clone()?.value
}

fn text(all: &[KeyValue], key: &str) -> String {
    match attribute(all, key) {
        Some(Value::StringValue(text)) => text,
        other => panic!("`{key}` is {other:?} in {all:?}"),
    }
}

fn number(span: &Span, key: &str) -> i64 {
    match attribute(&span.attributes, key) {
        Some(Value::IntValue(number)) => number,
        other => panic!("`{key}` is {other:?} in {span:?}"),
    }
}

fn spans(received: &Received) -> (Vec<Span>, Vec<KeyValue>) {
    let all = received.lock().unwrap();
    let traces = all.iter().filter(|(path, ..)| path == "/v1/traces");
    let resources = traces.flat_map(|(_, _, body)| Traces::decode(body.clone()).unwrap().resource_spans);
    let resources: Vec<_> = resources.collect();
    let who = resources[0].resource.clone().unwrap().attributes;
    (resources.into_iter().flat_map(|one| one.scope_spans).flat_map(|one| one.spans).collect(), who)
}

fn holds_secrets(received: &Received) -> bool {
    received.lock().unwrap().iter().any(|(_, _, body)| body.windows(6).any(|six| six == b"secret"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_a_tree_of_spans_and_says_nothing_of_what_was_said() {
    let (url, received) = collector().await;
    let home =
        home().with("OTEL_EXPORTER_OTLP_ENDPOINT", url).with("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k%20ey");
    let home = home.with("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test");
    let run = tour(&home).await;
    let (spans, who) = spans(&received);
    assert_eq!(
        (text(&who, "service.name"), text(&who, "deployment.environment.name")),
        ("emergent".into(), "test".into())
    );
    assert!(received.lock().unwrap().iter().all(|(_, headers, _)| headers["x-key"] == "k ey"));

    // Every span with its parent, by name.
    let names: HashMap<_, _> = spans.iter().map(|span| (span.span_id.clone(), span.name.clone())).collect();
    let mut tree: Vec<_> = spans
        .iter()
        .map(|span| format!("{} < {}", span.name, names.get(&span.parent_span_id).map_or("", String::as_str)))
        .collect();
    tree.sort();
    assert_eq!(
        tree,
        [
            "chat tour < invoke_agent helper",
            "chat tour < invoke_agent helper",
            "chat tour < invoke_agent lead",
            "chat tour < invoke_agent lead",
            "execute_tool entities_create < invoke_agent helper",
            "execute_tool project_info < invoke_agent helper",
            "execute_tool spawn_agents < invoke_agent lead",
            "invoke_agent helper < execute_tool spawn_agents",
            "invoke_agent lead < ",
        ]
    );
    assert!(spans.iter().all(|span| span.trace_id == spans[0].trace_id && span.events.is_empty()));

    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let lead = &named("invoke_agent lead").attributes;
    for (key, value) in [
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.agent.name", "lead"),
        ("gen_ai.agent.id", run["agentId"].as_str().unwrap()),
        ("gen_ai.conversation.id", run["id"].as_str().unwrap()),
        ("gen_ai.provider.name", "rehearsal"),
        ("gen_ai.request.model", "tour"),
        ("emergent.run.status", "completed"),
    ] {
        assert_eq!(text(lead, key), value, "{key}");
    }
    assert_eq!(text(&named("invoke_agent helper").attributes, "emergent.run.parent_id"), run["id"]);
    let tool = &named("execute_tool project_info").attributes;
    assert_eq!(
        (text(tool, "gen_ai.tool.name"), text(tool, "gen_ai.tool.type")),
        ("project_info".into(), "function".into())
    );
    text(tool, "gen_ai.tool.call.id");

    let lead_id = &named("invoke_agent lead").span_id;
    let chats: Vec<_> =
        spans.iter().filter(|span| span.name == "chat tour" && span.parent_span_id == *lead_id).collect();
    for (key, field) in [
        ("gen_ai.usage.input_tokens", "totalInput"),
        ("gen_ai.usage.output_tokens", "totalOutput"),
        ("gen_ai.usage.cache_read.input_tokens", "cacheRead"),
        ("gen_ai.usage.cache_creation.input_tokens", "cacheWrite"),
    ] {
        let sum: i64 = chats.iter().map(|chat| number(chat, key)).sum();
        assert_eq!(run["tokenUsage"][field], sum, "{key}");
    }
    assert!(run["tokenUsage"]["totalInput"].as_i64().unwrap() > 0);
    assert_eq!((chats[0].kind, number(chats[0], "gen_ai.request.max_tokens")), (3, 900));
    let reasons = attribute(&chats[0].attributes, "gen_ai.response.finish_reasons");
    assert!(matches!(reasons, Some(Value::ArrayValue(list)) if list.values.len() == 1), "a list");

    let all = received.lock().unwrap().clone();
    let metrics = all.iter().filter(|(path, ..)| path == "/v1/metrics");
    let metrics = metrics.flat_map(|(_, _, body)| Metrics::decode(body.clone()).unwrap().resource_metrics);
    let metrics: HashMap<_, _> = metrics
        .flat_map(|one| one.scope_metrics)
        .flat_map(|one| one.metrics)
        .map(|one| (one.name.clone(), one.data.unwrap()))
        .collect();
    let counts = |name: &str| -> Vec<(u64, Option<f64>)> {
        let Data::Histogram(histogram) = &metrics[name] else { panic!("`{name}` is a histogram") };
        histogram.data_points.iter().map(|point| (point.count, point.sum)).collect()
    };
    assert_eq!(counts("gen_ai.client.operation.duration").iter().map(|(count, _)| count).sum::<u64>(), 4);
    assert_eq!(counts("gen_ai.client.token.usage").iter().map(|(count, _)| count).sum::<u64>(), 8);
    assert!(!holds_secrets(&received));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_is_sent_only_when_asked_for() {
    let (url, received) = collector().await;
    // One signal alone, to its own address, under a name of its own.
    let home = home().with("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{url}/v1/traces"));
    let home = home.with("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    tour(&home.with("OTEL_SERVICE_NAME", "mine")).await;
    let (spans, who) = spans(&received);
    assert_eq!(text(&who, "service.name"), "mine");
    assert!(received.lock().unwrap().iter().all(|(path, ..)| path == "/v1/traces"));
    let found = |name: &str, key: &str, wanted: &str| {
        let mut all = spans.iter().filter(|span| span.name == name);
        assert!(
            all.any(|span| text(&span.attributes, key).contains(wanted)),
            "`{wanted}` in `{key}` of `{name}`"
        );
    };
    found("chat tour", "gen_ai.system_instructions", "A secret prompt.");
    found(
        "chat tour",
        "gen_ai.input.messages",
        r#"{"parts":[{"content":"a secret wish","type":"text"}],"role":"user"}"#,
    );
    found("chat tour", "gen_ai.output.messages", "A secret end.");
    found("execute_tool spawn_agents", "gen_ai.tool.call.arguments", "a secret task");
    found("execute_tool entities_create", "gen_ai.tool.call.result", "seen");
    found("execute_tool project_info", "gen_ai.tool.call.result", "default");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_unasked_and_a_collector_that_is_gone_stops_nobody() {
    let (url, received) = collector().await;
    tour(&home()).await;
    tour(&home().with("OTEL_EXPORTER_OTLP_ENDPOINT", url).with("OTEL_SDK_DISABLED", "true")).await;
    assert!(received.lock().unwrap().is_empty());

    let gone = home().with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9").with("EMERGENT_LOG", "info");
    assert_eq!(tour(&gone).await["status"], "completed");
    let log = std::fs::read_to_string(gone.folder().join("log")).unwrap();
    let lines = |part: &str| log.lines().filter(|line| line.contains(part)).count();
    for (part, told) in [
        ("could not send spans to `http://127.0.0.1:9`", "are lost"),
        ("could not send metrics to `http://127.0.0.1:9`", "the next export has their sums again"),
    ] {
        assert_eq!(lines(part), 1, "{part}: {log}");
        assert!(log.lines().any(|line| line.contains(part) && line.contains(told)), "{part}: {log}");
    }
    // The log has one line for the start and the end of each run.
    for (line, count) in
        [("of agent `lead` starts", 1), ("of agent `helper` starts", 1), ("ended: completed", 2)]
    {
        assert_eq!(log.matches(line).count(), count, "{line}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_is_refused_with_a_word() {
    let (url, received) = collector().await;
    let home = home().with("OTEL_EXPORTER_OTLP_ENDPOINT", url).with("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert_eq!(tour(&home).await["status"], "completed");
    assert!(received.lock().unwrap().is_empty());
    let log = std::fs::read_to_string(home.folder().join("log")).unwrap();
    assert!(log.contains("`OTEL_EXPORTER_OTLP_PROTOCOL=grpc` is not supported"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_belongs_to_the_trace_of_the_request_that_started_it() {
    let (url, received) = collector().await;
    let home = home().with("OTEL_EXPORTER_OTLP_ENDPOINT", url);
    tour_in(&home, Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")).await;
    let (spans, _) = spans(&received);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == "4bf92f3577b34da6a3ce929d0e0e4736"), "{spans:?}");
    let lead = spans.iter().find(|span| span.name == "invoke_agent lead").unwrap();
    assert_eq!(hex(&lead.parent_span_id), "00f067aa0ba902b7");
}

/// A provider with the protocol of OpenAI, whose responses have an id and name the model that wrote them.
async fn provider() -> (String, Received) {
    async fn reply(State(all): State<Received>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
        all.lock().unwrap().push((uri.path().to_owned(), headers, body));
        let chunk = |delta: serde_json::Value, finish: Option<&str>| {
            let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
            json!({ "id": "response-7", "model": "small-2026-05", "choices": [choice] })
        };
        let chunks = [chunk(json!({ "content": "Hello." }), None), chunk(json!({}), Some("stop"))];
        let text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        ([("content-type", "text/event-stream")], format!("{text}data: [DONE]\n\n")).into_response()
    }
    let received = Received::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let router = Router::new().fallback(reply).with_state(received.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, received)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_span_names_the_response_and_the_model_gets_the_span_as_its_trace_context() {
    let ((url, received), (provider, asked)) = (collector().await, provider().await);
    let home = home().with("OTEL_EXPORTER_OTLP_ENDPOINT", url);
    let home = home.with("EMERGENT_OPENAI_BASE_URL", provider).with("OPENAI_API_KEY", "k");
    let Server { mut launched, api } = home.start().await;
    let agent = json!({ "name": "greeter", "model": { "provider": "openai", "name": "small" } });
    let agent = api.post("/api/admin/agents", &agent).await.data()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/admin/agents/{agent}/trigger");
    let run = api.post(&path, &json!({ "input": "Hi" })).await.data()["runId"].as_str().unwrap().to_owned();
    let path = format!("/api/admin/runs/{run}");
    let ended = async || api.get(&path).await.data()["status"] == "completed";
    common::eventually("the run ends", std::time::Duration::from_secs(20), ended).await;
    launched.signal("TERM");
    assert!(launched.ended().success(), "{}", launched.log());
    let (spans, _) = spans(&received);
    let chat = spans.iter().find(|span| span.name == "chat small").unwrap();
    assert_eq!(text(&chat.attributes, "gen_ai.response.id"), "response-7");
    assert_eq!(text(&chat.attributes, "gen_ai.response.model"), "small-2026-05");
    assert_eq!(text(&chat.attributes, "gen_ai.request.model"), "small");
    let asked = asked.lock().unwrap();
    let sent = asked.iter().find_map(|(_, headers, _)| headers.get("traceparent")).unwrap().to_str().unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(sent.contains(&hex(&chat.trace_id)), "{sent}");
}
