//! Turns the events of a run into text for people. It does no I/O; the caller prints the text.

use std::borrow::Cow;

use emergent_domain::{
    approval::{ApprovalKind, ApprovalStatus, Choice},
    run::{Reason, RunStatus},
};
use emergent_wire::{
    run_detail::{RunDetailView, UnavailableServerView},
    run_event::BodyView,
    run_message::{AnswerContent, ContentView, RunMessageView},
    tool_call::{CallStatusView, ToolCallView},
};
use serde::Deserialize;
use serde_json::Value;

use super::{CallLine, status, tokens, tree};
use crate::{
    hints,
    output::{first_line, paint},
    printable::{printable, printable_line},
    text::{StreamWrap, indent_lines, short_id, wrap_item},
};

/// The tool whose calls start child runs.
pub const SPAWN_TOOL: &str = "spawn_agents";
/// The names of the agents that a call starts are shortened to this length.
const MAX_NAMES_CHARS: usize = 60;

/// The shown part of the input of `spawn_agents`.
#[derive(Default, Deserialize)]
struct SpawnInput {
    tasks: Vec<SpawnTask>,
}

#[derive(Deserialize)]
struct SpawnTask {
    #[serde(default)]
    agent_name: String,
}

/// A line that says why the tools of a server are missing, and what to do.
pub fn unavailable_server(unavailable: &UnavailableServerView) -> String {
    let UnavailableServerView { server, reason, missing_secret } = unavailable;
    match missing_secret {
        Some(secret) => format!(
            "⚠ without the tools of {server}: the secret {secret} is missing, `{}` sets it",
            hints::command(&format!("secret set {secret}"))
        ),
        None => format!("⚠ without the tools of {server}: it {}", indent_lines(reason)),
    }
}

/// Says that a person is asked, with the command that shows the request, or what the person decided; `None` for other
/// events.
pub fn request_text(event: &BodyView, has_short_ids: bool) -> Option<String> {
    match event {
        BodyView::ApprovalRequested { approval_id, tool_name, kind, .. } => {
            let what = match kind {
                ApprovalKind::Approval => format!("{tool_name} has to be approved"),
                ApprovalKind::Question => "a person is asked".to_owned(),
                ApprovalKind::ClientTool => format!("the caller has to execute {tool_name}"),
            };
            let id = approval_id.to_string();
            let id = if has_short_ids { short_id(&id) } else { &id };
            Some(format!("{what}: {}", hints::command(&format!("inbox show {id}"))))
        }
        BodyView::ApprovalDecided { tool_name, status, decision, reason, edited, .. } => {
            let what = match (status, decision) {
                (ApprovalStatus::Expired, _) => "nobody decided in time about",
                (_, Choice::Approve) if *edited => "a person changed and approved",
                (_, Choice::Approve) => "a person approved",
                (_, Choice::Deny) => "a person denied",
                (_, Choice::Answer) => "a person answered",
            };
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            Some(format!("{what} {tool_name}{reason}"))
        }
        _ => None,
    }
}

/// What was printed of a run so far, as far as later events depend on it.
pub struct View {
    colour: bool,
    /// Whether the last printed text did not end with a line break.
    mid_line: bool,
    /// The step of the last text delta.
    step: i64,
    /// The text of that step that was printed from deltas.
    streamed: String,
    /// Running tool calls: id and tool name.
    calls: Vec<(String, String)>,
    started: bool,
    /// Whether the run waits for a person.
    waiting: bool,
    /// The last answer that was printed; a summary with the same text is not printed again.
    answer: String,
    /// Wraps the text of the model between words.
    wrapping: StreamWrap,
    /// The width of the terminal, if there is one.
    width: Option<usize>,
}

impl View {
    /// `width` is that of the terminal, if there is one.
    pub fn new(colour: bool, width: Option<usize>) -> Self {
        Self {
            wrapping: StreamWrap::new(width),
            width,
            colour,
            mid_line: false,
            step: -1,
            streamed: String::new(),
            calls: Vec::new(),
            started: false,
            waiting: false,
            answer: String::new(),
        }
    }

    pub fn is_mid_line(&self) -> bool {
        self.mid_line
    }

    /// Whether a running tool call has child runs.
    pub fn is_spawning(&self) -> bool {
        self.calls.iter().any(|(_, tool)| tool == SPAWN_TOOL)
    }

    /// The current activity of the run, for a spinner.
    pub fn activity(&self) -> String {
        match self.calls.last() {
            _ if self.waiting => "waiting for a person".to_owned(),
            Some((_, tool)) => format!("calling {}", printable_line(tool)),
            None if self.started => "thinking".to_owned(),
            None => "waiting for its turn".to_owned(),
        }
    }

