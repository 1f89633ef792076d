//! Drives one run: does what the machine says, and has everything recorded. It may be dropped at
//! any await: what was not recorded did not happen, and what was is taken up from the record.

use std::sync::Arc;

use emergent_domain::{
    agent::AgentDefinition,
    chat::{Call, Part, Turn, text_of},
    ids::MessageId,
    run::{CallStatus, MessageRole, Reason, Run, RunEnd},
    run_event::{MessageContent, RecordedCall, RecordedMessage, RunEvent, RunEventBody},
    tool_name,
};
use emergent_llm::{About, Answer, ChatRequest, Delta, ToolSpec};
use emergent_store::runs::conversation::Conversation;
use emergent_tools::ToolSet;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::{
    Executor, Result,
    budget::{Bill, Heard, Outcome},
    context::{self, Context},
    drive::Loaded,
    machine::{Machine, Next, Said, Verdict},
    place::Slot,
    purse::{Afforded, Purse, was_cut},
    recorder::{Batch, Recorder},
    scrub,
};

pub(crate) struct Driver {
    pub executor: Executor,
    pub run: Run,
    pub definition: Arc<AgentDefinition>,
    pub tools: ToolSet,
    pub specs: Vec<ToolSpec>,
    pub context: Context,
    pub machine: Machine,
    pub recorder: Recorder,
    /// Calls of the newest answer, in their order, as they stand in the record.
    pub calls: Vec<RecordedCall>,
    pub deadline: Instant,
    pub slot: Slot,
    /// Shortening the conversation is tried again only after it has grown.
    pub shortened_at: u64,
    pub purse: Purse,
}

impl Driver {
    pub fn new(
        executor: &Executor,
        run: Run,
        owner: Arc<str>,
        loaded: Loaded,
        tools: ToolSet,
        slot: Slot,
    ) -> Self {
        let mut context = Context::default();
        loaded.before.iter().for_each(|conversation| context.before(conversation));
        context.load(&loaded.own);
        let left = run.deadline().map_or(Duration::ZERO, |end| end.since(executor.clock().now()));
        Self {
            specs: tools.specs(),
            machine: Machine::new(run.max_steps, run.steps_before),
            recorder: Recorder::new(executor, &run, owner),
            executor: executor.clone(),
            definition: Arc::new(loaded.definition),
            calls: Vec::new(),
            deadline: Instant::now() + left,
            tools,
            context,
            run,
            slot,
            shortened_at: 0,
            purse: Purse::new(loaded.limited),
        }
    }

    /// From where the record ends to the end of the run.
    /// `started`: that was recorded when the run was admitted.
    pub async fn drive(mut self, own: &Conversation, started: bool) -> Result<()> {
        if !started {
            self.start(own).await?;
        }
        let mut next = self.replay(own);
        loop {
            next = match next {
                Next::Ask { tools } => self.ask(tools).await?,
                Next::Call(_) => self.make_calls().await?,
                Next::WrapUp { reason, text } => self.wrap_up(reason, text).await?,
                Next::End { end, .. } => return self.end(end).await,
            };
        }
    }

