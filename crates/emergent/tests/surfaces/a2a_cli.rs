//! `a2acli`, the program of the A2A project for the command line. Its package is built from source, which takes
//! minutes, so these tests run only when somebody asks for them: `make a2a-cli`.

use std::{
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    a2a::{check_notifications, create_agent, home},
    clients::installed,
    common::{Home, finish},
    hook::Hook,
};

/// How the program reaches an agent.
struct Program<'a> {
    home: &'a Home,
    card: String,
    token: String,
    transport: &'a str,
}

impl<'a> Program<'a> {
    fn new(home: &'a Home, server: &str, token: &str, transport: &'a str) -> Self {
        let card = format!("{server}/a2a/default/assistant/.well-known/agent-card.json");
        Self { home, card, token: token.to_owned(), transport }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(installed("a2a-cli").join("bin/a2acli"));
        let foreign = std::env::vars_os().map(|(name, _)| name);
        for name in foreign.filter(|name| name.to_string_lossy().starts_with("A2ACLI_")) {
            command.env_remove(name);
        }
        // Settings of the caller's own home folder have no effect.
        command.env("HOME", self.home.folder()).current_dir(self.home.folder()).stdin(Stdio::null());
        command.args(["--agent-card", &self.card, "--bearer", &self.token]);
        command.args(["--transport", self.transport, "--output", "json", "--compact"]).args(args);
        command
    }

    /// Runs a command, and returns every line that it printed.
    fn lines(&self, args: &[&str]) -> Vec<Value> {
        let output = finish(self.command(args));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{err}");
        out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }

    /// Runs a command that prints one value.
    fn value(&self, args: &[&str]) -> Value {
        let mut lines = self.lines(args);
        assert_eq!(lines.len(), 1, "{args:?}: {lines:?}");
        lines.remove(0)
    }

    /// Sends a message, and returns the task.
    fn send(&self, args: &[&str]) -> Value {
        self.value(&[&["send"], args].concat())["task"].take()
    }

    /// The code of the error with which a command fails.
    fn error(&self, args: &[&str]) -> Value {
        let output = finish(self.command(args));
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{args:?} succeeded");
        let told = err.lines().last().and_then(|line| serde_json::from_str::<Value>(line).ok());
        told.unwrap_or_else(|| panic!("{args:?}: {err}"))["error"]["code"].take()
    }
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().expect("a state").trim_start_matches("TASK_STATE_")
}

fn answer(task: &Value) -> &Value {
    &task["artifacts"][0]["parts"][0]["text"]
}

/// The first and the last state of a stream, and its artifact as a client puts it together.
fn follow(events: &[Value]) -> (String, String, String) {
    let (mut states, mut artifact) = (Vec::new(), String::new());
    for event in events {
        for kind in ["task", "statusUpdate"] {
            if event[kind].is_object() {
                states.push(state(&event[kind]).to_owned());
            }
        }
        let update = &event["artifactUpdate"];
        if let Some(text) = update["artifact"]["parts"][0]["text"].as_str() {
            if update["append"] != true {
                artifact.clear();
            }
            artifact.push_str(text);
        }
    }
    (states[0].clone(), states[states.len() - 1].clone(), artifact)
}

fn create_push_config(program: &Program<'_>, task: &str, url: &str, id: &str) -> Value {
    let secrets = ["--token", "token-of-the-client", "--auth-scheme", "Bearer"];
    let credentials = ["--auth-credentials", "credentials-of-the-client"];
    let create = ["task", "push-config", "create", task, url, "--config-id", id];
    program.value(&[&create[..], &secrets, &credentials].concat())
}

