//! Turns the frames of an answer into text for people. It does no I/O and knows no clock: the caller prints the text,
//! and says when a frame arrived.

use std::{borrow::Cow, time::Duration};

use emergent_domain::conversation::ChatMessageStatus;
use emergent_wire::{
    chat::ChatMessageView,
    chat_frame::{ChatFrameView, ToolFrameStatus},
};
use serde_json::Value;
use uuid::Uuid;

use super::sources::sources;
use crate::{
    commands::watch_run::{CallLine, tokens_text},
    hints,
    output::{duration, paint},
    printable::{printable, printable_line},
    text::{StreamWrap, fit_line, short_id, wrap},
};

/// How many commands that open sources are named.
const MAX_OPENERS: usize = 3;

/// A tool call that has not ended.
struct Call {
    id: Uuid,
    tool: String,
    input: String,
    started: Duration,
    /// It waits for a person.
    held: bool,
}

/// What was printed of an answer so far, as far as later frames depend on it.
pub struct View {
    colour: bool,
    /// The width of the terminal, if there is one.
    width: Option<usize>,
    /// Wraps the text of the model between words.
    wrapping: StreamWrap,
    /// Whether the last printed text did not end with a line break.
    mid_line: bool,
    /// The step of the last text, and what was printed of it.
    step: i64,
    step_text: String,
    calls: Vec<Call>,
    /// Whether the answer has a run.
    started: bool,
    queued: bool,
}

impl View {
    pub fn new(colour: bool, width: Option<usize>) -> Self {
        Self {
            colour,
            width,
            wrapping: StreamWrap::new(width),
            mid_line: false,
            step: 0,
            step_text: String::new(),
            calls: Vec::new(),
            started: false,
            queued: false,
        }
    }

    pub fn is_mid_line(&self) -> bool {
        self.mid_line
    }

    /// What happens at the moment, for a spinner.
    pub fn activity(&self) -> String {
        match self.calls.last() {
            Some(call) if call.held => "waiting for a person".to_owned(),
            Some(call) => format!("calling {}", printable_line(&call.tool)),
            None if self.started => "thinking".to_owned(),
            None if self.queued => "waiting for the answers before it".to_owned(),
            None => "sending".to_owned(),
        }
    }

    /// The text to print for a frame that arrived at this time; empty for frames that are not shown.
    pub fn frame(&mut self, frame: &ChatFrameView, now: Duration) -> String {
        match frame {
            ChatFrameView::Meta { run_id, queued, .. } => {
                self.started = run_id.is_some();
                if *queued && !std::mem::replace(&mut self.queued, *queued) {
                    return self.push_note("◦ the message waits until those before it are answered");
                }
                String::new()
            }
            ChatFrameView::Token { text, step, replace } => self.token(*step, text, *replace),
            ChatFrameView::McpTool { tool, status, tool_call_id, input, error, approval_id, .. } => {
                match status {
                    ToolFrameStatus::Started if approval_id.is_some() => {
                        self.call_held(*tool_call_id, tool, now)
                    }
                    ToolFrameStatus::Started => {
                        self.call_started(*tool_call_id, tool, input.as_ref(), now);
                        String::new()
                    }
                    ToolFrameStatus::Completed => self.call_ended(*tool_call_id, tool, None, now),
                    ToolFrameStatus::Error => {
                        self.call_ended(*tool_call_id, tool, Some(error.as_deref().unwrap_or("failed")), now)
                    }
                }
            }
            // `done` follows and has the reason. If it does not, the stream failed, and is opened again.
            ChatFrameView::Error { .. } => String::new(),
            ChatFrameView::Done { message, .. } => self.done(message, now),
        }
    }

    /// Ends a line that is not complete, before something else is printed.
    pub fn end_line(&mut self) -> String {
        let rest = self.wrapping.flush();
        if std::mem::take(&mut self.mid_line) { format!("{rest}\n") } else { rest }
    }

    fn token(&mut self, step: i64, text: &str, replace: bool) -> String {
        let mut out = String::new();
        if step != self.step {
            out.push_str(&self.end_line());
            self.step = step;
            self.step_text.clear();
        } else if replace && !self.step_text.is_empty() {
            out.push_str(
                &self.push_note("↻ the model was asked again: this takes the place of the text above"),
            );
            self.step_text.clear();
        }
        self.step_text.push_str(text);
        out.push_str(&self.push_text(text));
        out
    }

    fn call_started(&mut self, id: Uuid, tool: &str, input: Option<&Value>, now: Duration) {
        let input = input.map(Value::to_string).unwrap_or_default();
        match self.calls.iter_mut().find(|call| call.id == id) {
            // It was approved.
            Some(call) => (call.held, call.started, call.input) = (false, now, input),
            None => self.calls.push(Call { id, tool: tool.to_owned(), input, started: now, held: false }),
        }
    }

    fn call_held(&mut self, id: Uuid, tool: &str, now: Duration) -> String {
        match self.calls.iter_mut().find(|call| call.id == id) {
            Some(call) => call.held = true,
            None => {
                let call = Call { id, tool: tool.to_owned(), input: String::new(), started: now, held: true };
                self.calls.push(call);
            }
        }
        self.push_note(&format!("✋ {} waits for a person", printable_line(tool)))
    }

