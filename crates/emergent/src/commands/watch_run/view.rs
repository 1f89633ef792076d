//! A run's events as a person reads them. Events go in, text comes out: nothing is printed here.

use serde_json::Value;

use super::{status, text, tokens, tree};
use crate::output::{duration, first_line};

/// The tool whose calls have runs below them.
pub const SPAWN_TOOL: &str = "spawn_agents";
/// Longer inputs of tools are cut.
const MAX_INPUT_CHARS: usize = 60;

pub struct View {
    colour: bool,
    /// Text without a line break at its end was printed last.
    mid_line: bool,
    /// What the model said of the step under way, as far as it was printed.
    step: i64,
    streamed: String,
    /// Calls under way, by name.
    calls: Vec<(String, String)>,
    started: bool,
    /// The last answer that was shown: a summary that is the same is not shown again.
    answer: String,
}

impl View {
    pub fn new(colour: bool) -> Self {
        Self {
            colour,
            mid_line: false,
            step: -1,
            streamed: String::new(),
            calls: Vec::new(),
            started: false,
            answer: String::new(),
        }
    }

    pub fn is_mid_line(&self) -> bool {
        self.mid_line
    }

    /// Whether a call has runs below it now.
    pub fn is_spawning(&self) -> bool {
        self.calls.iter().any(|(_, tool)| tool == SPAWN_TOOL)
    }

    /// What the run is at.
    pub fn activity(&self) -> String {
        match self.calls.last() {
            Some((_, tool)) => format!("calling {tool}"),
            None if self.started => "thinking".to_owned(),
            None => "waiting for its turn".to_owned(),
        }
    }

    /// What to print for an event, line breaks included.
    pub fn event(&mut self, event: &Value) -> String {
        match text(&event["type"]) {
            "run_started" => {
                self.started = true;
                if event["recovered"] == true {
                    self.push_line("↻ goes on after a restart")
                } else {
                    String::new()
                }
            }
            "text_delta" => self.delta(event),
            "step_restarted" => {
                self.streamed.clear();
                self.push_line(&format!("↻ the model is asked again: {}", text(&event["why"])))
            }
            "message" => self.message(&event["message"]),
            "tool_started" => self.tool_started(&event["toolCall"]),
            "tool_completed" => self.tool_completed(&event["toolCall"]),
            "loop_detected" => {
                let (tool, count) = (text(&event["toolName"]), &event["count"]);
                self.push_line(&format!(
                    "⟲ {tool} was called {count} times with the same input; the model was told"
                ))
            }
            "limit_reached" => self.push_line(match text(&event["reason"]) {
                "step_limit" => "⚑ the step limit is reached: a last answer, without tools",
                "timeout" => "⚑ time is up: a last answer, within seconds",
                other => return self.push_line(&format!("⚑ limit reached: {other}")),
            }),
            "compacted" => {
                let (before, after) = (&event["before"], &event["after"]);
                self.push_line(&format!("… the conversation was shortened, from {before} to {after} tokens"))
            }
            _ => String::new(),
        }
    }

    /// Lines of their own, after whatever was being said.
    pub fn lines(&mut self, lines: &[String]) -> String {
        let mut out = self.end_line();
        for line in lines {
            out.push_str(line);
            out.push('\n');
        }
        out
    }

    /// How it ended.
    pub fn end(&mut self, run: &Value) -> String {
        let mut out = self.end_line();
        let summary = text(&run["summary"]["text"]);
        if !summary.is_empty() && summary.trim() != self.answer.trim() {
            out.push_str(&format!("{summary}\n"));
        }
        let mark = match text(&run["status"]) {
            "completed" => self.paint("32", "✓"),
            "paused" => "⏸".to_owned(),
            _ => self.paint("31", "✗"),
        };
        let mut facts = vec![self.paint("1", &status(run)), tree::steps(&run["stepCount"])];
        facts.extend(run["durationMs"].as_u64().map(duration));
        facts.push(tokens(&run["tokenUsage"]));
        if run["rehearsal"] == true {
            facts.push("rehearsal".to_owned());
        }
        out.push_str(&format!("{mark} {}\n", facts.join("  ")));
        if run["status"] == "paused" {
            out.push_str(&self.paint("2", &format!("  to go on: emergent run resume {}", text(&run["id"]))));
            out.push('\n');
        }
        out
    }

    fn delta(&mut self, event: &Value) -> String {
        let step = event["stepNumber"].as_i64().unwrap_or(0);
        if step != self.step {
            self.step = step;
            self.streamed.clear();
        }
        let text = text(&event["text"]);
        self.streamed.push_str(text);
        self.push_text(text)
    }

    /// An answer is shown once: what came as deltas is not said again, only what is missing.
    fn message(&mut self, message: &Value) -> String {
        let content = &message["content"];
        let whole = text(&content["text"]);
        if message["role"] != "assistant" {
            return String::new();
        }
        let streamed = message["stepNumber"].as_i64() == Some(self.step);
        let said = if streamed { std::mem::take(&mut self.streamed) } else { String::new() };
        self.streamed.clear();
        if !whole.is_empty() {
            self.answer = whole.to_owned();
        }
        let mut out = match whole.strip_prefix(said.as_str()) {
            Some(missing) => self.push_text(missing),
            None => format!("{}{}", self.end_line(), self.push_text(whole)),
        };
        out.push_str(&self.end_line());
        out
    }

