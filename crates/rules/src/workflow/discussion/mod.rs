//! Discussions: several agents come to one decision, in turns.
//!
//! One engine conducts every kind. [`next_action`] receives the turns so far and returns who is asked
//! next, or the outcome. A turn is a run with an index in the order of asking. The same turns always
//! give the same action, so a discussion that continues after a restart asks nobody twice.
//!
//! `settings` says what a discussion is about, `kinds` how each kind proceeds, `replay` how a phase is
//! replayed, `votes` and `tally` how votes are read and counted, `prompt` the wording of a turn, `review`
//! how a required review is planned, `rework` why a task is done again after it, `state` what is stored, and `advance` the next step of a stored discussion.

mod advance;
mod count;
mod kinds;
mod outcome;
mod prompt;
mod replay;
mod review;
mod rework;
mod settings;
mod state;
mod tally;
mod tasks;
mod votes;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use advance::{DiscussionEnd, DiscussionStep, NewEntry, advance};
pub use count::{MAX_OPENED_DISCUSSIONS, MAX_STARTED_DISCUSSIONS, endless_discussions_error};
pub use outcome::{DiscussionOutcome, Dissent, RankedOption};
pub use review::{PlannedReview, max_participants, plan_review, review_note};
pub use rework::{WantedChanges, wanted_changes};
pub use settings::{DiscussionKind, DiscussionSettings, EntryType, Participant, Phase};
pub use state::{AbsentParticipant, TaskDiscussion, TurnRun, append_decisions, overall_progress};

use replay::Replay;

/// One turn: a run that was started for an index.
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
    /// What it submitted with `submit_vote`.
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
    /// The names of the options that it can vote for; empty without a vote.
    pub options: Vec<String>,
    /// The type of the entry that its answer becomes.
    pub entry_type: EntryType,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DiscussionAction {
    /// Start these turns concurrently. Other turns may still be running.
    StartTurns(Vec<NewTurn>),
    /// Turns are running, and nobody else is asked before they end.
    Wait,
    /// The discussion is decided. Turns that are still running change nothing any more.
    Resolve(Box<DiscussionOutcome>),
    /// A person has to decide; `so_far` is the state of the discussion.
    Escalate { reason: String, options: Vec<String>, so_far: Box<DiscussionOutcome> },
}

/// Returns the next action of a discussion. `turns` are all that were started, in any order.
pub fn next_action(
    settings: &DiscussionSettings,
    turns: &[DiscussionTurn],
    decided_by_person: Option<&PersonDecision>,
) -> DiscussionAction {
    let mut replay = Replay::new(settings, turns);
    let next = match kinds::run_kind(&mut replay) {
        Ok(outcome) => DiscussionAction::Resolve(Box::new(outcome)),
        Err(next) => next,
    };
    let Some(decision) = decided_by_person else { return next };
    let before = match next {
        DiscussionAction::Resolve(outcome) => *outcome,
        DiscussionAction::Escalate { so_far, .. } => *so_far,
        DiscussionAction::StartTurns(_) | DiscussionAction::Wait => DiscussionOutcome::partial(&replay),
    };
    DiscussionAction::Resolve(Box::new(before.with_person_decision(decision)))
}

/// Returns every turn that was or has to be asked so far, in order. The database stores only the index
/// of a run; its phase, round and type are found here again.
pub fn expected_turns(settings: &DiscussionSettings, turns: &[DiscussionTurn]) -> Vec<NewTurn> {
    let mut replay = Replay::new(settings, turns);
    let _ = kinds::run_kind(&mut replay);
    replay.expected
}

/// Whether a text names one of these options, as a submitted vote does.
pub fn is_option(options: &[String], text: &str) -> bool {
    let vote = Vote { option: text.to_owned(), ..Vote::default() };
    votes::VoteOptions::from_names(options).normalize_vote(&vote).is_some()
}

/// No discussion with these settings has more turns, whatever its participants do.
pub fn max_turns(settings: &DiscussionSettings) -> usize {
    kinds::max_turns(settings)
}

#[cfg(test)]
mod tests;
