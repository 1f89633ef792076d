use super::*;

mod any;

/// What a participant answers: `!` fails, `+ option | words` hands in a vote, the rest is words alone.
fn ended(answer: &str) -> TurnResult {
    if answer == "!" {
        return TurnResult::default();
    }
    match answer.strip_prefix("+ ") {
        None => TurnResult { ok: true, text: answer.to_owned(), vote: None },
        Some(vote) => {
            let (option, text) = vote.split_once(" | ").unwrap_or((vote, ""));
            let vote = Vote { option: option.to_owned(), confidence: Some(0.9), reason: text.to_owned() };
            TurnResult { ok: true, text: text.to_owned(), vote: Some(vote) }
        }
    }
}

/// A discussion told as `agent: answer` in the order of places; who is asked is checked.
fn played(settings: &DiscussionSettings, answers: &[&str]) -> (Vec<DiscussionTurn>, DiscussionAction) {
    let mut turns = Vec::new();
    for line in answers {
        let (agent, answer) = line.split_once(": ").unwrap();
        let place = turns.len() as i64;
        let asked = expected_turns(settings, &turns);
        let ask =
            asked.iter().find(|ask| ask.index == place).unwrap_or_else(|| panic!("nobody has place {place}"));
        assert_eq!(ask.agent, agent, "at place {place}, in {}", ask.phase);
        let (phase, round) = (ask.phase.clone(), ask.round);
        turns.push(DiscussionTurn {
            index: place,
            agent: agent.into(),
            phase,
            round,
            result: Some(ended(answer)),
        });
    }
    let next = next_action(settings, &turns, None);
    (turns, next)
}

fn describe(next: &DiscussionAction) -> String {
    match next {
        DiscussionAction::StartTurns(asks) => {
            let all: Vec<_> = asks.iter().map(|ask| format!("{}:{}", ask.phase, ask.agent)).collect();
            format!("ask {}", all.join(" "))
        }
        DiscussionAction::Wait => "wait".into(),
        DiscussionAction::Resolve(outcome) => format!("{:.2} {}", outcome.consensus_level, outcome.text),
        DiscussionAction::Escalate { reason, .. } => format!("escalate: {reason}"),
    }
}

fn check(settings: &DiscussionSettings, answers: &[&str], expected: &str) -> DiscussionAction {
    let (_, next) = played(settings, answers);
    assert_eq!(describe(&next), expected);
    next
}

fn review() -> DiscussionSettings {
    DiscussionSettings::new(
        DiscussionKind::ReviewLoop,
        "Tagging schema",
        &["spec-writer", "research-assistant"],
    )
}

#[test]
fn a_proposal_is_refined_until_it_is_approved() {
    let story = [
        "spec-writer: A Tag entity.",
        "research-assistant: SUGGEST_CHANGES: add tag_type",
        "spec-writer: A Tag entity with tag_type.",
        "research-assistant: APPROVED. Looks complete.",
    ];
    check(&review(), &story[..1], "ask feedback:research-assistant");
    check(&review(), &story[..2], "ask refine:spec-writer");
    check(&review(), &story[..3], "ask feedback:research-assistant");
    check(&review(), &story, "1.00 A Tag entity with tag_type.");
}

#[test]
fn a_proposal_with_one_round_says_so_in_the_singular() {
    let one = DiscussionSettings { rounds: Some(1), ..review() };
    let story =
        ["spec-writer: First.", "research-assistant: + SUGGEST_CHANGES | more", "spec-writer: Again."];
    check(&one, &story, "escalate: the proposal was not approved within 1 round");
}

