//! What happens in a workflow right now, for the lines below its graph: what each active run does and how many
//! tokens it has used, and the newest decisions, tool calls and retries. It does no I/O.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use emergent_domain::{text::counted, time::Timestamp};
use emergent_wire::{
    run_event::{BodyView, RunEventView},
    run_message::ContentView,
    tool_call::{CallStatusView, ToolCallView},
};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    commands::{tree, watch_run},
    output::{duration, first_line},
    printable::printable_line,
    text::fit_line,
};

/// How many of the newest lines are stored.
const MAX_STORED_LINES: usize = 100;
/// Inputs of tools are shortened to this length.
const MAX_INPUT_CHARS: usize = 60;
/// About this many characters of streamed text are a token.
const CHARS_PER_TOKEN: usize = 4;

/// The state of a run that goes on only when a person has decided.
const WAITS_FOR_PERSON: &str = "waits for a person";

/// The activity of one workflow.
#[derive(Default)]
pub struct Activity {
    /// The active runs, by the time they were added.
    runs: BTreeMap<usize, ActiveRun>,
    added: usize,
    /// The newest lines, the oldest first, each with the time it is about.
    newest: VecDeque<(Timestamp, String)>,
}

struct ActiveRun {
    id: Uuid,
    /// The task, or what else the run does.
    label: String,
    step: i64,
    /// Tokens of complete answers.
    tokens: u64,
    /// Characters that were streamed since the last complete answer.
    streamed_chars: usize,
    state: String,
}

impl Activity {
    /// Adds a run that is followed from now on.
    pub fn add_run(&mut self, id: Uuid, label: &str) {
        let run = ActiveRun {
            id,
            label: label.to_owned(),
            step: 0,
            tokens: 0,
            streamed_chars: 0,
            state: "waits for its turn".to_owned(),
        };
        self.runs.insert(self.added, run);
        self.added += 1;
    }

    /// Whether the run is one of those whose own events are shown.
    pub fn has_run(&self, id: Uuid) -> bool {
        self.runs.values().any(|run| run.id == id)
    }

    /// Removes a run that has ended.
    pub fn remove_run(&mut self, id: Uuid) {
        self.runs.retain(|_, run| run.id != id);
    }

    /// The line for a request to a person or its decision, where nothing else of a run is shown; `None` for other events.
    pub fn request_line(&self, id: Uuid, event: &RunEventView) -> Option<String> {
        let run = self.runs.values().find(|run| run.id == id)?;
        Some(format!("{}  {}", run.label, request_line(&event.body, false)?))
    }

    /// Adds a line, such as a decision of the workflow.
    pub fn add_line(&mut self, at: Timestamp, line: String) {
        self.newest.push_back((at, line));
        if self.newest.len() > MAX_STORED_LINES {
            self.newest.pop_front();
        }
    }

    /// Applies an event of a run. `raw` is the event as it was sent, from which retries are read.
    pub fn apply_event(&mut self, id: Uuid, event: Option<&RunEventView>, raw: &Value) {
        let Some(run) = self.runs.values_mut().find(|run| run.id == id) else { return };
        let line = event
            .and_then(|event| run.apply_event(&event.body))
            .or_else(|| retry_line(raw).inspect(|line| run.state.clone_from(line)));
        let label = run.label.clone();
        let at = event.map(|event| event.at).or_else(|| raw.get("at")?.as_str()?.parse().ok());
        if let (Some(line), Some(at)) = (line, at) {
            self.add_line(at, format!("{label}  {line}"));
        }
        if matches!(event.map(|event| &event.body), Some(BodyView::RunEnded { .. })) {
            self.remove_run(id);
        }
    }

    /// At most `height` lines of at most `width` columns: the active runs, then the newest lines. `started_at`
    /// is when the workflow started.
    pub fn lines(&self, started_at: Timestamp, width: usize, height: usize) -> Vec<String> {
        // At most half of the lines are for runs, so that there is always something new to read.
        let shown_runs = self.runs.len().min(height.div_ceil(2));
        let mut lines: Vec<String> = self.runs.values().take(shown_runs).map(ActiveRun::line).collect();
        if shown_runs < self.runs.len()
            && let Some(last) = lines.last_mut()
        {
            *last = format!("  … {} more runs", self.runs.len() - shown_runs + 1);
        }
        let room = height.saturating_sub(lines.len());
        let newest = self.newest.iter().skip(self.newest.len().saturating_sub(room));
        lines.extend(newest.map(|(at, line)| {
            let since = millis(at.since(started_at));
            format!("{:>8}  {line}", duration(since))
        }));
        lines.iter().map(|line| fit_line(&printable_line(line), width)).collect()
    }
}

impl ActiveRun {
    fn line(&self) -> String {
        let streamed = self.streamed_chars / CHARS_PER_TOKEN;
        let about = if streamed > 0 { "about " } else { "" };
        let tokens = self.tokens + streamed as u64;
        format!("  ▸ {}  step {}  {about}{}  {}", self.label, self.step, counted(tokens, "token"), self.state)
    }

