//! What a run does next. Takes what happened, returns what to do; knows no clock, no model and no
//! database, so that every rule is a test.
//!
//! The driver obeys and the recorder writes. After a crash the machine is put back by replaying
//! what was recorded: whatever it decided before is in the record, so it never decides twice.

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
    /// What is known if nothing better comes: the newest text of the model.
    last_text: String,
}

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum NextAction {
    /// Ask the model. Without tools it can only answer.
    CallModel { tools: bool },
    /// Deal with the calls of the answer, in this order, then say [`Machine::calls_done`].
    CallTools(Vec<CallDecision>),
    /// Tell the model that a limit is reached, then ask without tools.
    WrapUp { reason: Reason, text: &'static str },
    /// It is over. Calls the model still wanted get these results instead of being made.
    End { end: RunEnd, refused: Vec<CallDecision> },
}

/// What becomes of one call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallDecision {
    Make(ToolCallId),
    /// Not made: the model reads this instead of a result.
    Refuse {
        call: ToolCallId,
        text: String,
        looped: Option<usize>,
    },
}

/// The model's answer, as far as the machine cares.
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

/// What is said of a run that its budget ended, when nothing closer is known.
pub const BUDGET_EXHAUSTED: &str = "the budget does not allow another model call";

const TOOLS_DISABLED_RESULT: &str =
    "This call was not made: tools are disabled, only a summary was asked for.";
const RUN_ENDED_RESULT: &str =
    "This call was not made: the run ended because it went on with a loop after the warning.";

impl Machine {
    /// A run that begins, or goes on from others in its chain.
    pub fn new(max_steps: Option<i64>, steps_before: i64) -> Self {
        let left = (MAX_STEPS - steps_before).max(0);
        Self {
            allowed: max_steps.map_or(left, |most| most.min(left)),
            steps: 0,
            loops: LoopDetector::default(),
            wrap_up: None,
            last_text: String::new(),
        }
    }

    /// Steps of this run so far.
    pub fn steps(&self) -> i64 {
        self.steps
    }

    /// The step that is being taken or comes next. A summary belongs to the last step.
    pub fn step(&self) -> i64 {
        if self.wrap_up.is_some() { self.steps.max(1) } else { self.steps + 1 }
    }

    /// What is known so far.
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    pub fn wrap_up_reason(&self) -> Option<Reason> {
        self.wrap_up
    }

    /// At the start, and whenever the results of all calls are there.
    pub fn next_action(&mut self) -> NextAction {
        match self.wrap_up {
            Some(_) => NextAction::CallModel { tools: false },
            None if self.steps >= self.allowed => self.wrap_up(Reason::StepLimit),
            None => NextAction::CallModel { tools: true },
        }
    }

    /// The results of all calls are there.
    pub fn on_tool_results(&mut self) -> NextAction {
        self.next_action()
    }

    /// The deadline has come. Nothing else is begun; the model may still sum up.
    pub fn on_deadline(&mut self) -> NextAction {
        match self.wrap_up {
            // It is summing up already; the driver bounds how long that takes.
            Some(_) => NextAction::CallModel { tools: false },
            None => self.wrap_up(Reason::Timeout),
        }
    }

    /// The budget does not allow the next question. The model may still sum up, if it allows that;
    /// one that was summing up has ended, at the limit it had reached first.
    pub fn on_budget_exhausted(&mut self) -> NextAction {
        match self.wrap_up {
            Some(_) => self.on_grace_expired(),
            None => self.wrap_up(Reason::Budget),
        }
    }

    /// The answer was cut where the budget ended: it is no result, but all there will be.
    pub fn on_truncated_answer(&self) -> NextAction {
        self.end_with(end_at_limit(Reason::Budget, self.last_text.clone()))
    }

    /// The grace after a limit has passed as well.
    pub fn on_grace_expired(&self) -> NextAction {
        let reason = self.wrap_up.unwrap_or(Reason::Timeout);
        self.end_with(end_at_limit(reason, self.last_text.clone()))
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

    /// The provider failed for good. A run that was only to sum up has reached its limit all the
    /// same.
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
    pub fn on_answer(&mut self, said: &AnswerView<'_>) -> NextAction {
        if !said.text.trim().is_empty() {
            said.text.clone_into(&mut self.last_text);
        }
        if let Some(reason) = self.wrap_up {
            let refused = said.calls.iter().map(|call| refuse_call(call, TOOLS_DISABLED_RESULT)).collect();
            return NextAction::End { end: end_at_limit(reason, self.last_text.clone()), refused };
        }
        self.steps += 1;
        if said.calls.is_empty() {
            return self.end_with(self.completed_or_refused(said.stop));
        }
        let mut verdicts = Vec::with_capacity(said.calls.len());
        let mut over = None;
        for call in &said.calls {
            match self.loops.observe(&call.name, &call.input) {
                LoopCheck::None => verdicts.push(CallDecision::Make(call.id)),
                LoopCheck::Warn { count } => verdicts.push(CallDecision::Refuse {
                    call: call.id,
                    text: loops::loop_warning(&call.name, count),
                    looped: Some(count),
                }),
                LoopCheck::End { count } => over = over.or(Some((*call, count))),
            }
        }
        match over {
            None => NextAction::CallTools(verdicts),
            Some((looping, count)) => {
                let refused = said.calls.iter().map(|call| CallDecision::Refuse {
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
            // The text is cut, but it is what the model had to say.
            StopReason::End | StopReason::ToolCalls | StopReason::MaxTokens | StopReason::Other(_) => {
                RunEnd::Completed { summary }
            }
        }
    }

    /// Takes in an answer that is in the record already.
    pub fn replay_answer(&mut self, said: &AnswerView<'_>) {
        let _ = self.on_answer(said);
    }

    /// Takes in a limit the model was told about already.
    pub fn replay_wrap_up(&mut self, reason: Reason) {
        self.wrap_up = Some(reason);
    }
}

/// How a run ends at a limit. Steps and time are fresh when it is resumed; money is not.
fn end_at_limit(reason: Reason, summary: String) -> RunEnd {
    match reason {
        Reason::Budget => RunEnd::Failed { reason, error: BUDGET_EXHAUSTED.to_owned(), summary },
        _ => RunEnd::Paused { reason, summary },
    }
}

fn refuse_call(call: &ToolCall, text: &str) -> CallDecision {
    CallDecision::Refuse { call: call.id, text: text.to_owned(), looped: None }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
