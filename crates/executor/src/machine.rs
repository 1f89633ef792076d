//! What a run does next. Takes what happened, returns what to do; knows no clock, no model and no
//! database, so that every rule is a test.
//!
//! The driver obeys and the recorder writes. After a crash the machine is put back by replaying
//! what was recorded: whatever it decided before is in the record, so it never decides twice.

use emergent_domain::{
    chat::{Call, Stop},
    ids::ToolCallId,
    loops::{self, LoopDetector, Looping},
    run::{MOST_STEPS, Reason, RunEnd},
};

#[derive(Debug, Clone)]
pub struct Machine {
    /// Steps with tools this run may take.
    allowed: i64,
    steps: i64,
    loops: LoopDetector,
    /// Set once the model was told to sum up.
    wrapping: Option<Reason>,
    /// What is known if nothing better comes: the newest text of the model.
    last_text: String,
}

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Ask the model. Without tools it can only answer.
    Ask { tools: bool },
    /// Deal with the calls of the answer, in this order, then say [`Machine::calls_done`].
    Call(Vec<Verdict>),
    /// Tell the model that a limit is reached, then ask without tools.
    WrapUp { reason: Reason, text: &'static str },
    /// It is over. Calls the model still wanted get these results instead of being made.
    End { end: RunEnd, refused: Vec<Verdict> },
}

/// What becomes of one call.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
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
pub struct Said<'a> {
    pub text: &'a str,
    pub calls: Vec<&'a Call>,
    pub stop: &'a Stop,
}

const STEPS_REACHED: &str = "CRITICAL - MAXIMUM STEPS REACHED

Tools are disabled. Respond with text only.

Your response MUST include:
- Summary of what has been accomplished so far
- List of any remaining tasks that were not completed
- Recommendations for what should be done next";

const TIME_IS_UP: &str = "CRITICAL - TIME IS UP

Tools are disabled. Respond with text only, at once: you have a few seconds.

Your response MUST include:
- Summary of what has been accomplished so far
- List of any remaining tasks that were not completed
- Recommendations for what should be done next";

const BUDGET_REACHED: &str = "CRITICAL - BUDGET REACHED

Tools are disabled. Respond with text only, in a few sentences: very little may still be spent.

Your response MUST include:
- Summary of what has been accomplished so far
- List of any remaining tasks that were not completed
- Recommendations for what should be done next";

/// What is said of a run that its budget ended, when nothing closer is known.
pub const BUDGET_IS_USED_UP: &str = "the budget does not allow another model call";

const NO_TOOLS_LEFT: &str = "This call was not made: tools are disabled, only a summary was asked for.";
const RUN_IS_OVER: &str =
    "This call was not made: the run ended because it went on with a loop after the warning.";

impl Machine {
    /// A run that begins, or goes on from others in its chain.
    pub fn new(max_steps: Option<i64>, steps_before: i64) -> Self {
        let left = (MOST_STEPS - steps_before).max(0);
        Self {
            allowed: max_steps.map_or(left, |most| most.min(left)),
            steps: 0,
            loops: LoopDetector::default(),
            wrapping: None,
            last_text: String::new(),
        }
    }

    /// Steps of this run so far.
    pub fn steps(&self) -> i64 {
        self.steps
    }

    /// The step that is being taken or comes next. A summary belongs to the last step.
    pub fn step(&self) -> i64 {
        if self.wrapping.is_some() { self.steps.max(1) } else { self.steps + 1 }
    }

    /// What is known so far.
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    pub fn is_wrapping(&self) -> Option<Reason> {
        self.wrapping
    }

    /// At the start, and whenever the results of all calls are there.
    pub fn go_on(&mut self) -> Next {
        match self.wrapping {
            Some(_) => Next::Ask { tools: false },
            None if self.steps >= self.allowed => self.wrap_up(Reason::StepLimit),
            None => Next::Ask { tools: true },
        }
    }

    /// The results of all calls are there.
    pub fn calls_done(&mut self) -> Next {
        self.go_on()
    }

    /// The deadline has come. Nothing else is begun; the model may still sum up.
    pub fn time_is_up(&mut self) -> Next {
        match self.wrapping {
            // It is summing up already; the driver bounds how long that takes.
            Some(_) => Next::Ask { tools: false },
            None => self.wrap_up(Reason::Timeout),
        }
    }

