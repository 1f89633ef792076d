//! The events of a run as events of AG-UI.
//!
//! What a model writes in a step is a message, whose id follows from the run and the step: a client that follows the
//! run again gets the same messages. A client takes the text of a message back only with a snapshot of all messages,
//! so one is sent when a model is asked again in the middle of an answer.

mod waiting;

use std::collections::{HashSet, VecDeque};

use emergent_domain::{
    approval::ApprovalKind,
    chat::{Part, ToolCall, Usage as TokenCounts, join_text},
    ids::ToolCallId,
    run::{MessageRole, Reason, Run, RunStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall, RunEventBody, TextSoFar},
};
use serde_json::{Map, Value, json};

use super::{
    event::{Event, ModelUsage, Outcome, Role, RunResult},
    request::{Echo, STATE_KEY},
    tools::{is_client_tool, result_message_id},
    transcript::Transcript,
};
use crate::sent_text::SentText;

/// The ids of a request, which its events repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIds {
    pub thread: String,
    pub run: String,
    pub parent_run: Option<String>,
}

/// Turns the events of a run into events of AG-UI. Events come in their order, from the first one of the part on.
#[derive(Debug)]
pub struct EventStream {
    ids: ClientIds,
    run: Run,
    /// Whether the part begins after the run waited: the calls that were waiting are known to the client.
    is_resumed: bool,
    /// Whether the client has a state to which something can be added.
    has_state: bool,
    transcript: Transcript,
    usage: TokenCounts,
    /// The step that was started and not finished.
    step: Option<i64>,
    text: StepText,
    /// The reasoning that is being sent.
    thought: Option<String>,
    thought_count: usize,
    calls: HashSet<ToolCallId>,
    results: HashSet<ToolCallId>,
    is_waiting: bool,
    has_finished: bool,
    ready: VecDeque<Event>,
}

/// The text of one step.
#[derive(Debug, Default)]
struct StepText {
    step: i64,
    /// What was sent of it.
    sent: SentText,
    /// How many answers of the step were recorded before: a model whose answer was incomplete is asked again.
    earlier_answers: usize,
    /// Whether its message was started and not ended.
    is_open: bool,
    /// Whether the rest is not known from its parts, but only when it is recorded.
    waits_for_record: bool,
    /// The newest step that is recorded. Parts that arrive later are known.
    recorded: i64,
}

impl EventStream {
    /// `is_resumed` says that the part begins after the run waited for a person or for its client.
    pub fn new(run: Run, ids: ClientIds, echo: Echo, is_resumed: bool) -> Self {
        let mut stream = Self {
            is_resumed,
            has_state: echo.state.is_some(),
            transcript: Transcript::new(echo.messages),
            usage: TokenCounts::default(),
            step: None,
            text: StepText::default(),
            thought: None,
            thought_count: 0,
            calls: HashSet::new(),
            results: HashSet::new(),
            // Some of what the run waited for may be open still.
            is_waiting: is_resumed,
            has_finished: false,
            ready: VecDeque::new(),
            ids,
            run,
        };
        let ClientIds { thread, run, parent_run } = stream.ids.clone();
        stream.push(Event::RunStarted { thread_id: thread, run_id: run, parent_run_id: parent_run });
        if let Some(mut state) = echo.state {
            state.insert(STATE_KEY.to_owned(), stream.own_state(RunStatus::Running, None));
            stream.push(Event::StateSnapshot { snapshot: Value::Object(state) });
        }
        stream
    }

