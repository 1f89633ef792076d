//! Frames in, text out.

use serde_json::{Value, json};

use super::*;

const ID: &str = "0198c0de-0000-7000-8000-0000deadbeef";
const TIME: &str = "2026-01-01T00:00:00Z";

/// The text for frames that arrive 100 milliseconds apart.
fn rendered_by(mut view: View, frames: &[Value]) -> String {
    let frames = frames.iter().map(|frame| serde_json::from_value(frame.clone()).expect("a frame"));
    (0..)
        .map(|index| Duration::from_millis(index * 100))
        .zip(frames)
        .map(|(at, frame)| view.frame(&frame, at))
        .collect()
}

fn rendered(frames: &[Value]) -> String {
    rendered_by(View::new(false, None), frames)
}

fn meta() -> Value {
    json!({ "type": "meta", "conversationId": ID, "messageId": ID, "answerId": ID, "runId": ID, "queued": false,
        "title": "t", "passages": [] })
}

fn token(step: i64, text: &str) -> Value {
    json!({ "type": "token", "step": step, "text": text })
}

fn tool(status: &str) -> Value {
    json!({ "type": "mcp_tool", "tool": "search", "status": status, "toolCallId": ID, "input": { "q": "a" },
        "error": "no index" })
}

fn message(content: &str) -> Value {
    json!({ "id": ID, "conversationId": ID, "parentId": ID, "role": "assistant", "content": content,
        "status": "completed", "runId": ID, "usage": { "inputTokens": 12, "outputTokens": 5, "cost": 0.0012 },
        "author": { "type": "system" }, "createdAt": TIME })
}

fn done(message: Value) -> Value {
    json!({ "type": "done", "status": message["status"], "message": message })
}

#[test]
fn text_is_streamed_once_and_followed_by_what_it_cost() {
    let frames = [meta(), token(1, "Hello "), token(1, "you"), done(message("Hello you"))];
    assert_eq!(rendered(&frames), "Hello you\n", "a pipe gets the text alone");
    let shown = rendered_by(View::new(false, Some(80)), &frames);
    assert_eq!(shown, "Hello you\n12 tokens in, 5 out, $0.0012  300ms  run deadbeef\n");
}

#[test]
fn text_that_was_not_streamed_comes_with_the_end() {
    let output = rendered(&[meta(), done(message("Hello you"))]);
    assert_eq!(output, "Hello you\n");
}

#[test]
fn a_tool_call_is_one_line_with_its_duration() {
    let frames = [
        meta(),
        token(1, "Looking"),
        tool("started"),
        tool("completed"),
        token(2, "Found"),
        done(message("Found")),
    ];
    let output = rendered(&frames);
    assert!(output.starts_with("Looking\n✓ search  {\"q\":\"a\"}  100ms\nFound\n"), "{output}");
    assert_eq!(rendered(&[tool("started"), tool("error")]), "✗ search  {\"q\":\"a\"}  100ms  no index\n");
    assert_eq!(rendered(&[tool("completed")]), "✓ search\n", "the start of the call was not seen");
}

#[test]
fn the_time_of_a_person_is_not_that_of_the_call() {
    let mut held = tool("started");
    held["approvalId"] = json!(ID);
    let output = rendered(&[held, tool("completed")]);
    assert_eq!(output, "✋ search waits for a person\n✓ search\n");
}

#[test]
fn a_call_that_waits_for_a_person_says_so_and_its_wait_does_not_count() {
    let mut held = tool("started");
    held["approvalId"] = json!(ID);
    let mut view = View::new(false, None);
    let at = Duration::from_secs;
    let read = |frame: Value| serde_json::from_value::<ChatFrameView>(frame).expect("a frame");
    assert_eq!(view.frame(&read(held), at(0)), "✋ search waits for a person\n");
    assert_eq!(view.activity(), "waiting for a person");
    assert_eq!(view.frame(&read(tool("started")), at(60)), "");
    assert_eq!(view.activity(), "calling search");
    assert_eq!(view.frame(&read(tool("completed")), at(61)), "✓ search  {\"q\":\"a\"}  1.0s\n");
    assert_eq!(view.activity(), "sending", "no run is known");
}

#[test]
fn text_that_is_replaced_is_marked() {
    let mut replaced = token(1, "Hi");
    replaced["replace"] = json!(true);
    let output = rendered(&[meta(), token(1, "Hel"), replaced, done(message("Hi"))]);
    let note = "↻ the model was asked again: this takes the place of the text above";
    assert!(output.starts_with(&format!("Hel\n{note}\nHi\n")), "{output}");
}

#[test]
fn a_message_that_waits_for_its_turn_says_so_once() {
    let mut queued = meta();
    queued["queued"] = json!(true);
    queued.as_object_mut().expect("a frame").remove("runId");
    let output = rendered(&[queued, meta(), token(1, "Hi")]);
    assert_eq!(output, "◦ the message waits until those before it are answered\nHi");
}

#[test]
fn sources_are_listed_with_the_commands_that_open_them() {
    let mut answer = message("Ada");
    answer["citations"] = json!([
        { "kind": "object", "id": ID, "type": "Person", "key": "ada", "title": "Ada Lovelace" },
        { "kind": "run", "id": ID },
    ]);
    let output = rendered_by(View::new(false, Some(120)), &[meta(), token(1, "Ada"), done(answer)]);
    let expected = "Ada\n\nsources, opened by emergent graph show NAME, emergent run show RUN\n  \
                    1. Person/ada  Ada Lovelace\n  2. run deadbeef\n\
                    12 tokens in, 5 out, $0.0012  200ms  run deadbeef\n";
    assert_eq!(output, expected);
}

#[test]
fn words_are_wrapped_and_colour_is_only_for_terminals() {
    let long = [token(1, "The quick brown fox"), tool("started"), tool("completed")];
    let output = rendered_by(View::new(true, Some(10)), &long);
    assert!(
        output.starts_with("The quick\nbrown fox\n") && output.contains("\x1b[32m✓\x1b[0m"),
        "{output:?}"
    );
    assert!(!rendered(&long).contains('\x1b'));
}

#[test]
fn an_incomplete_answer_has_a_reason() {
    let reason = |status: &str, reason: Option<&str>, error: Option<&str>| {
        let mut answer = message("x");
        answer["status"] = json!(status);
        answer["reason"] = json!(reason);
        answer["error"] = json!(error);
        incomplete_reason(&serde_json::from_value(answer).expect("a message"))
    };
    assert_eq!(reason("completed", None, None), None);
    assert_eq!(
        reason("failed", Some("provider"), Some("no key")).as_deref(),
        Some("failed (provider): no key")
    );
    assert_eq!(reason("stopped", None, None).as_deref(), Some("stopped"));
    assert_eq!(reason("paused", Some("timeout"), None).as_deref(), Some("paused (timeout)"));
}