#[test]
fn a_proposal_that_nobody_approves_goes_to_a_person() {
    let round = ["research-assistant: + SUGGEST_CHANGES | more", "spec-writer: Again."];
    let story: Vec<&str> = [&["spec-writer: First."][..], &round, &round, &round].concat();
    let next = check(&review(), &story, "escalate: the proposal was not approved within 3 rounds");
    let DiscussionAction::Escalate { so_far, options, .. } = next else { unreachable!() };
    assert_eq!(so_far.text, "Again.");
    assert_eq!(so_far.dissent[0].reason, "more");
    assert_eq!(options, ["accept the last proposal"]);
    let (turns, _) = played(&review(), &story);
    let person = PersonDecision { decision: "Take the last one".into(), reason: "It will do".into() };
    let DiscussionAction::Resolve(outcome) = super::next_action(&review(), &turns, Some(&person)) else {
        panic!("not resolved")
    };
    assert_eq!(outcome.text, "Take the last one");
    assert_eq!(
        (&outcome.decision["by"], &outcome.decision["reason"]),
        (&"person".into(), &"It will do".into())
    );
    assert_eq!(outcome.dissent.len(), 1);
    let accepts = PersonDecision { decision: "Accept the last proposal".into(), reason: String::new() };
    let DiscussionAction::Resolve(outcome) = super::next_action(&review(), &turns, Some(&accepts)) else {
        panic!("not resolved")
    };
    assert_eq!(outcome.text, "Again.");
}

#[test]
fn every_reviewer_who_answers_has_to_approve() {
    let three = DiscussionSettings::new(DiscussionKind::ReviewLoop, "x", &["a", "b", "c"]);
    check(&three, &["a: P", "b: APPROVED", "c: SUGGEST_CHANGES no"], "ask refine:a");
    check(&three, &["a: P", "b: APPROVED", "c: !"], "1.00 P");
    check(&three, &["a: P", "b: Hm.", "c: APPROVED"], "ask feedback:b");
    check(&three, &["a: P", "b: Hm.", "c: APPROVED", "b: Still hm."], "ask refine:a");
    check(
        &review(),
        &["spec-writer: P", "research-assistant: !"],
        "escalate: 1 of 2 participants can still take part, and the quorum is 2; `research-assistant` did not answer",
    );
}

fn consensus() -> DiscussionSettings {
    let agents = ["a", "b", "c", "d"];
    DiscussionSettings {
        options: vec!["sqlite".into(), "postgres".into()],
        ..DiscussionSettings::new(DiscussionKind::Consensus, "Storage", &agents)
    }
}

const ARGUED: [&str; 4] = ["a: small", "b: simple", "c: many machines", "d: simple too"];

fn after_arguments(votes: &[&str], expected: &str) -> DiscussionAction {
    check(&consensus(), &[&ARGUED[..], votes].concat(), expected)
}

#[test]
fn a_consensus_is_a_share_of_the_votes() {
    after_arguments(&[], "ask vote:a vote:b vote:c vote:d");
    let votes = ["a: + sqlite", "b: + SQLite", "c: + postgres | machines", "d: + sqlite"];
    let next = after_arguments(&votes, "0.75 sqlite");
    let DiscussionAction::Resolve(outcome) = next else { unreachable!() };
    assert_eq!(outcome.decision["option"], "sqlite");
    let dissent = Dissent { agent: "c".into(), option: Some("postgres".into()), reason: "machines".into() };
    assert_eq!(outcome.dissent, [dissent]);
    let even = ["a: + sqlite", "b: + sqlite", "c: + postgres", "d: + postgres"];
    after_arguments(&even, "escalate: no option leads");
}

#[test]
fn it_ends_as_soon_as_it_is_decided() {
    after_arguments(&["a: + sqlite", "b: + sqlite"], "ask vote:c vote:d");
    after_arguments(&["a: + sqlite", "b: + sqlite", "c: + sqlite"], "0.75 sqlite");
    let lost = "escalate: no option leads";
    let strict = DiscussionSettings { threshold: 0.8, ..consensus() };
    check(&strict, &[&ARGUED[..], &["a: + sqlite", "b: + postgres"]].concat(), lost);
}

#[test]
fn weights_count() {
    let mut settings = consensus();
    settings.participants[2].weight = 9.0;
    check(
        &settings,
        &[&ARGUED[..], &["a: + sqlite", "b: + sqlite", "c: + postgres"]].concat(),
        "0.75 postgres",
    );
}

