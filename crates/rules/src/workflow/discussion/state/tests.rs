use emergent_domain::coordination::{DiscussionDefaults, DiscussionPhase};

use super::*;
use crate::workflow::discussion::{
    DiscussionEnd, EntryType, advance,
    review::tests::{of_kind, review},
    votes::{APPROVED, SUGGEST_CHANGES},
};

/// A discussion that came to this; the word before it says which: `review` is the one that the task
/// wants, `loop` one like it that an agent started, `vote` another.
pub(in crate::workflow::discussion) fn discussed(what: &str) -> TaskDiscussion {
    let (word, outcome) = what.split_once(' ').expect("a word and an outcome");
    let kind = if word == "vote" { DiscussionKind::Consensus } else { DiscussionKind::ReviewLoop };
    TaskDiscussion {
        id: ObjectId::new(),
        attempt: None,
        status: "resolved".into(),
        settings: DiscussionSettings::new(kind, "Rows or a list?", &["one", "two"]),
        turns: Vec::new(),
        runs: Vec::new(),
        recorded: HashSet::new(),
        absent: Vec::new(),
        required: word == "review",
        person_decision: None,
        escalation: None,
        outcome: outcome.into(),
    }
}

#[test]
fn a_task_hands_on_what_was_approved_and_each_decision_once() {
    let check = |all: &[&str], expected: &str| {
        let all: Vec<TaskDiscussion> = all.iter().map(|one| discussed(one)).collect();
        let mut summary = "Done.".to_owned();
        append_decisions(&all, &mut summary);
        assert_eq!(summary.replace("\n\nDecided in a discussion of it: ", " + "), expected);
    };
    check(&[], "Done.");
    check(&["vote rows", "vote red"], "Done. + rows + red");
    check(&["vote yes", "vote yes"], "Done. + yes + yes");
    check(&["loop Better.", "vote rows"], "Better. + rows");
    // The review began with what came before it, and may have left it out again.
    check(&["vote rows", "review Done with rows."], "Done with rows. + rows");
    check(&["vote rows", "review Done.\n\nDecided in a discussion of it: rows"], "Done. + rows");
    check(&["loop Better.", "review Best."], "Best.");
    check(&["review Best.", "vote rows", "loop Else."], "Best. + rows + Else.");
}

#[test]
fn a_review_begins_with_what_was_decided_before_it() {
    let ended = |text: &str| Some(TurnResult { ok: true, text: text.into(), vote: None });
    let turn = DiscussionTurn {
        index: 0,
        agent: "one".into(),
        phase: String::new(),
        round: 0,
        result: ended("Done."),
    };
    for (what, expected) in
        [("review x", "Done.\n\nDecided in a discussion of it: rows"), ("loop x", "Done.")]
    {
        let mut review = discussed(what);
        review.turns.push(turn.clone());
        review.include_earlier_outcomes(&[discussed("vote rows")]);
        assert_eq!(review.turns[0].result, ended(expected));
    }
}

#[test]
fn discussions_are_as_far_as_the_one_that_is_behind() {
    let open = || TaskDiscussion { status: "active".into(), ..discussed("vote ") };
    let stuck = || TaskDiscussion { status: "escalated".into(), ..discussed("vote ") };
    assert_eq!(overall_progress(&[]), None);
    assert_eq!(
        overall_progress(&[discussed("loop x"), discussed("vote y")]),
        Some(DiscussionProgress::Resolved)
    );
    assert_eq!(
        overall_progress(&[discussed("vote y"), discussed("review x")]),
        Some(DiscussionProgress::Reviewed)
    );
    assert_eq!(overall_progress(&[discussed("review x"), stuck()]), Some(DiscussionProgress::Escalated));
    assert_eq!(overall_progress(&[stuck(), discussed("review x"), open()]), Some(DiscussionProgress::Open));
}

#[test]
fn phases_of_a_task_can_ask_questions_and_answer_them() {
    let phase = |name: &str, agent: &str, output: &str| DiscussionPhase {
        name: name.into(),
        agents: vec![agent.into()],
        max_rounds: None,
        output: Some(output.into()),
    };
    let phases = vec![
        phase("ask", "reader", "question"),
        phase("answer", "writer", "clarification"),
        phase("decide", "reader", "vote"),
    ];
    let settings = review(
        DiscussionDefaults { phases, ..DiscussionDefaults::default() },
        &DiscussionDefaults::default(),
        &[],
    );
    assert_eq!(settings.kind, DiscussionKind::Collaboration);
    let mut discussion = TaskDiscussion { status: "active".into(), settings, ..discussed("review ") };
    for (agent, type_) in [("reader", EntryType::Question), ("writer", EntryType::Clarification)] {
        let index = discussion.turns.len() as i64;
        let turn = advance(&discussion, |_| None).expect("a turn is next").turns.remove(0);
        assert_eq!((turn.index, turn.agent.as_str(), turn.entry_type), (index, agent, type_));
        let result = Some(TurnResult { ok: true, text: format!("{agent} speaks"), vote: None });
        let (phase, round) = (turn.phase, turn.round);
        discussion.turns.push(DiscussionTurn { index, agent: agent.into(), phase, round, result });
    }
}

#[test]
fn a_required_review_that_votes_for_changes_asks_a_person() {
    let settings = review(of_kind("consensus"), &DiscussionDefaults::default(), &[]);
    let mut discussion = TaskDiscussion { status: "active".into(), settings, ..discussed("review ") };
    let turn = |index: i64, agent: &str, text: &str| DiscussionTurn {
        index,
        agent: agent.into(),
        phase: String::new(),
        round: 1,
        result: Some(TurnResult { ok: true, text: text.into(), vote: None }),
    };
    let votes = |option: &str| format!("VOTE: {option}");
    discussion.turns = vec![
        turn(0, "writer", "It is fine."),
        turn(1, "reader", "It is not."),
        turn(2, "writer", &votes(SUGGEST_CHANGES)),
        turn(3, "reader", &votes(SUGGEST_CHANGES)),
    ];
    let end = |discussion: &TaskDiscussion| advance(discussion, |_| None).and_then(|step| step.end).unwrap();
    let DiscussionEnd::Escalated { reason, options, .. } = end(&discussion) else { panic!("it is decided") };
    assert!(reason.contains("100 % of the weight is for changes"), "{reason}");
    assert_eq!(options, [APPROVED, SUGGEST_CHANGES]);
    discussion.person_decision =
        Some(PersonDecision { decision: APPROVED.into(), reason: "good enough".into() });
    let DiscussionEnd::Resolved(outcome) = end(&discussion) else { panic!("a person has decided") };
    assert_eq!(outcome.text, APPROVED);
    // A discussion that an agent started may come to that.
    discussion.required = false;
    assert!(matches!(end(&discussion), DiscussionEnd::Resolved(_)));
}

#[test]
fn a_review_of_another_kind_leaves_the_result_as_it_is() {
    let consensus = TaskDiscussion {
        settings: DiscussionSettings::new(DiscussionKind::Consensus, "x", &["a", "b"]),
        ..discussed("review APPROVED")
    };
    let mut summary = "Done.".to_owned();
    append_decisions(&[consensus], &mut summary);
    assert_eq!(summary, "Done.\n\nDecided in a discussion of it: APPROVED");
}
