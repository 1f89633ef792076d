//! Discussions: several agents come to one decision, in turns.
//!
//! One engine for every kind. It knows no clock, model or database: [`next`] is told what was said
//! so far and says who is asked next, or what came of it. A turn is a run; its place is its index
//! in the order of asking. The same turns always give the same answer, so a discussion that is
//! taken up again after a restart asks nobody twice and goes on where it was.
//!
//! `settings` is what a discussion is about, `kinds` how each kind goes, `walk` how a phase is
//! gone through, `tally` and `read` how votes are counted and found, `prompt` the wording.

mod advance;
mod kinds;
mod outcome;
mod prompt;
mod replay;
mod settings;
mod state;
mod tally;
mod tasks;
mod votes;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use advance::{DiscussionEnd, DiscussionStep, NewEntry, advance};
pub use outcome::{DiscussionOutcome, Dissent, RankedOption};
pub use settings::{DiscussionKind, DiscussionSettings, EntryType, Participant, Phase};
pub use state::{
    AbsentParticipant, TaskDiscussion, TurnRun, append_decisions, overall_progress, review_settings,
};

use replay::Replay;

/// One turn: a run that was started for a place.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscussionTurn {
    pub index: i64,
    pub agent: String,
    pub phase: String,
    pub round: i64,
    /// `None` while it runs.
    pub result: Option<TurnResult>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnResult {
    /// False for one that failed, timed out or was cancelled: it abstains.
    pub ok: bool,
    pub text: String,
    /// What it gave to `submit_vote`.
    pub vote: Option<Vote>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Vote {
    pub option: String,
    #[serde(default)]
    pub confidence: Option<f64>,
    #[serde(default)]
    pub reason: String,
}

/// What a person decided about a discussion that could not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonDecision {
    pub decision: Value,
    #[serde(default)]
    pub reason: String,
}

/// A turn to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTurn {
    pub index: i64,
    pub agent: String,
    pub phase: String,
    pub round: i64,
    pub prompt: String,
    /// Whether it is given `submit_vote`.
    pub expects_vote: bool,
    /// As what its answer is kept.
    pub entry_type: EntryType,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DiscussionAction {
    /// Start these, side by side. Other turns may still be running.
    StartTurns(Vec<NewTurn>),
    /// Turns are running, and nobody else is to be asked before they end.
    Wait,
    /// It is over. Turns that are still running change nothing any more.
    Resolve(Box<DiscussionOutcome>),
    /// A person has to decide; `so_far` is what there is to go by.
    Escalate { reason: String, options: Vec<String>, so_far: Box<DiscussionOutcome> },
}

/// What is next in a discussion. `turns` are all that were started, in any order.
pub fn next_action(
    settings: &DiscussionSettings,
    turns: &[DiscussionTurn],
    decided_by_person: Option<&PersonDecision>,
) -> DiscussionAction {
    let mut walk = Replay::new(settings, turns);
    let next = match kinds::run_kind(&mut walk) {
        Ok(outcome) => DiscussionAction::Resolve(Box::new(outcome)),
        Err(next) => next,
    };
    let Some(decision) = decided_by_person else { return next };
    let before = match next {
        DiscussionAction::Resolve(outcome) => *outcome,
        DiscussionAction::Escalate { so_far, .. } => *so_far,
        DiscussionAction::StartTurns(_) | DiscussionAction::Wait => DiscussionOutcome::partial(&walk),
    };
    DiscussionAction::Resolve(Box::new(before.with_person_decision(decision)))
}

/// Every turn that was or has to be asked up to here, in the order of places: for whoever has a
/// run's place only and needs to know its phase, round and type again.
pub fn expected_turns(settings: &DiscussionSettings, turns: &[DiscussionTurn]) -> Vec<NewTurn> {
    let mut walk = Replay::new(settings, turns);
    let _ = kinds::run_kind(&mut walk);
    walk.expected
}

/// No discussion with these settings has more turns, whatever its participants do.
pub fn max_turns(settings: &DiscussionSettings) -> usize {
    kinds::max_turns(settings)
}

#[cfg(test)]
mod tests;
