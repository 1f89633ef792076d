//! External servers that are given a secret and say it wherever they can: in what their tools are
//! called and answer, in errors, on standard error, as it is and in other letters.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    common::{Home, Server, TOKEN, eventually, finish},
    secret_locations::{Known, command_lines, encoded, search_answers, search_files, search_postgres},
};

/// Gets its secret in its environment.
const PROGRAM: &str = r#"
plain=$(printf '%s' "$KEY" | sed 's/\\/\\\\/g; s/"/\\"/g')
coded=$(printf 'u:%s' "$KEY" | base64 -w0)
url=$(printf '%s' "$KEY" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g')
said="$plain | $coded | $url"
echo "a program with $KEY, $coded and $url" >&2
say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
tool() { printf '{"name":"%s","description":"Uses %s","inputSchema":{"type":"object","default":{"k":"%s"}}}' "$1" "$said" "$plain"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) say '"result":{"protocolVersion":"2025-11-25","capabilities":{}}';;
    *'"tools/list"'*) say "\"result\":{\"tools\":[$(tool tell),$(tool fail),$(tool refuse),$(tool garble)]}";;
    *'"tools/call"'*)
      echo "called with $KEY" >&2
      case "$line" in
        *'"name":"tell"'*) say "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$said\"}],\"structuredContent\":{\"$plain\":\"$said\"}}";;
        *'"name":"fail"'*) say "\"result\":{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"no: $said\"}]}";;
        *'"name":"refuse"'*) say "\"error\":{\"code\":-32000,\"message\":\"no: $said\",\"data\":\"$said\"}";;
        *) printf '{"jsonrpc": %s %s\n' "$said" "$KEY";;
      esac;;
    *'"id"'*) say "\"error\":{\"code\":-32601,\"message\":\"no: $said\"}";;
  esac
done
"#;

/// Gets its secret in a header, as a client would send it.
async fn answer(State(known): State<Arc<Known>>, headers: HeaderMap, body: Bytes) -> Response {
    let given = headers[header::AUTHORIZATION].to_str().expect("text").to_owned();
    assert_eq!(given, format!("Bearer {}", known.value), "it was resolved");
    assert_eq!(headers["x-key"].to_str().ok(), Some(known.value.as_str()));
    let coded = BASE64_STANDARD.encode(format!("u:{}", known.value));
    let said = format!("{given} | {coded} | {}", encoded(&known.value));
    let message: Value = serde_json::from_slice(&body).expect("a message");
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let outcome = match (message["method"].as_str(), message["params"]["name"].as_str()) {
        (Some("initialize"), _) => {
            json!({ "result": { "protocolVersion": "2025-11-25", "capabilities": {} } })
        }
        (Some("tools/list"), _) => {
            let tool = |name: &str| json!({ "name": name, "description": format!("Uses {said}"), "inputSchema": { "type": "object" } });
            let tools: Vec<_> = TOOLS[4..].iter().map(|name| tool(name)).collect();
            json!({ "result": { "tools": tools } })
        }
        (Some("tools/call"), Some("web_tell")) => {
            json!({ "result": { "content": [{ "type": "text", "text": said }], "structuredContent": { &said: [&said] } } })
        }
        (Some("tools/call"), Some("web_fail")) => {
            json!({ "result": { "isError": true, "content": [{ "type": "text", "text": said }] } })
        }
        (Some("tools/call"), Some("web_refuse")) => {
            json!({ "error": { "code": -32000, "message": said, "data": said } })
        }
        (Some("tools/call"), _) => return (StatusCode::INTERNAL_SERVER_ERROR, said).into_response(),
        _ => json!({ "error": { "code": -32601, "message": said } }),
    };
    let mut text = json!({ "jsonrpc": "2.0", "id": id });
    text.as_object_mut().expect("fields").extend(outcome.as_object().expect("fields").clone());
    ([(header::CONTENT_TYPE, "application/json")], text.to_string()).into_response()
}

async fn listen(known: Arc<Known>) -> String {
    let app = Router::new().route("/mcp", post(answer)).with_state(known);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    at
}

const TOOLS: [&str; 8] =
    ["tell", "fail", "refuse", "garble", "web_tell", "web_fail", "web_refuse", "web_break"];

/// An agent whose model calls every tool, one after the other.
fn script(home: &Home) {
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    let mut rules = String::from("rules:\n");
    for (at, tool) in TOOLS.iter().enumerate() {
        let turn = at + 1;
        rules.push_str(&format!("  - when: {{ agent: caller, turn: {turn} }}\n    answer: {{ calls: [{{ tool: {tool}, input: {{}} }}] }}\n"));
    }
    rules.push_str("  - when: { agent: caller }\n    answer: { text: Done. }\n");
    std::fs::write(scripts.join("calls.yaml"), rules).expect("a script");
}

struct Search<'a> {
    server: &'a Server,
    all: [&'a Known; 2],
}

impl Search<'_> {
    /// An answer without either secret, whatever its status.
    async fn get(&self, path: &str) -> String {
        self.clean(path, self.server.api.request(Method::GET, path)).await
    }

    async fn post(&self, path: &str, body: &Value) -> String {
        self.clean(path, self.server.api.request(Method::POST, path).json(body)).await
    }

    async fn clean(&self, path: &str, request: reqwest::RequestBuilder) -> String {
        let answer = request.send().await.expect("an answer");
        let bytes = answer.bytes().await.expect("a body");
        for known in self.all {
            known.must_not_be_in(path, &bytes);
        }
        String::from_utf8(bytes.to_vec()).expect("text")
    }
}