    async fn start(&mut self, own: &Conversation) -> Result<()> {
        let recovered = self.run.seq > first_seq(own);
        let mut batch = Batch::default();
        let tools =
            (has_patterns(&self.definition) && own.tools.is_none()).then(|| self.tools.names().collect());
        self.recorder.started(&mut batch, recovered, tools);
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// Puts the machine where the record says it was, and says what is next.
    fn replay(&mut self, own: &Conversation) -> Next {
        let mut open = Vec::new();
        for message in &own.messages {
            match &message.content {
                MessageContent::Text { injected: Some(reason), .. } => self.machine.replay_wrap_up(*reason),
                MessageContent::Parts(parts) => {
                    let text = text_of(parts);
                    let said =
                        Said { text: &text, calls: calls_of(parts), stop: &emergent_domain::chat::Stop::End };
                    self.machine.replay_answer(&said);
                    open = own.calls.iter().filter(|call| call.message == message.id).cloned().collect();
                }
                _ => {}
            }
        }
        if open.iter().any(|call| !call.status.is_over()) {
            self.calls = open;
            return Next::Call(Vec::new());
        }
        self.machine.go_on()
    }

    /// When a model call must be over.
    fn limit(&self, tools: bool) -> Instant {
        if tools { self.deadline } else { self.deadline + self.executor.settings().grace }
    }

    async fn ask(&mut self, tools: bool) -> Result<Next> {
        if tools && Instant::now() >= self.deadline {
            return Ok(self.machine.time_is_up());
        }
        self.make_room(false).await?;
        let bill = match self.afford(|driver| driver.wish(tools), self.limit(tools)).await? {
            Afforded::Yes(bill) => bill,
            Afforded::No => return Ok(self.machine.over_budget()),
            Afforded::TooLate => return Ok(self.too_late(tools)),
        };
        let mut heard = Heard::default();
        let asked = self.ask_once(tools, bill.as_ref(), &mut heard).await;
        match asked {
            Asked::Answer(answer) => self.answered(*answer, bill.as_ref(), &heard).await,
            Asked::TooLate => {
                self.close(bill.as_ref(), &Outcome::GivenUp, &heard).await?;
                Ok(self.too_late(tools))
            }
            Asked::Failed(error) => {
                self.close(bill.as_ref(), &Outcome::Failed(&error), &heard).await?;
                let too_long = matches!(error, emergent_llm::Error::ContextTooLong { .. });
                if too_long && self.make_room(true).await? {
                    return Ok(Next::Ask { tools });
                }
                Ok(self.machine.not_answered(error.to_string()))
            }
        }
    }

    fn too_late(&mut self, tools: bool) -> Next {
        if tools { self.machine.time_is_up() } else { self.machine.grace_is_over() }
    }

    async fn ask_once(&self, tools: bool, bill: Option<&Bill>, heard: &mut Heard) -> Asked {
        let limit = self.limit(tools);
        let step = self.run.steps_before + self.machine.step();
        let request = ChatRequest {
            model: &self.run.model.name,
            system: &self.definition.system_prompt,
            turns: self.context.turns(),
            tools: if tools { &self.specs } else { &[] },
            temperature: self.run.model.temperature,
            max_tokens: bill.and_then(Bill::longest_answer).or(self.run.model.max_tokens),
            output_schema: None,
            kept: Some(self.context.kept()),
            about: About { agent: &self.run.agent_name, step, run: Some(self.run.id) },
        };
        let mut tell = |delta| {
            heard.hear(&delta);
            self.tell(step, delta);
        };
        match self.chat(request, limit, &mut tell).await {
            Err(_) => Asked::TooLate,
            Ok(Ok(answer)) => Asked::Answer(Box::new(answer)),
            Ok(Err(_)) if Instant::now() >= limit => Asked::TooLate,
            Ok(Err(error)) => Asked::Failed(error),
        }
    }

    /// Passes on what the model says while it speaks, to whoever listens.
    fn tell(&self, step: i64, delta: Delta) {
        let hub = self.executor.hub();
        if !hub.is_followed(self.run.id) {
            return;
        }
        let body = match delta {
            Delta::Text(text) => RunEventBody::TextDelta { step, text },
            Delta::Thought(text) => RunEventBody::ThoughtDelta { step, text },
            Delta::Restart { why } => RunEventBody::StepRestarted { step, why },
        };
        hub.tell(RunEvent { run: self.run.id, seq: None, at: self.executor.clock().now(), body });
    }

    /// Records an answer together with everything it settles: calls that are not made, loops, and
    /// the end of the run when it is that.
    async fn answered(&mut self, mut answer: Answer, bill: Option<&Bill>, heard: &Heard) -> Result<Next> {
        self.clean(&mut answer.parts);
        let step = self.run.steps_before + self.machine.step();
        let text = text_of(&answer.parts);
        let said = Said { text: &text, calls: calls_of(&answer.parts), stop: &answer.stop };
        let next = match self.machine.answered(&said) {
            Next::End { end: RunEnd::Completed { .. }, .. } if was_cut(bill, &answer) => {
                self.machine.cut_by_budget()
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
        let (id, mut batch) = (message.id, Batch::default());
        if let Some(bill) = bill {
            batch.settles(self.settlement(bill, &Outcome::Answered(&answer.usage), heard));
        }
        self.recorder.message(&mut batch, message);
        let verdicts = match &next {
            Next::Call(verdicts) | Next::End { refused: verdicts, .. } => verdicts.as_slice(),
            _ => &[],
        };
        let mut calls = Vec::with_capacity(said.calls.len());
        for (call, verdict) in said.calls.iter().zip(verdicts) {
            let mut recorded = RecordedCall {
                id: call.id,
                seq: 0,
                message: id,
                tool: call.name.clone(),
                step,
                input: call.input.clone(),
                status: CallStatus::Pending,
                output: None,
                result_seq: None,
                duration_ms: None,
                at: now,
            };
            if let Some(why) = self.not_made(call, verdict) {
                let known = self.tools.get(&call.name).is_some();
                self.executor.telemetry().tool_refused(known.then_some(call.name.as_str()));
                (recorded.status, recorded.output) = (CallStatus::Error, Some(error_output(why)));
            }
            recorded.seq = self.recorder.call(&mut batch, recorded.clone());
            calls.push(recorded);
        }
        self.recorder.place_results(&mut batch);
        for (call, verdict) in said.calls.iter().zip(verdicts) {
            if let Verdict::Refuse { looped: Some(count), .. } = verdict {
                self.recorder.looped(&mut batch, call.id, &call.name, *count);
            }
        }
        if let Next::End { end, .. } = &next {
            Recorder::end(&mut batch, self.account(end.clone()));
        }
        self.calls = calls;
        if self.answers_at_once() {
            self.recorder.hold(batch);
        } else {
            self.recorder.commit(batch, self.machine.steps()).await?;
        }
        self.executor.telemetry().stepped();
        self.context.push(Turn::assistant(answer.parts), self.recorder.newest());
        self.context.counted(answer.usage.input + answer.usage.output);
        Ok(next)
    }

    /// Why a call is not made, if so: the machine refuses it, or the run does not have the tool.
    fn not_made(&self, call: &Call, verdict: &Verdict) -> Option<String> {
        match verdict {
            Verdict::Refuse { text, .. } => Some(text.clone()),
            Verdict::Make(_) if self.tools.get(&call.name).is_some() => None,
            Verdict::Make(_) => Some(self.no_such_tool(&call.name)),
        }
    }

    fn no_such_tool(&self, name: &str) -> String {
        let names: Vec<&str> = self.tools.names().collect();
        match names.is_empty() {
            true => format!("tool not found: there is no tool `{name}`; you have no tools, answer with text"),
            false => {
                format!("tool not found: there is no tool `{name}`; your tools are {}", names.join(", "))
            }
        }
    }

    /// What the model said, as it is kept: aliases become the tool's own name, so that the record
    /// and the model's view agree; what no database holds is replaced.
    fn clean(&self, parts: &mut [Part]) {
        for part in parts {
            match part {
                Part::Text { text, .. } | Part::Thought { text, .. } => scrub::text(text),
                Part::Call(call) => {
                    scrub::text(&mut call.name);
                    scrub::value(&mut call.input);
                    if let Some(name) = self.tools.name_of(&call.name) {
                        name.clone_into(&mut call.name);
                    }
                }
                Part::Result(_) => {}
            }
        }
    }

    async fn wrap_up(&mut self, reason: Reason, text: &str) -> Result<Next> {
        let mut batch = Batch::default();
        let message = RecordedMessage {
            id: MessageId::new(),
            seq: 0,
            role: MessageRole::User,
            step: self.run.steps_before + self.machine.step(),
            content: MessageContent::Text { text: text.to_owned(), injected: Some(reason) },
            usage: None,
            cost: None,
            at: self.executor.clock().now(),
        };
        self.recorder.limit(&mut batch, reason);
        self.recorder.message(&mut batch, message);
        self.recorder.commit(batch, self.machine.steps()).await?;
        self.context.push(Turn::user(text), self.recorder.newest());
        Ok(self.machine.go_on())
    }

    /// Ends the run, unless the answer that ended it was recorded with its end.
    async fn end(&mut self, end: RunEnd) -> Result<()> {
        if self.recorder.has_ended() {
            return Ok(());
        }
        let mut batch = Batch::default();
        Recorder::end(&mut batch, self.account(end));
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// All results of the newest answer are there: the model gets to see them.
    pub fn results_are_in(&mut self) -> Next {
        let results = self.calls.drain(..).map(|call| context::result_of(&call)).collect::<Vec<_>>();
        self.context.push(Turn::results(results), self.recorder.newest());
        self.machine.calls_done()
    }
}

enum Asked {
    Answer(Box<Answer>),
    TooLate,
    Failed(emergent_llm::Error),
}

/// Whether which tools it has is only known once the pool is asked.
pub(crate) fn has_patterns(definition: &AgentDefinition) -> bool {
    definition.tools.iter().any(|entry| tool_name::is_glob(entry))
}

/// The place of the last message a run is admitted with.
fn first_seq(own: &Conversation) -> i64 {
    own.messages
        .iter()
        .take_while(|message| matches!(message.content, MessageContent::Text { injected: None, .. }))
        .map(|m| m.seq)
        .max()
        .unwrap_or(0)
}

pub(crate) fn calls_of(parts: &[Part]) -> Vec<&Call> {
    parts.iter().filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None }).collect()
}

pub(crate) fn error_output(why: impl Into<String>) -> Value {
    json!({ "error": why.into() })
}
