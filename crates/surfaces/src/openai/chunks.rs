//! The chunks of a streamed completion, from the events of a run.
//!
//! What a model writes in each step is the content, with a blank line between steps. Tool calls and waiting are
//! `reasoning_content`. A client cannot take back what it has received: if a model is asked again in the middle of an
//! answer, and begins as before, only the rest is sent; a different text follows after a blank line. The content of a
//! run with an output schema is sent at its end, when it is validated.

use std::collections::VecDeque;

use emergent_domain::{
    approval::ApprovalKind,
    chat::{Usage as TokenCounts, join_text},
    run::{MessageRole, Run, RunStatus, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RunEventBody, TextSoFar},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    AnswerForm,
    completion::{FinishReason, Usage},
    completion_id,
    error::{ErrorBody, RunFailure, error_body},
    tools::{ClientCalls, ToolCallView},
    unix_seconds,
};
use crate::sent_text::SentText;

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
    /// The answer as a value, in the last chunk of a run with an output schema. The content is its JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
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
    form: AnswerForm,
    includes_usage: bool,
    usage: TokenCounts,
    /// The step whose text is being sent.
    step: i64,
    /// What was sent of that step.
    sent: SentText,
    /// What the model has written of the step since it was asked again, as long as it is shorter than what was sent.
    again: Option<String>,
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
    pub fn new(run: Run, after_seq: i64, form: AnswerForm, includes_usage: bool) -> Self {
        let mut state = Self {
            id: completion_id(run.id, after_seq),
            created: unix_seconds(run.created_at),
            calls: ClientCalls::new(&run),
            run,
            form,
            includes_usage,
            usage: TokenCounts::default(),
            step: 0,
            sent: SentText::default(),
            again: None,
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
            RunEventBody::Ended { status, reason, summary, output, error } => {
                (self.run.status, self.run.reason, self.run.error) = (status, reason, error);
                self.on_end(&summary, output);
            }
            _ => {}
        }
    }

    fn on_delta(&mut self, step: i64, text: &str) {
        if step <= self.recorded {
            return;
        }
        self.begin_step(step);
        if self.waits_for_record {
            return;
        }
        match &mut self.again {
            Some(again) => {
                again.push_str(text);
                self.push_when_long_enough();
            }
            None => self.push_written(text),
        }
    }

    /// Sends what the model wrote after it was asked again, once it can be compared with all that was sent before.
    fn push_when_long_enough(&mut self) {
        if let Some(again) = self.again.take_if(|again| again.len() >= self.sent.len()) {
            self.push_rest(&again);
        }
    }

    /// Begins the text of a step, with a blank line after the text of the step before.
    fn begin_step(&mut self, step: i64) {
        if step != self.step {
            (self.step, self.waits_for_record, self.again) = (step, false, None);
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
            self.again = Some(text);
            self.push_when_long_enough();
        }
    }

    fn on_restart(&mut self, step: i64, why: &str) {
        if step <= self.recorded {
            return;
        }
        self.begin_step(step);
        self.again = Some(String::new());
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
        self.again = None;
        self.push_rest(&join_text(parts));
        self.recorded = self.recorded.max(message.step);
    }

    /// Sends what is missing of a text of the current step.
    fn push_rest(&mut self, text: &str) {
        match self.sent.rest_of(text) {
            Some(rest) => {
                let rest = rest.to_owned();
                self.push_written(&rest);
            }
            None => {
                self.sent.clear();
                self.push_written(text);
            }
        }
    }

    /// Sends what the model writes, unless only its validated output is sent.
    fn push_written(&mut self, text: &str) {
        if self.form == AnswerForm::Text {
            self.push_content(text);
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

    fn on_end(&mut self, summary: &str, output: Option<Value>) {
        let finish_reason = match self.run.status {
            RunStatus::Completed => Some(FinishReason::Stop),
            RunStatus::Paused => Some(FinishReason::Length),
            _ => None,
        };
        match (self.form, &output) {
            (AnswerForm::Value, Some(output)) => self.push_content(&output.to_string()),
            // A refused text is no answer of a run that failed.
            (AnswerForm::Value, None) if finish_reason.is_none() => {}
            // A flow, or a run that was stopped, has an answer that no model wrote in this run.
            _ if !summary.trim().is_empty() && !self.sent.is_same(summary) => {
                self.sent.clear();
                self.push_content(summary);
            }
            _ => {}
        }
        match finish_reason {
            Some(finish_reason) => self.finish(finish_reason, output),
            None => self.push_failure(),
        }
    }

    /// Sends the calls of tools of the caller, and ends the stream.
    fn on_client_calls(&mut self) {
        let calls: Vec<ToolCallView> = self.calls.views().collect();
        for (index, call) in calls.into_iter().enumerate() {
            let tool_calls = Some([ToolCallView { index: Some(index), ..call }]);
            self.push(ChunkDelta { tool_calls, ..ChunkDelta::default() }, None);
        }
        self.finish(FinishReason::ToolCalls, None);
    }

    fn finish(&mut self, finish_reason: FinishReason, output: Option<Value>) {
        self.has_ended = true;
        self.push(ChunkDelta { output, ..ChunkDelta::default() }, Some(finish_reason));
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
mod tests;