    fn call_ended(&mut self, id: Uuid, tool: &str, error: Option<&str>, now: Duration) -> String {
        let call = self.calls.iter().position(|call| call.id == id).map(|index| self.calls.remove(index));
        let mark = if error.is_some() { self.paint("31", "✗") } else { self.paint("32", "✓") };
        // The time of a call that was held is that of the person who decided.
        let took = call.as_ref().filter(|call| !call.held).map(|call| {
            duration(u64::try_from(now.saturating_sub(call.started).as_millis()).unwrap_or(u64::MAX))
        });
        let input = call.as_ref().map(|call| call.input.as_str()).unwrap_or_default();
        let line = CallLine {
            head: format!("{mark} {}", self.paint("1", &printable_line(tool))),
            input,
            took,
            error,
        };
        let line = line.text(self.width, |text| self.paint("2", text));
        self.push_line(&line)
    }

    /// The end: what was not printed of the stored answer, its sources, and what it cost.
    fn done(&mut self, message: &ChatMessageView, now: Duration) -> String {
        let mut out = self.end_line();
        let content = message.content.trim();
        if !content.is_empty() && !self.step_text.trim().ends_with(content) {
            for line in self.wrapped(content) {
                out.push_str(&self.push_line(&line));
            }
        }
        out.push_str(&self.sources(message));
        // Where the text is piped, the caller prints what it cost elsewhere.
        if self.width.is_some() {
            out.push_str(&self.push_note(&self.usage(message, now)));
        }
        out
    }

    /// The sources, a line each. On a terminal, the commands that open them are above, because they would not fit
    /// beside the names.
    fn sources(&mut self, message: &ChatMessageView) -> String {
        let (sources, more) = sources(&message.citations, self.width.is_some());
        if sources.is_empty() {
            return String::new();
        }
        let mut out = self.push_line("");
        let Some(width) = self.width else {
            out.push_str(&self.push_note("sources"));
            for (index, source) in sources.iter().enumerate() {
                let command = source.command.as_ref().map(|command| format!("  → {command}"));
                let line = format!("  {}. {}{}", index + 1, source.name, command.unwrap_or_default());
                out.push_str(&self.push_line(&line));
            }
            return out + &self.more_sources(message, more);
        };
        let mut openers: Vec<String> = sources.iter().filter_map(|source| source.opener.clone()).collect();
        openers.dedup();
        openers.truncate(MAX_OPENERS);
        let with =
            if openers.is_empty() { String::new() } else { format!(", opened by {}", openers.join(", ")) };
        for line in wrap(&format!("sources{with}"), width) {
            out.push_str(&self.push_note(&line));
        }
        for (index, source) in sources.iter().enumerate() {
            out.push_str(
                &self.push_line(&fit_line(
                    &format!("  {}. {}", index + 1, printable_line(&source.name)),
                    width,
                )),
            );
        }
        out + &self.more_sources(message, more)
    }

    fn more_sources(&mut self, message: &ChatMessageView, more: usize) -> String {
        if more == 0 {
            return String::new();
        }
        let command = hints::command(&format!("conversation show {} --json", message.conversation_id));
        self.push_note(&format!("  … and {more} more: {command}"))
    }

    /// `12 tokens in, 5 out, $0.0012  3.2s  run 4f1c09ab`.
    pub fn usage(&self, message: &ChatMessageView, now: Duration) -> String {
        let mut parts = Vec::new();
        // An answer that was stopped has no count.
        if let Some(usage) = message.usage.filter(|usage| usage.input_tokens + usage.output_tokens > 0) {
            parts.push(tokens_text(usage.input_tokens, usage.output_tokens, usage.cost));
        }
        parts.push(duration(u64::try_from(now.as_millis()).unwrap_or(u64::MAX)));
        if let Some(run) = message.run_id.map(|run| run.to_string()) {
            let run = if self.width.is_some() { short_id(&run) } else { &run };
            parts.push(format!("run {run}"));
        }
        parts.join("  ")
    }

    fn wrapped(&self, text: &str) -> Vec<String> {
        match self.width {
            Some(width) => wrap(&printable(text), width),
            None => text.lines().map(str::to_owned).collect(),
        }
    }

    /// A dim line.
    fn push_note(&mut self, line: &str) -> String {
        let line = self.paint("2", line);
        self.push_line(&line)
    }

    fn push_line(&mut self, line: &str) -> String {
        format!("{}{line}\n", self.end_line())
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

    fn paint(&self, code: &str, text: &str) -> String {
        paint(code, text, self.colour)
    }
}

/// Why an answer is not complete: `failed (provider): …`; `None` for one that is.
pub fn incomplete_reason(message: &ChatMessageView) -> Option<String> {
    if message.status == ChatMessageStatus::Completed {
        return None;
    }
    let reason = message.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let error = message.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    Some(format!("{}{reason}{error}", message.status))
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
