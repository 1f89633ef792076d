use serde_json::{Value, json};

use super::*;
use crate::workflow::discussion::{
    DiscussionSettings, DiscussionTurn, TaskDiscussion, Vote, append_decisions, state::tests::discussed,
};

fn decided(discussion: TaskDiscussion, decision: Value, reason: &str) -> TaskDiscussion {
    TaskDiscussion { person_decision: Some(PersonDecision { decision, reason: reason.into() }), ..discussion }
}

fn turn(index: i64, agent: &str, text: &str, vote: Option<Vote>) -> DiscussionTurn {
    let result = Some(TurnResult { ok: true, text: text.into(), vote });
    DiscussionTurn { index, agent: agent.into(), phase: String::new(), round: 0, result }
}

/// A review loop of one round that a person decides.
fn review_loop(decision: Value, reason: &str) -> TaskDiscussion {
    let turns = vec![
        turn(0, "one", "First.", None),
        turn(1, "two", "SUGGEST_CHANGES: no dates.", None),
        turn(2, "one", "Second.", None),
    ];
    let settings = DiscussionSettings {
        rounds: Some(1),
        ..DiscussionSettings::new(DiscussionKind::ReviewLoop, "x", &["one", "two"])
    };
    decided(TaskDiscussion { turns, settings, ..discussed("review SUGGEST_CHANGES") }, decision, reason)
}

#[test]
fn a_person_who_wants_changes_has_the_last_version_done_again() {
    let review = review_loop(json!("suggest_changes"), "the dates are missing");
    let mut summary = "First.".to_owned();
    append_decisions(std::slice::from_ref(&review), &mut summary);
    assert_eq!(summary, "Second.");
    let changes = wanted_changes(&[discussed("vote rows"), review]).expect("a person wants changes");
    assert_eq!(changes.reason, "a person decided its review with SUGGEST_CHANGES: the dates are missing");
    assert_eq!(changes.suggestions, "- two: SUGGEST_CHANGES: no dates.");
}

#[test]
fn every_other_decision_leaves_the_result() {
    for decision in [json!("APPROVED"), json!("accept the last proposal"), json!("Do it in words.")] {
        assert_eq!(wanted_changes(&[review_loop(decision, "")]), None);
    }
    // Participants alone send nothing back: a person decides then.
    assert_eq!(wanted_changes(&[discussed("review SUGGEST_CHANGES")]), None);
    let started_by_an_agent = decided(discussed("vote SUGGEST_CHANGES"), json!("SUGGEST_CHANGES"), "");
    assert_eq!(wanted_changes(&[started_by_an_agent]), None);
}

#[test]
fn what_was_said_in_a_vote_is_suggested_with_the_words_of_the_person() {
    let vote = Vote { option: "SUGGEST_CHANGES".into(), reason: "it is too long".into(), ..Vote::default() };
    let consensus = TaskDiscussion {
        turns: vec![turn(1, "two", "Nobody reads it.", None), turn(3, "two", "Voted.", Some(vote))],
        settings: DiscussionSettings::new(DiscussionKind::Consensus, "x", &["one", "two"]),
        ..discussed("review SUGGEST_CHANGES")
    };
    let review = decided(consensus, json!({ "option": "SUGGEST_CHANGES", "text": "Half of it." }), "");
    let mut summary = "Long.".to_owned();
    append_decisions(std::slice::from_ref(&review), &mut summary);
    assert_eq!(summary, "Long.", "the word for changes is no result");
    let changes = wanted_changes(&[review]).expect("a person wants changes");
    assert_eq!(changes.reason, "a person decided its review with SUGGEST_CHANGES: Half of it.");
    assert_eq!(changes.suggestions, "- two: Nobody reads it.\n- two: it is too long");
}
