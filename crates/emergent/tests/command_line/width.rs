//! Everything that commands list or show fits a terminal of 80 columns, and one of 40, and has no control characters elsewhere.

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
    &["graph", "search", "tagging", "--mode", "linked", "--explain", "--group", "is_about_the_same_as"],
    &["graph", "traverse", "Note/long", "--depth", "2"],
    &["graph", "show", "Note/long"],
    &["graph", "history", "Note/long"],
    &["object", "list"],
    &["object", "list", "--type", "Note"],
    &["object", "list", "--all"],
    &["relationship", "list", "Note/long"],
    &["document", "list"],
    &["document", "search", "tagging", "--explain"],
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

/// Whether the line is nothing but an id, an address, a path or a command, which is not broken, so that it can be copied.
fn is_copied(line: &str) -> bool {
    let line = line.trim();
    let is_one_word = !line.contains(char::is_whitespace);
    (is_one_word && (is_uuid(line) || line.contains('/'))) || line.starts_with("emergent ")
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36 && word.chars().all(|char| char == '-' || char.is_ascii_hexdigit())
}

/// What is wrong with the output of a command.
fn problems(home: &Home, columns: usize, args: &[&str]) -> Vec<String> {
    let shown = on_terminal(home, (24, columns), "", args);
    let lines = written_lines(&text(&shown.stdout));
    let mut problems = Vec::new();
    // One of the servers cannot be started, which doctor says with its exit code.
    if !shown.status.success() && args != ["doctor"] {
        problems.push(format!("{args:?} failed: {}", lines.join("\n")));
    }
    let may_be_wide = |line: &str| is_json(line) || (columns < 80 && is_copied(line));
    let wide = lines.iter().filter(|line| console_width(line) > columns && !may_be_wide(line));
    problems
        .extend(wide.map(|line| format!("{args:?} has a line of {} columns: {line}", console_width(line))));
    if columns < 80 {
        return problems;
    }
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

/// What is wrong with the output of all commands on a terminal of so many columns.
async fn all_problems(columns: usize) -> String {
    let home = home_with_everything();
    let server = home.start().await;
    let (next, found) = (Mutex::new(READS.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(args) = next.lock().expect("no panic").next() else { return };
                    let problems = problems(&home, columns, args);
                    found.lock().expect("no panic").extend(problems);
                }
            });
        }
    });
    server.kill();
    found.into_inner().expect("no panic").join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_is_listed_or_shown_fits_a_terminal_of_80_columns() {
    assert_eq!(all_problems(80).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_is_listed_or_shown_fits_a_terminal_of_40_columns() {
    assert_eq!(all_problems(40).await, "");
}

#[test]
fn an_id_that_is_shown_can_be_copied_at_any_width() {
    let home = Home::sqlite().with("EMERGENT_MODEL", "rehearsal/echo");
    let name = "a-project-with-a-rather-long-name-that-nobody-wants-to-type";
    command_output(home.run(&["project", "create", name]));
    command_output(home.run(&["chat", "Hello"]));
    for args in [&["project", "show", name][..], &["conversation", "show", "last"]] {
        for columns in [120, 80, 60, 40] {
            let shown = text(&on_terminal(&home, (24, columns), "", args).stdout);
            let lines = written_lines(&shown);
            let has_id = |line: &String| line.split_whitespace().any(is_uuid);
            assert!(lines.iter().any(has_id), "{args:?} {columns}: {shown}");
            assert!(lines.iter().all(|line| console_width(line) <= columns), "{args:?} {columns}: {shown}");
        }
    }
}

#[test]
fn a_list_shows_the_whole_names_of_objects_at_any_width() {
    let home = Home::sqlite();
    let run = |args: &[&str]| command_output(home.run(args));
    run(&["object", "create", "Person", "ada-lovelace", "--set", "name=Ada King, Countess of Lovelace"]);
    run(&["object", "create", "Machine", "analytical-engine", "--set", "name=Analytical Engine"]);
    run(&[
        "relationship",
        "create",
        "Person/ada-lovelace",
        "wrote_programs_for",
        "Machine/analytical-engine",
    ]);
    for args in [&["object", "list"][..], &["relationship", "list", "Person/ada-lovelace"]] {
        for columns in [120, 80, 60, 40] {
            let shown = text(&on_terminal(&home, (24, columns), "", args).stdout);
            for name in ["Person/ada-lovelace", "Machine/analytical-engine"] {
                assert!(shown.contains(name), "{args:?} {columns}: {shown}");
            }
            let lines = written_lines(&shown);
            assert!(lines.iter().all(|line| console_width(line) <= columns), "{args:?} {columns}: {shown}");
        }
    }
}

#[test]
fn a_list_of_runs_shows_the_whole_status_at_any_width() {
    let home = Home::sqlite();
    let folder = home.data().join("rehearsals");
    std::fs::create_dir_all(&folder).expect("a folder");
    let script = "rules:\n  - when: { turn: 1 }\n    answer: { calls: [{ tool: entities_query, input: {} }] }\n  \
                  - when: {}\n    answer: { text: so far }\n";
    std::fs::write(folder.join("searches.yaml"), script).expect("a file");
    let agent = r#"{ "name": "an-agent-that-searches-for-ever", "tools": ["entities_query"], "maxSteps": 1,
        "model": { "provider": "rehearsal", "name": "searches" } }"#;
    write(&home, "agent.json", agent);
    command_output(home.run(&["agent", "apply", "agent.json"]));
    home.run(&["agent", "trigger", "an-agent-that-searches-for-ever", "--follow", "--input", LONG]);
    for columns in [120, 80, 60, 40] {
        let shown = text(&on_terminal(&home, (24, columns), "", &["run", "list"]).stdout);
        assert!(shown.contains("paused (step_limit)"), "{columns}: {shown}");
        let lines = written_lines(&shown);
        assert!(lines.iter().all(|line| console_width(line) <= columns), "{columns}: {shown}");
    }
}

#[test]
fn the_help_fits_a_terminal_of_40_columns() {
    let home = Home::sqlite();
    for args in
        [&["--help"][..], &["run", "--help"], &["agent", "trigger", "--help"], &["dispatch", "--help"]]
    {
        let shown = text(&on_terminal(&home, (24, 40), "", args).stdout);
        let wide: Vec<String> = written_lines(&shown)
            .into_iter()
            .filter(|line| console_width(line) > 40 && !is_copied(line))
            .collect();
        assert!(wide.is_empty(), "{args:?}: {wide:#?}");
    }
}
