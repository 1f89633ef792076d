//! The official Python SDK of A2A.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    clients::installed,
    common::{Home, command_output, finish},
};

const SCRIPT: &str = r#"
rules:
  - when: { tool_result: ask_user }
    answer: { text: "A good choice." }
  - when: { contains: ask me }
    answer:
      calls: [{ tool: ask_user, input: { question: "Which colour?" } }]
  - when: {}
    answer: { text: "You said: {{last}}" }
"#;

/// Prepares a folder with the script of the agent.
fn home() -> Home {
    let home = Home::sqlite();
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    std::fs::write(scripts.join("outside.yaml"), SCRIPT).expect("a script");
    home
}

/// Creates the agent and a token.
fn create_agent(home: &Home) -> String {
    let agent = json!({
        "name": "assistant",
        "visibility": "external",
        "acp": { "displayName": "The assistant", "description": "Answers.", "capabilities": ["chat"] },
        "model": { "provider": "rehearsal", "name": "outside" },
        "tools": ["ask_user"],
    });
    std::fs::write(home.folder().join("agent.json"), agent.to_string()).expect("a file");
    command_output(home.run(&["agent", "create", "agent.json"]));
    let token = command_output(home.run(&["token", "create", "partner", "--scopes", "agents:invoke"]));
    token.trim().to_owned()
}

/// Runs the client, and returns what it saw.
fn run(home: &Home, server: &str, token: &str, more: &[&str]) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/surfaces/clients/a2a_client.py");
    let mut command = Command::new(installed("a2a").join("bin/python"));
    command.arg(program).arg(format!("{server}/a2a/default/assistant")).arg(token).args(more);
    command.current_dir(home.folder()).stdin(Stdio::null());
    let output = finish(command);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    serde_json::from_str(out.trim()).unwrap_or_else(|_| panic!("{out}{err}"))
}

async fn check_steps(binding: &str) {
    let home = home();
    let server = home.start().await;
    let token = create_agent(&home);
    let seen = run(&home, server.url(), &token, &[binding, "steps"]);
    assert_eq!((&seen["card"], &seen["skills"]), (&json!("The assistant"), &json!(["chat"])));
    assert_eq!(seen["sent"], json!(["COMPLETED", "You said: Hello", 2]));
    assert_eq!(seen["sameTask"], true, "the same message is the same task");
    let streamed = &seen["streamed"];
    assert_eq!(
        (&streamed["last"], &streamed["artifact"]),
        (&json!("COMPLETED"), &json!("You said: Stream this"))
    );
    assert_eq!(seen["got"], json!([true, 1]));
    assert_eq!(seen["later"], json!([true, true, "COMPLETED"]));
    assert_eq!(seen["listed"], json!([2, 1, 3, ""]));
    assert_eq!(seen["asked"], json!(["INPUT_REQUIRED", "Which colour?"]));
    assert_eq!(seen["answered"], json!(["COMPLETED", "A good choice."]));
    assert_eq!(seen["cancelled"], "CANCELED");
    let errors = json!(["TaskNotFoundError", "TaskNotCancelableError", "UnsupportedOperationError"]);
    assert_eq!(seen["errors"], errors);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_of_a2a_talks_to_an_agent_over_json_rpc() {
    check_steps("JSONRPC").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_of_a2a_talks_to_an_agent_over_http() {
    check_steps("HTTP+JSON").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_of_a2a_subscribes_again_after_the_server_was_killed() {
    let home = home();
    let server = home.start().await;
    let token = create_agent(&home);
    let waiting = run(&home, server.url(), &token, &["JSONRPC", "wait"]);
    assert_eq!(waiting["state"], "INPUT_REQUIRED", "{waiting}");
    server.kill();
    let server = home.start().await;
    let task = waiting["task"].as_str().expect("an id");
    let seen = run(&home, server.url(), &token, &["JSONRPC", "go-on", task]);
    assert_eq!(seen["answered"], "COMPLETED", "{seen}");
    let followed = json!({
        "task": task, "first": "INPUT_REQUIRED", "last": "COMPLETED", "artifact": "A good choice.",
    });
    assert_eq!(seen["followed"], followed);
}
