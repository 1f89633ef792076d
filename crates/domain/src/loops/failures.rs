//! Failures of a tool that repeat although the arguments change: the tool does not exist, the arguments never
//! fit its schema, or what it is asked for is always refused in the same words.

use std::collections::HashMap;

use super::CallEffect;

/// So many equal failures of a tool count as a loop if nothing new was learned in between.
const MAX_EQUAL_FAILURES: usize = 8;
/// Writes are refused for what they write, so an agent that works through a list may get the same refusal more often.
const MAX_EQUAL_WRITE_FAILURES: usize = 16;

/// Counts the failures of a run by tool and kind of failure.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Failures(HashMap<u64, Vec<EqualFailures>>);

/// The failures of one tool that have the same kind.
#[derive(Debug, Clone, PartialEq)]
struct EqualFailures {
    kind: u64,
    limit: usize,
    count: usize,
    /// The number of the answer whose call was refused with the warning.
    warned_at: Option<u64>,
    /// Whether the tool has failed in the same way since the model read the warning.
    went_on: bool,
}

/// What the failures so far say about another call of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureCheck {
    None,
    /// The model is not warned yet.
    Warn {
        count: usize,
    },
    /// The model has not read the warning of its newest answer yet.
    WarnAgain {
        count: usize,
    },
    End {
        count: usize,
    },
}

impl Failures {
    /// Checks a call that is about to be made in this answer. A call after the warning is made, because its
    /// arguments may be right now; the one after its failure ends the run.
    pub(super) fn check(&mut self, tool: u64, answer: u64) -> FailureCheck {
        let Some(kinds) = self.0.get_mut(&tool) else { return FailureCheck::None };
        for failures in kinds {
            let count = failures.count + 1;
            match failures.warned_at {
                Some(warned_at) if warned_at == answer => return FailureCheck::WarnAgain { count },
                Some(_) if failures.went_on => return FailureCheck::End { count },
                Some(_) => {}
                None if failures.count >= failures.limit => {
                    failures.warned_at = Some(answer);
                    return FailureCheck::Warn { count };
                }
                None => {}
            }
        }
        FailureCheck::None
    }

    pub(super) fn record(&mut self, tool: u64, kind: u64, effect: CallEffect) {
        let kinds = self.0.entry(tool).or_default();
        match kinds.iter_mut().find(|failures| failures.kind == kind) {
            Some(failures) => {
                failures.count += 1;
                failures.went_on = failures.warned_at.is_some();
            }
            None => {
                let limit = match effect {
                    CallEffect::Writes => MAX_EQUAL_WRITE_FAILURES,
                    CallEffect::Reads | CallEffect::External | CallEffect::NoTool => MAX_EQUAL_FAILURES,
                };
                kinds.push(EqualFailures { kind, limit, count: 1, warned_at: None, went_on: false });
            }
        }
    }

    /// The tool returned something, so its arguments are right now.
    pub(super) fn record_success(&mut self, tool: u64) {
        self.0.remove(&tool);
    }

    /// The run learned something new. Only failures that the model was warned about are remembered.
    pub(super) fn record_news(&mut self) {
        for kinds in self.0.values_mut() {
            kinds.retain(|failures| failures.warned_at.is_some());
        }
    }
}