async fn story(home: Home) {
    let home = home
        .with("EMERGENT_LOG", "trace")
        .with("EMERGENT_EMBEDDINGS", "off")
        .with("EMERGENT_ALLOW_PRIVATE_HOSTS", "true");
    script(&home);
    let (of_program, of_web) = (Known::new(), Arc::new(Known::of_header()));
    let url = listen(Arc::clone(&of_web)).await;
    let server = home.start().await;
    let api = &server.api;
    for (name, known) in [("PROGRAM_KEY", &of_program), ("WEB_KEY", &of_web)] {
        api.put(&format!("/api/admin/secrets/{name}"), &json!({ "value": known.value })).await.data();
    }
    let program = json!({ "name": "program", "transport": "stdio", "command": "sh", "args": ["-c", PROGRAM], "env": { "KEY": "${PROGRAM_KEY}" } });
    let web = json!({ "name": "web", "transport": "http", "url": url,
                      "headers": { "Authorization": "Bearer ${WEB_KEY}", "X-Key": "{{secrets.WEB_KEY}}" } });
    let mut ids = Vec::new();
    for spec in [program, web] {
        let made = api.post("/api/admin/mcp-servers", &spec).await.data();
        ids.push(made["id"].as_str().expect("an id").to_owned());
    }
    let definition = json!({ "name": "caller", "model": { "provider": "rehearsal", "name": "calls" }, "tools": ["program.*", "web.*"] });
    let agent =
        api.post("/api/admin/agents", &definition).await.data()["id"].as_str().expect("an id").to_owned();

    // A run that calls all of them.
    let started =
        api.post(&format!("/api/admin/agents/{agent}/trigger"), &json!({ "input": "Go." })).await.data();
    let run = started["runId"].as_str().expect("an id").to_owned();
    eventually("the run has ended", Duration::from_secs(60), async || {
        let status = api.get(&format!("/api/admin/runs/{run}")).await.data()["status"].clone();
        !["queued", "running"].contains(&status.as_str().unwrap_or_default())
    })
    .await;
    let search = Search { server: &server, all: [&of_program, &of_web] };
    let of_run = format!("/api/admin/agents/{agent}/runs/{run}");
    let calls = search.get(&format!("{of_run}/tool-calls?limit=100")).await;
    let calls: Value = serde_json::from_str(&calls).expect("JSON");
    let calls = calls["data"].as_array().expect("calls").clone();
    let mut called: Vec<_> = calls.iter().map(|call| call["toolName"].as_str().expect("a name")).collect();
    called.sort_unstable();
    let mut wanted = TOOLS;
    wanted.sort_unstable();
    assert_eq!(called, wanted, "{calls:#?}");
    for call in &calls {
        let name = call["toolName"].as_str().expect("a name");
        let secret = if name.starts_with("web") { "[secret WEB_KEY]" } else { "[secret PROGRAM_KEY]" };
        let one = search.get(&format!("{of_run}/tool-calls/{}", call["id"].as_str().expect("an id"))).await;
        // What cannot be read at all is not cited.
        assert!(name == "garble" || one.matches(secret).count() >= 3, "{name} was there to be hidden: {one}");
    }

    // Whatever can be asked about it.
    for path in ["", "/messages?limit=100", "/tree", "/events"] {
        search.get(&format!("{of_run}{path}")).await;
    }
    for id in &ids {
        let of_server = format!("/api/admin/mcp-servers/{id}");
        search.get(&of_server).await;
        let tools = search.get(&format!("{of_server}/tools")).await;
        assert!(tools.contains("[secret "), "{tools}");
        search.post(&format!("{of_server}/inspect"), &json!({})).await;
    }
    for tool in TOOLS {
        let session = hello(&server).await;
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": {} } });
        let request = api.request(Method::POST, "/mcp").header("mcp-session-id", session).json(&call);
        let told = search.clean("/mcp", request).await;
        assert!(told.contains("\"content\""), "{tool}: {told}");
    }
    for known in search.all {
        search_answers(&server, known).await;
        known.must_not_be_in("a command line", &command_lines());
    }
    for args in [
        &["run", "messages", &run][..],
        &["run", "show", &run],
        &["mcp-server", "tools", "program"],
        &["mcp-server", "inspect", "web"],
        &["doctor"],
    ] {
        let told = finish(home.command(&[args, &["--token", TOKEN]].concat()));
        for known in search.all {
            known.must_not_be_in(&args.join(" "), &[told.stdout.as_slice(), &told.stderr].concat());
        }
    }
    let log = server.launched.log();
    assert!(log.contains("called with [secret PROGRAM_KEY]"), "its standard error is in the log, without it");
    for known in search.all {
        search_files(&home, known);
        search_postgres(&home, known).await;
    }
    server.kill();
    for known in [&of_program, &*of_web] {
        search_files(&home, known);
    }
}

async fn hello(server: &Server) -> String {
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": "2025-11-25" } });
    let answer = server.api.request(Method::POST, "/mcp").json(&hello).send().await.expect("an answer");
    answer.headers()["mcp-session-id"].to_str().expect("text").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_servers_repeat_is_nowhere_to_be_found_on_sqlite() {
    story(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_servers_repeat_is_nowhere_to_be_found_on_postgres() {
    story(Home::postgres().await.without_key()).await;
}
