//! A text inside of a text: the parser of JSON takes an object with a reserved key for the JSON text that is its value,
//! and begins again at depth zero. Twelve such texts, one in the other, are 19 KB and overflow the stack, which ends the
//! process. Whoever may send anything sends them wherever JSON is read.

use reqwest::Method;
use serde_json::Value;

use crate::{
    bystander::Bystander,
    common::{Api, Home, Server},
    with_slow_model,
};

const KEY: &str = "$serde_json::private::RawValue";

fn nested(key: &str) -> String {
    (0..12).fold("0".to_owned(), |inner, _| {
        let lists = format!("{}{inner}{}", "[".repeat(120), "]".repeat(120));
        format!(r#"{{"{key}":{}}}"#, Value::from(lists))
    })
}

/// The scope of a token, and a `POST` that it may make, with `@` for any value.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("graph:write", "/api/graph/objects", r#"{"type":"N","properties":{"a":@}}"#),
    ("graph:write", "/api/graph/objects/bulk", r#"{"objects":[{"type":"N","properties":{"a":@}}]}"#),
    ("graph:read", "/api/graph/search", r#"{"query":"x","filters":[{"path":"a","op":"eq","value":@}]}"#),
    (
        "graph:read",
        "/mcp",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_objects","arguments":@}}"#,
    ),
    ("agents:invoke", "/api/agents/quick/invoke", r#"{"input":"x","context":{"a":@}}"#),
    ("agents:invoke", "/api/agents/quick/agui", r#"{"threadId":"t","runId":"r","messages":[],"state":@}"#),
    ("agents:invoke", "/a2a/attacker/quick", r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":@}"#),
    (
        "agents:invoke",
        "/api/coordination/dispatch",
        r#"{"tasks":[{"key":"t","title":"T","outputSchema":{"default":@}}]}"#,
    ),
    ("agents:write", "/api/admin/agents", r#"{"name":"b","config":{"a":@}}"#),
    ("chat:use", "/api/chat/stream", r#"{"message":"x","context":@}"#),
    (
        "approvals:decide",
        "/api/approvals/0190d3a1-0000-7000-8000-000000000000/decide",
        r#"{"decision":"approve","editedInput":@}"#,
    ),
];

/// A token of the attacker's project with one scope.
async fn token(server: &Server, project: &str, scope: &str) -> Api {
    let body = serde_json::json!({ "name": scope, "scopes": [scope], "project": project });
    let created = server.api.post("/api/tokens", &body).await.data();
    Api::new(server.url(), created["token"].as_str().expect("a token"))
}

async fn send(attacker: &Api, path: &str, kind: &str, body: String) -> (u16, String) {
    let request = attacker.request(Method::POST, path).header("content-type", kind).body(body);
    let answer = request.header("a2a-version", "1.0").send().await.expect("the server answers");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

async fn send_nested_texts(home: Home) {
    let home = with_slow_model(home);
    let server = home.start().await;
    let project = server.api.post("/api/projects", &serde_json::json!({ "name": "attacker" })).await.data();
    let project = project["id"].as_str().expect("an id");
    let agent = serde_json::json!({
        "name": "quick", "visibility": "external", "model": { "provider": "rehearsal", "name": "quick" },
    });
    let operator = server.api.in_project("attacker");
    operator.post("/api/admin/agents", &agent).await.data();
    let bystander = Bystander::start(&server).await;
    for key in [KEY, r"\u0024serde_json::private::RawValue"] {
        for (scope, path, body) in REQUESTS {
            let attacker = token(&server, project, scope).await;
            let body = body.replace('@', &nested(key));
            let (status, text) = send(&attacker, path, "application/json", body).await;
            assert!(text.contains("is reserved"), "{path}: {status} {text}");
            assert_eq!(server.api.get("/health").await.status, 200, "{path}");
        }
        let line = format!(r#"{{"kind":"object","type":"N","properties":{{"a":{}}}}}"#, nested(key));
        let writer = token(&server, project, "graph:write").await;
        let (_, text) = send(&writer, "/api/graph/import", "application/x-ndjson", line).await;
        assert!(text.contains("is reserved"), "{text}");
    }
    bystander.assert_served(&server).await;
    assert_eq!(operator.get("/api/graph/objects").await.data(), serde_json::json!([]));
    assert_eq!(operator.get("/api/admin/agents").await.data().as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_inside_of_texts_are_refused_and_the_server_lives_on_sqlite() {
    send_nested_texts(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_inside_of_texts_are_refused_and_the_server_lives_on_postgres() {
    send_nested_texts(Home::postgres().await).await;
}
