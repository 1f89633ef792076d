//! Clients of OpenAI's chat completions: the official SDKs for Python and JavaScript, `llm` and `aider`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    clients::{create_agent, installed, try_install, with_script},
    common::{Home, Server, command_output, finish_within},
};

/// Some of the programs take long to start on a machine that is busy.
const MAX_TIME: Duration = Duration::from_secs(180);

const SCRIPT: &str = r#"
rules:
  - when: { agent: broken }
    fault: auth
  - when: { agent: coder }
    answer: { text: The agent greets you. }
  - when: { agent: greeter, tool_result: get_weather }
    answer: { text: "It is {{result}}." }
  - when: { agent: greeter, contains: weather }
    answer:
      calls: [{ tool: get_weather, input: { city: Oslo } }, { tool: get_weather, input: { city: Rome } }]
  - when: { agent: greeter, tool_result: project_info }
    answer: { text: One project. }
  - when: { agent: greeter, contains: look }
    answer:
      text: Let me look.
      calls: [{ tool: project_info, input: {} }]
  - when: {}
    answer: { text: "You said: {{last}}" }
"#;

/// A server with external agents whose model plays the script, and a token for callers from outside.
struct Outside {
    home: Home,
    server: Server,
    token: String,
}

impl Outside {
    async fn start() -> Self {
        let home = with_script(Home::sqlite(), "outside", SCRIPT);
        let server = home.start().await;
        let model = json!({ "provider": "rehearsal", "name": "outside" });
        let external = ["greeter", "broken", "coder"].map(|name| (name, "external"));
        for (name, visibility) in external.into_iter().chain([("worker", "project")]) {
            let agent =
                json!({ "name": name, "visibility": visibility, "model": model, "tools": ["project_info"] });
            create_agent(&home, &agent);
        }
        let token = command_output(home.run(&["token", "create", "partner", "--scopes", "agents:invoke"]));
        Self { home, server, token: token.trim().to_owned() }
    }

    fn base_url(&self) -> String {
        format!("{}/v1", self.server.url())
    }

    /// Runs a program of a client in the folder of the server, and returns what it printed.
    fn output(&self, mut command: Command) -> String {
        command.current_dir(self.home.folder()).stdin(Stdio::null());
        command_output(finish_within(command, MAX_TIME))
    }

    /// Runs the program of a test with the address and the token, and returns the JSON that it printed.
    fn seen(&self, mut command: Command, program: &str) -> Value {
        let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/surfaces/clients");
        command.arg(clients.join(program)).args([self.base_url(), self.token.clone()]);
        let out = self.output(command);
        serde_json::from_str(out.trim()).unwrap_or_else(|_| panic!("{out}"))
    }

