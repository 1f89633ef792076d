//! A discussion of a task as it is stored: its settings, the turns so far, and its outcome.

use std::collections::HashSet;

use emergent_domain::{
    ids::{ObjectId, RunId},
    run::RunStatus,
};
use serde::{Deserialize, Serialize};

use super::{
    DiscussionKind, DiscussionOutcome, DiscussionSettings, DiscussionTurn, PersonDecision, TurnResult,
};
use crate::workflow::{question::truncate, snapshot::DiscussionProgress};

/// A participant whose turn could not be started. This is stored with the discussion: a server that
/// takes it over must not start a turn that later turns have already gone on without.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbsentParticipant {
    // The stored names are older than the names of the fields.
    #[serde(rename = "place")]
    pub index: i64,
    pub agent: String,
    #[serde(rename = "why")]
    pub reason: String,
}

impl AbsentParticipant {
    /// The turn as the engine sees it: ended, and failed.
    pub fn turn(&self) -> DiscussionTurn {
        let (agent, result) = (self.agent.clone(), Some(TurnResult::default()));
        DiscussionTurn { index: self.index, agent, phase: String::new(), round: 0, result }
    }
}

/// The run of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnRun {
    pub index: i64,
    pub run: RunId,
    pub status: RunStatus,
}

/// A discussion of a task's attempt.
#[derive(Debug, Clone)]
pub struct TaskDiscussion {
    pub id: ObjectId,
    /// The first run of the attempt that is discussed.
    pub attempt: Option<RunId>,
    pub status: String,
    pub settings: DiscussionSettings,
    pub turns: Vec<DiscussionTurn>,
    pub runs: Vec<TurnRun>,
    /// The indexes of the turns whose entries are in the graph.
    pub recorded: HashSet<i64>,
    pub absent: Vec<AbsentParticipant>,
    /// True for the review that the task requires; false for a discussion that an agent started.
    pub required: bool,
    pub person_decision: Option<PersonDecision>,
    /// Why a person has to decide, once that is so.
    pub escalation: Option<String>,
    /// The text of the decision; empty while there is none.
    pub outcome: String,
}

impl TaskDiscussion {
    /// Adds the decisions of earlier discussions to the proposal that a required review starts with.
    pub fn include_earlier_outcomes(&mut self, before: &[TaskDiscussion]) {
        let starts_with_attempt = self.required && self.is_review_loop();
        let first = self.turns.iter_mut().find(|turn| turn.index == 0);
        if let Some(ended) = first.and_then(|turn| turn.result.as_mut()).filter(|_| starts_with_attempt) {
            append_decisions(before, &mut ended.text);
        }
    }

    fn is_review_loop(&self) -> bool {
        self.settings.kind == DiscussionKind::ReviewLoop
    }

    /// Whether the outcome is that of a required review which does not approve, and no person has decided.
    pub(super) fn is_rejected(&self, outcome: &DiscussionOutcome) -> bool {
        self.required && self.person_decision.is_none() && outcome.is_rejection()
    }

    pub fn progress(&self) -> DiscussionProgress {
        match self.status.as_str() {
            "active" => DiscussionProgress::Open,
            "escalated" if self.person_decision.is_some() => DiscussionProgress::Open,
            "escalated" => DiscussionProgress::Escalated,
            _ => DiscussionProgress::Resolved,
        }
    }

    pub fn open_turns(&self) -> impl Iterator<Item = RunId> {
        let open = self.runs.iter().filter(|turn| !turn.status.is_terminal());
        open.map(|turn| turn.run).filter(|_| self.progress() == DiscussionProgress::Open)
    }

    pub fn topic(&self) -> &str {
        &self.settings.topic
    }

    pub fn kind(&self) -> &'static str {
        self.settings.kind.as_str()
    }

    /// The discussion as text for the prompts of dependent tasks: each turn, and the decision.
    pub fn transcript(&self) -> String {
        let line = |turn: &DiscussionTurn| {
            let text = &turn.result.as_ref().filter(|ended| !ended.text.is_empty())?.text;
            Some(format!("{}: {}", turn.agent, truncate(text, 500)))
        };
        let turns: Vec<String> = self.turns.iter().filter_map(line).collect();
        format!("{}\nDecided: {}", turns.join("\n"), self.outcome)
    }
}

/// Changes the summary of a task whose discussions are decided: an approved proposal replaces it, and
/// the decisions of other discussions are appended.
pub fn append_decisions(discussions: &[TaskDiscussion], summary: &mut String) {
    // A review of another kind approves of the result or decides about it, and does not write it again.
    let required = discussions.iter().position(|one| one.required && one.is_review_loop());
    let approved = required.or_else(|| discussions.iter().position(TaskDiscussion::is_review_loop));
    if let Some(review) = approved.map(|position| &discussions[position]) {
        // What is done again is the last version, and not the word for changes.
        *summary = if review.wants_changes() { review.last_proposal() } else { review.outcome.clone() };
    }
    let is_other =
        |position: usize, other: &TaskDiscussion| approved != Some(position) && !other.wants_changes();
    for (position, other) in
        discussions.iter().enumerate().filter(|(position, other)| is_other(*position, other))
    {
        let decided = format!("\n\nDecided in a discussion of it: {}", other.outcome);
        // The required review started with what was approved and decided before it.
        let is_included = required.is_some_and(|review| position < review)
            && (other.is_review_loop() || summary.contains(decided.trim_start()));
        if !is_included {
            summary.push_str(&decided);
        }
    }
}

/// How far the discussions of an attempt are, or `None` if there are none.
pub fn overall_progress(discussions: &[TaskDiscussion]) -> Option<DiscussionProgress> {
    let progress = discussions.iter().map(TaskDiscussion::progress).min()?;
    let reviewed = progress == DiscussionProgress::Resolved && discussions.iter().any(|one| one.required);
    Some(if reviewed { DiscussionProgress::Reviewed } else { progress })
}

#[cfg(test)]
pub(super) mod tests;
