//! Commands on a data folder without a server: only one process at a time can use the folder.

use std::process::{Child, Stdio};

use crate::{
    chat::home_with_talker,
    chat_terminal::converse,
    common::{Home, command_output, failed, json_of, text},
    home_with_agent, write,
};

/// Starts a command that keeps the folder until its input ends.
fn hold(home: &Home) -> Child {
    let mut command = home.command(&["agent", "apply", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("the binary runs");
    let lock = home.data().join("lock");
    while !std::fs::read_to_string(&lock).is_ok_and(|text| text.starts_with(&child.id().to_string())) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child
}

#[test]
fn a_folder_in_use_names_the_command_that_has_it_and_how_several_work_at_once() {
    let home = home_with_agent();
    let mut holder = hold(&home);
    let told = failed(&home.run(&["run", "list"]));
    holder.kill().expect("a child of ours");
    holder.wait().expect("a child of ours");
    assert!(told.contains(&format!("`emergent agent apply` (process {})", holder.id())), "{told}");
    assert!(told.contains("(`emergent serve`), several commands work at once"), "{told}");
}

#[test]
fn watch_needs_a_server() {
    let home = home_with_agent();
    let told = failed(&home.run(&["watch"]));
    assert!(told.contains("no server runs on this data folder: start one with `emergent serve`"), "{told}");
}

#[test]
fn a_followed_run_that_waits_for_a_decision_ends_the_command_and_goes_on_after_it() {
    let home = home_with_talker();
    for json in [&[][..], &["--json"]] {
        let follow = ["agent", "trigger", "talker", "--input", "delete it", "--follow"];
        let output = home.run(&[&follow, json].concat());
        let told = failed(&output);
        assert!(told.contains("the run waits for a decision"), "{told}");
        let request = json_of(home.run(&["inbox", "list", "--json"]))[0]["id"].clone();
        let request = request.as_str().expect("an id");
        assert!(told.contains(&format!("`emergent inbox show {request}`")), "{told}");
        command_output(home.run(&["inbox", "deny", request]));
        let (_, run) = told.split_once("`emergent run follow ").expect("the command that goes on");
        let (run, _) = run.split_once('`').expect("the end of the command");
        let shown = command_output(home.run(&["run", "follow", run]));
        assert!(shown.contains("✓ completed"), "{shown}");
    }
}

#[test]
fn a_person_at_the_terminal_decides_in_place() {
    let home = home_with_talker();
    let steps = [
        ("[a]pprove [e]dit [d]eny", "a"),
        ("Really approve entities_delete? [y/N]", "y"),
        ("approved", ""),
        ("✓ completed", ""),
    ];
    converse(&home, &["agent", "trigger", "talker", "--input", "delete it", "--follow"], &steps);
    let gone = home.run(&["graph", "show", "Note/old"]);
    assert!(!gone.status.success(), "the note is deleted: {}", text(&gone.stdout));
}

#[test]
fn a_search_says_how_many_texts_are_not_embedded() {
    let home = home_with_agent();
    command_output(home.run(&["object", "create", "Note", "a", "--set", "text=An engine"]));
    let notice = |mode: &str| text(&home.run(&["graph", "search", "engine", "--mode", mode]).stderr);
    assert_eq!(notice("vector"), "1 text is not embedded yet; `emergent serve` embeds it\n");
    assert_eq!(notice("text"), "");
}

#[test]
fn an_agent_that_cannot_start_is_named_when_it_is_applied_and_no_server_is_started_again() {
    let home = home_with_agent();
    let agent = r#"{ "name": "thinker", "model": { "provider": "google", "name": "gemini-2.5-flash" } }"#;
    write(&home, "thinker.json", agent);
    let output = home.run(&["agent", "apply", "thinker.json", "echo.json"]);
    let notice = text(&output.stderr);
    assert!(notice.contains("! thinker cannot start: its model google/gemini-2.5-flash needs"), "{notice}");
    assert!(!notice.contains("echo") && !notice.contains("start the server"), "{notice}");
    let told = failed(&home.run(&["agent", "trigger", "thinker", "--input", "x"]));
    assert!(told.contains("GEMINI_API_KEY") && !told.contains("start the server"), "{told}");
}