    /// Applies an event and returns the line for it, if it has one.
    fn apply_event(&mut self, event: &BodyView) -> Option<String> {
        match event {
            BodyView::RunStarted { recovered } => {
                (self.state, self.streamed_chars) = ("thinks".to_owned(), 0);
                recovered.then(|| "↻ goes on after a restart".to_owned())
            }
            BodyView::TextSoFar { step_number, text, omitted_chars } => {
                self.step = *step_number;
                self.streamed_chars = text.chars().count() + usize::try_from(*omitted_chars).unwrap_or(0);
                self.state = "writes".to_owned();
                None
            }
            BodyView::TextDelta { step_number, text } | BodyView::ThoughtDelta { step_number, text } => {
                self.step = *step_number;
                self.streamed_chars += text.chars().count();
                self.state = "writes".to_owned();
                None
            }
            BodyView::Message { message } => {
                self.step = self.step.max(message.step_number);
                if let Some(tokens) = &message.tokens {
                    self.tokens += tokens.input + tokens.output;
                }
                if matches!(message.content, ContentView::Answer(_)) {
                    self.streamed_chars = 0;
                }
                None
            }
            BodyView::ToolStarted { tool_call } => {
                self.state = format!("calls {}", tool_call.tool_name);
                None
            }
            BodyView::ToolCompleted { tool_call } => {
                self.state = "thinks".to_owned();
                Some(tool_line(tool_call))
            }
            BodyView::StepRestarted { why, .. } => {
                self.streamed_chars = 0;
                Some(format!("↻ the model is asked again: {}", first_line(why, MAX_INPUT_CHARS * 2)))
            }
            BodyView::LoopDetected { tool_name, count, .. } => {
                Some(format!("⟲ {tool_name} was called {count} times with the same input"))
            }
            BodyView::LimitReached { reason } => Some(format!("⚑ limit reached: {reason}")),
            BodyView::ServersUnavailable { servers, .. } => {
                // The reason may have several lines, of which the last ones say most.
                let text = watch_run::unavailable_server(servers.first()?);
                Some(text.lines().map(str::trim).collect::<Vec<_>>().join(" "))
            }
            BodyView::ApprovalRequested { .. } => {
                self.state = WAITS_FOR_PERSON.to_owned();
                request_line(event, true)
            }
            BodyView::RunWaiting { .. } => {
                self.state = WAITS_FOR_PERSON.to_owned();
                // The line of the request has the command.
                None
            }
            BodyView::ApprovalDecided { .. } => request_line(event, true),
            BodyView::RunContinued {} => {
                self.state = "thinks".to_owned();
                None
            }
            BodyView::Compacted { before, after, .. } => {
                Some(format!("… the conversation was shortened, from {before} to {after} tokens"))
            }
            // The workflow says what the end of a run means for its task.
            BodyView::RunEnded { .. } => None,
            #[allow(unreachable_patterns, reason = "kinds that are added later have no line here")]
            _ => None,
        }
    }
}

fn request_line(event: &BodyView, has_short_ids: bool) -> Option<String> {
    Some(format!("✋ {}", watch_run::request_text(event, has_short_ids)?))
}

fn tool_line(call: &ToolCallView) -> String {
    let mark = if matches!(call.status, CallStatusView::Error) { "✗" } else { "✓" };
    let took = tree::took(call.duration_ms).unwrap_or_default();
    let input = first_line(&call.input.to_string(), MAX_INPUT_CHARS);
    format!("{mark} {}  {took}  {input}", call.tool_name)
}