    /// Returns the events that are ready.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.ready.drain(..)
    }

    /// Whether the run waited for a person or for its client after the last event.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Whether the last event of the stream is ready or was taken.
    pub fn has_finished(&self) -> bool {
        self.has_finished
    }

    pub fn on_event(&mut self, body: RunEventBody) {
        if self.has_finished {
            return;
        }
        match body {
            RunEventBody::TextDelta { step, text } => self.on_delta(step, &text),
            RunEventBody::TextSoFar(so_far) => self.on_text_so_far(so_far),
            RunEventBody::ThoughtDelta { step, text } => self.on_thought(step, text),
            RunEventBody::StepRestarted { step, .. } => self.on_restart(step),
            RunEventBody::Message(message) if message.role == MessageRole::Assistant && message.step > 0 => {
                self.on_answer(&message);
            }
            // A call to the client is announced with its answer, or when the run waits for it.
            RunEventBody::ToolStarted(call) if is_client_tool(&self.run, &call.tool) => {}
            RunEventBody::ToolStarted(call) => self.announce_recorded(&call),
            RunEventBody::ToolCompleted(call) => self.on_result(&call),
            RunEventBody::Waiting { .. } => self.is_waiting = true,
            RunEventBody::Continued => self.is_waiting = false,
            // The client sent this result itself.
            RunEventBody::ApprovalDecided { call, .. } if self.transcript.has_result(&call.to_string()) => {}
            RunEventBody::ApprovalDecided { approval, tool, decision, reason, status, .. } => {
                let mut value =
                    json!({ "interruptId": approval, "tool": tool, "status": status, "decision": decision });
                if let Some(reason) = reason {
                    value["reason"] = json!(reason);
                }
                self.push(Event::Custom { name: "emergent.approval_decided".to_owned(), value });
            }
            RunEventBody::Ended { status, reason, summary, output, error } => {
                self.on_end(status, reason, summary, output, error);
            }
            _ => {}
        }
    }

    /// Ends the stream with an error that is not one of the run.
    pub fn fail(&mut self, code: impl Into<String>, message: impl Into<String>) {
        if self.has_finished {
            return;
        }
        self.close_all();
        self.push(Event::RunError { message: message.into(), code: code.into() });
        self.has_finished = true;
    }

    fn on_delta(&mut self, step: i64, text: &str) {
        if self.begin_text(step) && !self.text.waits_for_record {
            self.push_text(text);
        }
    }

    fn on_text_so_far(&mut self, TextSoFar { step, text, omitted_chars }: TextSoFar) {
        if !self.begin_text(step) {
            return;
        }
        // What is missing of a long text is sent when the whole of it is recorded.
        if omitted_chars > 0 {
            self.text.waits_for_record = true;
        } else {
            self.push_rest(&text);
        }
    }

    fn on_thought(&mut self, step: i64, text: String) {
        if text.is_empty() || !self.begin_text(step) {
            return;
        }
        let id = match self.thought.clone() {
            Some(id) => id,
            None => self.open_thought(step),
        };
        self.push(Event::ReasoningMessageContent { message_id: id, delta: text });
    }

    fn open_thought(&mut self, step: i64) -> String {
        self.thought_count += 1;
        let id = format!("{}:thought:{}", self.message_id(step), self.thought_count);
        self.push(Event::ReasoningStart { message_id: id.clone() });
        self.push(Event::ReasoningMessageStart { message_id: id.clone(), role: Role::Reasoning });
        self.thought = Some(id.clone());
        id
    }

    fn on_restart(&mut self, step: i64) {
        if self.begin_text(step) {
            self.take_back();
        }
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
        let step = message.step;
        if step == self.text.recorded && step == self.text.step {
            self.text.earlier_answers += 1;
            self.text.sent.clear();
        } else if !self.begin_text(step) {
            return;
        }
        if self.thought_count == 0 && step != self.text.recorded {
            let thoughts = parts.iter().filter_map(|part| match part {
                Part::Thought { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let thoughts: String = thoughts.collect();
            self.on_thought(step, thoughts);
        }
        let text = join_text(parts);
        self.push_rest(&text);
        self.close_messages();
        self.text.recorded = step;
        let calls = parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        });
        let (of_client, own): (Vec<&ToolCall>, Vec<&ToolCall>) =
            calls.partition(|call| is_client_tool(&self.run, &call.name));
        // The run asks its client when the other calls of the answer have their results. Until then a person may be
        // asked, and the client would execute calls that nobody waits for yet.
        let calls = if own.is_empty() { of_client } else { own };
        let id = self.message_id(step);
        if !text.is_empty() || !calls.is_empty() {
            self.transcript.push_answer(&id, &text, &calls);
        }
        for call in calls {
            self.announce(call.id, &call.name, &call.input, id.clone());
        }
    }

    /// Announces a call whose answer the client did not get. In a part after a wait, the client knows the call.
    fn announce_recorded(&mut self, call: &RecordedToolCall) {
        if !self.is_resumed {
            let parent = self.message_id(call.step);
            self.announce(call.id, &call.tool, &call.input, parent);
        }
    }

    fn announce(&mut self, call: ToolCallId, tool: &str, input: &Value, parent: String) {
        if !self.calls.insert(call) {
            return;
        }
        let id = call.to_string();
        self.push(Event::ToolCallStart {
            tool_call_id: id.clone(),
            tool_call_name: tool.to_owned(),
            parent_message_id: parent,
        });
        self.push(Event::ToolCallArgs { tool_call_id: id.clone(), delta: input.to_string() });
        self.push(Event::ToolCallEnd { tool_call_id: id });
    }

    fn on_result(&mut self, call: &RecordedToolCall) {
        if !self.results.insert(call.id) {
            return;
        }
        let call_id = call.id.to_string();
        // The client sent the result of its own tool, so it has it.
        if is_client_tool(&self.run, &call.tool) && self.transcript.has_result(&call_id) {
            return;
        }
        self.announce_recorded(call);
        let content = match &call.output {
            Some(Value::String(text)) => text.clone(),
            Some(output) => output.to_string(),
            None => String::new(),
        };
        let id = result_message_id(&call_id);
        self.transcript.push_result(&id, &call_id, &content);
        self.push(Event::ToolCallResult { message_id: id, tool_call_id: call_id, content, role: Role::Tool });
    }

    fn on_end(
        &mut self,
        status: RunStatus,
        reason: Option<Reason>,
        summary: String,
        output: Option<Value>,
        error: Option<String>,
    ) {
        // A flow, or a run that was stopped, has an answer that no model wrote in this run.
        if !summary.trim().is_empty() && !self.text.sent.is_same(&summary) {
            self.close_messages();
            let id = format!("{}:summary", self.run.id);
            self.push(Event::TextMessageStart { message_id: id.clone(), role: Role::Assistant });
            self.push(Event::TextMessageContent { message_id: id.clone(), delta: summary.clone() });
            self.push(Event::TextMessageEnd { message_id: id });
        }
        self.close_all();
        self.push_state(status, None);
        match status {
            RunStatus::Completed | RunStatus::Paused => {
                let result = RunResult {
                    run_id: self.run.id.to_string(),
                    status: status.as_str(),
                    reason: reason.map(|reason| reason.as_str()),
                    text: summary,
                    output,
                };
                self.finish(Outcome::Success, Some(result));
            }
            _ => {
                let code = reason.map_or(status.as_str(), |reason| reason.as_str());
                let cause = error.unwrap_or_else(|| "no reason is recorded".to_owned());
                self.fail(code, format!("run `{}` {status}: {cause}", self.run.id));
            }
        }
    }

    /// Begins the text of a step; false if what arrives about it is known already.
    fn begin_text(&mut self, step: i64) -> bool {
        if step <= self.text.recorded || step < self.text.step {
            return false;
        }
        if step != self.text.step {
            self.close_messages();
            let recorded = self.text.recorded;
            self.text = StepText { step, recorded, ..StepText::default() };
            self.thought_count = 0;
        }
        if self.step != Some(step) {
            self.finish_step();
            self.push(Event::StepStarted { step_name: step_name(step) });
            self.step = Some(step);
        }
        true
    }

    /// Sends what is missing of a text of the current step.
    fn push_rest(&mut self, text: &str) {
        if let Some(rest) = self.text.sent.rest_of(text) {
            let rest = rest.to_owned();
            self.push_text(&rest);
        } else {
            self.take_back();
            self.push_text(text);
        }
    }

    fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.close_thought();
        let id = self.message_id(self.text.step);
        if !self.text.is_open {
            self.text.is_open = true;
            self.push(Event::TextMessageStart { message_id: id.clone(), role: Role::Assistant });
        }
        self.text.sent.push_str(text);
        self.push(Event::TextMessageContent { message_id: id, delta: text.to_owned() });
    }

    /// Removes what was sent of the current step from the messages of the client.
    fn take_back(&mut self) {
        self.text.waits_for_record = false;
        if self.text.sent.is_empty() {
            return;
        }
        self.close_messages();
        self.text.sent.clear();
        self.push_snapshot();
    }

    fn close_thought(&mut self) {
        if let Some(id) = self.thought.take() {
            self.push(Event::ReasoningMessageEnd { message_id: id.clone() });
            self.push(Event::ReasoningEnd { message_id: id });
        }
    }

    fn close_messages(&mut self) {
        self.close_thought();
        if std::mem::take(&mut self.text.is_open) {
            let message_id = self.message_id(self.text.step);
            self.push(Event::TextMessageEnd { message_id });
        }
    }

    fn finish_step(&mut self) {
        if let Some(step) = self.step.take() {
            self.push(Event::StepFinished { step_name: step_name(step) });
        }
    }

    fn close_all(&mut self) {
        self.close_messages();
        self.finish_step();
    }

    /// The memory of the messages that a snapshot repeats.
    pub fn message_bytes(&self) -> usize {
        self.transcript.bytes()
    }

    fn push_snapshot(&mut self) {
        if let Some(messages) = self.transcript.snapshot() {
            self.push(Event::MessagesSnapshot { messages });
        }
    }

    /// Tells the client the status of the run, and leaves the rest of its state as it is.
    fn push_state(&mut self, status: RunStatus, waiting_for: Option<ApprovalKind>) {
        if self.has_state {
            let value = self.own_state(status, waiting_for);
            let change = json!({ "op": "add", "path": format!("/{STATE_KEY}"), "value": value });
            self.push(Event::StateDelta { delta: vec![change] });
        }
    }

    fn own_state(&self, status: RunStatus, waiting_for: Option<ApprovalKind>) -> Value {
        let mut state = Map::from_iter([
            ("runId".to_owned(), json!(self.run.id)),
            ("agent".to_owned(), json!(self.run.agent_name)),
            ("status".to_owned(), json!(status.as_str())),
        ]);
        if let Some(kind) = waiting_for {
            state.insert("waitingFor".to_owned(), json!(kind));
        }
        Value::Object(state)
    }

    fn finish(&mut self, outcome: Outcome, result: Option<RunResult>) {
        let usage = vec![ModelUsage::new(&self.run.model, self.usage)];
        let (thread_id, run_id) = (self.ids.thread.clone(), self.ids.run.clone());
        self.push(Event::RunFinished { thread_id, run_id, outcome, result, usage });
        self.has_finished = true;
    }

    fn message_id(&self, step: i64) -> String {
        match self.text.earlier_answers {
            earlier if earlier > 0 && step == self.text.step => {
                format!("{}:{step}:{}", self.run.id, earlier + 1)
            }
            _ => format!("{}:{step}", self.run.id),
        }
    }

    fn push(&mut self, event: Event) {
        self.ready.push_back(event);
    }
}

fn step_name(step: i64) -> String {
    format!("step {step}")
}

#[cfg(test)]
mod tests;