    /// The text to print for an event, with line breaks; empty for events that are not shown.
    pub fn event(&mut self, event: &BodyView) -> String {
        match event {
            BodyView::RunStarted { recovered } => {
                self.started = true;
                if !recovered {
                    return String::new();
                }
                // What the model had not finished is lost: it is asked again.
                self.streamed.clear();
                self.push_line("↻ goes on after a restart")
            }
            BodyView::TextSoFar { step_number, text, .. } => self.text_so_far(*step_number, text),
            BodyView::TextDelta { step_number, text } => self.delta(*step_number, text),
            BodyView::StepRestarted { why, .. } => {
                self.streamed.clear();
                self.push_line(&format!("↻ the model is asked again: {why}"))
            }
            BodyView::Message { message } => self.message(message),
            BodyView::ToolStarted { tool_call } => self.tool_started(tool_call),
            BodyView::ToolCompleted { tool_call } => self.tool_completed(tool_call),
            BodyView::ServersUnavailable { servers, missing_tools } => {
                let mut notes: Vec<String> = servers.iter().map(unavailable_server).collect();
                if !missing_tools.is_empty() {
                    // Tools are missing because their servers are, or because nobody has them.
                    let what = if servers.is_empty() { "no such tool" } else { "so these tools are missing" };
                    notes.push(format!("⚠ {what}: {}", missing_tools.join(", ")));
                }
                let lines: Vec<String> = notes.iter().flat_map(|note| self.wrap_note(note)).collect();
                self.lines(&lines)
            }
            BodyView::LoopDetected { tool_name, count, .. } => self.push_line(&format!(
                "⟲ {tool_name} was called {count} times with the same input; the model was told"
            )),
            BodyView::LimitReached { reason } => {
                // The model is asked for another answer, in the same step if it had not ended the first one.
                self.streamed.clear();
                match reason {
                    Reason::StepLimit => {
                        self.push_line("⚑ the step limit is reached: a last answer, without tools")
                    }
                    Reason::Timeout => self.push_line("⚑ time is up: a last answer, within seconds"),
                    other => self.push_line(&format!("⚑ limit reached: {other}")),
                }
            }
            BodyView::AnswerIncomplete { reason: Reason::InvalidOutput, .. } => {
                self.streamed.clear();
                self.push_line(
                    "↻ the answer does not match the output schema: the model is asked to correct it",
                )
            }
            BodyView::AnswerIncomplete { reason, .. } => {
                self.streamed.clear();
                self.push_line(&format!("↻ the answer is incomplete ({reason}): the model is asked to go on"))
            }
            BodyView::ModelRetry { error, wait_ms, agent_name, .. } => {
                let seconds = *wait_ms as f64 / 1000.0;
                // A run below this one waits.
                let child = agent_name.as_ref().map(|agent| format!("  {agent}  ")).unwrap_or_default();
                self.push_line(&format!("{child}↻ {error}; the next attempt follows in {seconds:.1} s"))
            }
            BodyView::Compacted { before, after, .. } => {
                self.push_line(&format!("… the conversation was shortened, from {before} to {after} tokens"))
            }
            BodyView::ApprovalRequested { .. } | BodyView::ApprovalDecided { .. } => {
                match request_text(event, self.width.is_some()) {
                    Some(text) => self.push_line(&format!("✋ {text}")),
                    None => String::new(),
                }
            }
            BodyView::RunWaiting { .. } => {
                self.waiting = true;
                self.push_line("✋ waits for a person; its time does not count")
            }
            BodyView::RunContinued {} => {
                self.waiting = false;
                String::new()
            }
            BodyView::ThoughtDelta { .. } | BodyView::RunEnded { .. } => String::new(),
        }
    }

    /// Whole lines; a line that is not ended yet is ended first.
    pub fn lines(&mut self, lines: &[String]) -> String {
        let mut out = self.end_line();
        for line in lines {
            out.push_str(line);
            out.push('\n');
        }
        out
    }

    /// The text to print when the run has ended: its summary, status and usage.
    pub fn end(&mut self, run: &RunDetailView) -> String {
        let facts = &run.facts;
        let mut out = self.end_line();
        let summary = facts.summary.as_ref().map(|summary| summary.text.as_str()).unwrap_or_default();
        if !summary.is_empty() && summary.trim() != self.answer.trim() {
            out.push_str(&format!("{}\n", self.shown(summary)));
        }
        let mark = match facts.status {
            RunStatus::Completed => self.paint("32", "✓"),
            RunStatus::Paused => "⏸".to_owned(),
            _ => self.paint("31", "✗"),
        };
        let mut parts =
            vec![self.paint("1", &status(facts.status, facts.reason)), tree::steps(facts.step_count)];
        parts.extend(tree::took(facts.duration_ms));
        parts.push(tokens(&run.token_usage));
        if facts.rehearsal {
            parts.push("rehearsal".to_owned());
        }
        let id = facts.id.to_string();
        parts.push(self.paint("2", if self.width.is_some() { short_id(&id) } else { &id }));
        out.push_str(&format!("{mark} {}\n", parts.join("  ")));
        if facts.status == RunStatus::Paused {
            let resume = hints::command(&format!("run resume {}", facts.id));
            out.push_str(&self.paint("2", &format!("  to go on: {resume}")));
            out.push('\n');
        }
        out
    }