    /// The budget does not allow the next question. The model may still sum up, if it allows that;
    /// one that was summing up has ended, at the limit it had reached first.
    pub fn over_budget(&mut self) -> Next {
        match self.wrapping {
            Some(_) => self.grace_is_over(),
            None => self.wrap_up(Reason::Budget),
        }
    }

    /// The answer was cut where the budget ended: it is no result, but all there will be.
    pub fn cut_by_budget(&self) -> Next {
        self.end(at_limit(Reason::Budget, self.last_text.clone()))
    }

    /// The grace after a limit has passed as well.
    pub fn grace_is_over(&self) -> Next {
        let reason = self.wrapping.unwrap_or(Reason::Timeout);
        self.end(at_limit(reason, self.last_text.clone()))
    }

    fn wrap_up(&mut self, reason: Reason) -> Next {
        self.wrapping = Some(reason);
        let text = match reason {
            Reason::Timeout => TIME_IS_UP,
            Reason::Budget => BUDGET_REACHED,
            _ => STEPS_REACHED,
        };
        Next::WrapUp { reason, text }
    }

    /// The provider failed for good. A run that was only to sum up has reached its limit all the
    /// same.
    pub fn not_answered(&self, error: String) -> Next {
        match self.wrapping {
            Some(_) => self.grace_is_over(),
            None => {
                self.end(RunEnd::Failed { reason: Reason::Provider, error, summary: self.last_text.clone() })
            }
        }
    }

    fn end(&self, end: RunEnd) -> Next {
        Next::End { end, refused: Vec::new() }
    }

    /// The model answered.
    pub fn answered(&mut self, said: &Said<'_>) -> Next {
        if !said.text.trim().is_empty() {
            said.text.clone_into(&mut self.last_text);
        }
        if let Some(reason) = self.wrapping {
            let refused = said.calls.iter().map(|call| refuse(call, NO_TOOLS_LEFT)).collect();
            return Next::End { end: at_limit(reason, self.last_text.clone()), refused };
        }
        self.steps += 1;
        if said.calls.is_empty() {
            return self.end(self.outcome(said.stop));
        }
        let mut verdicts = Vec::with_capacity(said.calls.len());
        let mut over = None;
        for call in &said.calls {
            match self.loops.see(&call.name, &call.input) {
                Looping::No => verdicts.push(Verdict::Make(call.id)),
                Looping::Warn { count } => verdicts.push(Verdict::Refuse {
                    call: call.id,
                    text: loops::warning(&call.name, count),
                    looped: Some(count),
                }),
                Looping::End { count } => over = over.or(Some((*call, count))),
            }
        }
        match over {
            None => Next::Call(verdicts),
            Some((looping, count)) => {
                let refused = said.calls.iter().map(|call| Verdict::Refuse {
                    call: call.id,
                    text: RUN_IS_OVER.to_owned(),
                    looped: (call.id == looping.id).then_some(count),
                });
                let error = format!("it went on calling `{}` in a loop after it was warned", looping.name);
                let end = RunEnd::Failed { reason: Reason::DoomLoop, error, summary: self.last_text.clone() };
                Next::End { refused: refused.collect(), end }
            }
        }
    }

    fn outcome(&self, stop: &Stop) -> RunEnd {
        let summary = self.last_text.clone();
        match stop {
            Stop::Refused(word) => RunEnd::Failed {
                reason: Reason::Provider,
                error: format!("the provider refused to answer: {word}"),
                summary,
            },
            // The text is cut, but it is what the model had to say.
            Stop::End | Stop::ToolCalls | Stop::MaxTokens | Stop::Other(_) => RunEnd::Completed { summary },
        }
    }

    /// Takes in an answer that is in the record already.
    pub fn replay_answer(&mut self, said: &Said<'_>) {
        let _ = self.answered(said);
    }

    /// Takes in a limit the model was told about already.
    pub fn replay_wrap_up(&mut self, reason: Reason) {
        self.wrapping = Some(reason);
    }
}

/// How a run ends at a limit. Steps and time are fresh when it is resumed; money is not.
fn at_limit(reason: Reason, summary: String) -> RunEnd {
    match reason {
        Reason::Budget => RunEnd::Failed { reason, error: BUDGET_IS_USED_UP.to_owned(), summary },
        _ => RunEnd::Paused { reason, summary },
    }
}

fn refuse(call: &Call, text: &str) -> Verdict {
    Verdict::Refuse { call: call.id, text: text.to_owned(), looped: None }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
