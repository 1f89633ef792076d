//! Ctrl-C while following, and folders without data.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Output, Stdio},
    time::Duration,
};

use crate::{
    common::{Home, command_output, failed, text},
    home_with_agent, write,
};

const SLOW: &str = "rules:\n  - when: {}\n    delay_ms: 60000\n    answer: { text: late }\n";

/// A folder with an agent that takes a minute to answer.
fn home_with_slow_agent() -> Home {
    let home = Home::sqlite();
    let folder = home.folder().join("my data").join("rehearsals");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("slow.yaml"), SLOW).expect("a file");
    write(&home, "slow.json", r#"{ "name": "slow", "model": { "provider": "rehearsal", "name": "slow" } }"#);
    command_output(home.run(&["agent", "apply", "slow.json", "--data-dir", "my data"]));
    home
}

/// Follows a run until its first event, then sends SIGINT.
fn interrupted(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut first = String::new();
    out.read_line(&mut first).expect("an event");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("`kill` is there").success());
    let deadline = std::time::Instant::now() + Duration::from_secs(15);
    while child.try_wait().expect("a child").is_none() {
        assert!(std::time::Instant::now() < deadline, "it did not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("it ended")
}

const FOLLOW: [&str; 6] = ["agent", "trigger", "slow", "--input", "x", "--follow"];

#[test]
fn an_interrupted_follow_exits_with_130_and_says_that_nobody_goes_on() {
    let home = home_with_slow_agent();
    let output = interrupted(home.command(&[&FOLLOW[..], &["--json", "--data-dir", "my data"]].concat()));
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains("Nobody drives the run now"), "{told}");
    assert!(told.contains("emergent serve --data-dir 'my data'"), "the hint names the folder: {told}");
    let follow = told.split('`').nth(1).expect("a command");
    assert!(follow.starts_with("emergent run follow ") && follow.ends_with("--data-dir 'my data'"), "{told}");
    assert!(!told.contains("error:"), "{told}");
}

#[test]
fn a_demo_that_is_interrupted_before_it_begins_exits_with_130_and_says_so() {
    let home = Home::sqlite();
    let mut child = home
        .command(&["demo", "--data-dir", "played"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let deadline = std::time::Instant::now() + Duration::from_secs(15);
    // It opens its folder now, which takes longer than the signal.
    while !home.folder().join("played").exists() {
        assert!(std::time::Instant::now() < deadline, "there is no folder");
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("`kill` is there").success());
    while child.try_wait().expect("a child").is_none() {
        assert!(std::time::Instant::now() < deadline, "it did not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("it ended");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("Interrupted"), "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_follow_says_that_the_server_goes_on() {
    let home = home_with_slow_agent();
    let server = home.start_with(&["--data-dir", "my data"]).await;
    let mut command = home.command(&[&FOLLOW[..], &["--json", "--server", server.url()]].concat());
    command.env("EMERGENT_TOKEN", crate::common::TOKEN);
    let output = tokio::task::spawn_blocking(|| interrupted(command)).await.expect("it ended");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(told.contains("The server goes on with the run"), "{told}");
    assert!(told.contains(&format!("--server {}", server.url())), "the hint names the server: {told}");
}

#[test]
fn a_run_that_is_not_followed_says_how_to_drive_it_in_this_folder() {
    let home = home_with_slow_agent();
    let output = home.run(&["agent", "trigger", "slow", "--input", "x", "--data-dir", "my data"]);
    let told = text(&output.stderr);
    assert!(told.contains("`emergent serve --data-dir 'my data'`"), "{told}");
}

#[test]
fn reading_a_folder_without_data_fails_with_a_hint_and_creates_nothing() {
    let home = home_with_agent();
    for args in [
        &["agent", "list"][..],
        &["graph", "search", "x"],
        &["graph", "export"],
        &["run", "show", "last"],
        &["workflow", "list"],
        &["token", "list"],
        &["project", "list"],
        &["agent", "trigger", "echo", "--input", "x"],
        &["document", "list"],
        &["pack", "list"],
        &["tool", "list"],
        &["product", "list"],
        &["secret", "list"],
        &["mcp-server", "list"],
        &["audit"],
        &["chat", "x"],
        &["conversation", "list"],
        &["budget", "show"],
    ] {
        let told = failed(&home.run(&[args, &["--data-dir", "daat"]].concat()));
        assert!(
            told.contains("there is no data in `daat`") && told.contains("--data-dir"),
            "{args:?}: {told}"
        );
        assert!(!home.folder().join("daat").exists(), "{args:?} created the folder");
    }
    std::fs::create_dir(home.folder().join("empty")).expect("a folder");
    assert!(failed(&home.run(&["agent", "list", "--data-dir", "empty"])).contains("there is no data"));
    let entries = std::fs::read_dir(home.folder().join("empty")).expect("the folder").count();
    assert_eq!(entries, 0, "an empty folder stays empty");
    assert!(command_output(home.run(&["agent", "list"])).contains("echo"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_asks_the_server_without_a_token() {
    let home = Home::sqlite();
    let none = home.run(&["health", "--server", "127.0.0.1:9"]);
    assert!(failed(&none).contains("127.0.0.1:9"), "{none:?}");
    let server = home.start().await;
    assert_eq!(command_output(home.run(&["health"])), format!("{} is ready\n", server.url()));
    let elsewhere = Home::sqlite().without_token();
    command_output(elsewhere.run(&["health", "--server", server.url()]));
}
