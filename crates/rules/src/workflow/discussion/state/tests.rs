use super::*;

/// A discussion that came to this; the word before it says which: `review` is the one that the task
/// wants, `loop` one like it that an agent started, `vote` another.
fn discussed(what: &str) -> TaskDiscussion {
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
