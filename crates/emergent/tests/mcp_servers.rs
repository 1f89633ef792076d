//! External MCP servers from the command line, on a data folder and through a server; and what is
//! left of their programs when the server ends.

mod common;

use std::{process::Output, time::Duration};

use common::Home;
use emergent_testkit::ShellMcpServer;
use serde_json::{Value, json};

/// A server of one tool, which says what it is given, and ignores the end of its input.
fn program() -> String {
    let server = ShellMcpServer::with_tool("tell", "Tells.").on_call(r#"answer "told by $WHO""#);
    server.at_end("sleep 1000").script()
}

fn home(tag: &str) -> Home {
    let home = Home::sqlite();
    let spec = json!({ "name": "stories", "transport": "stdio", "command": "sh", "args": ["-c", program(), tag],
                       "env": { "WHO": "a program" }, "pin_policy": "warn" });
    std::fs::write(home.folder().join("stories.json"), spec.to_string()).expect("a file");
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    let script = "rules:\n  - when: { agent: teller, turn: 1 }\n    answer: { calls: [{ tool: tell, input: {} }] }\n  \
                  - when: { agent: teller }\n    answer: { text: Done. }\n";
    std::fs::write(scripts.join("tale.yaml"), script).expect("a script");
    let agent = json!({ "name": "teller", "model": { "provider": "rehearsal", "name": "tale" }, "tools": ["stories.*"] });
    std::fs::write(home.folder().join("teller.json"), agent.to_string()).expect("a file");
    home
}

#[track_caller]
fn command_output(output: Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

fn processes(tag: &str) -> usize {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(tag)).count()
}

async fn none_left(tag: &str) {
    for _ in 0..400 {
        if processes(tag) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{} processes are left", processes(tag));
}

/// On Linux, each program has a supervisor, whose command line ends with that of the program.
const PROCESSES_PER_PROGRAM: usize = if cfg!(target_os = "linux") { 2 } else { 1 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_added_used_and_removed_on_a_data_folder() {
    let tag = "cli-folder-of-mcp-servers";
    let home = home(tag);
    command_output(home.run(&["project", "create", "other"]));
    assert!(command_output(home.run(&["mcp-server", "list"])).contains("No external MCP servers"));
    assert!(command_output(home.run(&["mcp-server", "add", "stories.json"])).contains("stories is added"));
    let again = home.run(&["mcp-server", "add", "stories.json"]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("`stories` already"));
    let inspected = command_output(home.run(&["mcp-server", "inspect", "stories"]));
    assert!(inspected.contains("speaks MCP 2025-11-25") && inspected.contains("tell"), "{inspected}");
    none_left(tag).await;
    let tools: Value =
        serde_json::from_str(&command_output(home.run(&["mcp-server", "tools", "stories", "--json"])))
            .unwrap();
    assert_eq!((&tools[0]["name"], &tools[0]["status"]), (&json!("tell"), &json!("live")));
    let table = command_output(home.run(&["mcp-server", "tools", "stories"]));
    assert!(table.contains("tell") && table.contains("accepted"), "{table}");
    assert!(!command_output(home.run(&["mcp-server", "tools", "stories", "--held"])).contains("tell"));
    let none = command_output(home.run(&["mcp-server", "accept", "stories", "--all"]));
    assert!(none.contains("no tools that are held back"), "{none}");
    let stale = home.run(&["mcp-server", "accept", "stories", "tell", "--digest", "not-a-digest"]);
    assert!(!stale.status.success() && String::from_utf8_lossy(&stale.stderr).contains("another definition"));
    let digest = tools[0]["digest"].as_str().unwrap();
    let accepted = home.run(&["mcp-server", "accept", "stories", "tell", "--digest", &digest[..12]]);
    let accepted = command_output(accepted);
    assert!(accepted.contains("accepted as it is now: Tells."), "{accepted}");
    let next = "Runs that start from now on can use it, if `tools` of their agent names it (`stories.tell`, or `stories.*`)";
    assert!(accepted.contains(next) && accepted.contains("emergent agent edit AGENT"), "{accepted}");
    let shown =
        command_output(home.run(&["mcp-server", "set", "stories", "--timeout", "5", "--trust", "true"]));
    assert!(
        shown.contains("warn") && shown.contains("5 s") && shown.contains("new tools are accepted"),
        "{shown}"
    );

    command_output(home.run(&["agent", "create", "teller.json"]));
    let told = command_output(home.run(&["agent", "trigger", "teller", "--input", "Go.", "--follow"]));
    assert!(told.contains("✓ tell") && told.contains("Done."), "{told}");
    none_left(tag).await;

    command_output(home.run(&["mcp-server", "remove", "stories"]));
    let missing = home.run(&["mcp-server", "show", "stories"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("there is no MCP server `stories`"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_failed_is_listed_as_failing_by_another_process_and_the_run_says_so() {
    let home = home("cli-failing-mcp-servers");
    let mut spec: Value =
        serde_json::from_str(&std::fs::read_to_string(home.folder().join("stories.json")).unwrap()).unwrap();
    spec["env"]["KEY"] = json!("${STORY_KEY}");
    std::fs::write(home.folder().join("stories.json"), spec.to_string()).unwrap();
    command_output(home.run(&["mcp-server", "add", "stories.json"]));
    command_output(home.run(&["agent", "create", "teller.json"]));
    let told = command_output(home.run(&["agent", "trigger", "teller", "--input", "Go.", "--follow"]));
    assert!(
        told.contains("without the tools of stories") && told.contains("emergent secret set STORY_KEY"),
        "{told}"
    );
    let listed = command_output(home.run(&["mcp-server", "list"]));
    assert!(listed.contains("failing") && listed.contains("STORY_KEY"), "{listed}");
    let runs: Value = serde_json::from_str(&command_output(home.run(&["run", "list", "--json"]))).unwrap();
    let shown = command_output(home.run(&["run", "show", runs[0]["id"].as_str().unwrap()]));
    assert!(shown.contains("without the tools of stories"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_leaves_no_program_behind() {
    let tag = "cli-served-mcp-servers";
    let home = home(tag);
    let mut server = home.start().await;
    command_output(home.run(&["mcp-server", "add", "stories.json"]));
    command_output(home.run(&["mcp-server", "inspect", "stories"]));
    assert_eq!(processes(tag), PROCESSES_PER_PROGRAM, "kept");
    let status = command_output(home.run(&["mcp-server", "list", "--json"]));
    assert!(status.contains("\"connected\""), "{status}");
    server.launched.signal("TERM");
    assert!(server.launched.ended().success());
    none_left(tag).await;
}

/// It neither ends with its input nor hears SIGTERM, and nobody is left to send it more.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_leaves_no_program_behind() {
    let tag = "cli-killed-mcp-servers";
    let home = Home::sqlite();
    let deaf = program().replace("sleep 1000", "trap '' TERM HUP; while :; do sleep 0.1; done");
    for name in ["one", "two"] {
        let spec = json!({ "name": name, "transport": "stdio", "command": "sh", "args": ["-c", deaf, tag] });
        std::fs::write(home.folder().join("deaf.json"), spec.to_string()).expect("a file");
        command_output(home.run(&["mcp-server", "add", "deaf.json"]));
    }
    let server = home.start().await;
    for name in ["one", "two"] {
        command_output(home.run(&["mcp-server", "inspect", name]));
    }
    // A thread that starts programs may end before they do: those of a busy runtime do after a while.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(processes(tag), 2 * PROCESSES_PER_PROGRAM, "kept");
    server.kill();
    none_left(tag).await;
}

#[test]
fn a_program_without_a_command_is_told_what_to_name() {
    let home = Home::sqlite();
    let add = |spec: Value| {
        std::fs::write(home.folder().join("server.json"), spec.to_string()).expect("a file");
        let output = home.run(&["mcp-server", "add", "server.json"]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = add(json!({ "name": "files", "transport": "stdio" }));
    assert!(told.contains("`command`: is required for `stdio` servers: the program to start"), "{told}");
    let told = add(json!({ "name": "files", "transport": "http" }));
    assert!(told.contains("`url`: is required for `http` servers: the address"), "{told}");
}

#[test]
fn a_literal_private_address_is_warned_of_where_those_are_refused() {
    let home = Home::sqlite();
    let add = |home: &Home, name: &str, url: &str| {
        let spec = serde_json::json!({ "name": name, "transport": "http", "url": url });
        std::fs::write(home.folder().join("server.json"), spec.to_string()).expect("a file");
        command_output(home.run(&["mcp-server", "add", "server.json"]))
    };
    let added = add(&home, "own", "http://127.0.0.1:9/mcp");
    assert!(added.contains("! own: its address cannot be used: `127.0.0.1`"), "{added}");
    assert!(added.contains("EMERGENT_ALLOW_PRIVATE_HOSTS"), "{added}");
    let shown = command_output(home.run(&["mcp-server", "show", "own"]));
    assert!(shown.contains("its address cannot be used"), "{shown}");
    for url in ["https://mcp.example.com/mcp", "http://localhost:9/mcp"] {
        let added = add(&home, if url.contains("example") { "public" } else { "name" }, url);
        assert!(!added.contains('!'), "names are not resolved: {added}");
    }
    let home = home.with("EMERGENT_ALLOW_PRIVATE_HOSTS", "true");
    let shown: serde_json::Value =
        serde_json::from_str(&command_output(home.run(&["mcp-server", "show", "own", "--json"])))
            .expect("JSON");
    assert_eq!(shown["warning"], serde_json::Value::Null);
}
