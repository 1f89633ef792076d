//! The state machine of a run. It receives what happened and returns what the driver does next.
//!
//! The driver carries the actions out and the recorder writes them. After a crash the driver rebuilds
//! the machine by replaying the record: everything the machine decided before is there, so it never
//! decides the same thing twice.

mod prompts;
mod summary;
pub mod typed_output;

use std::{borrow::Cow, collections::BTreeMap};

use emergent_domain::{
    chat::{StopReason, ToolCall},
    ids::{RunId, ToolCallId},
    loops::{self, CallEffect, LoopCheck, LoopGuard, ObservedCall},
    output_schema::OutputSchema,
    run::{MAX_STEPS, Reason, RunEnd},
};
use serde_json::Value;

pub use prompts::TRUNCATED_CALL_RESULT;
use prompts::{
    BUDGET_PROMPT, CONTINUE_EMPTY_PROMPT, CONTINUE_PROMPT, EMPTY_PROMPT, RUN_ENDED_RESULT, SHORTER_PROMPT,
    STEP_LIMIT_PROMPT, TIMEOUT_PROMPT,
};
use typed_output::OutputDecision;

/// So often in a row the model may continue a truncated answer.
const MAX_CONTINUATIONS: u32 = 3;

#[derive(Debug, Clone)]
pub struct Machine {
    /// Steps with tools this run may take.
    allowed: i64,
    steps: i64,
    loops: LoopGuard,
    /// Set once the model was told to sum up.
    wrap_up: Option<Reason>,
    /// The newest text of the model. It becomes the run's summary if nothing better follows.
    last_text: String,
    /// The text of the newest model call that was dropped or failed before its answer was complete.
    unfinished_text: String,
    /// As `unfinished_text`, of the newest call that was to sum up.
    unfinished_summary: String,
    /// How often this run has called each tool.
    tool_calls: BTreeMap<String, usize>,
    incomplete: IncompleteAnswers,
    /// What the final answer must match.
    output_schema: Option<OutputSchema>,
    /// How often the model was asked to correct an answer that does not match the output schema.
    corrections: u32,
    /// Why the budget refused the latest model call that it refused, apart from the summary that follows. A run
    /// that its budget ends reports this reason, because it names the limit that was reached.
    budget_refusal: Option<String>,
}

/// What is known of answers that were truncated or empty.
#[derive(Debug, Clone, Default)]
struct IncompleteAnswers {
    /// The text of the truncated answers that the next one continues.
    text: String,
    /// How many answers in a row were truncated.
    truncated: u32,
    /// Whether the newest answer was empty, and the model was asked once more.
    asked_again: bool,
    /// Whether the next answer belongs to the same step as the one before.
    continues_step: bool,
    /// Why the summary at a limit is incomplete although the model is not asked again.
    summary: Option<Reason>,
}

/// What the driver does next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextAction {
    /// Call the model. Without tools it can only answer.
    CallModel { tools: bool },
    /// Process the tool calls of the answer in this order, then call [`Machine::on_tool_results`].
    CallTools(Vec<CallDecision>),
    /// The answer is truncated or empty, or does not match the output schema: record it together with this
    /// message to the model, then call the model again.
    AskAgain { reason: Reason, text: Cow<'static, str> },
    /// Tell the model that a limit is reached, then call it without tools.
    WrapUp { reason: Reason, text: &'static str },
    /// End the run. Tool calls of the last answer get these results instead of being made.
    End { end: RunEnd, refused: Vec<CallDecision> },
}

/// Whether a tool call is made.
#[derive(Debug, Clone, PartialEq)]
pub enum CallDecision {
    Make(ToolCallId),
    /// The call is not made, and the model reads this text instead of a result.
    Refuse {
        call: ToolCallId,
        text: String,
        /// How often the same call was made, if it was refused as a loop.
        looped: Option<usize>,
    },
}

/// The parts of a model's answer that the machine decides on.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerView<'a> {
    pub text: &'a str,
    pub calls: Vec<CallView<'a>>,
    pub stop: &'a StopReason,
    /// Whether the last thing that the model wrote is a tool call. If the answer is truncated, the arguments
    /// of this call are incomplete.
    pub ends_in_call: bool,
}

/// A tool call of an answer, with what its tool may change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallView<'a> {
    pub call: &'a ToolCall,
    pub effect: CallEffect,
}

/// The result of a tool call, as it is recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResultView<'a> {
    pub call: ToolCallId,
    pub output: &'a Value,
    pub failed: bool,
}

