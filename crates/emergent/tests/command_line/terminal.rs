//! Output on a terminal of 80 columns and 24 lines. Python makes the terminal.

use std::process::{Command, Output};

use crate::{
    common::{Home, command_output, finish, text},
    home_with_agent,
};

const PTY: &str = include_str!("pseudo_terminal.py");

/// Runs a command of the binary on a terminal; its output has everything that was written to the terminal.
pub fn on_terminal(home: &Home, (rows, columns): (usize, usize), typed: &str, args: &[&str]) -> Output {
    let direct = home.command(args);
    let mut command = Command::new("python3");
    command.args(["-c", PTY, &rows.to_string(), &columns.to_string(), typed]).arg(direct.get_program());
    command.args(direct.get_args()).current_dir(home.folder()).env("NO_COLOR", "1").env("TERM", "xterm");
    for (name, value) in direct.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    finish(command)
}

/// The written lines without control sequences, each time one was written.
pub fn written_lines(output: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut chars = output.chars();
    while let Some(char) = chars.next() {
        match char {
            '\x1b' => {
                let _ = chars.by_ref().skip(1).find(|char| char.is_ascii_alphabetic());
            }
            '\r' => {}
            other => plain.push(other),
        }
    }
    plain.lines().map(str::to_owned).collect()
}

#[test]
fn the_live_view_shows_activity_fits_the_terminal_and_never_clears_it() {
    let home = Home::sqlite();
    let output = on_terminal(&home, (24, 80), "", &["demo"]);
    let written = command_output(output);
    for clearing in ["\x1b[J", "\x1b[2J", "\x1b[3J", "\x1b[H"] {
        assert!(!written.contains(clearing), "{clearing:?} would push the drawing into the history");
    }
    let lines = written_lines(&written);
    let widest = lines.iter().max_by_key(|line| line.chars().count()).expect("lines");
    assert!(widest.chars().count() <= 80, "{widest}");
    let shows = |part: &str| lines.iter().any(|line| line.contains(part));
    assert!(shows("rehearsal"), "it says that it is a rehearsal");
    assert!(shows("tokens  "), "it shows the tokens of runs: {}", lines.join("\n"));
    assert!(shows("✓ entities_"), "it shows tool calls");
    assert!(shows("s  ▸ "), "it shows decisions");
    assert!(shows("emergent serve --data-dir emergent-demo"), "it says how to go on");
    assert!(!lines.iter().any(|line| line.ends_with(" …")), "words are whole");
}

#[test]
fn a_second_demo_offers_to_start_afresh() {
    let home = Home::sqlite();
    let play = |args: &[&str]| {
        let output = home.run(&[&["demo", "--json"], args].concat());
        let printed = command_output(output);
        let last: serde_json::Value =
            serde_json::from_str(&printed[printed.find("{\n").expect("the graph")..]).expect("JSON");
        last["workflowId"].as_str().expect("an id").to_owned()
    };
    let first = play(&[]);
    let asked = on_terminal(&home, (24, 80), "n\n", &["demo"]);
    let asked = command_output(asked);
    assert!(asked.contains("Play it afresh, in a new project? [y/N]"), "{asked}");
    assert!(asked.contains(&first[28..]), "no: it shows the first one: {asked}");
    let second = play(&["--fresh"]);
    assert_ne!(first, second);
    let flags = ["--data-dir", "emergent-demo", "--project", "demo-2"];
    let shown = command_output(home.run(&[&["workflow", "show", "last"][..], &flags].concat()));
    assert!(shown.contains("✓") && shown.contains("completed"), "{shown}");
    assert_eq!(play(&[]), second, "without --fresh it shows the newest one");
}

#[test]
fn a_demo_beside_something_else_plays_in_a_project_of_its_own() {
    let home = Home::sqlite();
    let data = ["--data-dir", "mine"];
    let server = r#"{ "name": "issues", "transport": "http", "url": "https://issues.example/mcp" }"#;
    std::fs::write(home.folder().join("server.json"), server).expect("a file");
    command_output(home.run(&["mcp-server", "add", "server.json", "--data-dir", "mine"]));
    let servers = || command_output(home.run(&[&["mcp-server", "list", "--json"][..], &data].concat()));
    let before = servers();
    let played = command_output(home.run(&[&["demo"][..], &data].concat()));
    assert!(played.contains("in the project `demo` of mine"), "{played}");
    assert!(played.contains("--data-dir mine --project demo"), "the hints name the project: {played}");
    assert_eq!(servers(), before, "the servers of the project are as they were");
    for kind in ["product", "agent", "trigger", "task"] {
        let listed = command_output(home.run(&[&[kind, "list", "--json"][..], &data].concat()));
        let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
        let lists = listed.as_object().map_or(vec![&listed], |of| of.values().collect());
        assert!(lists.iter().all(|list| list.as_array().is_some_and(Vec::is_empty)), "{kind}: {listed}");
    }
    let shown = ["workflow", "show", "last", "--data-dir", "mine", "--project", "demo"];
    assert!(command_output(home.run(&shown)).contains("completed"));
}

