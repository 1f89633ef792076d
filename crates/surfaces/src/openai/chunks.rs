//! The chunks of a streamed completion, from the events of a run.
//!
//! What a model writes in each step is the content, with a blank line between steps. Tool calls and waiting are
//! `reasoning_content`. A client cannot take back what it has received: if a model is asked again in the middle of an
//! answer, the new text follows after a blank line.

use std::collections::VecDeque;

use emergent_domain::{
    approval::ApprovalKind,
    chat::{Usage as TokenCounts, join_text},
    run::{MessageRole, Run, RunStatus, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RunEventBody, TextSoFar},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    completion::{FinishReason, Usage},
    completion_id,
    error::{ErrorBody, RunFailure, error_body},
    tools::{ClientCalls, ToolCallView},
    unix_seconds,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiChunk)]
pub struct Chunk {
    pub id: String,
    #[schema(example = "chat.completion.chunk")]
    pub object: &'static str,
    pub created: i64,
    pub model: String,
    /// One choice, or none in the chunk with the usage.
    pub choices: Vec<ChunkChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiChunkChoice)]
pub struct ChunkChoice {
    pub index: u32,
    pub delta: ChunkDelta,
    pub finish_reason: Option<FinishReason>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiDelta)]
pub struct ChunkDelta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// What the agent does: tool calls, and waiting for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// A call of a tool of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<[ToolCallView; 1]>,
}

/// One frame of the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    Chunk(Chunk),
    Error(ErrorBody),
    /// `[DONE]`, after which nothing follows.
    Done,
}

/// Turns the events of a run into frames. Events come in their order: from the first one on, or after a `seq` at which
/// the run got the results of tools of its caller.
#[derive(Debug)]
pub struct ChunkState {
    id: String,
    created: i64,
    run: Run,
    includes_usage: bool,
    usage: TokenCounts,
    /// The step whose text is being sent.
    step: i64,
    /// What was sent of that step.
    sent: String,
    /// Whether anything was sent of an earlier text.
    has_content: bool,
    /// Whether the rest of the step is not known from its parts, but only when it is recorded.
    waits_for_record: bool,
    /// The newest step that is recorded. Parts that arrive later are known.
    recorded: i64,
    calls: ClientCalls,
    /// Whether the run waited for a person.
    waited: bool,
    has_ended: bool,
    ready: VecDeque<Frame>,
}

impl ChunkState {
    pub fn new(run: Run, after_seq: i64, includes_usage: bool) -> Self {
        let mut state = Self {
            id: completion_id(run.id, after_seq),
            created: unix_seconds(run.created_at),
            calls: ClientCalls::new(&run),
            run,
            includes_usage,
            usage: TokenCounts::default(),
            step: 0,
            sent: String::new(),
            has_content: false,
            waits_for_record: false,
            recorded: 0,
            waited: false,
            has_ended: false,
            ready: VecDeque::new(),
        };
        let first =
            ChunkDelta { role: Some("assistant"), content: Some(String::new()), ..ChunkDelta::default() };
        state.push(first, None);
        state
    }