impl Machine {
    /// Creates the machine of a run. `steps_before` counts the steps of the runs that this one resumes.
    pub fn new(max_steps: Option<i64>, steps_before: i64) -> Self {
        let left = (MAX_STEPS - steps_before).max(0);
        Self {
            allowed: max_steps.map_or(left, |max_steps| max_steps.min(left)),
            steps: 0,
            loops: LoopGuard::default(),
            wrap_up: None,
            last_text: String::new(),
            unfinished_text: String::new(),
            unfinished_summary: String::new(),
            tool_calls: BTreeMap::new(),
            incomplete: IncompleteAnswers::default(),
            output_schema: None,
            corrections: 0,
            budget_refusal: None,
        }
    }

    /// Sets the run, so that the loop guard knows what of a result the run recorded itself.
    #[must_use]
    pub fn for_run(self, run: RunId) -> Self {
        Self { loops: LoopGuard::for_run(run), ..self }
    }

    /// Sets the schema that the final answer must match.
    #[must_use]
    pub fn with_output_schema(self, output_schema: Option<OutputSchema>) -> Self {
        Self { output_schema, ..self }
    }

    /// The steps that this run has taken.
    pub fn steps(&self) -> i64 {
        self.steps
    }

    /// The number of the current or next step. A summary belongs to the last step.
    pub fn step(&self) -> i64 {
        let is_same_step = self.wrap_up.is_some() || self.incomplete.continues_step;
        if is_same_step { self.steps.max(1) } else { self.steps + 1 }
    }

    /// The newest text of the model.
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    pub fn wrap_up_reason(&self) -> Option<Reason> {
        self.wrap_up
    }

    /// Called at the start of a run, and after its record was replayed.
    pub fn next_action(&mut self) -> NextAction {
        match self.wrap_up {
            Some(_) => NextAction::CallModel { tools: false },
            None if self.incomplete.continues_step => NextAction::CallModel { tools: true },
            None if self.steps >= self.allowed => self.wrap_up(Reason::StepLimit),
            None => NextAction::CallModel { tools: true },
        }
    }

