//! MCP in both directions: how many requests the endpoint handles, what the client adds to a call of a
//! program, and how fast a large pool of external tools is resolved.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use emergent_domain::{
    mcp_server::{ConfiguredBy, ServerSpec},
    redact::Redactor,
    time::Clock,
};
use emergent_graph::Graph;
use emergent_mcp::client::{CallOptions, Client, ClientOptions, Program, Sandbox, Target};
use emergent_secrets::{KeySource, Secrets};
use emergent_store::{Db, DbConfig};
use emergent_tools::{
    ToolPool, builtin,
    remote::{McpServers, NewServer, RemoteSettings},
};
use serde_json::{Map, Value, json};

use crate::{
    Options,
    http::Http,
    load,
    report::{Goal, Report, p50},
    server::{Server, TOKEN},
};

const CLIENTS: usize = 50;
const MEASURE_TIME: Duration = Duration::from_secs(4);

/// Whether any row about MCP is selected.
pub fn is_selected(report: &Report) -> bool {
    ["tool list over /mcp", "tool call over /mcp", "stdio tool call", "500 external tools"]
        .iter()
        .any(|name| report.wants(name))
}

pub fn measure(report: &mut Report, options: &Options) {
    if !is_selected(report) {
        return;
    }
    endpoint(report, options);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(program(report, options));
    runtime.block_on(pool(report, options));
}

fn endpoint(report: &mut Report, options: &Options) {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(&options.binary, dir, None, "off");
    let object = json!({ "type": "Fact", "key": "fact-1", "properties": { "title": "A fact" } });
    server.http().post("/api/graph/objects", &object.to_string());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "entities_get", "arguments": { "id": "Fact/fact-1" }, "_meta": meta } });
    for (name, method, tool, body) in [
        ("tool list over /mcp, 50 clients", "tools/list", "", list),
        ("tool call over /mcp, 50 clients", "tools/call", "mcp-name: entities_get\r\n", call),
    ] {
        let headers = format!(
            "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{tool}"
        );
        let (address, body) = (server.address.clone(), body.to_string());
        let load = load::measure(CLIENTS, MEASURE_TIME, move |_| {
            let (mut http, headers, body) = (Http::connect(&address, TOKEN), headers.clone(), body.clone());
            move || {
                let answer = http.post_with("/mcp", &headers, &body);
                assert!(answer.windows(8).any(|bytes| bytes == b"\"result\""), "no result");
            }
        });
        let done = load.requests_per_second;
        report.add(name, server.engine, done, "requests/s", None, &Goal::AtLeast(4_800.0));
    }
}

/// Measures a call through the client beside the same line through a pipe.
async fn program(report: &mut Report, options: &Options) {
    let binary = options.binary.with_file_name("emergent-stdio-server");
    let mut child = Command::new(&binary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
    let mut input = child.stdin.take().expect("its input");
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "tool_0", "arguments": { "what": "it" } } });
    let raw = (0..2_000).map(|_| {
        let (start, mut line) = (Instant::now(), String::new());
        writeln!(input, "{call}").expect("it reads");
        output.read_line(&mut line).expect("it answers");
        start.elapsed().as_secs_f64() * 1e3
    });
    let raw = p50(raw.collect());
    let _ = child.kill();
    let _ = child.wait();

    let program = Program {
        command: binary.display().to_string(),
        args: vec![],
        env: BTreeMap::new(),
        grace: Duration::from_secs(1),
        sandbox: Sandbox::default(),
        kept: None,
    };
    let client =
        Client::connect(Target::Stdio(program), ClientOptions::default()).await.expect("a connection");
    let mut times = Vec::new();
    for _ in 0..2_000 {
        let start = Instant::now();
        let arguments = Map::from_iter([("what".to_owned(), Value::from("it"))]);
        let options = CallOptions { within: Duration::from_secs(5), progress: None, input: None };
        client.call_tool("tool_0", &Value::Null, arguments, options).await.expect("an answer");
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    client.close().await;
    let name = "stdio tool call, added to the program's own time";
    report.add(name, "none", p50(times) - raw, "ms", Some(raw), &Goal::Below(0.5));
}

/// Measures what the start of a run costs in a project with many external tools.
async fn pool(report: &mut Report, options: &Options) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("emergent.db");
    let db = Db::open(DbConfig::Sqlite { path }).await.expect("a database");
    let graph = Graph::new(db.clone(), Clock::system(), None);
    let project = graph.ensure_default_project().await.expect("a project").id;
    let keys = KeySource::from_file(dir.path().join("secret-key"));
    let secrets =
        Secrets::open(db.clone(), Clock::system(), keys, Redactor::default()).await.expect("secrets");
    let servers = McpServers::new(db, Clock::system(), secrets, RemoteSettings::default());
    let spec = ServerSpec::Stdio {
        name: "many".into(),
        description: String::new(),
        command: options.binary.with_file_name("emergent-stdio-server").display().to_string(),
        args: vec!["500".into()],
        env: BTreeMap::new(),
    };
    let server =
        servers.create(project, ConfiguredBy::Operator, NewServer::new(spec)).await.expect("a server");
    servers.inspect(project, server.id).await.expect("its tools");
    let pool = ToolPool::new(builtin::tools()).with_remote(servers.clone());
    let everything = ["*".to_owned()];
    let mut times = Vec::new();
    for _ in 0..500 {
        let start = Instant::now();
        let set = pool.resolve(project, &everything, 0, false).await;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        assert!(set.names().count() > 500, "not all tools are there");
    }
    servers.shutdown().await;
    let name = "a pool with 500 external tools, resolved for a run";
    report.add(name, "sqlite", p50(times), "ms", None, &Goal::Below(1.0));
}
