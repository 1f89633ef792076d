//! The state machine of a run. It receives what happened and returns what the driver does next.
//!
//! The driver carries the actions out and the recorder writes them. After a crash the driver rebuilds
//! the machine by replaying the record: everything the machine decided before is there, so it never
//! decides the same thing twice.

use emergent_domain::{
    chat::{StopReason, ToolCall},
    ids::ToolCallId,
    loops::{self, LoopCheck, LoopDetector},
    run::{MAX_STEPS, Reason, RunEnd},
};

#[derive(Debug, Clone)]
pub struct Machine {
    /// Steps with tools this run may take.
    allowed: i64,
    steps: i64,
    loops: LoopDetector,
    /// Set once the model was told to sum up.
    wrap_up: Option<Reason>,
    /// The newest text of the model. It becomes the run's summary if nothing better follows.
    last_text: String,
    /// Why the budget refused the latest model call that it refused. A run that its budget ends
    /// reports this reason, because it names the limit that was reached.
    budget_refusal: Option<String>,
}

/// What the driver does next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextAction {
    /// Call the model. Without tools it can only answer.
    CallModel { tools: bool },
    /// Process the tool calls of the answer in this order, then call [`Machine::on_tool_results`].
    CallTools(Vec<CallDecision>),
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
    pub calls: Vec<&'a ToolCall>,
    pub stop: &'a StopReason,
}

const STEP_LIMIT_PROMPT: &str = "CRITICAL - MAXIMUM STEPS REACHED

Tools are disabled. Respond with text only.

Your response MUST include:
- Summary of what has been accomplished so far
- List of any remaining tasks that were not completed
- Recommendations for what should be done next";

const TIMEOUT_PROMPT: &str = "CRITICAL - TIME IS UP

Tools are disabled. Respond with text only, at once: you have a few seconds.

Your response MUST include:
- Summary of what has been accomplished so far
- List of any remaining tasks that were not completed
- Recommendations for what should be done next";

const BUDGET_PROMPT: &str = "CRITICAL - BUDGET REACHED

Tools are disabled. Respond with text only, in a few sentences: very little may still be spent.

Your response MUST include:
- Summary of what has been accomplished so far
- List of any remaining tasks that were not completed
- Recommendations for what should be done next";

/// The error of a run that its budget ended when the refusal's own reason is not known, for example
/// after a restart.
const BUDGET_EXHAUSTED: &str = "the budget does not allow another model call";

const TOOLS_DISABLED_RESULT: &str =
    "This call was not made: tools are disabled, only a summary was asked for.";
const RUN_ENDED_RESULT: &str =
    "This call was not made: the run ended because it went on with a loop after the warning.";

impl Machine {
    /// Creates the machine of a run. `steps_before` counts the steps of the runs that this one resumes.
    pub fn new(max_steps: Option<i64>, steps_before: i64) -> Self {
        let left = (MAX_STEPS - steps_before).max(0);
        Self {
            allowed: max_steps.map_or(left, |max_steps| max_steps.min(left)),
            steps: 0,
            loops: LoopDetector::default(),
            wrap_up: None,
            last_text: String::new(),
            budget_refusal: None,
        }
    }

    /// The steps that this run has taken.
    pub fn steps(&self) -> i64 {
        self.steps
    }