#[test]
fn an_answer_without_a_vote_is_asked_for_once_more_and_then_counts_as_none() {
    let votes = ["a: + sqlite", "b: I am for the small one", "c: + postgres", "d: + mysql"];
    after_arguments(&votes, "ask vote:b vote:d");
    let again = [&votes[..], &["b: VOTE: sqlite", "d: {\"option\": \"sqlite\"}"]].concat();
    after_arguments(&again, "0.75 sqlite");
    let prose = [&votes[..], &["b: VOTE: sqlite", "d: I said sqlite, in a sentence"]].concat();
    after_arguments(&prose, "escalate: `sqlite` leads with 67 % of the weight, and 70 % are needed");
    let line = ["a: + sqlite", "b: Small.\nVOTE: sqlite", "c: + postgres", "d: + sqlite"];
    after_arguments(&line, "0.75 sqlite");
    let silent = [&votes[..], &["b: !", "d: neither"]].concat();
    after_arguments(&silent, "escalate: no option leads");
}

#[test]
fn who_fails_abstains_while_enough_are_left() {
    let three = ["a: small", "b: !", "c: machines", "d: !"];
    check(&consensus(), &three, "ask vote:a vote:c");
    check(&consensus(), &[&three[..], &["a: + sqlite", "c: + sqlite"]].concat(), "1.00 sqlite");
    check(
        &consensus(),
        &["a: small", "b: !", "c: !", "d: !"],
        "escalate: 1 of 4 participants can still take part, and the quorum is 2; `b`, `c`, `d` did not answer",
    );
}

#[test]
fn without_options_the_positions_are_put_together_first() {
    let settings = DiscussionSettings { options: Vec::new(), ..consensus() };
    check(&settings, &ARGUED, "ask positions:a");
    let listed = [&ARGUED[..], &["a: 1. One file: simple\n2. A server: for many machines"]].concat();
    check(&settings, &listed, "ask vote:a vote:b vote:c vote:d");
    check(
        &settings,
        &[&listed[..], &["a: + One file", "b: + 1", "c: + One file"]].concat(),
        "0.75 One file: simple",
    );
    let unlisted = [&ARGUED[..], &["a: !"]].concat();
    let (_, next) = played(&settings, &unlisted);
    let DiscussionAction::StartTurns(asks) = next else { panic!("{next:?}") };
    assert!(asks[0].prompt.contains("2. b: simple"), "{}", asks[0].prompt);
}

#[test]
fn a_second_round_knows_the_first_vote() {
    let settings = DiscussionSettings { rounds: Some(2), ..consensus() };
    let split = ["a: + sqlite", "b: + sqlite", "c: + postgres", "d: + postgres"];
    let (_, next) = played(&settings, &[&ARGUED[..], &split].concat());
    let DiscussionAction::StartTurns(asks) = &next else { panic!("{next:?}") };
    assert_eq!((asks[0].index, asks[0].phase.as_str(), asks[0].round), (8, "argue", 2));
    assert!(asks[0].prompt.contains("voted for: postgres"));
}

#[test]
fn a_debate_is_decided_by_its_judge() {
    let settings = DiscussionSettings {
        rounds: Some(1),
        ..DiscussionSettings::new(DiscussionKind::Debate, "Microservices", &["pro", "con", "judge"])
    };
    check(&settings, &[], "ask argue_for:pro");
    check(&settings, &["pro: They scale."], "ask argue_against:con");
    let next = check(
        &settings,
        &["pro: They scale.", "con: They cost.", "judge: + against | Too few of us."],
        "1.00 Too few of us.",
    );
    let DiscussionAction::Resolve(outcome) = next else { unreachable!() };
    assert_eq!((&outcome.decision["option"], outcome.dissent[0].agent.as_str()), (&"against".into(), "pro"));
    check(
        &settings,
        &["pro: They scale.", "con: !", "judge: + for | Nobody is against."],
        "1.00 Nobody is against.",
    );
    check(
        &settings,
        &["pro: Yes.", "con: No.", "judge: !"],
        "escalate: 0 of 1 participant voted, and the quorum is 1",
    );
}

