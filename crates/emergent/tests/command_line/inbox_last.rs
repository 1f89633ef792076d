//! `emergent inbox`: `last`, which may name something else by now, and the options of a workflow that waits.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    time::Duration,
};

use serde_json::json;

use crate::{
    chat::home_with_talker,
    chat_terminal::converse_to_end,
    common::{Home, command_output, eventually, failed, json_of, text},
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_whose_task_asks_a_person_says_so_before_the_answer() {
    let home = home_with_talker();
    let plan = json!([{ "key": "paint", "title": "ask me", "assignedAgent": "talker" }]);
    write(&home, "plan.json", &plan.to_string());
    let server = home.start().await;
    let mut follow = home.command(&["dispatch", "--tasks", "plan.json", "--follow"]);
    let mut child = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut lines =
        BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.expect("a line"));
    let asked = lines.find(|line| line.contains('✋')).expect("a line about the request");
    assert!(asked.starts_with("paint  ✋ a person is asked: emergent inbox show "), "{asked}");
    eventually("the task has the flag", Duration::from_secs(20), async || {
        let shown = command_output(home.run(&["workflow", "show", "last"]));
        shown.contains("⚑ paint") && shown.contains("waits for a person: emergent inbox list")
    })
    .await;
    command_output(home.run(&["inbox", "answer", "last", "red"]));
    let rest: Vec<String> = lines.collect();
    assert!(child.wait().expect("a child").success(), "{rest:#?}");
    assert!(rest.iter().any(|line| line == "paint  ✋ a person answered ask_user"), "{rest:#?}");
    server.kill();
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
    let answered = home.run(&["inbox", "answer", "last", "2"]);
    assert!(text(&answered.stderr).contains("answer \"blue\" to \""), "{}", text(&answered.stderr));
    let waits = "It waits for a server (`emergent serve`); `emergent run follow ";
    assert!(text(&answered.stderr).contains(waits), "{}", text(&answered.stderr));
    assert!(command_output(answered).starts_with("answered \"blue\""));
    failed(&home.run(&["chat", "delete it", "--agent", "talker"]));
    let told = failed(&home.run(&["inbox", "answer", "last", "red"]));
    assert!(told.contains("is a tool call, which is approved or denied: `emergent inbox approve "), "{told}");
    let expired = command_output(home.run(&["inbox", "list", "--status", "expired"]));
    assert_eq!(expired, "Nothing is expired.\n");
}

#[test]
fn a_run_waits_for_a_server_only_when_its_last_request_is_decided() {
    let home = home_with_talker();
    failed(&home.run(&["chat", "both", "--agent", "talker"]));
    let decided = || text(&home.run(&["inbox", "deny", "last"]).stderr);
    let waits = "It waits for a server (`emergent serve`); `emergent run follow ";
    let first = decided();
    assert!(first.contains("deny \"") && !first.contains(waits), "it waits for a person still: {first}");
    let second = decided();
    assert!(second.contains(waits), "{second}");
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
    let told = failed(&home.run(&["inbox", "answer", "last", "2"]));
    assert!(told.contains("`reassign` needs more than its name"), "{told}");
    assert!(!told.contains("the workflow \""), "nothing is announced: {told}");
    let told = failed(&home.run(&["inbox", "answer", "last", "4"]));
    assert!(told.contains("this would cancel the workflow"), "{told}");
}

#[test]
fn an_edited_call_is_asked_about_with_its_new_input() {
    let home = home_with_talker();
    failed(&home.run(&["chat", "delete it", "--agent", "talker"]));
    let edit = ["inbox", "edit", "last", "--input", r#"{ "id": "Note/other" }"#];
    let asked = converse_to_end(&home, &edit, &[("Note/other", "n\r"), ("Nothing was changed.", "")]);
    let asked = text(&asked.stdout);
    assert!(asked.contains("with the new input") && !asked.contains("Note/old"), "{asked}");
}