    /// The number of the current or next step. A summary belongs to the last step.
    pub fn step(&self) -> i64 {
        if self.wrap_up.is_some() { self.steps.max(1) } else { self.steps + 1 }
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
            None if self.steps >= self.allowed => self.wrap_up(Reason::StepLimit),
            None => NextAction::CallModel { tools: true },
        }
    }

    /// The results of all tool calls are recorded.
    pub fn on_tool_results(&mut self) -> NextAction {
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
        self.budget_refusal = Some(reason);
    }

    /// The budget does not allow the next model call. The model may still sum up if the budget allows
    /// that; a run that was summing up already ends at the limit it had reached first.
    pub fn on_budget_exhausted(&mut self) -> NextAction {
        match self.wrap_up {
            Some(_) => self.on_grace_expired(),
            None => self.wrap_up(Reason::Budget),
        }
    }

    /// The budget truncated the answer, and no other call is possible, so the run ends with it.
    pub fn on_truncated_answer(&self) -> NextAction {
        self.end_with(self.end_at_limit(Reason::Budget))
    }

    /// The grace period after a limit has passed.
    pub fn on_grace_expired(&self) -> NextAction {
        let reason = self.wrap_up.unwrap_or(Reason::Timeout);
        self.end_with(self.end_at_limit(reason))
    }

    fn wrap_up(&mut self, reason: Reason) -> NextAction {
        self.wrap_up = Some(reason);
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
        match self.wrap_up {
            Some(_) => self.on_grace_expired(),
            None => self.end_with(RunEnd::Failed {
                reason: Reason::Provider,
                error,
                summary: self.last_text.clone(),
            }),
        }
    }

    fn end_with(&self, end: RunEnd) -> NextAction {
        NextAction::End { end, refused: Vec::new() }
    }

    /// The model answered.
    pub fn on_answer(&mut self, answer: &AnswerView<'_>) -> NextAction {
        if !answer.text.trim().is_empty() {
            answer.text.clone_into(&mut self.last_text);
        }
        if let Some(reason) = self.wrap_up {
            let refused = answer.calls.iter().map(|call| refuse_call(call, TOOLS_DISABLED_RESULT)).collect();
            return NextAction::End { end: self.end_at_limit(reason), refused };
        }
        self.steps += 1;
        if answer.calls.is_empty() {
            return self.end_with(self.completed_or_refused(answer.stop));
        }
        let mut decisions = Vec::with_capacity(answer.calls.len());
        let mut looping_call = None;
        for call in &answer.calls {
            match self.loops.observe(&call.name, &call.input) {
                LoopCheck::None => decisions.push(CallDecision::Make(call.id)),
                LoopCheck::Warn { count } => decisions.push(CallDecision::Refuse {
                    call: call.id,
                    text: loops::loop_warning(&call.name, count),
                    looped: Some(count),
                }),
                LoopCheck::End { count } => looping_call = looping_call.or(Some((*call, count))),
            }
        }
        match looping_call {
            None => NextAction::CallTools(decisions),
            Some((looping, count)) => {
                let refused = answer.calls.iter().map(|call| CallDecision::Refuse {
                    call: call.id,
                    text: RUN_ENDED_RESULT.to_owned(),
                    looped: (call.id == looping.id).then_some(count),
                });
                let error = format!("it went on calling `{}` in a loop after it was warned", looping.name);
                let end = RunEnd::Failed { reason: Reason::DoomLoop, error, summary: self.last_text.clone() };
                NextAction::End { refused: refused.collect(), end }
            }
        }
    }

    fn completed_or_refused(&self, stop: &StopReason) -> RunEnd {
        let summary = self.last_text.clone();
        match stop {
            StopReason::Refused(word) => RunEnd::Failed {
                reason: Reason::Provider,
                error: format!("the provider refused to answer: {word}"),
                summary,
            },
            // A truncated text is still the model's result.
            StopReason::End | StopReason::ToolCalls | StopReason::MaxTokens | StopReason::Other(_) => {
                RunEnd::Completed { summary }
            }
        }
    }

    /// Applies an answer that is in the record already.
    pub fn replay_answer(&mut self, answer: &AnswerView<'_>) {
        let _ = self.on_answer(answer);
    }

    /// Applies a limit that the model was told about already.
    pub fn replay_wrap_up(&mut self, reason: Reason) {
        self.wrap_up = Some(reason);
    }

    /// How a run ends at a limit. A resumed run has new steps and new time, but no new budget, so only
    /// a run that its budget ends has failed.
    fn end_at_limit(&self, reason: Reason) -> RunEnd {
        let summary = self.last_text.clone();
        match reason {
            Reason::Budget => {
                let error = self.budget_refusal.clone().unwrap_or_else(|| BUDGET_EXHAUSTED.to_owned());
                RunEnd::Failed { reason, error, summary }
            }
            _ => RunEnd::Paused { reason, summary },
        }
    }
}

fn refuse_call(call: &ToolCall, text: &str) -> CallDecision {
    CallDecision::Refuse { call: call.id, text: text.to_owned(), looped: None }
}

#[cfg(test)]
mod tests;
