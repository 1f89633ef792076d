//! The official SDKs of A2A, for Python and for JavaScript.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    clients::{self, installed, with_script},
    common::{Home, command_output, finish},
    hook::Hook,
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

/// Prepares a folder with the script of the agent. The server may reach the client's address on this machine.
pub fn home() -> Home {
    with_script(Home::sqlite().with("EMERGENT_ALLOW_PRIVATE_HOSTS", "true"), "outside", SCRIPT)
}

/// Creates the agent and a token.
pub fn create_agent(home: &Home) -> String {
    let agent = json!({
        "name": "assistant",
        "visibility": "external",
        "acp": { "displayName": "The assistant", "description": "Answers.", "capabilities": ["chat"] },
        "model": { "provider": "rehearsal", "name": "outside" },
        "tools": ["ask_user"],
    });
    clients::create_agent(home, &agent);
    let token = command_output(home.run(&["token", "create", "partner", "--scopes", "agents:invoke"]));
    token.trim().to_owned()
}

#[derive(Clone, Copy)]
enum Sdk {
    Python,
    JavaScript,
}

impl Sdk {
    /// The command that runs the client.
    fn command(self, home: &Home) -> Command {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/surfaces/clients");
        match self {
            Self::Python => {
                let mut command = Command::new(installed("a2a").join("bin/python"));
                command.arg(folder.join("a2a_client.py"));
                command
            }
            Self::JavaScript => {
                // Packages are found beside the program.
                let program = home.folder().join("a2a_client.mjs");
                if !program.exists() {
                    let modules = installed("a2a-node").join("node_modules");
                    std::os::unix::fs::symlink(modules, home.folder().join("node_modules")).expect("a link");
                    std::fs::copy(folder.join("a2a_client.mjs"), &program).expect("a copy");
                }
                let mut command = Command::new("node");
                command.arg(program);
                command
            }
        }
    }

    /// Runs the client, and returns what it saw.
    fn run(self, home: &Home, server: &str, token: &str, more: &[&str]) -> Value {
        let mut command = self.command(home);
        command.arg(format!("{server}/a2a/default/assistant")).arg(token).args(more);
        command.current_dir(home.folder()).stdin(Stdio::null());
        let output = finish(command);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{out}{err}");
        serde_json::from_str(out.trim()).unwrap_or_else(|_| panic!("{out}{err}"))
    }
}

/// The updates of a task reach its client, with the headers that it asked for.
pub fn check_notifications(hook: &Hook, task: &str, answer: &str) {
    let received = hook.until(task, "COMPLETED");
    for one in &received {
        assert_eq!(one.header("x-a2a-notification-token"), Some("token-of-the-client"), "{one:?}");
        assert_eq!(one.header("authorization"), Some("Bearer credentials-of-the-client"), "{one:?}");
        assert_eq!(one.header("content-type"), Some("application/a2a+json"), "{one:?}");
    }
    let states: Vec<_> = received.iter().filter_map(|one| one.state()).collect();
    assert!(states.iter().any(|state| state == "INPUT_REQUIRED"), "{states:?}");
    let artifacts = received.iter().map(|one| &one.body["artifactUpdate"]["artifact"]["parts"][0]["text"]);
    assert!(artifacts.into_iter().any(|text| text == answer), "{received:?}");
}

async fn check_steps(sdk: Sdk, binding: &str) {
    let (home, hook) = (home(), Hook::start());
    let server = home.start().await;
    let token = create_agent(&home);
    let seen = sdk.run(&home, server.url(), &token, &[binding, "steps", &hook.url]);
    assert_eq!((&seen["card"], &seen["skills"]), (&json!("The assistant"), &json!(["chat"])));
    assert_eq!(seen["push"], true);
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
    // The address is returned, the secrets are not.
    assert_eq!(seen["configs"], json!([["hook", true, "", ""]]));
    assert_eq!(seen["second"], json!([true, "TaskNotFoundError"]));
    assert_eq!(seen["answered"], json!(["COMPLETED", "A good choice."]));
    assert_eq!(seen["cancelled"], "CANCELED");
    let errors = json!(["TaskNotFoundError", "TaskNotCancelableError", "UnsupportedOperationError"]);
    assert_eq!(seen["errors"], errors);
    check_notifications(&hook, seen["pushed"].as_str().expect("an id"), "A good choice.");
}

/// A server that is killed loses neither the task, nor its stream, nor its push notifications.
async fn check_kill(sdk: Sdk, binding: &str) {
    let (home, hook) = (home(), Hook::start());
    let server = home.start().await;
    let token = create_agent(&home);
    let waiting = sdk.run(&home, server.url(), &token, &[binding, "wait", &hook.url]);
    assert_eq!(waiting["state"], "INPUT_REQUIRED", "{waiting}");
    server.kill();
    let server = home.start().await;
    let task = waiting["task"].as_str().expect("an id");
    let seen = sdk.run(&home, server.url(), &token, &[binding, "go-on", task]);
    assert_eq!(seen["answered"], "COMPLETED", "{seen}");
    let followed = json!({
        "task": task, "first": "INPUT_REQUIRED", "last": "COMPLETED", "artifact": "A good choice.",
    });
    assert_eq!(seen["followed"], followed);
    check_notifications(&hook, task, "A good choice.");
}

/// The client of `docs/integrations.md`, as it is written there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_a2a_in_the_documentation_prints_the_answer() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/integrations.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut blocks = page.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let (_language, program) = blocks.find(|(_, text)| text.contains("from a2a.client")).expect("a client");
    let home = home();
    let server = home.start().await;
    let token = create_agent(&home);
    let program = program.replace("http://127.0.0.1:4400", server.url()).replace("greeter", "assistant");
    std::fs::write(home.folder().join("client.py"), program).expect("a file");
    let mut command = Command::new(installed("a2a").join("bin/python"));
    command.arg("client.py").env("OPENAI_API_KEY", token).current_dir(home.folder()).stdin(Stdio::null());
    let output = finish(command);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.success(), out.trim()), (true, "You said: Hello"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_of_a2a_talks_to_an_agent_over_json_rpc() {
    check_steps(Sdk::Python, "JSONRPC").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_of_a2a_talks_to_an_agent_over_http() {
    check_steps(Sdk::Python, "HTTP+JSON").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_javascript_sdk_of_a2a_talks_to_an_agent_over_json_rpc() {
    check_steps(Sdk::JavaScript, "JSONRPC").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_javascript_sdk_of_a2a_talks_to_an_agent_over_http() {
    check_steps(Sdk::JavaScript, "HTTP+JSON").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_of_a2a_subscribes_again_after_the_server_was_killed() {
    check_kill(Sdk::Python, "JSONRPC").await;
    check_kill(Sdk::Python, "HTTP+JSON").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_javascript_sdk_of_a2a_subscribes_again_after_the_server_was_killed() {
    check_kill(Sdk::JavaScript, "JSONRPC").await;
    check_kill(Sdk::JavaScript, "HTTP+JSON").await;
}