    async fn runs(&self) -> Vec<Value> {
        self.server.api.get("/api/admin/runs").await.data().as_array().expect("runs").clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_sdk_of_openai_talks_to_an_agent() {
    let outside = Outside::start().await;
    let python = installed("openai").join("bin/python");
    let seen = outside.seen(Command::new(python), "openai_client.py");

    assert_eq!(
        (&seen["models"], &seen["model"]),
        (&json!(["broken", "coder", "greeter"]), &json!("greeter"))
    );
    assert_eq!(seen["whole"], json!(["You said: Hello", "stop", true]));
    assert_eq!(seen["later"], "You said: count");
    let streamed = &seen["streamed"];
    assert_eq!(streamed["content"], "Let me look.\n\nOne project.", "{streamed}");
    assert_eq!(
        (&streamed["reasoning"], &streamed["finish"]),
        (&json!("Calls `project_info`.\n"), &json!(["stop"]))
    );
    assert!(streamed["usage"].as_u64().is_some_and(|tokens| tokens > 0), "{streamed}");
    assert_eq!(seen["retried"], json!(["You said: Hello", true]), "a retry with its key is the same run");
    assert_eq!(seen["streamRetried"], "You said: Hello");
    assert_eq!(seen["unknown"], json!(["NotFoundError", "not_found", null]));
    assert_eq!(seen["notExternal"], json!(["PermissionDeniedError", "forbidden", null]));
    assert_eq!(seen["taken"], json!(["BadRequestError", "invalid", "tools[0].function.name"]));
    for tools in ["tools", "toolsStreamed", "toolsRetried"] {
        assert_eq!(seen[tools], json!(["It is sunny.", ["Oslo", "Rome"]]), "{tools}");
    }
    assert_eq!(seen["toolsTwice"], true, "the same results are the same answer");
    assert_eq!(seen["token"], json!(["AuthenticationError", "unauthorized", null]));
    assert_eq!(seen["failed"], json!(["InternalServerError", "provider", null]));
    assert_eq!(seen["failedStream"], json!(["APIError", "provider", null]));
    // One run each: whole, later, with each key, streamed, two that failed (the SDK did not repeat these), and four with
    // tools of the caller, each with all its results.
    let runs = outside.runs().await;
    assert_eq!(runs.len(), 11, "{runs:?}");
    assert!(runs.iter().all(|run| run["status"] != "waiting"), "{runs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_javascript_sdk_of_openai_talks_to_an_agent() {
    let outside = Outside::start().await;
    let mut node = Command::new("node");
    node.env("NODE_PATH", installed("openai-node").join("node_modules"));
    let seen = outside.seen(node, "openai_client.cjs");
    assert_eq!(seen["models"], json!(["broken", "coder", "greeter"]));
    assert_eq!(seen["whole"], json!(["You said: Hello", "stop"]));
    assert_eq!(seen["streamed"], json!({ "content": "You said: Hello", "finish": ["stop"] }));
    assert_eq!(seen["repeated"], true);
    for tools in ["tools", "toolsStreamed"] {
        assert_eq!(seen[tools], json!(["It is sunny.", ["Oslo", "Rome"]]), "{tools}");
    }
    assert_eq!(seen["unknown"], json!(["NotFoundError", "not_found", null]));
    assert_eq!(seen["choice"], json!(["BadRequestError", "invalid", "tool_choice"]));
    assert_eq!(outside.runs().await.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn llm_holds_a_conversation_with_an_agent() {
    let outside = Outside::start().await;
    let program = installed("llm").join("bin/llm");
    let settings = outside.home.folder().join("llm");
    std::fs::create_dir_all(&settings).expect("a folder");
    let models = format!(
        "- model_id: greeter\n  model_name: greeter\n  api_base: {}\n  api_key_name: emergent\n  supports_tools: true\n",
        outside.base_url()
    );
    std::fs::write(settings.join("extra-openai-models.yaml"), models).expect("a file");
    let llm = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.env("LLM_USER_PATH", &settings).env("NO_COLOR", "1").args(args);
        outside.output(command).trim().to_owned()
    };
    llm(&["keys", "set", "emergent", "--value", &outside.token]);
    assert_eq!(llm(&["-m", "greeter", "Hello"]), "You said: Hello");
    assert_eq!(llm(&["-c", "And you?"]), "You said: And you?", "it goes on with the conversation");
    assert_eq!(llm(&["-m", "greeter", "--no-stream", "Once more"]), "You said: Once more");
    let functions = "def get_weather(city: str) -> str:\n    return 'sunny in ' + city";
    let answer = llm(&["-m", "greeter", "--functions", functions, "How is the weather?"]);
    assert_eq!(answer, "It is sunny in Rome.");
    assert_eq!(outside.runs().await.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aider_holds_a_conversation_with_an_agent() {
    let folder = match try_install("aider") {
        Ok(folder) => folder,
        Err(reason) => return eprintln!("skipped: aider cannot be installed here: {reason}"),
    };
    let outside = Outside::start().await;
    let mut aider = Command::new(folder.join("bin/aider"));
    aider
        .env("OPENAI_API_BASE", outside.base_url())
        .env("OPENAI_API_KEY", &outside.token)
        .env("HOME", outside.home.folder())
        // The program reads prices of models from the network otherwise.
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .args(["--model", "openai/coder", "--message", "Hello", "--no-git", "--yes-always", "--no-pretty"])
        .args([
            "--no-check-update",
            "--analytics-disable",
            "--no-show-model-warnings",
            "--no-show-release-notes",
        ]);
    let out = outside.output(aider);
    assert!(out.contains("The agent greets you."), "{out}");
    let runs = outside.runs().await;
    assert!(!runs.is_empty() && runs.iter().all(|run| run["status"] == "completed"), "{runs:?}");
}

/// The block of the documentation that contains this text, with the address of the server.
fn documented(outside: &Outside, text: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/integrations.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let block = page.split("\n```").skip(1).step_by(2).find(|block| block.contains(text));
    let block = block.unwrap_or_else(|| panic!("docs/integrations.md has no block with `{text}`"));
    let (_language, block) = block.split_once('\n').expect("a block");
    block.replace("http://127.0.0.1:4400", outside.server.url())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_clients_work_as_they_are() {
    let outside = Outside::start().await;
    let folder = outside.home.folder();
    let run = |mut command: Command| {
        command.env("OPENAI_API_KEY", &outside.token);
        outside.output(command).trim().to_owned()
    };
    let python = installed("openai").join("bin/python");
    for (text, expected) in [("stream=True", "You said: Hello"), ("tool_call_id", "It is sunny in Rome.")] {
        std::fs::write(folder.join("client.py"), documented(&outside, text)).expect("a file");
        let mut command = Command::new(&python);
        command.arg("client.py");
        assert_eq!(run(command), expected);
    }
    std::fs::write(folder.join("client.mjs"), documented(&outside, "runTools")).expect("a file");
    let modules = installed("openai-node").join("node_modules");
    std::os::unix::fs::symlink(modules, folder.join("node_modules")).expect("a link");
    let mut command = Command::new("node");
    command.arg("client.mjs");
    assert_eq!(run(command), "It is sunny in Rome.");

    let settings = folder.join("llm");
    std::fs::create_dir_all(&settings).expect("a folder");
    let models = documented(&outside, "model_id: greeter");
    std::fs::write(settings.join("extra-openai-models.yaml"), models).expect("a file");
    let path = |bin: PathBuf| format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let bash = |block: String, bin: PathBuf| {
        let mut command = Command::new("bash");
        command.args(["-eu", "-c", &block]).env("PATH", path(bin)).env("LLM_USER_PATH", &settings);
        run(command)
    };
    let bin = installed("llm").join("bin");
    let out = bash(documented(&outside, "llm keys set"), bin);
    assert_eq!(out, "You said: Hello\nYou said: And you?\nIt is sunny in Rome.");
}
