//! Drives one run: executes the actions that the state machine of `emergent_rules::run` decides, and records
//! everything. A driver may be dropped at any await: a later driver continues from the record.

pub(crate) mod add_artifact;
pub(crate) mod approvals;
pub(crate) mod ask_user;
mod call_reports;
mod client_tools;
mod compaction;
mod input_requests;
mod model_budget;
mod model_call;
mod replay;
pub(crate) mod spawn;
mod tool_calls;

use std::sync::Arc;

use emergent_domain::{
    agent::AgentDefinition,
    approval::Approval,
    chat::{Part, ToolCall, Turn, join_text},
    ids::MessageId,
    output_schema::OutputSchema,
    run::{MessageRole, Reason, Run, RunEnd, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
};
use emergent_llm::{Answer, ToolSpec};
use emergent_rules::run::{AnswerView, CallDecision, CallView, Machine, NextAction};
use emergent_store::runs::conversation::Conversation;
use emergent_tools::ToolSet;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use self::{
    approvals::CallVerdict,
    model_budget::{RunBudget, is_truncated_by_budget},
    replay::{ends_in_call, result_views},
};
use crate::{
    Error, Executor, Result,
    budget::{CallOutcome, Reservation, StreamMeter},
    context::{self, Context},
    loaded_run::{LoadedRun, has_tool_patterns},
    output_schema,
    recorder::{RecordBatch, Recorder},
    scrub,
    slots::RunSlot,
};

/// The driver of one run that calls a model.
pub(crate) struct RunDriver {
    pub executor: Executor,
    pub run: Run,
    pub definition: Arc<AgentDefinition>,
    /// The system prompt of the definition, with the output schema if the run has one.
    pub system_prompt: String,
    /// What the final answer must match.
    pub output_schema: Option<OutputSchema>,
    /// Whether the provider is given the output schema. False once it has refused a request with the schema: then the
    /// model reads the schema in its system prompt only.
    pub sends_schema: bool,
    pub tools: ToolSet,
    /// The tools as they are described to the model.
    pub specs: Vec<ToolSpec>,
    pub context: Context,
    pub machine: Machine,
    pub recorder: Recorder,
    /// The tool calls of the newest answer, in order, as they are recorded.
    pub calls: Vec<RecordedToolCall>,
    /// Whether a call of the newest answer was interrupted, or failed after another system got it, so that its outcome is
    /// unknown.
    pub has_unknown_outcome: bool,
    pub deadline: Instant,
    pub slot: RunSlot,
    /// The estimated tokens after the last attempt to shorten the conversation. It is shortened again only
    /// after it has grown.
    pub compacted_at: u64,
    pub budget: RunBudget,
    /// The requests to people that were made for calls of this run.
    pub approvals: Vec<Approval>,
}

impl RunDriver {
    pub fn new(
        executor: &Executor,
        run: Run,
        owner: Arc<str>,
        loaded: LoadedRun,
        output_schema: Option<OutputSchema>,
        tools: ToolSet,
        slot: RunSlot,
    ) -> Self {
        let mut context = Context::default();
        loaded.earlier.iter().for_each(|conversation| context.append_earlier_run(conversation));
        context.append_own_run(&loaded.own);
        let remaining = run.deadline().map_or(Duration::ZERO, |end| end.since(executor.clock().now()));
        Self {
            specs: client_tools::tool_specs(&tools, &run),
            machine: Machine::new(run.max_steps, run.steps_before)
                .for_run(run.id)
                .with_output_schema(output_schema.clone()),
            recorder: Recorder::new(executor, &run, owner),
            executor: executor.clone(),
            system_prompt: output_schema::system_prompt(&run, &loaded.definition).into_owned(),
            output_schema,
            sends_schema: true,
            definition: Arc::new(loaded.definition),
            calls: Vec::new(),
            has_unknown_outcome: false,
            deadline: Instant::now() + remaining,
            tools,
            context,
            run,
            slot,
            compacted_at: 0,
            budget: RunBudget::new(loaded.limited),
            approvals: loaded.approvals,
        }
    }

    /// Drives the run from the end of its record to its own end. `started` says that the start was recorded
    /// when the run was admitted.
    pub async fn drive(mut self, own: &Conversation, started: bool) -> Result<()> {
        match started {
            true => self.report_missing_tools().await?,
            false => self.start(own).await?,
        }
        let mut next = self.replay(own);
        loop {
            next = match next {
                NextAction::CallModel { tools } => self.call_model(tools).await?,
                NextAction::CallTools(_) => self.run_tool_calls().await?,
                NextAction::WrapUp { reason, text } => self.wrap_up(reason, text).await?,
                // Recorded with its answer already.
                NextAction::AskAgain { .. } => self.machine.next_action(),
                NextAction::End { end, .. } => return self.end_run(end).await,
            };
        }
    }

    /// Records that the run was started, recovered, or goes on after it waited.
    async fn start(&mut self, own: &Conversation) -> Result<()> {
        let recovered = self.run.seq > first_seq(own);
        let mut batch = RecordBatch::default();
        if self.run.waiting_since.is_some() {
            self.recorder.add_continued(&mut batch);
            return self.recorder.commit(batch, self.machine.steps()).await;
        }
        let tools = (has_tool_patterns(&self.definition) && own.tools.is_none()).then_some(&self.tools);
        self.recorder.add_started(&mut batch, recovered, tools);
        self.recorder.add_missing_tools(&mut batch, &self.tools);
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// Records the tools that the whitelist names and that are missing, and the servers that cannot be used, for a
    /// run whose start is recorded already. The event names all of them, because the newest one counts.
    async fn report_missing_tools(&mut self) -> Result<()> {
        if self.tools.unavailable_servers().is_empty() && self.tools.missing_tools().is_empty() {
            return Ok(());
        }
        let mut batch = RecordBatch::default();
        self.recorder.add_missing_tools(&mut batch, &self.tools);
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// Records an answer together with what follows from it: refused calls, detected loops, calls that are held
    /// until a person has decided about them, and the end of the run if it is the last answer.
    async fn record_answer(
        &mut self,
        mut answer: Answer,
        reservation: &Reservation,
        meter: &StreamMeter,
    ) -> Result<NextAction> {
        self.normalize_parts(&mut answer.parts);
        let step = self.run.steps_before + self.machine.step();
        let text = join_text(&answer.parts);
        if !ends_in_call(&answer.parts) {
            let (graph, schema) = (self.executor.graph(), self.output_schema.as_ref());
            output_schema::read_ahead(graph, self.run.project, schema, &text).await;
        }
        let view = AnswerView {
            text: &text,
            calls: self.call_views(&answer.parts, &[]),
            stop: &answer.stop,
            ends_in_call: ends_in_call(&answer.parts),
        };
        let next = match self.machine.on_answer(&view) {
            NextAction::AskAgain { reason: Reason::Truncated, .. }
            | NextAction::End { end: RunEnd::Failed { reason: Reason::Truncated, .. }, .. }
                if view.calls.is_empty() && is_truncated_by_budget(reservation, &answer) =>
            {
                self.machine.on_truncated_answer()
            }
            next => next,
        };
        let now = self.executor.clock().now();
        let message = RecordedMessage {
            id: MessageId::new(),
            seq: 0,
            role: MessageRole::Assistant,
            step,
            content: MessageContent::Parts(answer.parts.clone()),
            usage: Some(answer.usage),
            cost: self.executor.models().cost(&self.run.model, &answer.usage),
            at: now,
        };
        let (id, mut batch) = (message.id, RecordBatch::default());
        batch.set_settlement(self.settlement(reservation, &CallOutcome::Answered(&answer.usage), meter));
        self.recorder.add_message(&mut batch, message);
        let decisions = match &next {
            NextAction::CallTools(decisions) | NextAction::End { refused: decisions, .. } => {
                decisions.as_slice()
            }
            _ => &[],
        };
        let (mut calls, mut held) = (Vec::with_capacity(view.calls.len()), Vec::new());
        for (CallView { call, effect }, decision) in view.calls.iter().zip(decisions) {
            let mut recorded = RecordedToolCall {
                id: call.id,
                seq: 0,
                message: id,
                tool: call.name.clone(),
                step,
                input: call.input.clone(),
                status: ToolCallStatus::Pending,
                output: None,
                result_seq: None,
                duration_ms: None,
                at: now,
                effect: Some(*effect),
            };
            match self.call_verdict(call, decision, now).await? {
                CallVerdict::Make => {}
                CallVerdict::Refuse(output) => {
                    let exists = self.tools.get(&call.name).is_some();
                    self.executor.telemetry().record_refused_call(exists.then_some(call.name.as_str()));
                    (recorded.status, recorded.output) = (ToolCallStatus::Error, Some(output));
                }
                CallVerdict::Hold(request) => {
                    recorded.status = ToolCallStatus::Held;
                    held.push(*request);
                }
                CallVerdict::AskClient => recorded.status = ToolCallStatus::Held,
            }
            recorded.seq = self.recorder.add_call(&mut batch, recorded.clone());
            calls.push(recorded);
        }
        self.recorder.assign_result_seqs(&mut batch);
        for (CallView { call, .. }, decision) in view.calls.iter().zip(decisions) {
            if let CallDecision::Refuse { looped: Some(count), .. } = decision {
                self.recorder.add_loop_detected(&mut batch, call.id, &call.name, *count);
            }
        }
        let answer_seq = self.recorder.last_seq();
        match &next {
            NextAction::End { end, .. } => {
                // The model is not asked again, so this is all that says why the summary is not whole.
                if let Some(reason) = self.machine.incomplete_summary() {
                    self.recorder.add_incomplete_answer(&mut batch, step, reason);
                }
                Recorder::set_end(&mut batch, end.clone());
            }
            // The answer and the request to go on are one commit, so that a recovered run knows of both.
            NextAction::AskAgain { reason, text } => {
                let message = self.injected_message(step, *reason, text);
                self.recorder.add_incomplete_answer(&mut batch, step, *reason);
                self.recorder.add_message(&mut batch, message);
            }
            _ => {}
        }
        self.calls = calls;
        if !held.is_empty() {
            self.recorder.add_requests(&mut batch, held);
            self.recorder.commit(batch, self.machine.steps()).await?;
            self.executor.telemetry().record_step();
            return Err(Error::Waiting(self.run.id));
        }
        if self.first_call_is_local() {
            self.recorder.buffer(batch);
        } else {
            self.recorder.commit(batch, self.machine.steps()).await?;
        }
        self.executor.telemetry().record_step();
        if let Some(turn) = context::answer_turn(&answer.parts) {
            self.context.push(turn, answer_seq);
            self.context.set_counted_tokens(answer.usage.input + answer.usage.output);
        }
        match next {
            NextAction::AskAgain { text, .. } => {
                self.context.push(Turn::user(text), self.recorder.last_seq());
                Ok(self.machine.next_action())
            }
            next => Ok(next),
        }
    }

    /// Tells the model why it cannot call a tool: its server cannot be used, it is held back, or there is no
    /// such tool.
    fn unknown_tool_message(&self, name: &str) -> String {
        if let Some(reason) = self.tools.explain_missing(name) {
            return reason;
        }
        let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
        match names.is_empty() {
            true => format!("tool not found: there is no tool `{name}`; you have no tools, answer with text"),
            false => {
                format!("tool not found: there is no tool `{name}`; your tools are {}", names.join(", "))
            }
        }
    }

    /// Changes an answer to the form in which it is recorded. Aliases become the tool's own name, so that
    /// the record and the context agree. Characters that a database cannot store are replaced.
    fn normalize_parts(&self, parts: &mut [Part]) {
        for part in parts {
            match part {
                Part::Text { text, .. } | Part::Thought { text, .. } => scrub::scrub_text(text),
                Part::Call(call) => {
                    scrub::scrub_text(&mut call.name);
                    scrub::scrub_value(&mut call.input);
                    if let Some(name) = self.tools.resolve_name(&call.name) {
                        name.clone_into(&mut call.name);
                    }
                }
                Part::Result(_) => {}
            }
        }
    }

    /// Records that a limit was reached, and tells the model to write its final summary.
    async fn wrap_up(&mut self, reason: Reason, text: &str) -> Result<NextAction> {
        let mut batch = RecordBatch::default();
        let message = self.injected_message(self.run.steps_before + self.machine.step(), reason, text);
        self.recorder.add_limit_reached(&mut batch, reason);
        self.recorder.add_message(&mut batch, message);
        self.recorder.commit(batch, self.machine.steps()).await?;
        self.context.push(Turn::user(text), self.recorder.last_seq());
        Ok(self.machine.next_action())
    }

    /// Returns a message of the executor to the model, and why it is sent.
    fn injected_message(&self, step: i64, reason: Reason, text: &str) -> RecordedMessage {
        RecordedMessage {
            id: MessageId::new(),
            seq: 0,
            role: MessageRole::User,
            step,
            content: MessageContent::Text { text: text.to_owned(), injected: Some(reason) },
            usage: None,
            cost: None,
            at: self.executor.clock().now(),
        }
    }

    /// Ends the run, unless the answer that ended it was recorded with its end.
    async fn end_run(&mut self, end: RunEnd) -> Result<()> {
        if self.recorder.has_ended() {
            return Ok(());
        }
        let mut batch = RecordBatch::default();
        Recorder::set_end(&mut batch, end);
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// Adds the results of all calls of the newest answer to the context.
    pub fn push_tool_results(&mut self) -> NextAction {
        let calls = std::mem::take(&mut self.calls);
        self.has_unknown_outcome = tool_calls::has_unknown_outcome(&calls);
        let results = calls.iter().map(context::tool_result).collect::<Vec<_>>();
        self.context.push(Turn::results(results), self.recorder.last_seq());
        self.machine.on_tool_results(&result_views(&calls))
    }
}

/// Returns the `seq` of the last message that the run was admitted with.
fn first_seq(own: &Conversation) -> i64 {
    own.messages
        .iter()
        .take_while(|message| {
            message.step == 0 || matches!(message.content, MessageContent::Text { injected: None, .. })
        })
        .map(|message| message.seq)
        .max()
        .unwrap_or(0)
}

/// Returns the tool calls in the parts of an answer.
pub(crate) fn tool_calls_in(parts: &[Part]) -> Vec<&ToolCall> {
    parts.iter().filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None }).collect()
}

/// The output of a failed tool call, as the model sees it.
pub(crate) fn error_output(reason: impl Into<String>) -> Value {
    json!({ "error": reason.into() })
}

/// The output of a tool call that a person or a rule did not allow. `RecordedToolCall::is_denied` tells it from the
/// output of a call that failed.
pub(crate) fn denied_output(reason: impl Into<String>) -> Value {
    json!({ "error": reason.into(), "denied": true })
}