    fn delta(&mut self, step: i64, text: &str) -> String {
        if step != self.step {
            self.step = step;
            self.streamed.clear();
        }
        self.streamed.push_str(text);
        self.push_text(text)
    }

    /// What was printed of the answer before is not printed again.
    fn text_so_far(&mut self, step: i64, text: &str) -> String {
        let printed = if step == self.step { std::mem::take(&mut self.streamed) } else { String::new() };
        (self.step, self.streamed) = (step, text.to_owned());
        match text.strip_prefix(printed.as_str()) {
            Some(missing) => self.push_text(missing),
            None => format!("{}{}", self.end_line(), self.push_text(text)),
        }
    }

    /// An answer is printed once: only the part that was not streamed as deltas is added.
    fn message(&mut self, message: &RunMessageView) -> String {
        let ContentView::Answer(AnswerContent { text, .. }) = &message.content else {
            return String::new();
        };
        let is_streamed = message.step_number == self.step;
        let streamed = if is_streamed { std::mem::take(&mut self.streamed) } else { String::new() };
        self.streamed.clear();
        if !text.is_empty() {
            self.answer = text.clone();
        }
        let mut out = match text.strip_prefix(streamed.as_str()) {
            Some(missing) => self.push_text(missing),
            None => format!("{}{}", self.end_line(), self.push_text(text)),
        };
        out.push_str(&self.end_line());
        out
    }

    fn tool_started(&mut self, call: &ToolCallView) -> String {
        self.calls.push((call.id.to_string(), call.tool_name.clone()));
        // Other calls are shown when they complete; one that starts runs takes long and is announced.
        if call.tool_name != SPAWN_TOOL {
            return String::new();
        }
        let tasks = SpawnInput::deserialize(&call.input).unwrap_or_default().tasks;
        let names: Vec<_> = tasks.into_iter().map(|task| task.agent_name).collect();
        self.lines(&[format!("▸ spawn_agents  {}", first_line(&names.join(", "), MAX_NAMES_CHARS))])
    }

    fn tool_completed(&mut self, call: &ToolCallView) -> String {
        let id = call.id.to_string();
        self.calls.retain(|(running, _)| *running != id);
        let failed = matches!(call.status, CallStatusView::Error);
        let mark = if failed { self.paint("31", "✗") } else { self.paint("32", "✓") };
        let error = failed.then(|| reason(call.output.as_ref().unwrap_or(&Value::Null)));
        let line = CallLine {
            head: format!("{mark} {}", self.paint("1", &printable_line(&call.tool_name))),
            input: &call.input.to_string(),
            took: tree::took(call.duration_ms),
            error: error.as_deref(),
        };
        let line = line.text(self.width, |text| self.paint("2", text));
        self.lines(&[line])
    }

    fn push_line(&mut self, line: &str) -> String {
        let lines: Vec<String> = self.wrap_note(line).iter().map(|line| self.paint("2", line)).collect();
        self.lines(&lines)
    }

    /// The lines of a note that begins with a mark. On a terminal it is wrapped beside the mark, before it is painted.
    fn wrap_note(&self, note: &str) -> Vec<String> {
        let note = &*printable(note);
        match (self.width, note.split_once(' ')) {
            (Some(width), Some((mark, text))) => wrap_item(&format!("{mark} "), text, width),
            _ => vec![note.to_owned()],
        }
    }

    fn push_text(&mut self, text: &str) -> String {
        if !text.is_empty() {
            self.mid_line = !text.ends_with('\n');
        }
        let text = self.shown(text);
        self.wrapping.push(&text)
    }

    /// The text of the model, which does not control a terminal. Where there is none, the text is as the model wrote it.
    fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.width.is_some() { printable(text) } else { Cow::Borrowed(text) }
    }

    fn end_line(&mut self) -> String {
        let rest = self.wrapping.flush();
        if std::mem::take(&mut self.mid_line) { format!("{rest}\n") } else { rest }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        paint(code, text, self.colour)
    }
}

/// The error message in the output of a failed tool call, or the whole output.
fn reason(output: &Value) -> String {
    match output.get("error").unwrap_or(output).as_str() {
        Some(text) => text.to_owned(),
        None => output.to_string(),
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