    /// Returns the frames that are ready.
    pub fn take_frames(&mut self) -> impl Iterator<Item = Frame> + '_ {
        self.ready.drain(..)
    }

    /// Whether the answer is complete: the run has ended, or calls tools of its caller.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub fn on_event(&mut self, body: RunEventBody) {
        self.calls.on_event(&body);
        match body {
            RunEventBody::TextDelta { step, text } => self.on_delta(step, &text),
            RunEventBody::TextSoFar(so_far) => self.on_text_so_far(so_far),
            RunEventBody::StepRestarted { step, why } => self.on_restart(step, &why),
            RunEventBody::Message(message) if message.role == MessageRole::Assistant && message.step > 0 => {
                self.on_answer(&message);
            }
            RunEventBody::ThoughtDelta { text, .. } => self.push_reasoning(text),
            RunEventBody::ToolStarted(call) | RunEventBody::ToolCompleted(call)
                if self.calls.has_tool(&call.tool) => {}
            RunEventBody::ToolStarted(call) => self.push_reasoning(format!("Calls `{}`.\n", call.tool)),
            RunEventBody::ToolCompleted(call) if call.status == ToolCallStatus::Error => {
                self.push_reasoning(format!("`{}` failed.\n", call.tool));
            }
            RunEventBody::ApprovalRequested { approval, tool, kind, .. } => {
                let what = match kind {
                    ApprovalKind::Approval => format!("`{tool}` has to be approved"),
                    ApprovalKind::Question => "the agent asks a question".to_owned(),
                    ApprovalKind::ClientTool => return,
                };
                self.waited = true;
                self.push_reasoning(format!("Waits for a person: {what} (`/api/approvals/{approval}`).\n"));
            }
            RunEventBody::Waiting { waiting_for: ApprovalKind::ClientTool } => self.on_client_calls(),
            RunEventBody::Continued if self.waited => self.push_reasoning("Goes on.\n".to_owned()),
            RunEventBody::Ended { status, reason, summary, error, .. } => {
                (self.run.status, self.run.reason, self.run.error) = (status, reason, error);
                self.on_end(&summary);
            }
            _ => {}
        }
    }

    fn on_delta(&mut self, step: i64, text: &str) {
        if step <= self.recorded {
            return;
        }
        self.begin_step(step);
        if !self.waits_for_record {
            self.push_content(text);
        }
    }

    /// Begins the text of a step, with a blank line after the text of the step before.
    fn begin_step(&mut self, step: i64) {
        if step != self.step {
            (self.step, self.waits_for_record) = (step, false);
            self.sent.clear();
        }
    }

    fn on_text_so_far(&mut self, TextSoFar { step, text, omitted_chars }: TextSoFar) {
        if step <= self.recorded {
            return;
        }
        self.begin_step(step);
        // What is missing of a long text is sent when the whole of it is recorded.
        if omitted_chars > 0 {
            self.waits_for_record = true;
        } else {
            self.push_rest(&text);
        }
    }

    fn on_restart(&mut self, step: i64, why: &str) {
        if step <= self.recorded {
            return;
        }
        self.begin_step(step);
        self.sent.clear();
        self.push_reasoning(format!("The model is asked again: {why}\n"));
    }

    fn on_answer(&mut self, message: &RecordedMessage) {
        if let Some(usage) = message.usage {
            self.usage.input += usage.input;
            self.usage.output += usage.output;
            self.usage.reasoning += usage.reasoning;
            self.usage.cache_read += usage.cache_read;
            self.usage.cache_write += usage.cache_write;
        }
        let MessageContent::Parts(parts) = &message.content else { return };
        self.begin_step(message.step);
        self.push_rest(&join_text(parts));
        self.recorded = self.recorded.max(message.step);
    }

    /// Sends what is missing of a text of the current step.
    fn push_rest(&mut self, text: &str) {
        match text.strip_prefix(self.sent.as_str()) {
            Some(rest) => {
                let rest = rest.to_owned();
                self.push_content(&rest);
            }
            None => {
                self.sent.clear();
                self.push_content(text);
            }
        }
    }

    fn push_content(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let is_first = self.sent.is_empty() && self.has_content;
        self.sent.push_str(text);
        self.has_content = true;
        let content = if is_first { format!("\n\n{text}") } else { text.to_owned() };
        self.push(ChunkDelta { content: Some(content), ..ChunkDelta::default() }, None);
    }

    fn push_reasoning(&mut self, text: String) {
        self.push(ChunkDelta { reasoning_content: Some(text), ..ChunkDelta::default() }, None);
    }

    fn on_end(&mut self, summary: &str) {
        // A flow, or a run that was stopped, has an answer that no model wrote in this run.
        if !summary.trim().is_empty() && summary.trim() != self.sent.trim() {
            self.sent.clear();
            self.push_content(summary);
        }
        let finish_reason = match self.run.status {
            RunStatus::Completed => FinishReason::Stop,
            RunStatus::Paused => FinishReason::Length,
            _ => return self.push_failure(),
        };
        self.finish(finish_reason);
    }

    /// Sends the calls of tools of the caller, and ends the stream.
    fn on_client_calls(&mut self) {
        let calls: Vec<ToolCallView> = self.calls.views().collect();
        for (index, call) in calls.into_iter().enumerate() {
            let tool_calls = Some([ToolCallView { index: Some(index), ..call }]);
            self.push(ChunkDelta { tool_calls, ..ChunkDelta::default() }, None);
        }
        self.finish(FinishReason::ToolCalls);
    }

    fn finish(&mut self, finish_reason: FinishReason) {
        self.has_ended = true;
        self.push(ChunkDelta::default(), Some(finish_reason));
        if self.includes_usage {
            let usage = Some(self.usage.into());
            let chunk = Chunk { usage, ..self.chunk(Vec::new()) };
            self.ready.push_back(Frame::Chunk(chunk));
        }
        self.ready.push_back(Frame::Done);
    }

    fn push_failure(&mut self) {
        self.has_ended = true;
        let failure = RunFailure::from_run(&self.run);
        let error = error_body(failure.status, failure.into_body());
        self.ready.extend([Frame::Error(error), Frame::Done]);
    }

    fn push(&mut self, delta: ChunkDelta, finish_reason: Option<FinishReason>) {
        let chunk = self.chunk(vec![ChunkChoice { index: 0, delta, finish_reason }]);
        self.ready.push_back(Frame::Chunk(chunk));
    }

    fn chunk(&self, choices: Vec<ChunkChoice>) -> Chunk {
        Chunk {
            id: self.id.clone(),
            object: "chat.completion.chunk",
            created: self.created,
            model: self.run.agent_name.clone(),
            choices,
            usage: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::{ids::ApprovalId, ids::ToolCallId, run::Reason};

    use super::*;
    use crate::samples::{client_tool, message, run, tool_call};
    use emergent_domain::run_event::RecordedToolCall;

    /// The frames of these events, shortened: content as it is, reasoning in brackets.
    fn frames(includes_usage: bool, events: Vec<RunEventBody>) -> Vec<String> {
        let mut state = ChunkState::new(run(RunStatus::Running), 0, includes_usage);
        events.into_iter().for_each(|event| state.on_event(event));
        let shown = |frame: Frame| match frame {
            Frame::Done => "DONE".to_owned(),
            Frame::Error(body) => format!("error {}", body.error.code),
            Frame::Chunk(Chunk { usage: Some(usage), choices, .. }) => {
                assert!(choices.is_empty());
                format!("usage {}+{}", usage.prompt_tokens, usage.completion_tokens)
            }
            Frame::Chunk(chunk) => {
                let ChunkChoice { delta, finish_reason, .. } = &chunk.choices[0];
                match (finish_reason, &delta.reasoning_content, &delta.content) {
                    (Some(reason), ..) => format!("{reason:?}"),
                    (None, Some(reasoning), _) => format!("[{}]", reasoning.trim_end()),
                    (None, None, content) => content.clone().unwrap_or_default(),
                }
            }
        };
        let all: Vec<String> = state.take_frames().map(shown).collect();
        assert_eq!(all[0], "", "the first chunk has the role");
        all[1..].to_vec()
    }

    fn delta(step: i64, text: &str) -> RunEventBody {
        RunEventBody::TextDelta { step, text: text.to_owned() }
    }

    fn so_far(step: i64, text: &str, omitted_chars: i64) -> RunEventBody {
        RunEventBody::TextSoFar(TextSoFar { step, text: text.to_owned(), omitted_chars })
    }

    fn answer(step: i64, text: &str) -> RunEventBody {
        let usage = TokenCounts { input: 10, output: 2, ..TokenCounts::default() };
        let message = message(MessageRole::Assistant, step, text);
        RunEventBody::Message(RecordedMessage { usage: Some(usage), ..message })
    }

    fn ended(status: RunStatus, summary: &str) -> RunEventBody {
        let (reason, error) = match status {
            RunStatus::Failed => (Some(Reason::DoomLoop), Some("it repeats itself".to_owned())),
            _ => (None, None),
        };
        RunEventBody::Ended { status, reason, summary: summary.to_owned(), output: None, error }
    }

    #[test]
    fn text_is_sent_once_however_it_arrives() {
        let end = || ended(RunStatus::Completed, "One two.");
        let live = vec![delta(1, "One "), delta(1, "two."), answer(1, "One two."), end()];
        assert_eq!(frames(false, live), ["One ", "two.", "Stop", "DONE"]);
        let recorded = vec![answer(1, "One two."), end()];
        assert_eq!(frames(false, recorded), ["One two.", "Stop", "DONE"]);
        let followed = vec![so_far(1, "One ", 0), delta(1, "two."), answer(1, "One two."), end()];
        assert_eq!(frames(false, followed), ["One ", "two.", "Stop", "DONE"]);
        let lost = vec![delta(1, "One "), so_far(1, "One two", 0), answer(1, "One two."), end()];
        assert_eq!(frames(false, lost), ["One ", "two", ".", "Stop", "DONE"]);
        let long = vec![so_far(1, "two", 4), delta(1, "."), answer(1, "One two."), end()];
        assert_eq!(frames(false, long), ["One two.", "Stop", "DONE"]);
        let late = vec![answer(1, "One two."), delta(1, "two."), so_far(1, "One ", 0), end()];
        assert_eq!(frames(false, late), ["One two.", "Stop", "DONE"]);
    }

    #[test]
    fn steps_are_separated_and_tool_calls_are_reasoning() {
        let events = vec![
            delta(1, "Let me look."),
            answer(1, "Let me look."),
            RunEventBody::ToolStarted(tool_call("search", ToolCallStatus::Running)),
            RunEventBody::ToolCompleted(tool_call("search", ToolCallStatus::Completed)),
            RunEventBody::ToolStarted(tool_call("fetch", ToolCallStatus::Running)),
            RunEventBody::ToolCompleted(tool_call("fetch", ToolCallStatus::Error)),
            delta(2, "Three."),
            answer(2, "Three."),
            ended(RunStatus::Completed, "Three."),
        ];
        let expected = [
            "Let me look.",
            "[Calls `search`.]",
            "[Calls `fetch`.]",
            "[`fetch` failed.]",
            "\n\nThree.",
            "Stop",
            "usage 20+4",
            "DONE",
        ];
        assert_eq!(frames(true, events), expected);
    }

    #[test]
    fn an_answer_that_is_begun_again_follows_what_was_sent() {
        let events = vec![
            delta(1, "One "),
            RunEventBody::StepRestarted { step: 1, why: "overloaded".to_owned() },
            delta(1, "Two."),
            answer(1, "Two."),
            ended(RunStatus::Completed, "Two."),
        ];
        let expected = ["One ", "[The model is asked again: overloaded]", "\n\nTwo.", "Stop", "DONE"];
        assert_eq!(frames(false, events), expected);
    }

    #[test]
    fn a_run_that_waits_says_so_and_goes_on() {
        let approval = ApprovalId::new();
        let requested = |kind| RunEventBody::ApprovalRequested {
            approval,
            call: ToolCallId::new(),
            tool: "entities_delete".to_owned(),
            kind,
            child: None,
        };
        let events = vec![
            requested(ApprovalKind::Approval),
            RunEventBody::Continued,
            requested(ApprovalKind::Question),
            answer(1, "Done."),
            ended(RunStatus::Completed, "Done."),
        ];
        let expected = [
            format!(
                "[Waits for a person: `entities_delete` has to be approved (`/api/approvals/{approval}`).]"
            ),
            "[Goes on.]".to_owned(),
            format!("[Waits for a person: the agent asks a question (`/api/approvals/{approval}`).]"),
            "Done.".to_owned(),
            "Stop".to_owned(),
            "DONE".to_owned(),
        ];
        assert_eq!(frames(false, events), expected);
    }

    #[test]
    fn calls_of_tools_of_the_caller_end_the_stream() {
        let mut run = run(RunStatus::Running);
        run.terms.client_tools = vec![client_tool("get_weather")];
        let (own, asked) =
            (tool_call("search", ToolCallStatus::Running), tool_call("get_weather", ToolCallStatus::Running));
        let requested = RunEventBody::ApprovalRequested {
            approval: ApprovalId::new(),
            call: asked.id,
            tool: asked.tool.clone(),
            kind: ApprovalKind::ClientTool,
            child: None,
        };
        let mut state = ChunkState::new(run.clone(), 0, true);
        for event in [
            answer(1, "Let me see."),
            RunEventBody::ToolStarted(own),
            RunEventBody::ToolStarted(asked.clone()),
            requested,
            RunEventBody::Waiting { waiting_for: ApprovalKind::ClientTool },
        ] {
            assert!(!state.has_ended());
            state.on_event(event);
        }
        assert!(state.has_ended());
        let frames: Vec<Frame> = state.take_frames().collect();
        let [_, _, _, Frame::Chunk(call), Frame::Chunk(end), Frame::Chunk(usage), Frame::Done] = &frames[..]
        else {
            panic!("{frames:?}")
        };
        let expected = serde_json::json!({ "tool_calls": [{
            "index": 0, "id": format!("call_{}", asked.id.0.simple()), "type": "function",
            "function": { "name": "get_weather", "arguments": "null" },
        }] });
        assert_eq!(serde_json::to_value(&call.choices[0].delta).unwrap(), expected);
        assert_eq!(end.choices[0].finish_reason, Some(FinishReason::ToolCalls));
        assert!(usage.usage.is_some_and(|usage| usage.prompt_tokens == 10));
        // What follows from the results is an answer of its own.
        let mut state = ChunkState::new(run, 7, false);
        let completed = RecordedToolCall { status: ToolCallStatus::Error, ..asked };
        for event in [RunEventBody::Continued, RunEventBody::ToolCompleted(completed), answer(2, "Sunny.")] {
            state.on_event(event);
        }
        state.on_event(ended(RunStatus::Completed, "Sunny."));
        let frames: Vec<Frame> = state.take_frames().collect();
        let [Frame::Chunk(first), Frame::Chunk(text), _, Frame::Done] = &frames[..] else {
            panic!("{frames:?}")
        };
        assert!(first.id.ends_with("-7"), "{}", first.id);
        assert_eq!(text.choices[0].delta.content.as_deref(), Some("Sunny."));
    }

    #[test]
    fn the_end_of_a_run_is_the_end_of_the_stream() {
        let paused = vec![answer(1, "Half."), ended(RunStatus::Paused, "Half.")];
        assert_eq!(frames(false, paused), ["Half.", "Length", "DONE"]);
        let flow = vec![ended(RunStatus::Completed, "What the parts said.")];
        assert_eq!(frames(false, flow), ["What the parts said.", "Stop", "DONE"]);
        let failed = vec![delta(1, "One"), ended(RunStatus::Failed, "")];
        assert_eq!(frames(true, failed), ["One", "error doom_loop", "DONE"]);
        assert_eq!(frames(false, vec![ended(RunStatus::Cancelled, "")]), ["error cancelled", "DONE"]);
    }
}