#[test]
fn a_demo_beside_a_budget_or_a_pack_plays_in_a_project_of_its_own() {
    for args in [&["budget", "set", "--usd", "5"][..], &["pack", "add", "pack.json"]] {
        let home = Home::sqlite();
        let pack = r#"{ "name": "mine", "version": "1.0.0", "objectTypeSchemas": { "Note": { "type": "object" } } }"#;
        std::fs::write(home.folder().join("pack.json"), pack).expect("a file");
        let data = ["--data-dir", "mine"];
        command_output(home.run(&[args, &data].concat()));
        let played = command_output(home.run(&[&["demo"][..], &data].concat()));
        assert!(played.contains("in the project `demo` of mine"), "{args:?}: {played}");
    }
}

#[test]
fn a_demo_with_a_model_that_has_no_key_leaves_nothing_behind() {
    let home = Home::sqlite();
    let output = home.run(&["demo", "--model", "google/gemini-2.5-flash"]);
    assert!(!output.status.success());
    let told = text(&output.stderr);
    assert!(
        told.contains("the demo cannot play with --model google/gemini-2.5-flash: it needs GEMINI_API_KEY")
    );
    assert!(!home.folder().join("emergent-demo").exists(), "{told}");
}

#[test]
fn a_long_operation_shows_on_a_terminal_what_it_does() {
    let home = home_with_agent();
    std::fs::write(home.folder().join("page.md"), "# A page\n\nWith a text.\n").expect("a file");
    let shown = command_output(on_terminal(&home, (24, 80), "", &["document", "add", "page.md"]));
    assert!(shown.contains("adding page.md"), "{shown}");
    std::fs::write(home.folder().join("other.md"), "# Another page\n\nWith another text.\n").expect("a file");
    let piped = home.run(&["document", "add", "other.md"]);
    assert_eq!(text(&piped.stderr), "", "a pipe gets the result only");
}

#[test]
fn mcp_says_on_a_terminal_what_it_waits_for() {
    let home = home_with_agent();
    let shown = text(&on_terminal(&home, (24, 80), "\u{4}", &["mcp"]).stdout);
    assert!(shown.contains("waits for an MCP client on standard input; see docs/mcp.md"), "{shown}");
    let help = command_output(home.run(&["mcp", "--help"]));
    assert!(help.contains("\"mcpServers\"") && help.contains("\"args\": [\"mcp\""), "{help}");
}

#[test]
fn tables_fit_the_terminal_and_their_short_ids_are_accepted() {
    let home = home_with_agent();
    command_output(home.run(&[
        "agent",
        "trigger",
        "echo",
        "--follow",
        "--input",
        "A long question about tagging that does not fit beside the other columns of a table",
    ]));
    for args in [&["run", "list"][..], &["agent", "list"], &["token", "list"], &["tool", "list"], &["audit"]]
    {
        let output = text(&on_terminal(&home, (24, 80), "", args).stdout);
        let lines = written_lines(&output);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{args:?}\n{}", lines.join("\n"));
        assert!(lines.len() >= 2, "{output}");
    }
    let runs = written_lines(&text(&on_terminal(&home, (24, 80), "", &["run", "list"]).stdout));
    let short = runs[1].split_whitespace().next().expect("an id").to_owned();
    assert_eq!(short.len(), 8, "{runs:?}");
    let shown = command_output(home.run(&["run", "show", &short]));
    assert!(shown.starts_with("echo"), "{shown}");
    assert!(
        command_output(home.run(&["run", "list"])).lines().nth(1).expect("a row").len() > 80,
        "a pipe gets all"
    );
}

#[test]
fn a_product_shows_its_plan_once_and_a_no_is_no_error() {
    let home = home_with_agent();
    let install =
        |typed: &str| on_terminal(&home, (50, 120), typed, &["product", "install", "emergent.research"]);
    let declined = install("n\n");
    let said = text(&declined.stdout);
    assert!(!declined.status.success() && said.contains("Nothing was changed."), "{said}");
    assert!(!said.contains("error:"), "{said}");
    let said = command_output(install("y\n"));
    assert_eq!(said.matches("uvx mcp-server-fetch").count(), 1, "{said}");
    assert!(said.contains("✓ emergent.research is at "), "{said}");
}