async fn check_steps(transport: &str) {
    let (home, hook) = (home(), Hook::start());
    let server = home.start().await;
    let token = create_agent(&home);
    let program = Program::new(&home, server.url(), &token, transport);

    let card = program.value(&["card", "get", "--validate"]);
    assert_eq!((&card["name"], &card["skills"][0]["id"]), (&json!("The assistant"), &json!("chat")));
    assert_eq!(card["capabilities"]["pushNotifications"], true, "{card}");
    let extended = program.value(&["card", "get", "--extended", "--validate"]);
    let limit = &extended["capabilities"]["extensions"][0]["params"]["startsPerMinute"];
    assert_eq!((&extended["name"], limit.is_number()), (&card["name"], true), "{extended}");

    let sent = program.send(&["Hello"]);
    assert_eq!((state(&sent), answer(&sent)), ("COMPLETED", &json!("You said: Hello")));
    let (id, context) = (sent["id"].as_str().expect("an id"), sent["contextId"].as_str().expect("an id"));
    let (_, last, artifact) = follow(&program.lines(&["send", "--stream", "Stream this"]));
    assert_eq!((last.as_str(), artifact.as_str()), ("COMPLETED", "You said: Stream this"));
    let got = program.value(&["task", "get", id, "--history-length", "1"]);
    assert_eq!((&got["id"], got["history"].as_array().map(Vec::len)), (&sent["id"], Some(1)));
    let later = program.send(&["And then?", "--context-id", context]);
    assert_eq!((state(&later), &later["contextId"]), ("COMPLETED", &sent["contextId"]));
    assert_ne!(later["id"], sent["id"]);

    let listed = program.value(&["task", "list", "--page-size", "2"]);
    assert_eq!((listed["tasks"].as_array().map(Vec::len), &listed["totalSize"]), (Some(2), &json!(3)));
    let next = listed["nextPageToken"].as_str().expect("a token");
    let rest = program.value(&["task", "list", "--page-size", "2", "--page-token", next]);
    assert_eq!(rest["tasks"].as_array().map(Vec::len), Some(1), "{rest}");

    let asked = program.send(&["ask me"]);
    let question = &asked["status"]["message"]["parts"][0]["text"];
    assert_eq!((state(&asked), question), ("INPUT_REQUIRED", &json!("Which colour?")));
    let task = asked["id"].as_str().expect("an id");
    create_push_config(&program, task, &hook.url, "hook");
    create_push_config(&program, task, &hook.url, "second");
    let of_task = |what: &'static str| program.value(&["task", "push-config", what, task, "second"]);
    assert_eq!(of_task("get")["url"], hook.url.as_str());
    program.lines(&["task", "push-config", "delete", task, "second"]);
    assert_eq!(program.error(&["task", "push-config", "get", task, "second"]), "TASK_NOT_FOUND");
    let configs = program.value(&["task", "push-config", "list", task]);
    let configs = configs["configs"].as_array().or_else(|| configs.as_array()).expect("a list");
    assert_eq!((configs.len(), &configs[0]["id"]), (1, &json!("hook")));
    assert!(!json!(configs).to_string().contains("of-the-client"), "the secrets are not returned");

    let answered = program.send(&["Blue", "--task-id", task]);
    assert_eq!((state(&answered), answer(&answered)), ("COMPLETED", &json!("A good choice.")));
    check_notifications(&hook, task, "A good choice.");
    let waiting = program.send(&["ask me again"]);
    let cancelled = program.value(&["task", "cancel", waiting["id"].as_str().expect("an id")]);
    assert_eq!(state(&cancelled), "CANCELED");

    assert_eq!(program.error(&["task", "get", "made-up"]), "TASK_NOT_FOUND");
    assert_eq!(program.error(&["task", "cancel", id]), "TASK_NOT_CANCELABLE");
    assert_eq!(program.error(&["send", "More", "--task-id", id]), "UNSUPPORTED_OPERATION");
}

/// A server that is killed loses neither the task, nor its stream, nor its push notifications.
async fn check_kill(transport: &str) {
    let (home, hook) = (home(), Hook::start());
    let server = home.start().await;
    let token = create_agent(&home);
    let program = Program::new(&home, server.url(), &token, transport);
    let asked = program.send(&["ask me"]);
    let task = asked["id"].as_str().expect("an id");
    create_push_config(&program, task, &hook.url, "hook");
    server.kill();
    let server = home.start().await;
    let program = Program::new(&home, server.url(), &token, transport);
    let subscribe = program.command(&["task", "subscribe", task]);
    let following = thread::spawn(move || finish(subscribe));
    // The stream is open when the task goes on.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(state(&program.send(&["Green", "--task-id", task])), "COMPLETED");
    let followed = following.join().expect("a client");
    let (out, err) = (String::from_utf8_lossy(&followed.stdout), String::from_utf8_lossy(&followed.stderr));
    assert!(followed.status.success(), "{out}{err}");
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let (first, last, artifact) = follow(&events);
    assert_eq!((first.as_str(), last.as_str()), ("INPUT_REQUIRED", "COMPLETED"), "{out}");
    assert_eq!(artifact, "A good choice.");
    check_notifications(&hook, task, "A good choice.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds the program from source; run it with `make a2a-cli`"]
async fn a2acli_talks_to_an_agent_over_json_rpc() {
    check_steps("jsonrpc").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds the program from source; run it with `make a2a-cli`"]
async fn a2acli_talks_to_an_agent_over_http() {
    check_steps("rest").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds the program from source; run it with `make a2a-cli`"]
async fn a2acli_subscribes_again_after_the_server_was_killed() {
    check_kill("jsonrpc").await;
    check_kill("rest").await;
}
