//! The lines that go in and out of `emergent mcp`.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::common::{Home, TOKEN, finish};

const PATIENCE: Duration = Duration::from_secs(20);

/// A client at the other end of the pipes.
struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Pipe {
    fn open(home: &Home, args: &[&str]) -> Self {
        let mut command = home.command(&[&["mcp"], args].concat());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the binary runs");
        let (send, lines) = mpsc::channel();
        let out = child.stdout.take().expect("a pipe");
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| send.send(line)).ok();
        });
        Self { input: child.stdin.take(), child, lines }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("open"), "{message}").expect("it reads");
    }

    fn hear(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let answer = self.hear();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// How long it took to end by itself once nothing more comes.
    fn end(mut self) -> Duration {
        drop(self.input.take());
        let start = Instant::now();
        while self.child.try_wait().expect("a child of ours").is_none() {
            assert!(start.elapsed() < PATIENCE, "it did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(self.child.wait().expect("a child of ours").success());
        start.elapsed()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn modern(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params
}

fn initialize(pipe: &mut Pipe) {
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let answer = pipe.ask(0, "initialize", hello);
    assert_eq!(answer["result"]["serverInfo"]["name"], "emergent", "{answer}");
    pipe.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
}

fn count(home: &Home) -> usize {
    let output = home.run(&["graph", "export"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains("\"object\"")).count()
}

#[test]
fn both_eras_on_one_pipe_and_errors_with_the_id_of_what_failed() {
    let home = Home::sqlite();
    let mut pipe = Pipe::open(&home, &[]);
    let about = pipe.ask(1, "server/discover", modern(json!({})));
    assert_eq!(about["result"]["supportedVersions"][0], "2026-07-28", "{about}");
    initialize(&mut pipe);
    let params = json!({ "name": "entities_create", "arguments": { "type": "Person", "key": "ada" } });
    assert_eq!(pipe.ask(2, "tools/call", params)["result"]["structuredContent"]["objects"][0]["key"], "ada");
    let found = pipe.ask(
        3,
        "tools/call",
        modern(json!({ "name": "entities_get", "arguments": { "id": "Person/ada" } })),
    );
    assert_eq!(found["result"]["resultType"], "complete", "{found}");

    assert_eq!(pipe.ask(4, "nothing/such", modern(json!({})))["error"]["code"], -32601);
    assert_eq!(pipe.ask(5, "nothing/such", json!({}))["error"]["code"], -32601);
    let unknown = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2031-01-01", "io.modelcontextprotocol/clientCapabilities": {} } });
    assert_eq!(pipe.ask(6, "tools/list", unknown)["error"]["code"], -32022);
    writeln!(pipe.input.as_mut().unwrap(), "this is not JSON").unwrap();
    assert_eq!(pipe.hear()["error"]["code"], -32700);
    assert_eq!(pipe.ask(7, "ping", json!({}))["result"], json!({}));
    let took = pipe.end();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn requests_are_answered_although_the_pipe_is_closed_behind_them() {
    let home = Home::sqlite();
    let mut command = home.command(&["mcp"]);
    let file = home.folder().join("lines");
    let message = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/list", "params": modern(json!({})) });
    std::fs::write(&file, message.to_string()).unwrap();
    command.stdin(std::fs::File::open(file).unwrap());
    let output = finish(command);
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert!(answer["result"]["tools"].as_array().unwrap().len() > 20);
}

#[test]
fn two_clients_and_a_command_share_a_folder() {
    let home = Home::sqlite();
    let (mut one, mut two) = (Pipe::open(&home, &[]), Pipe::open(&home, &[]));
    initialize(&mut one);
    initialize(&mut two);
    for round in 0..3 {
        for (name, pipe) in [("one", &mut one), ("two", &mut two)] {
            let arguments = json!({ "type": "Person", "key": format!("{name}-{round}") });
            let made = pipe.ask(
                10 + round,
                "tools/call",
                json!({ "name": "entities_create", "arguments": arguments }),
            );
            assert!(made["result"]["structuredContent"].is_object(), "{made}");
        }
        assert_eq!(count(&home), 2 * (round as usize + 1));
    }
}

#[test]
fn a_client_that_kills_it_at_any_moment_leaves_a_folder_that_works() {
    let home = Home::sqlite();
    for wait in [0, 1, 5, 20, 60] {
        let mut pipe = Pipe::open(&home, &[]);
        pipe.say(
            &json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": modern(json!({})) }),
        );
        std::thread::sleep(Duration::from_millis(wait));
        drop(pipe);
    }
    let mut pipe = Pipe::open(&home, &[]);
    assert!(pipe.ask(1, "tools/list", modern(json!({})))["result"]["tools"].is_array());
}

const SCRIPT: &str = r#"
rules:
  - when: { agent: quick }
    answer: { text: Done at once. }
  - when: { agent: slow }
    answer: { text: Too late. }
    delay_ms: 600000
"#;

#[test]
fn agents_are_driven_on_a_folder_and_cancelled_when_they_are_not_wanted_any_more() {
    let home = Home::sqlite();
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).unwrap();
    std::fs::write(scripts.join("two.yaml"), SCRIPT).unwrap();
    for name in ["quick", "slow"] {
        let model = json!({ "provider": "rehearsal", "name": "two" });
        let agent = json!({ "name": name, "visibility": "external", "model": model });
        let file = format!("{name}.json");
        std::fs::write(home.folder().join(&file), agent.to_string()).unwrap();
        let made = home.run(&["agent", "create", &file]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let mut pipe = Pipe::open(&home, &[]);
    let call = |name: &str| {
        modern(json!({ "name": name, "arguments": { "input": "Go." }, "_meta": { "progressToken": 1 } }))
    };
    pipe.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("agent_quick") }));
    let mut heard = vec![pipe.hear()];
    while heard.last().unwrap()["id"].is_null() {
        heard.push(pipe.hear());
    }
    let (last, before) = heard.split_last().unwrap();
    assert_eq!(last["result"]["content"][0]["text"], "Done at once.", "{last}");
    assert!(before.iter().any(|one| one["method"] == "notifications/progress"), "{before:?}");

    pipe.say(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call("agent_slow") }));
    assert_eq!(pipe.hear()["method"], "notifications/progress");
    pipe.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } }));
    let list = json!({ "name": "runs_list", "arguments": {} });
    let start = Instant::now();
    for id in 3.. {
        let runs = pipe.ask(id, "tools/call", modern(list.clone()));
        let newest = &runs["result"]["structuredContent"]["runs"][0];
        if newest["status"] == "cancelled" {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{runs}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_outlives_the_server_it_began_on() {
    let home = Home::sqlite();
    let mut pipe = Pipe::open(&home, &[]);
    initialize(&mut pipe);
    let list = |pipe: &mut Pipe, id| pipe.ask(id, "tools/list", json!({}))["result"]["tools"].is_array();
    assert!(list(&mut pipe, 1));
    // The folder is free again, so a server can have it; then the way leads there.
    tokio::time::sleep(Duration::from_millis(800)).await;
    let server = home.start().await;
    assert!(list(&mut pipe, 2));
    server.kill();
    let mut answer = pipe.ask(3, "tools/list", json!({}));
    if answer["error"].is_object() {
        // The connection was the old server's; it is found anew for the next.
        answer = pipe.ask(4, "tools/list", json!({}));
    }
    assert!(answer["result"]["tools"].is_array(), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_refuses_is_an_answer_too() {
    let home = Home::sqlite();
    let server = home.start().await;
    let mut pipe = Pipe::open(&home, &["--server", server.url(), "--token", "wrong"]);
    let answer = pipe.ask(1, "tools/list", modern(json!({})));
    assert!(answer["error"]["message"].as_str().unwrap().contains("token"), "{answer}");
    let mut pipe = Pipe::open(&home, &["--server", "http://127.0.0.1:9", "--token", TOKEN]);
    let answer = pipe.ask(1, "tools/list", modern(json!({})));
    assert!(answer["error"]["message"].as_str().unwrap().contains("does not answer"), "{answer}");
}
