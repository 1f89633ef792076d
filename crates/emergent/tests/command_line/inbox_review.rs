//! `emergent inbox review` with discussions and workflows that wait for a person.

use serde_json::Value;

use crate::{
    chat_terminal::{converse, converse_to_end},
    common::{Home, command_output, json_of, text},
    terminal::{on_terminal, written_lines},
    write,
};

const SCRIPT: &str = r#"
rules:
  - when: { agent: fails }
    fault: auth
  - when: { agent: critic }
    answer: { text: "SUGGEST_CHANGES: it is too short." }
  - answer: { text: Done. }
"#;

/// A folder with a workflow whose discussion came to no decision.
fn home_with_escalated_workflow() -> Home {
    let home = Home::sqlite();
    std::fs::create_dir_all(home.data().join("rehearsals")).expect("a folder");
    std::fs::write(home.data().join("rehearsals/work.yaml"), SCRIPT).expect("a script");
    for name in ["worker", "critic"] {
        let agent =
            format!(r#"{{ "name": "{name}", "model": {{ "provider": "rehearsal", "name": "work" }} }}"#);
        write(&home, "agent.json", &agent);
        command_output(home.run(&["agent", "apply", "agent.json"]));
    }
    let plan = "- { key: draft, title: Draft it, assigned_agent: worker, requires_collaboration: true, \
                collaborators: [critic], discussion: { rounds: 1 } }";
    write(&home, "draft.yaml", plan);
    let output = home.run(&["dispatch", "--tasks", "draft.yaml", "--follow"]);
    assert!(!output.status.success(), "it waits for a person: {output:?}");
    home
}

/// The kinds of what waits, in the order of the review.
fn kinds(home: &Home) -> Vec<String> {
    let items: Value = json_of(home.run(&["inbox", "list", "--json"]));
    let kind = |item: &Value| item["kind"].as_str().expect("a kind").to_owned();
    items.as_array().expect("a list").iter().rev().map(kind).collect()
}

#[test]
fn a_discussion_is_decided_with_keys_and_its_workflow_goes_on() {
    let home = home_with_escalated_workflow();
    // The workflow waits for the discussion, so there is one item.
    assert_eq!(kinds(&home), ["discussion"]);
    let shown = command_output(home.run(&["inbox", "show", "last"]));
    for part in
        ["was not approved within 1 round", "  the last proposal", "Done.", "critic  ", "it is too short"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let steps = [
        ("it is too short", ""),
        ("the last proposal", ""),
        ("[a]nswer [p] accept the proposal", "?"),
        ("a  give the discussion its outcome", ""),
        ("[a]nswer [p] accept the proposal", "r"),
        ("`r` is none of the keys: [1-9] an option [a]nswer [p] accept the proposal [c]ancel [l]ater", ""),
        ("[a]nswer [p] accept the proposal", "a"),
        ("outcome: ", "APPROVED\r"),
        ("answered", ""),
    ];
    converse(&home, &["inbox", "review"], &steps);
    let shown = command_output(home.run(&["workflow", "follow", "last"]));
    assert!(shown.contains("1 of 1 done"), "{shown}");
    assert!(kinds(&home).is_empty());
    let nothing = converse(&home, &["inbox", "review"], &[]);
    assert!(nothing.contains("Nothing waits for a person."), "{nothing}");
}

#[test]
fn a_decided_discussion_says_how_its_workflow_goes_on_without_a_server() {
    let waits = "It waits for a server (`emergent serve`); `emergent workflow follow ";
    for decide in
        [&["inbox", "approve", "last", "--yes"][..], &["discussion", "decide", "last", "APPROVED", "--yes"]]
    {
        let home = home_with_escalated_workflow();
        let decided = home.run(decide);
        assert!(text(&decided.stderr).contains(waits), "{decide:?}: {}", text(&decided.stderr));
        command_output(decided);
    }
    let home = home_with_escalated_workflow();
    let denied = home.run(&["inbox", "deny", "last", "--yes"]);
    assert!(
        !text(&denied.stderr).contains("waits for a server"),
        "it is cancelled: {}",
        text(&denied.stderr)
    );
}

#[test]
fn last_decides_a_discussion_only_if_the_person_says_yes() {
    let home = home_with_escalated_workflow();
    let decide = ["discussion", "decide", "last", "APPROVED"];
    let question = "decide on \"APPROVED\" in the discussion";
    let declined = converse_to_end(&home, &decide, &[(question, "n\r"), ("Nothing was changed.", "")]);
    assert_eq!(declined.status.code(), Some(1), "{}", text(&declined.stdout));
    assert_eq!(kinds(&home), ["discussion"], "it waits still");
    converse(&home, &decide, &[(question, "y\r"), ("decided by a person", "")]);
    assert!(kinds(&home).is_empty());
}

/// A folder with a workflow whose task failed.
fn home_with_failed_task() -> Home {
    let home = home_with_escalated_workflow();
    command_output(home.run(&["workflow", "cancel", "last"]));
    write(&home, "fails.json", r#"{ "name": "fails", "model": "rehearsal/work" }"#);
    command_output(home.run(&["agent", "apply", "fails.json"]));
    write(
        &home,
        "task.yaml",
        "on_failure: escalate\ntasks: [{ key: draft, title: Draft it, assigned_agent: fails, max_retries: 0 }]",
    );
    let output = home.run(&["dispatch", "--tasks", "task.yaml", "--follow"]);
    assert!(!output.status.success(), "it waits for a person: {output:?}");
    assert_eq!(kinds(&home), ["escalation"]);
    home
}

#[test]
fn every_option_of_a_workflow_has_a_key() {
    let home = home_with_failed_task();
    let names = "[1-4] an option [r]esume [c]ancel [l]ater [q]uit [?]";
    // What is typed between this message and the next prompt is lost.
    let refused = format!("`9` is none of the keys: {names}");
    let steps = [
        (names, "?"),
        ("1  choose the option with this number", ""),
        (names, "9"),
        (refused.as_str(), ""),
        (names, "3"),
        ("Really skip? [y/N]", "n"),
        (names, "2"),
        ("agent: ", "wroker\r"),
        ("did you mean `worker`?", ""),
        (names, "2"),
        ("agent: ", "worker\r"),
        ("reassign to worker: workflow", ""),
    ];
    converse(&home, &["inbox", "review"], &steps);
    let shown = command_output(home.run(&["workflow", "follow", "last"]));
    assert!(shown.contains("1 of 1 done"), "{shown}");
}

#[test]
fn a_workflow_is_shown_on_a_narrow_terminal_without_broken_words() {
    let home = home_with_failed_task();
    let output = text(&on_terminal(&home, (24, 40), "", &["inbox", "show", "last"]).stdout);
    for line in written_lines(&output).iter().filter(|line| !line.contains("emergent ")) {
        assert!(line.chars().count() <= 40, "{line}");
    }
}

#[test]
fn a_workflow_is_cancelled_only_after_it_was_confirmed() {
    let home = home_with_escalated_workflow();
    let steps = [
        ("accept the proposal [c]ancel", "c"),
        ("reason (may be empty): ", "no need\r"),
        ("Really cancel this workflow? [y/N]", "n"),
        ("accept the proposal [c]ancel", "c"),
        ("reason (may be empty): ", "no need\r"),
        ("Really cancel this workflow? [y/N]", "y"),
        ("cancelled: no need", ""),
    ];
    converse(&home, &["inbox", "review"], &steps);
    let workflow: Value = json_of(home.run(&["workflow", "show", "last", "--json"]));
    assert_eq!(workflow["status"], "cancelled", "{workflow}");
    assert!(kinds(&home).is_empty());
}