    /// The results of all tool calls of the newest answer are recorded.
    pub fn on_tool_results(&mut self, results: &[ResultView<'_>]) -> NextAction {
        self.replay_tool_results(results);
        self.next_action()
    }

    /// The deadline has passed. Nothing new is started; the model may still sum up.
    pub fn on_deadline(&mut self) -> NextAction {
        match self.wrap_up {
            // The model is summing up already; the driver limits how long that takes.
            Some(_) => NextAction::CallModel { tools: false },
            None => self.wrap_up(Reason::Timeout),
        }
    }

    /// The budget refused a model call for this reason. The machine only remembers it: the driver may
    /// still make a smaller call.
    pub fn record_budget_refusal(&mut self, reason: String) {
        // A summary needs less than the call in whose place it is made: a limit that is raised to the need of the
        // summary would refuse that call again.
        if self.wrap_up != Some(Reason::Budget) || self.budget_refusal.is_none() {
            self.budget_refusal = Some(reason);
        }
    }

    /// The budget does not allow the next model call. The model may still sum up if the budget allows
    /// that; a run that was summing up already ends at the limit it had reached first.
    pub fn on_budget_exhausted(&mut self) -> NextAction {
        match self.wrap_up {
            Some(_) => self.on_grace_expired(),
            None => self.wrap_up(Reason::Budget),
        }
    }

    /// The budget truncated the answer, and no other call is possible, so the run ends with it. A run that was summing
    /// up already ends at the limit it had reached first.
    pub fn on_truncated_answer(&mut self) -> NextAction {
        if self.wrap_up.is_some() {
            self.incomplete.summary = Some(Reason::Truncated);
        }
        self.end_with(self.end_at_limit(self.wrap_up.unwrap_or(Reason::Budget)))
    }

    /// The grace period after a limit has passed.
    pub fn on_grace_expired(&self) -> NextAction {
        let reason = self.wrap_up.unwrap_or(Reason::Timeout);
        self.end_with(self.end_at_limit(reason))
    }

    fn wrap_up(&mut self, reason: Reason) -> NextAction {
        self.replay_wrap_up(reason);
        let text = match reason {
            Reason::Timeout => TIMEOUT_PROMPT,
            Reason::Budget => BUDGET_PROMPT,
            _ => STEP_LIMIT_PROMPT,
        };
        NextAction::WrapUp { reason, text }
    }

    /// The provider failed, and retries did not help. A run that was only summing up ends at the limit
    /// it had reached.
    pub fn on_model_error(&self, error: String) -> NextAction {
        self.fail_unless_summing_up(Reason::Provider, error)
    }

    /// The message to an agent of another system, which executes this run, was interrupted, or the agent could not be
    /// asked for its answer any more. It is not sent again, so nothing more can be found out.
    pub fn on_unknown_outcome(&self, error: String) -> NextAction {
        self.fail_unless_summing_up(Reason::UnknownOutcome, error)
    }

    /// The agent of another system that should execute this run cannot be used before a person has done something.
    pub fn on_unusable_agent(&self, error: String) -> NextAction {
        self.fail_unless_summing_up(Reason::Definition, error)
    }

    fn fail_unless_summing_up(&self, reason: Reason, error: String) -> NextAction {
        match self.wrap_up {
            Some(_) => self.on_grace_expired(),
            None => self.end_with(RunEnd::Failed { reason, error, summary: self.summary() }),
        }
    }

    fn end_with(&self, end: RunEnd) -> NextAction {
        NextAction::End { end, refused: Vec::new() }
    }

    /// The model answered.
    pub fn on_answer(&mut self, answer: &AnswerView<'_>) -> NextAction {
        if !answer.text.trim().is_empty() {
            self.last_text = format!("{}{}", self.incomplete.text, answer.text);
            self.unfinished_text.clear();
            self.unfinished_summary.clear();
        }
        if let Some(reason) = self.wrap_up {
            return self.on_summary(reason, answer);
        }
        if !std::mem::take(&mut self.incomplete.continues_step) {
            self.steps += 1;
        }
        if answer.calls.is_empty() {
            return self.on_text(answer);
        }
        let is_truncated = *answer.stop == StopReason::MaxTokens && answer.ends_in_call;
        self.incomplete = IncompleteAnswers {
            truncated: if is_truncated { self.incomplete.truncated + 1 } else { 0 },
            ..IncompleteAnswers::default()
        };
        if self.incomplete.truncated > MAX_CONTINUATIONS {
            let refused = answer.calls.iter().map(|view| refuse_call(view.call, TRUNCATED_CALL_RESULT));
            return NextAction::End { refused: refused.collect(), end: self.truncated_end() };
        }
        let complete_calls = answer.calls.len() - usize::from(is_truncated);
        self.on_calls(&answer.calls[..complete_calls], &answer.calls[complete_calls..])
    }

    /// The model answered with text only: its final answer, or a part of it, or nothing.
    fn on_text(&mut self, answer: &AnswerView<'_>) -> NextAction {
        let incomplete = &mut self.incomplete;
        let is_empty = answer.text.trim().is_empty();
        match answer.stop {
            StopReason::Refused(word) => {
                let error = format!("the provider refused to answer: {word}");
                let summary = self.last_text.clone();
                self.end_with(RunEnd::Failed { reason: Reason::Provider, error, summary })
            }
            StopReason::MaxTokens => {
                incomplete.text.push_str(answer.text);
                incomplete.truncated += 1;
                incomplete.asked_again &= is_empty;
                if incomplete.truncated > MAX_CONTINUATIONS {
                    return self.end_with(self.truncated_end());
                }
                incomplete.continues_step = true;
                let text = if incomplete.text.trim().is_empty() { SHORTER_PROMPT } else { CONTINUE_PROMPT };
                NextAction::AskAgain { reason: Reason::Truncated, text: text.into() }
            }
            _ if !is_empty => self.on_final_answer(),
            // The model did not continue a truncated answer. Nobody knows whether anything is missing.
            _ if !incomplete.text.trim().is_empty() => {
                if std::mem::replace(&mut incomplete.asked_again, true) {
                    return self.end_with(self.not_continued_end());
                }
                incomplete.continues_step = true;
                NextAction::AskAgain { reason: Reason::Empty, text: CONTINUE_EMPTY_PROMPT.into() }
            }
            _ if incomplete.asked_again => self.end_with(RunEnd::Failed {
                reason: Reason::Empty,
                error: "the model answered with nothing, twice in a row".to_owned(),
                summary: self.last_text.clone(),
            }),
            _ => {
                (incomplete.asked_again, incomplete.continues_step) = (true, true);
                NextAction::AskAgain { reason: Reason::Empty, text: EMPTY_PROMPT.into() }
            }
        }
    }

    /// The newest text is the complete final answer. A correction is a step of its own, so that the step limit
    /// bounds it, and the model may call tools before it answers again.
    fn on_final_answer(&mut self) -> NextAction {
        let summary = self.last_text.clone();
        let Some(schema) = &self.output_schema else { return self.end_with(RunEnd::completed(summary)) };
        let has_step_left = self.steps < self.allowed;
        match typed_output::decide_output(schema, &summary, self.corrections, has_step_left) {
            OutputDecision::Accept(output) => {
                self.end_with(RunEnd::Completed { summary, output: Some(output) })
            }
            OutputDecision::Fail(error) => {
                self.end_with(RunEnd::Failed { reason: Reason::InvalidOutput, error, summary })
            }
            OutputDecision::Correct(text) => {
                self.corrections += 1;
                self.incomplete = IncompleteAnswers::default();
                NextAction::AskAgain { reason: Reason::InvalidOutput, text: text.into() }
            }
        }
    }

    fn truncated_end(&self) -> RunEnd {
        let error = format!(
            "the answer was truncated at the maximum length {} times in a row; raise `model.maxTokens`, or ask for less",
            self.incomplete.truncated
        );
        RunEnd::Failed { reason: Reason::Truncated, error, summary: self.last_text.clone() }
    }

    fn not_continued_end(&self) -> RunEnd {
        let error = "the answer was truncated at the maximum length, and the model did not continue it, although it was \
                     asked twice; raise `model.maxTokens`, or ask for less";
        RunEnd::Failed { reason: Reason::Truncated, error: error.to_owned(), summary: self.last_text.clone() }
    }

    /// The model called tools. The arguments of the `truncated` call are incomplete.
    fn on_calls(&mut self, calls: &[CallView<'_>], truncated: &[CallView<'_>]) -> NextAction {
        let mut decisions = Vec::with_capacity(calls.len() + truncated.len());
        let mut looping_call = None;
        let checks = self.loops.observe_answer(calls.iter().map(observed_call));
        for (CallView { call, .. }, check) in calls.iter().copied().zip(checks) {
            match check {
                LoopCheck::None => decisions.push(CallDecision::Make(call.id)),
                LoopCheck::Warn { count, kind } => decisions.push(CallDecision::Refuse {
                    call: call.id,
                    text: loops::loop_warning(&call.name, count, kind),
                    looped: Some(count),
                }),
                LoopCheck::End { count, kind } => looping_call = looping_call.or(Some((call, count, kind))),
            }
        }
        let Some((looping, count, kind)) = looping_call else {
            self.count_calls(calls, &decisions);
            decisions.extend(truncated.iter().map(|view| refuse_call(view.call, TRUNCATED_CALL_RESULT)));
            return NextAction::CallTools(decisions);
        };
        let refused = calls.iter().chain(truncated).map(|view| CallDecision::Refuse {
            call: view.call.id,
            text: RUN_ENDED_RESULT.to_owned(),
            looped: (view.call.id == looping.id).then_some(count),
        });
        let error = loops::loop_error(&looping.name, count, kind);
        let end = RunEnd::Failed { reason: Reason::DoomLoop, error, summary: self.last_text.clone() };
        NextAction::End { refused: refused.collect(), end }
    }

    /// Applies an answer that is in the record already, with its stop reason as far as the record shows it:
    /// whether it was truncated.
    pub fn replay_answer(&mut self, answer: &AnswerView<'_>) {
        let _ = self.on_answer(answer);
    }

    /// Applies the results of the newest answer, which are in the record already.
    pub fn replay_tool_results(&mut self, results: &[ResultView<'_>]) {
        for result in results {
            self.loops.record_result(result.call, result.output, result.failed);
        }
    }

    /// Applies a limit that the model was told about already.
    pub fn replay_wrap_up(&mut self, reason: Reason) {
        self.wrap_up = Some(reason);
        self.incomplete = IncompleteAnswers::default();
    }
}

fn observed_call<'a>(view: &CallView<'a>) -> ObservedCall<'a> {
    let call = view.call;
    ObservedCall { id: call.id, tool: &call.name, input: &call.input, effect: view.effect }
}

fn refuse_call(call: &ToolCall, text: &str) -> CallDecision {
    CallDecision::Refuse { call: call.id, text: text.to_owned(), looped: None }
}

#[cfg(test)]
mod summary_tests;
#[cfg(test)]
mod tests;
