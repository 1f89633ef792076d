//! `emergent inbox`: `last`, which may name something else by now, and the options of a workflow that waits.

use serde_json::json;

use crate::{
    chat::home_with_talker,
    chat_terminal::converse_to_end,
    common::{Home, command_output, failed, json_of, text},
    write,
};

/// A folder with a workflow that waits for a person, because its only task failed. Returns the id of the workflow.
fn home_with_escalation() -> (Home, String) {
    let home = home_with_talker();
    write(
        &home,
        "plan.json",
        &json!([{ "key": "bad", "title": "fail", "assignedAgent": "talker", "maxRetries": 0 }]).to_string(),
    );
    failed(&home.run(&["dispatch", "--tasks", "plan.json", "--follow"]));
    let id = json_of(home.run(&["workflow", "list", "--json"]))[0]["id"].as_str().expect("an id").to_owned();
    (home, id)
}

fn status(home: &Home, workflow: &str) -> String {
    json_of(home.run(&["workflow", "show", workflow, "--json"]))["status"]
        .as_str()
        .expect("a status")
        .to_owned()
}

#[test]
fn last_cancels_no_workflow_unless_a_person_or_a_script_says_so() {
    let (home, id) = home_with_escalation();
    let refused = failed(&home.run(&["inbox", "deny", "last"]));
    assert!(refused.contains("cancel the workflow") && refused.contains(&id), "{refused}");
    assert!(refused.contains("--yes"), "{refused}");
    let steps = [("cancel the workflow", "n\r"), ("Nothing was changed.", "")];
    let declined = converse_to_end(&home, &["inbox", "deny", "last"], &steps);
    assert_eq!(declined.status.code(), Some(1), "{}", text(&declined.stdout));
    assert_eq!(status(&home, &id), "escalated");
    let denied = home.run(&["inbox", "deny", "last", "--yes"]);
    assert!(text(&denied.stderr).contains("cancel the workflow"), "it says what it does");
    command_output(denied);
    assert_eq!(status(&home, &id), "cancelled");
    // Nothing waits any more, so `last` is nothing, whatever was decided before.
    for command in ["show", "approve", "deny"] {
        let told = failed(&home.run(&["inbox", command, "last"]));
        assert!(told.contains("nothing waits for a person"), "{told}");
    }
    let told = failed(&home.run(&["inbox", "deny", &id]));
    assert!(told.contains("was already"), "{told}");
}

#[test]
fn the_options_of_a_workflow_are_shown_with_their_commands_and_can_be_chosen() {
    let (home, id) = home_with_escalation();
    let shown = command_output(home.run(&["inbox", "show", &id]));
    for part in ["1. retry", "inbox answer", "task reassign ", " AGENT", "3. skip", "4. cancel"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let told = failed(&home.run(&["inbox", "answer", &id, "2"]));
    assert!(told.contains("`reassign` needs more") && told.contains("task reassign "), "{told}");
    let told = failed(&home.run(&["inbox", "answer", &id, "explode"]));
    assert!(told.contains("retry, reassign, skip, cancel"), "{told}");
    assert_eq!(status(&home, &id), "escalated");
    let chosen = command_output(home.run(&["inbox", "answer", &id, "3"]));
    assert!(chosen.starts_with("skip: workflow "), "{chosen}");
    let task = &json_of(home.run(&["workflow", "show", &id, "--json"]))["tasks"][0];
    assert_eq!(task["status"], "skipped", "{task}");
}

#[test]
fn two_calls_of_one_tool_are_told_apart() {
    let home = home_with_talker();
    failed(&home.run(&["chat", "delete it", "--agent", "talker"]));
    let listed = command_output(home.run(&["inbox", "list"]));
    assert!(listed.contains("entities_delete Note/old"), "{listed}");
}

#[test]
fn a_question_is_not_approved_and_a_call_is_not_answered() {
    let home = home_with_talker();
    failed(&home.run(&["chat", "ask me", "--agent", "talker"]));
    let waiting = command_output(home.run(&["run", "show", "last"]));
    assert!(waiting.contains("a person: `emergent inbox list` shows what to decide"), "{waiting}");
    assert!(waiting.contains("1 × ask_user\n"), "a call that waits took no time: {waiting}");
    let told = failed(&home.run(&["inbox", "approve", "last"]));
    assert!(told.contains("is a question, which is answered: `emergent inbox answer "), "{told}");
    assert!(!told.contains("approve the call"), "nothing is announced that is not done: {told}");
    command_output(home.run(&["inbox", "answer", "last", "red"]));
    failed(&home.run(&["chat", "delete it", "--agent", "talker"]));
    let told = failed(&home.run(&["inbox", "answer", "last", "red"]));
    assert!(told.contains("is a tool call, which is approved or denied: `emergent inbox approve "), "{told}");
    let expired = command_output(home.run(&["inbox", "list", "--status", "expired"]));
    assert_eq!(expired, "Nothing is expired.\n");
}

#[test]
fn an_answer_that_would_be_refused_is_not_asked_about() {
    let home = home_with_talker();
    failed(&home.run(&["chat", "ask me", "--agent", "talker"]));
    let told = failed(&home.run(&["inbox", "answer", "last", "green"]));
    assert!(told.contains("the answer must be one of `red`, `blue`, or the number of one"), "{told}");
    assert!(!told.contains("answer \""), "nothing is announced: {told}");
    let (home, _) = home_with_escalation();
    let told = failed(&home.run(&["inbox", "answer", "last", "explode"]));
    assert!(told.contains("`explode` is not an option of this workflow"), "{told}");
}
