//! Tool results of megabytes, many at once: they are cut, read and redacted beside the other requests.

use std::time::Duration;

use axum::{Router, body::Bytes, http::header, response::IntoResponse, routing::post};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bystander::Bystander,
    common::{Api, Home},
    project_token,
};

const VALUE: &str = "S3cr3t-of-the-large-server";
const MODERN: &str = "2026-07-28";
const AT_ONCE: usize = 12;
/// A server may send eight times as much. A build without optimisation parses a megabyte in about a second.
const RESULT_BYTES: usize = 1_000_000;

/// A server whose tool `large` returns a text of megabytes with characters that JSON escapes, and whose tool
/// `values` returns millions of values.
async fn listen() -> String {
    let text = r#"\\%41 "#.repeat(RESULT_BYTES / 7);
    let large = format!(r#"{{"content":[{{"type":"text","text":"{VALUE} {text}{VALUE}"}}]}}"#);
    let values =
        format!(r#"{{"content":[],"structuredContent":{{"v":[{}0]}}}}"#, "0,".repeat(RESULT_BYTES / 2));
    let answer = move |body: Bytes| {
        let (large, values) = (large.clone(), values.clone());
        async move {
            let request: Value = serde_json::from_slice(&body).expect("JSON");
            let result = match (request["method"].as_str(), request["params"]["name"].as_str()) {
                (Some("server/discover"), _) => {
                    json!({ "resultType": "complete", "supportedVersions": [MODERN], "capabilities": { "tools": {} } })
                        .to_string()
                }
                (Some("tools/list"), _) => {
                    let tools = ["large", "values"].map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
                    json!({ "tools": tools, "ttlMs": 0, "cacheScope": "private" }).to_string()
                }
                (_, Some("values")) => values,
                _ => large,
            };
            let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request["id"]);
            ([(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let app = Router::new().route("/mcp", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await.expect("it serves") });
    url
}

/// Calls a tool over `/mcp`, and returns the text of the answer.
async fn call(api: &Api, tool: &str) -> String {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {} });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": {}, "_meta": meta } });
    let request = api.request(Method::POST, "/mcp").header("mcp-protocol-version", MODERN);
    let request = request.header("mcp-method", "tools/call").header("mcp-name", tool);
    let request = request.header("accept", "application/json, text/event-stream").json(&message);
    let answer = request.timeout(Duration::from_secs(60)).send().await.expect("an answer");
    answer.text().await.expect("a text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_results_of_megabytes_delay_nobody() {
    let home = Home::sqlite().with("EMERGENT_ALLOW_PRIVATE_HOSTS", "true");
    let server = home.start().await;
    let scopes = ["admin:read", "admin:write", "agents:invoke", "graph:read"];
    let attacker = project_token(&server, "attacker", &scopes).await;
    attacker.put("/api/admin/secrets/LARGE_TOKEN", &json!({ "value": VALUE })).await.data();
    let spec = json!({ "name": "large", "transport": "http", "url": listen().await,
        "headers": { "Authorization": "Bearer ${LARGE_TOKEN}" } });
    let added = attacker.post("/api/admin/mcp-servers", &spec).await.data();
    let path = format!("/api/admin/mcp-servers/{}/inspect", added["id"].as_str().expect("an id"));
    assert_eq!(attacker.post(&path, &json!({})).await.data()["reachable"], true);

    let bystander = Bystander::start(&server).await;
    let calls = (0..AT_ONCE).map(|n| {
        let api = attacker.clone();
        tokio::spawn(async move { call(&api, if n % 3 == 0 { "values" } else { "large" }).await })
    });
    for (n, answer) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
        let answer = answer.expect("the call ends");
        assert!(answer.len() < 300_000, "a model cannot read {} bytes", answer.len());
        assert!(!answer.contains(VALUE), "the secret is hidden");
        let expected = if n % 3 == 0 { "0,0,0" } else { "[secret LARGE_TOKEN]" };
        assert!(answer.contains(expected), "{}", &answer[..answer.len().min(500)]);
    }
    bystander.assert_served(&server).await;
    assert_eq!(server.api.get("/ready").await.status, 200);
}