/// The line for a model call that failed and is repeated, from the event as it was sent.
fn retry_line(raw: &Value) -> Option<String> {
    // The workflow has its own event for a run below this one.
    if raw.get("type")?.as_str()? != "model_retry" || raw.get("childRunId").is_some() {
        return None;
    }
    let wait = raw.get("waitMs").and_then(Value::as_u64).unwrap_or_default();
    let error = raw.get("error").and_then(Value::as_str).unwrap_or_default();
    Some(format!("↻ asks again in {}: {}", duration(wait), first_line(error, MAX_INPUT_CHARS * 2)))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "0198c0de-0000-7000-8000-000000000000";

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn apply(activity: &mut Activity, second: u32, mut body: Value) {
        body["runId"] = json!(ID);
        body["at"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
        let parsed = serde_json::from_value(body.clone()).ok();
        activity.apply_event(ID.parse().unwrap(), parsed.as_ref(), &body);
    }

    fn activity() -> Activity {
        let mut activity = Activity::default();
        activity.add_run(ID.parse().unwrap(), "design");
        activity
    }

    #[test]
    fn tool_calls_retries_and_decisions_are_shown_below_the_runs_with_their_tokens() {
        let mut activity = activity();
        assert_eq!(activity.lines(start(), 80, 5), ["  ▸ design  step 0  0 tokens  waits for its turn"]);
        activity.add_line("2026-01-01T00:00:01Z".parse().unwrap(), "▸ design  architect: it fits".to_owned());
        apply(&mut activity, 1, json!({ "type": "run_started", "recovered": false }));
        apply(
            &mut activity,
            2,
            json!({ "type": "model_retry", "stepNumber": 1, "model": "google/x",
            "error": "429 too many requests", "attempt": 1, "waitMs": 2_500 }),
        );
        apply(
            &mut activity,
            3,
            json!({ "type": "message", "message": { "id": ID, "runId": ID, "role": "assistant",
            "stepNumber": 1, "content": { "text": "", "toolCalls": [] }, "createdAt": "2026-01-01T00:00:00Z",
            "tokens": { "input": 1_000, "output": 20, "reasoning": 0, "cacheRead": 0, "cacheWrite": 0 } } }),
        );
        apply(
            &mut activity,
            4,
            json!({ "type": "tool_completed", "toolCall": { "id": ID, "runId": ID,
            "messageId": ID, "toolName": "search_hybrid", "input": { "q": "tags" }, "status": "completed",
            "durationMs": 12, "stepNumber": 1, "createdAt": "2026-01-01T00:00:00Z" } }),
        );
        apply(&mut activity, 5, json!({ "type": "text_delta", "stepNumber": 2, "text": "x".repeat(40) }));
        let lines = activity.lines(start(), 100, 10);
        assert_eq!(
            lines,
            [
                "  ▸ design  step 2  about 1030 tokens  writes",
                "    1.0s  ▸ design  architect: it fits",
                "    2.0s  design  ↻ asks again in 2.5s: 429 too many requests",
                "    4.0s  design  ✓ search_hybrid  12ms  {\"q\":\"tags\"}",
            ]
        );
        assert_eq!(
            activity.lines(start(), 100, 2),
            [lines[0].as_str(), lines[3].as_str()],
            "the newest stay"
        );
        assert!(activity.lines(start(), 30, 10).iter().all(|line| console::measure_text_width(line) <= 30));
        apply(
            &mut activity,
            6,
            json!({ "type": "run_ended", "status": "completed", "reason": null,
            "summary": null, "errorMessage": null }),
        );
        assert!(!activity.lines(start(), 100, 10)[0].contains("step"), "an ended run is not active");
    }

    #[test]
    fn a_run_that_asks_a_person_says_so_with_the_command_that_shows_the_request() {
        let mut activity = activity();
        let request = json!({ "type": "approval_requested", "approvalId": ID, "toolCallId": ID,
            "toolName": "ask_user", "kind": "question" });
        apply(&mut activity, 1, request.clone());
        apply(&mut activity, 1, json!({ "type": "run_waiting", "waitingFor": "question" }));
        assert_eq!(
            activity.lines(start(), 100, 10),
            [
                "  ▸ design  step 0  0 tokens  waits for a person",
                "    1.0s  design  ✋ a person is asked: emergent inbox show 00000000",
            ]
        );
        // A pipe shows whole ids.
        let mut event = request;
        (event["runId"], event["at"]) = (json!(ID), json!("2026-01-01T00:00:01Z"));
        let line = activity.request_line(ID.parse().unwrap(), &serde_json::from_value(event).unwrap());
        let expected = format!("design  ✋ a person is asked: emergent inbox show {ID}");
        assert_eq!(line.as_deref(), Some(&*expected));
        let decided = json!({ "type": "approval_decided", "approvalId": ID, "toolCallId": ID, "toolName": "ask_user",
            "status": "decided", "decision": "answer", "reason": null, "edited": false });
        apply(&mut activity, 3, decided);
        apply(&mut activity, 3, json!({ "type": "run_continued" }));
        let lines = activity.lines(start(), 100, 10);
        assert!(lines[0].ends_with("thinks"), "{lines:#?}");
        assert_eq!(lines[2], "    3.0s  design  ✋ a person answered ask_user");
    }

    #[test]
    fn the_reason_of_a_server_in_several_lines_is_one_line() {
        let mut activity = activity();
        let reason = "could not be reached; its standard error ends with:\nI am gone";
        let servers = json!([{ "server": "files", "reason": reason }]);
        apply(&mut activity, 1, json!({ "type": "servers_unavailable", "servers": servers }));
        let lines = activity.lines(start(), 200, 10);
        assert!(lines[1].ends_with("its standard error ends with: I am gone"), "{lines:#?}");
    }

    #[test]
    fn a_line_neither_breaks_nor_controls_the_terminal() {
        let mut activity = Activity::default();
        activity.add_run(ID.parse().unwrap(), "design\u{1b}[2J\n");
        activity.add_line(start(), "architect: it\r\u{202e}fits".to_owned());
        assert_eq!(
            activity.lines(start(), 80, 5),
            [
                r"  ▸ design\u{1b}[2J\n  step 0  0 tokens  waits for its turn",
                r"     0ms  architect: it\r\u{202e}fits",
            ]
        );
    }

    #[test]
    fn many_runs_leave_space_for_what_is_new() {
        let mut activity = activity();
        for index in 0..5_u128 {
            activity.add_run(Uuid::from_u128(index), "other");
        }
        activity.add_line(start(), "newest".to_owned());
        let lines = activity.lines(start(), 80, 4);
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("… 5 more runs") && lines[2].ends_with("newest"), "{lines:#?}");
    }
}
