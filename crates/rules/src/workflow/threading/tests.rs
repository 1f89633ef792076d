use emergent_domain::task::NewTask;
use emergent_testkit::fixtures::task;
use proptest::prelude::*;

use super::*;

fn implement() -> Task {
    task(NewTask {
        title: "Implement tagging".into(),
        description: "As designed.".into(),
        ..NewTask::default()
    })
}

fn source(title: &str, text: &str) -> PriorResult {
    PriorResult {
        id: ObjectId::new(),
        title: title.into(),
        kind: "design".into(),
        agent: Some("spec-writer".into()),
        text: text.into(),
        verified: false,
    }
}

fn ids(sources: &[PriorResult]) -> Vec<ObjectId> {
    sources.iter().map(|source| source.id).collect()
}

#[test]
fn what_came_before_is_told_in_order_with_its_source() {
    let direct = [source("Design", "A Tag entity.")];
    let discussions = [source("Tag types", "Two of them.")];
    let indirect = [source("Research", "No tags yet."), source("Interviews", "They want colours.")];
    let threaded =
        build_prompt(8_000, &implement(), &direct, &discussions, "Attempt 1: no cycle check", &indirect);
    let order = [
        "TASK: Implement tagging",
        "As designed.",
        "RESULT OF \"Design\" (design, by spec-writer):\nA Tag entity.",
        "DECIDED IN DISCUSSION \"Tag types\"",
        "PREVIOUS ATTEMPT FAILED:\nAttempt 1: no cycle check",
        "Fix the specific issues listed above.",
        "EARLIER WORK \"Research\"",
        "EARLIER WORK \"Interviews\"",
        "Write results to the knowledge graph",
    ];
    let places: Vec<_> = order.iter().map(|part| threaded.prompt.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{}", threaded.prompt);
    let near: Vec<ObjectId> = [ids(&direct), ids(&discussions)].concat();
    assert_eq!((threaded.used, threaded.used_indirect), (near, ids(&indirect)));
    assert!(threaded.dropped.is_empty());
}

#[test]
fn what_is_far_away_goes_first_and_the_failures_never() {
    let long = "word ".repeat(2_000);
    let direct = [source("Design", &long), source("Short", "Four words, no more.")];
    let indirect = [source("Research", &long)];
    let threaded = build_prompt(600, &implement(), &direct, &[], "Attempt 1: no cycle check", &indirect);
    assert_eq!((threaded.used, threaded.dropped), (ids(&direct), ids(&indirect)));
    assert!(threaded.used_indirect.is_empty());
    assert!(threaded.prompt.contains("Four words, no more.") && threaded.prompt.contains("[… cut"));
    assert!(threaded.prompt.contains("no cycle check"));
    let nothing = build_prompt(0, &implement(), &direct, &[], "Attempt 1: no cycle check", &[]);
    assert!(nothing.prompt.contains("Implement tagging") && nothing.prompt.contains("no cycle check"));
    assert!(nothing.used.is_empty());
}

#[test]
fn a_verifying_task_is_told_what_to_verify_and_how_to_say_it() {
    let new = NewTask {
        title: "Test tagging".into(),
        verdict: VerdictKind::Test,
        verifies: vec!["implement".into()],
        ..NewTask::default()
    };
    let built = PriorResult { verified: true, ..source("Implement", "Done.") };
    let prompt = build_prompt(8_000, &task(new), &[built, source("Design", "A Tag.")], &[], "", &[]).prompt;
    for part in [
        "TESTING TASK: Test tagging",
        "IMPLEMENTED \"Implement\"",
        "EXPECTED \"Design\"",
        "VERIFY the tasks implement",
        "`submit_verdict`",
    ] {
        assert!(prompt.contains(part), "{part} is missing in\n{prompt}");
    }
    let review = NewTask { title: "Review".into(), verdict: VerdictKind::Review, ..NewTask::default() };
    let prompt = build_prompt(8_000, &task(review), &[], &[], "", &[]).prompt;
    assert!(prompt.contains("APPROVE, REQUEST_CHANGES, or COMMENT") && !prompt.contains("PREVIOUS ATTEMPT"));
}

#[test]
fn what_has_to_be_judged_gets_its_room_before_anything_else() {
    let new = NewTask { title: "Test".into(), verdict: VerdictKind::Test, ..NewTask::default() };
    let (test, long) = (task(new), "word ".repeat(2_000));
    let direct = [
        source("Design", &long),
        PriorResult { verified: true, ..source("Built", &"built ".repeat(300)) },
        source("Notes", "Short."),
    ];
    let discussions = [PriorResult { verified: true, ..source("Agreed", "On this.") }];
    let threaded = build_prompt(600, &test, &direct, &discussions, "", &[]);
    assert!(threaded.prompt.contains("IMPLEMENTED \"Built\"") && threaded.prompt.contains("On this."));
    assert!(threaded.prompt.matches("built").count() > threaded.prompt.matches("word").count());
    let tight = build_prompt(0, &test, &direct, &discussions, "Attempt 1: no", &[]);
    assert_eq!(tight.used, [direct[1].id, discussions[0].id], "it is never left out");
    assert_eq!(tight.dropped, [direct[0].id, direct[2].id]);
}

#[test]
fn every_attempt_is_kept_the_newest_last() {
    let first = append_failure("", 1, &"x".repeat(3_000));
    let second = append_failure(&first, 2, "no index");
    assert!(first.chars().count() < 2_020);
    assert!(second.starts_with("Attempt 1: xxx") && second.ends_with("\n\nAttempt 2: no index"));
    let noted = append_note(&first, " Use the index. ");
    assert!(
        noted.ends_with("\n\nA person says: Use the index."),
        "what a person says is no attempt: {noted}"
    );
    assert_eq!(
        (newest_failure(&noted), newest_failure_text(&noted)),
        ("A person says: Use the index.", "Use the index.")
    );
    assert!(newest_failure(&append_failure(&noted, 2, "no")).starts_with("Attempt 2: no"));
    assert_eq!(append_failure("", 3, " "), "Attempt 3: it ended without saying why");
}

#[test]
fn a_model_can_only_drop_and_reorder() {
    let sources = [source("a", "1"), source("b", "2"), source("c", "3")];
    let titles = |answer: &str| {
        let kept = parse_narrowing(answer, &ids(&sources))?;
        let title = |id: &ObjectId| sources.iter().find(|source| source.id == *id).unwrap().title.clone();
        Some(kept.iter().map(title).collect::<String>())
    };
    for (answer, kept) in [
        ("{\"keep\": [3, 1]}", Some("ca")),
        ("{\"keep\": [2, 2, 9, 0, \"x\"]}", Some("b")),
        ("{\"keep\": []}", Some("")),
        ("{\"keep\": [7]}", None),
        ("{\"keep\": 2}", None),
        ("all of them", None),
    ] {
        assert_eq!(titles(answer).as_deref(), kept, "{answer}");
    }
    assert!(narrowing_question(&implement(), &sources).prompt.contains("3. from \"c\""));
}

#[test]
fn what_a_task_has_to_judge_cannot_be_left_out_and_ranks_stay() {
    let judged = PriorResult { verified: true, ..source("built", "It is built.") };
    let mut sources = PriorResults {
        direct: vec![source("a", "1"), judged, source("b", "2"), source("silent", " ")],
        discussions: vec![source("talk", "We agreed.")],
        indirect: vec![source("far", "3"), source("farther", "4")],
    };
    let titles = |sources: &[PriorResult]| -> Vec<String> {
        sources.iter().map(|source| source.title.clone()).collect()
    };
    let open = sources.selectable();
    assert_eq!(titles(&open), ["a", "b", "talk", "far", "farther"]);
    let id = |title: &str| open.iter().find(|source| source.title == title).unwrap().id;
    sources.retain_selected(&ids(&open), &[id("farther"), id("b"), id("far"), id("a")]);
    assert_eq!(titles(&sources.direct), ["built", "silent", "b", "a"]);
    assert_eq!(
        (titles(&sources.discussions), titles(&sources.indirect)),
        (vec![], vec!["farther".into(), "far".into()])
    );
}

#[test]
fn there_is_much_to_tell_when_it_does_not_fit_or_comes_from_many() {
    let of = |count: usize, words: usize| PriorResults {
        direct: (0..count).map(|_| source("s", &"word ".repeat(words))).collect(),
        ..PriorResults::default()
    };
    for (count, words, many) in
        [(0, 0, false), (6, 10, false), (7, 1, true), (2, 600, true), (1, 2_000, false)]
    {
        assert_eq!(of(count, words).need_selection(1_000), many, "{count} sources of {words} words");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_budget_holds(
        budget in 300..2_000usize,
        texts in prop::collection::vec("(word |süß |漢字|--- |\\PC){0,400}", 0..8),
    ) {
        let sources: Vec<PriorResult> = texts.iter().map(|text| source("s", text)).collect();
        let (direct, indirect) = sources.split_at(sources.len() / 2);
        let threaded = build_prompt(budget, &implement(), direct, &[], "Attempt 1: it failed", indirect);
        prop_assert!(count_tokens(&threaded.prompt) <= budget, "{}", count_tokens(&threaded.prompt));
        let told = threaded.used.len() + threaded.used_indirect.len() + threaded.dropped.len();
        prop_assert_eq!(told, sources.len());
    }
}
