//! A person who decides the required review of a task's result for changes sends the task back to its agent.

use emergent_domain::discussion_options::{SUGGEST_CHANGES, decision_text};

use super::{DiscussionAction, DiscussionKind, PersonDecision, TaskDiscussion, TurnResult, next_action};
use crate::workflow::question::truncate;

/// The most words of the participants that the next attempt reads.
const MAX_SUGGESTIONS: usize = 6;
const MAX_SUGGESTION_CHARS: usize = 500;
/// All of them together, so that the entry of the attempt has space for its result.
const MAX_SUGGESTIONS_CHARS: usize = 1_200;

/// Why a task is done again, and what was suggested about its result.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedChanges {
    pub reason: String,
    /// A line for each suggestion; empty if nobody made one.
    pub suggestions: String,
}

/// What a person wants to be changed in the result that these discussions of an attempt are about; `None` if the result
/// stands. Only the review that the task requires is about its result.
pub fn wanted_changes(discussions: &[TaskDiscussion]) -> Option<WantedChanges> {
    let review = discussions.iter().find(|discussion| discussion.wants_changes())?;
    let decided = format!("a person decided its review with {SUGGEST_CHANGES}");
    let words = review.person_decision.as_ref().map(words_of).unwrap_or_default();
    let reason = if words.is_empty() { decided } else { format!("{decided}: {words}") };
    Some(WantedChanges { reason, suggestions: review.suggestions() })
}

/// What a person says besides the option: the reason, or the text of an object.
fn words_of(decision: &PersonDecision) -> String {
    let text = decision.decision.get("text").and_then(|text| text.as_str());
    let text = text.filter(|text| !is_for_changes(text)).unwrap_or_default();
    let words = [decision.reason.trim(), text.trim()];
    words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(". ")
}

fn is_for_changes(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case(SUGGEST_CHANGES)
}

impl TaskDiscussion {
    /// Whether a person decided this required review for changes.
    pub(super) fn wants_changes(&self) -> bool {
        let decided = self.person_decision.as_ref().and_then(|person| decision_text(&person.decision));
        self.required && decided.is_some_and(is_for_changes)
    }

    /// What a review loop came to by itself: the last proposal.
    pub(super) fn last_proposal(&self) -> String {
        match next_action(&self.settings, &self.turns, None) {
            DiscussionAction::Resolve(outcome) => outcome.text,
            DiscussionAction::Escalate { so_far, .. } => so_far.text,
            DiscussionAction::StartTurns(_) | DiscussionAction::Wait => String::new(),
        }
    }

    /// The newest words of the participants. In a review loop only those of each reviewer in its newest turn count: the
    /// proposer has answered the earlier ones.
    fn suggestions(&self) -> String {
        let is_loop = self.settings.kind == DiscussionKind::ReviewLoop;
        let proposer = self.turns.iter().find(|turn| turn.index == 0).map(|turn| turn.agent.as_str());
        let mut turns: Vec<_> = self.turns.iter().filter(|turn| turn.result.is_some()).collect();
        turns.sort_by_key(|turn| std::cmp::Reverse(turn.index));
        let mut said: Vec<(&str, String)> = Vec::new();
        for turn in turns {
            let is_answered =
                Some(turn.agent.as_str()) == proposer || said.iter().any(|(agent, _)| *agent == turn.agent);
            let words = turn.result.as_ref().map(words_of_turn).unwrap_or_default();
            if words.is_empty() || is_loop && is_answered {
                continue;
            }
            said.push((&turn.agent, truncate(&words, MAX_SUGGESTION_CHARS)));
        }
        let newest = said.iter().take(MAX_SUGGESTIONS).rev();
        let lines: Vec<String> = newest.map(|(agent, words)| format!("- {agent}: {words}")).collect();
        truncate(&lines.join("\n"), MAX_SUGGESTIONS_CHARS)
    }
}

/// What a participant said in a turn: the reason of its vote if there is one, else its answer.
fn words_of_turn(result: &TurnResult) -> String {
    let reason = result.vote.as_ref().map(|vote| vote.reason.trim()).filter(|reason| !reason.is_empty());
    reason.unwrap_or(result.text.trim()).to_owned()
}

#[cfg(test)]
mod tests;
