//! Whatever participants do, a discussion ends.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Act {
    Fail,
    Silent,
    Words(String),
    Vote(String, Option<f64>),
}

fn act() -> impl Strategy<Value = Act> {
    let words = prop_oneof![
        "[A-Za-z .,:]{1,30}",
        prop::sample::select(vec![
            "APPROVED",
            "SUGGEST_CHANGES: more",
            "1. One: x\n2. Two: y",
            "VOTE: a1",
            "neither a1 nor a2",
            "{\"tasks\": [{\"title\": \"t\"}]}",
            "ja",
            "für ß",
        ])
        .prop_map(str::to_owned),
    ];
    let option =
        prop::sample::select(vec!["a1", "a0", "1", "2", "for", "against", "accept", "One", "nobody", ""]);
    prop_oneof![
        1 => Just(Act::Fail),
        1 => Just(Act::Silent),
        3 => words.prop_map(Act::Words),
        5 => (option, prop::option::of(any::<f64>())).prop_map(|(option, sure)| Act::Vote(option.to_owned(), sure)),
    ]
}

fn settings() -> impl Strategy<Value = DiscussionSettings> {
    let kind = prop::sample::select(DiscussionKind::ALL.to_vec());
    let roles = prop::collection::vec(
        prop::option::of(prop::sample::select(vec!["judge", "for", "against", "proposer", "decider"])),
        1..6,
    );
    let options = prop_oneof![Just(Vec::new()), Just(vec!["a1".to_owned(), "a0".to_owned()])];
    let rest = (prop::option::of(-1..5i64), 0.0..1.2f64, prop::option::of(0..7usize));
    let weights = prop::collection::vec(prop_oneof![3 => Just(1.0), 1 => 0.0..5.0f64, 1 => any::<f64>()], 6);
    (kind, roles, options, rest, weights).prop_map(
        |(kind, roles, options, (rounds, threshold, quorum), weights)| {
            let participants = roles.iter().enumerate().map(|(at, role)| Participant {
                agent: format!("a{at}"),
                weight: weights[at],
                role: role.map(str::to_owned),
            });
            DiscussionSettings {
                participants: participants.collect(),
                options,
                rounds,
                threshold,
                quorum,
                ..DiscussionSettings::new(kind, "topic", &[])
            }
        },
    )
}

fn end_of(act: &Act, place: i64) -> TurnResult {
    match act {
        Act::Fail => TurnResult::default(),
        Act::Silent => TurnResult { ok: true, ..TurnResult::default() },
        Act::Words(text) => TurnResult { ok: true, text: text.clone(), vote: None },
        Act::Vote(option, confidence) => TurnResult {
            ok: true,
            text: format!("words-of-{place}."),
            vote: Some(Vote {
                option: option.clone(),
                confidence: *confidence,
                reason: format!("secret-{place}."),
            }),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Turns end in any order, some at once, some long after they were asked.
    #[test]
    fn every_discussion_ends_within_its_bound(
        settings in settings(),
        acts in prop::collection::vec(act(), 1..40),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let bound = max_turns(&settings);
        let mut turns: Vec<DiscussionTurn> = Vec::new();
        let mut asked_at: std::collections::HashMap<i64, NewTurn> = std::collections::HashMap::new();
        for step in 0.. {
            prop_assert!(step <= 4 * bound + 4, "it goes on and on");
            let said = next_action(&settings, &turns, None);
            prop_assert_eq!(&said, &next_action(&settings, &turns, None));
            let mut mixed = turns.clone();
            mixed.reverse();
            prop_assert_eq!(&said, &next_action(&settings, &mixed, None), "the order of turns does not matter");
            match said {
                DiscussionAction::StartTurns(asks) => {
                    // Only some are started at once, as when a server dies in between.
                    let some = 1 + order[step % order.len()].index(asks.len());
                    for ask in &asks {
                        prop_assert!(!turns.iter().any(|turn| turn.index == ask.index), "a place is asked once");
                        if let Some(before) = asked_at.insert(ask.index, ask.clone()) {
                            prop_assert_eq!(&before, ask, "a place means the same turn for ever");
                        }
                    }
                    for ask in asks.into_iter().take(some) {
                        turns.push(DiscussionTurn { index: ask.index, agent: ask.agent, phase: ask.phase, round: ask.round, result: None });
                    }
                    prop_assert!(turns.len() <= bound, "{} turns, at most {}", turns.len(), bound);
                }
                DiscussionAction::Wait => {
                    let running: Vec<usize> = (0..turns.len()).filter(|at| turns[*at].result.is_none()).collect();
                    prop_assert!(!running.is_empty(), "it waits for nobody");
                    let at = running[order[step % order.len()].index(running.len())];
                    let place = turns[at].index;
                    turns[at].result = Some(end_of(&acts[place as usize % acts.len()], place));
                }
                DiscussionAction::Resolve(outcome) => {
                    prop_assert!((0.0..=1.0).contains(&outcome.consensus_level));
                    prop_assert!(outcome.decision.is_object());
                    break;
                }
                DiscussionAction::Escalate { reason, so_far, .. } => {
                    prop_assert!(!reason.is_empty());
                    prop_assert!((0.0..=1.0).contains(&so_far.consensus_level));
                    break;
                }
            }
        }
        let person = PersonDecision { decision: "so".into(), reason: String::new() };
        let decided = matches!(next_action(&settings, &turns, Some(&person)), DiscussionAction::Resolve(_));
        prop_assert!(decided, "a person can always decide");
        // Nobody who votes in the first vote, or votes in it again, is shown another's vote.
        let asked = expected_turns(&settings, &turns);
        let first = asked.iter().find(|ask| ask.expects_vote).map(|ask| (ask.phase.clone(), ask.round));
        for ask in asked.iter().filter(|ask| Some((ask.phase.clone(), ask.round)) == first) {
            prop_assert!(!ask.prompt.contains("voted for:"), "{}", ask.prompt);
            for other in asked.iter().filter(|other| other.expects_vote && other.agent != ask.agent) {
                let shows = |what: &str| ask.prompt.contains(&format!("{what}-{}.", other.index));
                prop_assert!(!shows("secret") && !shows("words-of"), "{}", ask.prompt);
            }
        }
    }
}