    fn tool_started(&mut self, call: &Value) -> String {
        let tool = text(&call["toolName"]);
        self.calls.push((text(&call["id"]).to_owned(), tool.to_owned()));
        // Others are told when they are over; what takes its time is told before.
        if tool != SPAWN_TOOL {
            return String::new();
        }
        let tasks = call["input"]["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names: Vec<_> = tasks.iter().map(|task| text(&task["agent_name"])).collect();
        self.lines(&[format!("▸ spawn_agents  {}", first_line(&names.join(", "), MAX_INPUT_CHARS))])
    }

    fn tool_completed(&mut self, call: &Value) -> String {
        self.calls.retain(|(id, _)| id != text(&call["id"]));
        let failed = call["status"] == "error";
        let mark = if failed { self.paint("31", "✗") } else { self.paint("32", "✓") };
        let took = call["durationMs"].as_u64().map(|millis| self.paint("2", &duration(millis)));
        let input = self.paint("2", &first_line(&call["input"].to_string(), MAX_INPUT_CHARS));
        let mut line = format!(
            "{mark} {}  {input}  {}",
            self.paint("1", text(&call["toolName"])),
            took.unwrap_or_default()
        );
        if failed {
            line.push_str(&format!("  {}", first_line(&reason(&call["output"]), MAX_INPUT_CHARS * 2)));
        }
        self.lines(&[line])
    }

    fn push_line(&mut self, line: &str) -> String {
        let line = self.paint("2", line);
        self.lines(&[line])
    }

    fn push_text(&mut self, text: &str) -> String {
        if !text.is_empty() {
            self.mid_line = !text.ends_with('\n');
        }
        text.to_owned()
    }

    fn end_line(&mut self) -> String {
        if std::mem::take(&mut self.mid_line) { "\n".to_owned() } else { String::new() }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Why a tool failed, from whatever it answered.
fn reason(output: &Value) -> String {
    match output["error"].as_str().or_else(|| output.as_str()) {
        Some(text) => text.to_owned(),
        None => output.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(events: &[Value]) -> String {
        let mut view = View::new(false);
        events.iter().map(|event| view.event(event)).collect()
    }

    fn delta(step: i64, text: &str) -> Value {
        json!({ "type": "text_delta", "stepNumber": step, "text": text })
    }

    fn message(step: i64, text: &str) -> Value {
        json!({ "type": "message", "message": { "role": "assistant", "stepNumber": step, "content": { "text": text } } })
    }

    fn call(kind: &str, status: &str) -> Value {
        json!({ "type": kind, "toolCall": { "id": "1", "toolName": "search", "input": { "q": "a" },
            "status": status, "durationMs": 120, "output": { "error": "no index" } } })
    }

    #[test]
    fn what_was_streamed_is_not_said_twice() {
        assert_eq!(told(&[delta(1, "Hello "), delta(1, "you"), message(1, "Hello you")]), "Hello you\n");
        assert_eq!(told(&[message(1, "Hello you")]), "Hello you\n");
        assert_eq!(told(&[delta(1, "Hel"), message(1, "Hello you")]), "Hello you\n");
        // Whoever came late heard only the end.
        assert_eq!(told(&[delta(1, "lo you"), message(1, "Hello you")]), "lo you\nHello you\n");
    }

    #[test]
    fn a_step_that_begins_anew_is_said_anew() {
        let again = json!({ "type": "step_restarted", "stepNumber": 1, "why": "busy" });
        let all = told(&[delta(1, "Hel"), again, delta(1, "Hi"), message(1, "Hi")]);
        assert_eq!(all, "Hel\n↻ the model is asked again: busy\nHi\n");
    }

    #[test]
    fn a_tool_call_is_one_line() {
        let fine = told(&[
            delta(1, "Looking"),
            call("tool_started", "running"),
            call("tool_completed", "completed"),
        ]);
        assert_eq!(fine, "Looking\n✓ search  {\"q\":\"a\"}  120ms\n");
        let failed = told(&[call("tool_started", "running"), call("tool_completed", "error")]);
        assert_eq!(failed, "✗ search  {\"q\":\"a\"}  120ms  no index\n");
    }

    #[test]
    fn the_end_says_what_it_took_and_the_summary_once() {
        let mut run = json!({ "id": "r", "status": "paused", "reason": "step_limit", "stepCount": 3, "durationMs": 2_000,
            "summary": { "text": "Half done" }, "tokenUsage": { "totalInput": 10, "totalOutput": 2, "totalCost": 0.5 } });
        let mut view = View::new(false);
        assert_eq!(
            view.end(&run),
            "Half done\n⏸ paused (step_limit)  3 steps  2.0s  10 tokens in, 2 out, $0.5000\n  \
             to go on: emergent run resume r\n"
        );
        run["status"] = json!("completed");
        view.event(&message(1, "Half done"));
        assert!(view.end(&run).starts_with("✓ completed"));
    }
}
