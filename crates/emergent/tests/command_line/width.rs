//! Everything that commands list or show fits a terminal of 80 columns, and has no control characters elsewhere.

use std::sync::Mutex;

use crate::{
    common::{Home, command_output, finish, text},
    terminal::{on_terminal, written_lines},
    write,
};

const LONG: &str =
    "A long title about tagging patterns that certainly does not fit beside the other columns of a table";

/// What the demo leaves, and one of everything else, each with a long name.
fn home_with_everything() -> Home {
    let home = Home::sqlite();
    let run = |args: &[&str]| command_output(home.run(args));
    let mut demo = home.command(&["demo", "--json", "--data-dir"]);
    demo.arg(home.data());
    command_output(finish(demo));
    let agent = format!(
        r#"{{ "name": "an-agent-with-a-rather-long-name-that-repeats-what-it-is-told", "description": "{LONG}",
            "systemPrompt": "{LONG}", "tools": ["entities_*", "search_*", "no_such_tool_*"],
            "model": {{ "provider": "rehearsal", "name": "echo" }} }}"#
    );
    write(&home, "agent.json", &agent);
    run(&["agent", "apply", "agent.json"]);
    let name = "an-agent-with-a-rather-long-name-that-repeats-what-it-is-told";
    run(&["agent", "trigger", name, "--follow", "--input", LONG]);
    run(&["chat", LONG, "--agent", name]);
    let graph = format!(
        "{{\"kind\":\"object\",\"type\":\"Note\",\"key\":\"long\",\"properties\":{{\"title\":\"{LONG}\",\"summary\":\"{LONG} {LONG}\"}}}}\n\
         {{\"kind\":\"object\",\"type\":\"Note\",\"properties\":{{\"title\":\"{LONG}\"}}}}\n\
         {{\"kind\":\"object\",\"type\":\"Note\",\"key\":\"other\",\"properties\":{{}}}}\n\
         {{\"kind\":\"relationship\",\"type\":\"is_about_the_same_as\",\"from\":{{\"type\":\"Note\",\"key\":\"long\"}},\"to\":{{\"type\":\"Note\",\"key\":\"other\"}}}}\n"
    );
    write(&home, "graph.ndjson", &graph);
    run(&["graph", "import", "graph.ndjson"]);
    run(&["object", "update", "Note/long", "--set", &format!("why={LONG}")]);
    write(&home, "page.md", &format!("# {LONG}\n\n{LONG}.\n"));
    run(&["document", "add", "page.md", "--title", LONG]);
    run(&["project", "create", "a-project-with-a-rather-long-name-that-nobody-wants-to-type"]);
    run(&[
        "token",
        "create",
        "a-token-with-a-rather-long-name-that-is-read-by-people-only",
        "--scopes",
        "graph:read",
    ]);
    let server = r#"{ "name": "files", "transport": "stdio", "command": "/usr/local/lib/some/program/that/is/not/there",
        "args": ["--with", "arguments", "that are long as well", "/srv/files/of/everybody"] }"#;
    write(&home, "server.json", server);
    run(&["mcp-server", "add", "server.json"]);
    let trigger = format!(
        "trigger: \"0 9 * * MON\"\nconfig: {{ time_zone: America/Argentina/ComodRivadavia }}\n\
         dispatch: {{ tasks: [{{ key: one, title: {LONG}, assigned_agent: {name} }}] }}\n"
    );
    write(&home, "trigger.yaml", &trigger);
    run(&["trigger", "save", "a-weekly-report-with-a-name-that-says-everything", "trigger.yaml"]);
    home
}

/// The commands that only read, with what they read.
const READS: &[&[&str]] = &[
    &["agent", "list"],
    &["agent", "show", "an-agent-with-a-rather-long-name-that-repeats-what-it-is-told"],
    &["agent", "history", "an-agent-with-a-rather-long-name-that-repeats-what-it-is-told"],
    &["run", "list"],
    &["run", "stats"],
    &["run", "show", "last"],
    &["run", "tree", "last"],
    &["run", "messages", "last"],
    &["run", "tool-calls", "last"],
    &["run", "revert", "last", "--dry-run"],
    &["workflow", "list"],
    &["workflow", "show", "last"],
    &["workflow", "events", "last"],
    &["task", "list"],
    &["discussion", "list"],
    &["discussion", "show", "last"],
    &["inbox", "list"],
    &["budget", "show"],
    &["trigger", "list"],
    &["trigger", "firings"],
    &["graph", "search", "tagging"],
    &["graph", "traverse", "Note/long", "--depth", "2"],
    &["graph", "show", "Note/long"],
    &["graph", "history", "Note/long"],
    &["object", "list"],
    &["object", "list", "--type", "Note"],
    &["document", "list"],
    &["document", "show", "last"],
    &["pack", "list"],
    &["pack", "show", "emergent-coordination"],
    &["tool", "list"],
    &["tool", "show", "entities_create"],
    &["product", "list"],
    &["product", "check"],
    &["token", "list"],
    &["secret", "list"],
    &["project", "list"],
    &["project", "show", "default"],
    &["mcp-server", "list"],
    &["mcp-server", "show", "files"],
    &["mcp-server", "tools", "files"],
    &["conversation", "list"],
    &["conversation", "show", "last"],
    &["audit"],
    &["health"],
    &["doctor"],
];

/// A line of JSON is not broken, so that it can be copied.
fn is_json(line: &str) -> bool {
    line.trim_start().starts_with(['"', '{', '}', '[', ']'])
}

/// What is wrong with the output of a command.
fn problems(home: &Home, args: &[&str]) -> Vec<String> {
    let shown = on_terminal(home, (24, 80), "", args);
    let lines = written_lines(&text(&shown.stdout));
    let mut problems = Vec::new();
    // One of the servers cannot be started, which doctor says with its exit code.
    if !shown.status.success() && args != ["doctor"] {
        problems.push(format!("{args:?} failed: {}", lines.join("\n")));
    }
    let wide = lines.iter().filter(|line| console_width(line) > 80 && !is_json(line));
    problems
        .extend(wide.map(|line| format!("{args:?} has a line of {} columns: {line}", console_width(line))));
    let piped = home.run(args);
    if [&piped.stdout, &piped.stderr].iter().any(|stream| stream.contains(&0x1b)) {
        problems.push(format!("{args:?} has control characters in a pipe"));
    }
    problems
}

/// The columns of a line. None of the texts here has characters of two columns.
fn console_width(line: &str) -> usize {
    line.chars().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_is_listed_or_shown_fits_a_terminal_of_80_columns() {
    let home = home_with_everything();
    let server = home.start().await;
    let (next, found) = (Mutex::new(READS.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(args) = next.lock().expect("no panic").next() else { return };
                    let problems = problems(&home, args);
                    found.lock().expect("no panic").extend(problems);
                }
            });
        }
    });
    server.kill();
    let found = found.into_inner().expect("no panic");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
