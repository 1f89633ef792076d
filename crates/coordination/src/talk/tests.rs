use super::*;

/// A discussion that came to this; the word before it says which: `review` is the one that the task
/// wants, `loop` one like it that an agent started, `vote` another.
fn talking(what: &str) -> Talking {
    let (word, outcome) = what.split_once(' ').expect("a word and an outcome");
    let kind = if word == "vote" { Kind::Consensus } else { Kind::ReviewLoop };
    Talking {
        id: ObjectId::new(),
        attempt: None,
        status: "resolved".into(),
        settings: Settings::new(kind, "Rows or a list?", &["one", "two"]),
        turns: Vec::new(),
        runs: Vec::new(),
        entered: HashSet::new(),
        absent: Vec::new(),
        required: word == "review",
        decided: None,
        outcome: outcome.into(),
    }
}

#[test]
fn a_task_hands_on_what_was_approved_and_each_decision_once() {
    let check = |all: &[&str], expected: &str| {
        let all: Vec<Talking> = all.iter().map(|one| talking(one)).collect();
        let mut summary = "Done.".to_owned();
        conclude(&all, &mut summary);
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
    let ended = |text: &str| Some(Ended { ok: true, text: text.into(), vote: None });
    let turn = Turn { place: 0, agent: "one".into(), phase: String::new(), round: 0, ended: ended("Done.") };
    for (what, expected) in
        [("review x", "Done.\n\nDecided in a discussion of it: rows"), ("loop x", "Done.")]
    {
        let mut review = talking(what);
        review.turns.push(turn.clone());
        review.comes_after(&[talking("vote rows")]);
        assert_eq!(review.turns[0].ended, ended(expected));
    }
}

#[test]
fn discussions_are_as_far_as_the_one_that_is_behind() {
    let open = || Talking { status: "active".into(), ..talking("vote ") };
    let stuck = || Talking { status: "escalated".into(), ..talking("vote ") };
    assert_eq!(of_all(&[]), None);
    assert_eq!(of_all(&[talking("loop x"), talking("vote y")]), Some(Talk::Resolved));
    assert_eq!(of_all(&[talking("vote y"), talking("review x")]), Some(Talk::Reviewed));
    assert_eq!(of_all(&[talking("review x"), stuck()]), Some(Talk::Escalated));
    assert_eq!(of_all(&[stuck(), talking("review x"), open()]), Some(Talk::Open));
}
