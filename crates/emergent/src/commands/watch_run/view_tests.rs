//! Events in, text out.

use serde_json::json;

use super::*;

const ID: &str = "0198c0de-0000-7000-8000-000000000000";
const TIME: &str = "2026-01-01T00:00:00Z";

fn rendered(events: &[Value]) -> String {
    let mut view = View::new(false, None);
    events.iter().map(|event| view.event(&read(event))).collect()
}

fn read(event: &Value) -> BodyView {
    serde_json::from_value(event.clone()).unwrap()
}

fn delta(step: i64, text: &str) -> Value {
    json!({ "type": "text_delta", "stepNumber": step, "text": text })
}

fn message(step: i64, text: &str) -> Value {
    json!({ "type": "message", "message": { "id": ID, "runId": ID, "role": "assistant", "stepNumber": step,
        "content": { "text": text, "toolCalls": [] }, "createdAt": TIME } })
}

fn call(kind: &str, status: &str) -> Value {
    json!({ "type": kind, "toolCall": { "id": ID, "runId": ID, "messageId": ID, "toolName": "search",
        "input": { "q": "a" }, "status": status, "durationMs": 120, "output": { "error": "no index" },
        "stepNumber": 1, "createdAt": TIME } })
}

#[test]
fn streamed_text_is_not_printed_twice() {
    assert_eq!(rendered(&[delta(1, "Hello "), delta(1, "you"), message(1, "Hello you")]), "Hello you\n");
    assert_eq!(rendered(&[message(1, "Hello you")]), "Hello you\n");
    assert_eq!(rendered(&[delta(1, "Hel"), message(1, "Hello you")]), "Hello you\n");
    let so_far = |text: &str| json!({ "type": "text_so_far", "stepNumber": 1, "text": text });
    assert_eq!(rendered(&[so_far("Hello "), delta(1, "you"), message(1, "Hello you")]), "Hello you\n");
    assert_eq!(rendered(&[delta(1, "Hel"), so_far("Hello "), message(1, "Hello you")]), "Hello you\n");
    // A client that connected late received only the end of the text.
    assert_eq!(rendered(&[delta(1, "lo you"), message(1, "Hello you")]), "lo you\nHello you\n");
}

#[test]
fn the_text_of_a_restarted_step_is_printed_again() {
    let restarted = json!({ "type": "step_restarted", "stepNumber": 1, "why": "busy" });
    let output = rendered(&[delta(1, "Hel"), restarted, delta(1, "Hi"), message(1, "Hi")]);
    assert_eq!(output, "Hel\n↻ the model is asked again: busy\nHi\n");
    let recovered = json!({ "type": "run_started", "recovered": true });
    let output = rendered(&[delta(1, "Hel"), recovered, delta(1, "Hi"), message(1, "Hi")]);
    assert_eq!(output, "Hel\n↻ goes on after a restart\nHi\n");
}

#[test]
fn the_last_answer_of_a_run_whose_time_is_up_is_printed_once() {
    let limit = json!({ "type": "limit_reached", "reason": "timeout" });
    let output = rendered(&[
        delta(1, "Slow"),
        limit,
        delta(1, "So far: "),
        delta(1, "nothing"),
        message(1, "So far: nothing"),
    ]);
    assert_eq!(output, "Slow\n⚑ time is up: a last answer, within seconds\nSo far: nothing\n");
}

#[test]
fn an_answer_that_does_not_match_its_schema_is_corrected() {
    let incomplete = |reason: &str| json!({ "type": "answer_incomplete", "stepNumber": 1, "reason": reason });
    let output = rendered(&[incomplete("invalid_output")]);
    assert_eq!(output, "↻ the answer does not match the output schema: the model is asked to correct it\n");
    assert!(rendered(&[incomplete("truncated")]).contains("is asked to go on"));
}

#[test]
fn the_lines_of_a_server_that_failed_are_indented() {
    let servers = json!([{ "server": "files", "reason": "ended; its standard error ends with:\nI am gone" }]);
    let output = rendered(&[json!({ "type": "servers_unavailable", "servers": servers })]);
    assert!(output.ends_with("ends with:\n    I am gone\n"), "{output}");
}

#[test]
fn a_tool_call_is_one_line() {
    let succeeded = rendered(&[
        delta(1, "Looking"),
        call("tool_started", "running"),
        call("tool_completed", "completed"),
    ]);
    assert_eq!(succeeded, "Looking\n✓ search  {\"q\":\"a\"}  120ms\n");
    let failed = rendered(&[call("tool_started", "running"), call("tool_completed", "error")]);
    assert_eq!(failed, "✗ search  {\"q\":\"a\"}  120ms  no index\n");
}

#[test]
fn the_end_shows_the_usage_and_the_summary_once() {
    let mut run = json!({ "id": ID, "agentId": ID, "agentName": "a", "status": "paused", "reason": "step_limit",
        "origin": "trigger", "depth": 0, "model": "google/gemini", "stepCount": 3, "timeoutSeconds": 60,
        "createdAt": TIME, "durationMs": 2_000, "summary": { "text": "Half done" }, "resumeChain": [],
        "tokenUsage": { "totalInput": 10, "totalOutput": 2, "totalReasoning": 0, "cacheRead": 0,
            "cacheWrite": 0, "totalCost": 0.5 },
        "toolCallSummary": { "total": 0, "byTool": {}, "errors": 0 }, "childRuns": [], "doomLoopEvents": 0 });
    let mut view = View::new(false, None);
    assert_eq!(
        view.end(&serde_json::from_value(run.clone()).unwrap()),
        format!(
            "Half done\n⏸ paused (step_limit)  3 steps  2.0s  10 tokens in, 2 out, $0.5000  {ID}\n  \
             to go on: emergent run resume {ID}\n"
        )
    );
    run["status"] = json!("completed");
    view.event(&read(&message(1, "Half done")));
    assert!(view.end(&serde_json::from_value(run).unwrap()).starts_with("✓ completed"));
}

#[test]
fn a_run_that_waits_for_a_person_says_so_until_it_goes_on() {
    let mut view = View::new(false, None);
    view.event(&read(&json!({ "type": "run_started", "recovered": false })));
    view.event(&read(&call("tool_started", "running")));
    assert_eq!(view.activity(), "calling search");
    view.event(&read(&json!({ "type": "run_waiting", "waitingFor": "approval" })));
    assert_eq!(view.activity(), "waiting for a person");
    view.event(&read(&json!({ "type": "run_continued" })));
    assert_eq!(view.activity(), "calling search");
}