#[test]
fn a_brainstorm_ends_in_a_ranked_list() {
    let settings = DiscussionSettings::new(DiscussionKind::Brainstorm, "Names", &["a", "b", "c"]);
    let (_, next) = played(&settings, &["a: 1. Fox", "b: 1. Owl"]);
    let DiscussionAction::StartTurns(asks) = &next else { panic!("{next:?}") };
    assert!(!asks[0].prompt.contains("Fox"), "ideas are made without those of others");
    let story = [
        "a: 1. Fox",
        "b: 1. Owl",
        "c: 1. Fox",
        "a: 1. Fox: quick\n2. Owl: wise\n3. Elk: big",
        "a: + Owl",
        "b: + Owl",
        "c: + Fox",
    ];
    let next = check(&settings, &story, "0.67 Owl: wise");
    let DiscussionAction::Resolve(outcome) = next else { unreachable!() };
    let order: Vec<_> = outcome.ranked.iter().map(|one| one.option.as_str()).collect();
    assert_eq!(order, ["Owl", "Fox", "Elk"]);
}

#[test]
fn a_problem_is_analysed_before_it_is_solved() {
    let settings = DiscussionSettings::new(DiscussionKind::ProblemSolving, "Slow search", &["a", "b"]);
    let story = [
        "a: No index.",
        "b: Big rows.",
        "a: Add one.",
        "b: Split rows.",
        "a: + b",
        "b: + b",
        "a: Split, then index. {\"tasks\": [{\"title\": \"Split rows\"}]}",
    ];
    check(&settings, &story[..2], "ask brainstorm:a brainstorm:b");
    check(&settings, &story[..4], "ask evaluate:a evaluate:b");
    check(&settings, &story[..6], "ask decide:a");
    let (_, next) = played(&settings, &story);
    let DiscussionAction::Resolve(outcome) = next else { panic!("{next:?}") };
    assert_eq!(
        (outcome.decision["preferred"].as_str(), outcome.tasks[0].key.as_str()),
        (Some("b"), "split-rows")
    );
}

#[test]
fn a_collaboration_goes_through_its_phases() {
    let phase = |name: &str, agents: &[&str], output_type| Phase {
        name: name.into(),
        agents: agents.iter().map(|agent| (*agent).to_owned()).collect(),
        max_rounds: 1,
        output_type,
    };
    let settings = DiscussionSettings {
        phases: vec![
            phase("review", &["code", "security"], EntryType::Argument),
            phase("synthesis", &["writer"], EntryType::Proposal),
            phase("decision", &["planner"], EntryType::Vote),
        ],
        ..DiscussionSettings::new(DiscussionKind::Collaboration, "The login change", &["code", "security"])
    };
    assert_eq!(settings.problems(), Vec::<String>::new());
    let story =
        ["code: Fine.", "security: One hole.", "writer: Close the hole, then merge.", "planner: + accept"];
    check(&settings, &[], "ask review:code review:security");
    check(&settings, &story[..2], "ask synthesis:writer");
    check(&settings, &story, "1.00 Close the hole, then merge.");
    let plain = DiscussionSettings::new(DiscussionKind::Collaboration, "x", &["a", "b", "c"]);
    check(&plain, &["a: 1", "b: 2", "c: 3"], "ask synthesis:a");
}

#[test]
fn nobody_is_asked_twice_while_others_run() {
    let settings = consensus();
    let running = |place: i64| DiscussionTurn {
        index: place,
        agent: "x".into(),
        phase: "argue".into(),
        round: 1,
        result: None,
    };
    assert_eq!(describe(&next_action(&settings, &[running(0), running(2)], None)), "ask argue:b argue:d");
    let all: Vec<DiscussionTurn> = (0..4).map(running).collect();
    assert_eq!(next_action(&settings, &all, None), DiscussionAction::Wait);
}

#[test]
fn settings_are_kept_as_they_are_and_say_what_is_wrong_with_them() {
    let settings = DiscussionSettings { quorum: Some(3), ..consensus() };
    let kept = serde_json::to_value(&settings).unwrap();
    assert_eq!(serde_json::from_value::<DiscussionSettings>(kept).unwrap(), settings);
    let short = serde_json::json!({ "kind": "debate", "topic": "x", "participants": [{ "agent": "a" }] });
    let settings: DiscussionSettings = serde_json::from_value(short).unwrap();
    assert_eq!((settings.threshold, settings.rounds()), (0.7, 2));
    assert_eq!(settings.problems(), ["a debate needs at least 3 participants"]);
}
