//! `a2acli`, the program for the command line of the A2A project.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{
    a2a::{check_notifications, create_agent, home},
    clients::installed,
    common::{Home, finish},
    hook::Hook,
};

/// The program with what every call of it needs.
#[derive(Clone)]
struct Cli {
    program: std::path::PathBuf,
    folder: std::path::PathBuf,
    card: String,
    token: String,
    transport: &'static str,
}

impl Cli {
    fn new(home: &Home, server: &str, token: &str, transport: &'static str) -> Self {
        Self {
            program: installed("a2a-cli").join("bin/a2acli"),
            folder: home.folder().to_owned(),
            card: format!("{server}/a2a/default/assistant/.well-known/agent-card.json"),
            token: token.to_owned(),
            transport,
        }
    }

    /// Whether it worked, and what it printed: one JSON value a line or one in all, on the first or the second output.
    fn call(&self, args: &[&str]) -> (bool, Vec<Value>) {
        let mut command = Command::new(&self.program);
        command.args(["--agent-card", &self.card, "--bearer", &self.token, "--transport", self.transport]);
        command.args(["--output", "json", "--compact"]).args(args);
        // Neither the settings of whoever runs the test nor its home.
        command.env("HOME", &self.folder).env("XDG_CONFIG_HOME", &self.folder);
        command.current_dir(&self.folder).stdin(Stdio::null());
        let output = finish(command);
        let worked = output.status.success();
        let text = String::from_utf8_lossy(if worked { &output.stdout } else { &output.stderr }).into_owned();
        let values = serde_json::Deserializer::from_str(&text).into_iter().map_while(Result::ok);
        (worked, values.collect())
    }

    fn all(&self, args: &[&str]) -> Vec<Value> {
        let (worked, values) = self.call(args);
        assert!(worked, "{args:?}: {values:?}");
        values
    }

    fn one(&self, args: &[&str]) -> Value {
        self.all(args).pop().unwrap_or(Value::Null)
    }

    /// The task that a message made or went on with.
    fn send(&self, text: &str, more: &[&str]) -> Value {
        let sent = self.one(&[&["send", text], more].concat());
        sent.get("task").cloned().unwrap_or(sent)
    }

    /// The name of the error of a call that fails.
    fn error(&self, args: &[&str]) -> Value {
        let (worked, values) = self.call(args);
        assert!(!worked, "{args:?}: {values:?}");
        values.last().map_or(Value::Null, |value| value["error"]["code"].clone())
    }
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_default()
}

/// The state that the last line of a stream with one tells of.
fn last_state(events: &[Value]) -> String {
    let of = |event: &Value| {
        let update =
            [&event["task"], &event["statusUpdate"], event].into_iter().find(|one| !state(one).is_empty());
        update.map(|update| state(update).to_owned())
    };
    events.iter().rev().find_map(of).unwrap_or_default()
}

async fn check(transport: &'static str) {
    let (home, hook) = (home(), Hook::start());
    let server = home.start().await;
    let token = create_agent(&home);
    let cli = Cli::new(&home, server.url(), &token, transport);
    assert_eq!(cli.one(&["card", "get"])["name"], "The assistant");
    let task = cli.send("Hello", &[]);
    assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "You said: Hello");
    let streamed = cli.all(&["send", "Stream this", "--stream"]);
    assert_eq!(last_state(&streamed), "TASK_STATE_COMPLETED", "{streamed:?}");
    let id = task["id"].as_str().expect("an id");
    assert_eq!(cli.one(&["task", "get", id])["id"], task["id"]);
    assert_eq!(cli.one(&["task", "list"])["totalSize"], 2);
    assert_eq!(cli.error(&["task", "cancel", id]), "TASK_NOT_CANCELABLE");
    let cancelled = cli.send("ask me", &[]);
    let cancelled = cli.one(&["task", "cancel", cancelled["id"].as_str().expect("an id")]);
    assert_eq!(state(&cancelled), "TASK_STATE_CANCELED", "{cancelled}");

    let asked = cli.send("ask me", &[]);
    assert_eq!(state(&asked), "TASK_STATE_INPUT_REQUIRED", "{asked}");
    let id = asked["id"].as_str().expect("an id");
    let push = |more: &[&str]| cli.all(&[&["task", "push-config"], more].concat());
    let headers = ["--token", "token-of-the-client", "--auth-scheme", "Bearer"];
    let credentials = ["--auth-credentials", "credentials-of-the-client"];
    push(&[&["create", id, &hook.url, "--config-id", "second"], &headers[..], &credentials].concat());
    push(&[&["create", id, &hook.url, "--config-id", "hook"], &headers[..], &credentials].concat());
    push(&["delete", id, "second"]);
    assert_eq!(push(&["get", id, "hook"])[0]["url"], json!(hook.url));
    let listed = push(&["list", id]).pop().unwrap_or_default();
    assert_eq!(listed["configs"].as_array().map(Vec::len), Some(1), "{listed}");

    // The task, its stream and its push notifications go on after the server was killed.
    hook.until(id, "INPUT_REQUIRED");
    server.kill();
    let server = home.start().await;
    let cli = Cli::new(&home, server.url(), &token, transport);
    let (follower, task) = (cli.clone(), id.to_owned());
    let followed = std::thread::spawn(move || follower.all(&["task", "subscribe", &task]));
    std::thread::sleep(std::time::Duration::from_millis(500));
    let answered = cli.send("Blue", &["--task-id", id]);
    assert_eq!(state(&answered), "TASK_STATE_COMPLETED", "{answered}");
    let followed = followed.join().expect("a stream that ends");
    assert_eq!(last_state(&followed), "TASK_STATE_COMPLETED", "{followed:?}");
    check_notifications(&hook, id, "A good choice.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_of_a2a_talks_to_an_agent_over_json_rpc() {
    check("jsonrpc").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_of_a2a_talks_to_an_agent_over_http() {
    check("rest").await;
}
