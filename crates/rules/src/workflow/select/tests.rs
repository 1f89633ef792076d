use emergent_domain::{
    ids::RunId,
    task::{NewTask, TaskStatus, VerdictKind},
};
use emergent_testkit::fixtures::task;
use serde_json::json;

use super::*;

fn titled(title: &str) -> Task {
    task(NewTask { title: title.into(), ..NewTask::default() })
}

fn agent(name: &str, description: &str) -> AgentCard {
    let definition = AgentDefinition { description: description.into(), ..AgentDefinition::new(name) };
    AgentCard::from_definition(&definition)
}

#[test]
fn a_task_that_names_its_agent_gets_it() {
    let agents = [agent("writer", "Writes texts"), agent("cook", "Cooks")];
    let named = |name: &str| {
        let new =
            NewTask { title: "Write a text".into(), assigned_agent: Some(name.into()), ..NewTask::default() };
        select_by_rules(&task(new), &agents)
    };
    assert_eq!((named("cook").agent.as_deref(), named("cook").clear), (Some("cook"), true));
    let unknown = named("nobody");
    assert_eq!((unknown.agent, unknown.clear), (None, false));
    assert!(unknown.reason.contains("`nobody`"), "{}", unknown.reason);
}

#[test]
fn what_an_author_says_an_agent_handles_counts_most() {
    let mut cook = agent("cook", "Cooks");
    cook.config = json!({ "handles": { "kinds": ["meal"], "tags": ["food"], "patterns": ["soup * day"] } })
        .as_object()
        .unwrap()
        .clone();
    let agents = [agent("research-assistant", "Researches everything"), cook];
    let kind = task(NewTask { title: "Research it".into(), kind: "meal".into(), ..NewTask::default() });
    let tag = task(NewTask { title: "Research it".into(), tags: vec!["Food".into()], ..NewTask::default() });
    for task in [kind, tag, titled("Research the soup of the day")] {
        let choice = select_by_rules(&task, &agents);
        assert_eq!(choice.agent.as_deref(), Some("cook"), "{choice:?}");
        assert!(choice.reason.contains("handles"), "{}", choice.reason);
    }
    assert_eq!(select_by_rules(&titled("Research it"), &agents).agent.as_deref(), Some("research-assistant"));
}

#[test]
fn an_agent_is_found_by_the_work_that_its_author_describes() {
    let mut cook = agent("kim", "");
    let agents = |cook: &AgentCard| [cook.clone(), agent("lee", "Searches the web")];
    let task = titled("Prepare a soup for twelve");
    assert_eq!(select_by_rules(&task, &agents(&cook)).agent, None);
    let definition = AgentDefinition {
        config: json!({ "handles": { "work": ["Cook meals and prepare soups"] } })
            .as_object()
            .unwrap()
            .clone(),
        ..AgentDefinition::new("kim")
    };
    cook = AgentCard::from_definition(&definition);
    let choice = select_by_rules(&task, &agents(&cook));
    assert_eq!((choice.agent.as_deref(), choice.clear), (Some("kim"), true));
    assert!(choice.reason.contains("`soup`"), "{}", choice.reason);
}

#[test]
fn a_prompt_counts_less_than_a_description() {
    let with_prompt =
        AgentDefinition { system_prompt: "Never translate anything.".into(), ..AgentDefinition::new("a") };
    let agents = [AgentCard::from_definition(&with_prompt), agent("b", "Translates letters")];
    assert_eq!(select_by_rules(&titled("Translate this"), &agents).agent.as_deref(), Some("b"));
    assert_eq!(select_by_rules(&titled("Translate this"), &agents[..1]).agent.as_deref(), Some("a"));
}

#[test]
fn a_reason_does_not_name_words_that_only_a_prompt_has() {
    let guarded = AgentDefinition {
        description: "Keeps letters".into(),
        system_prompt: "The passphrase is xylophone.".into(),
        ..AgentDefinition::new("keeper")
    };
    let agents = [AgentCard::from_definition(&guarded)];
    let guessed = select_by_rules(&titled("Passphrase xylophone"), &agents);
    assert_eq!(guessed.agent.as_deref(), Some("keeper"));
    assert!(!guessed.reason.contains("xylophone"), "{}", guessed.reason);
    let mixed = select_by_rules(&titled("Letters about a xylophone"), &agents).reason;
    assert!(mixed.contains("`letters`") && !mixed.contains("xylophone"), "{mixed}");
}

#[test]
fn the_verb_at_the_start_of_a_title_counts_most() {
    let agents = [agent("reviewer", "Reviews"), agent("planner", "Plans")];
    assert_eq!(select_by_rules(&titled("Review the plan"), &agents).agent.as_deref(), Some("reviewer"));
    assert_eq!(select_by_rules(&titled("Plan the review"), &agents).agent.as_deref(), Some("planner"));
}

#[test]
fn a_long_description_does_not_outweigh_the_title() {
    let agents = [agent("translator", "Translates letters"), agent("cook", "Cooks soups, stews and roasts")];
    let new = NewTask {
        title: "Translate the letter".into(),
        description: format!(
            "It is about soups, stews and roasts. {}",
            "Nothing else matters here. ".repeat(50)
        ),
        ..NewTask::default()
    };
    assert_eq!(select_by_rules(&task(new), &agents).agent.as_deref(), Some("translator"));
}

#[test]
fn a_verdict_points_to_those_who_give_it() {
    let agents = [agent("builder", "Builds parsers"), agent("examiner", "Tests and gives a verdict")];
    let new = NewTask { title: "The parser".into(), verdict: VerdictKind::Test, ..NewTask::default() };
    assert_eq!(select_by_rules(&task(new), &agents).agent.as_deref(), Some("examiner"));
}

#[test]
fn the_track_record_decides_between_agents_that_fit_equally() {
    let mut agents = [agent("a", "Bakes bread"), agent("b", "Bakes bread")];
    let bake = task(NewTask { title: "Bake bread".into(), kind: "Bread".into(), ..NewTask::default() });
    assert_eq!(select_by_rules(&bake, &agents).agent.as_deref(), Some("a"));
    agents[0].track_record.add("bread", 0, 2);
    agents[1].track_record.add("bread", 3, 0);
    agents[0].track_record.add("cake", 90, 0);
    let choice = select_by_rules(&bake, &agents);
    assert_eq!(choice.agent.as_deref(), Some("b"));
    assert!(choice.reason.contains("it completed 3 of 3 tasks of kind `Bread`"), "{}", choice.reason);
}

#[test]
fn the_track_record_counts_less_than_what_an_author_says() {
    let mut agents = [agent("a", "Bakes bread"), agent("b", "Does the rest")];
    agents[0].config = json!({ "handles": { "kinds": ["bread"] } }).as_object().unwrap().clone();
    agents[1].track_record.add("bread", 1_000, 0);
    let bake = task(NewTask { title: "Rye".into(), kind: "bread".into(), ..NewTask::default() });
    assert_eq!(select_by_rules(&bake, &agents).agent.as_deref(), Some("a"));
}

#[test]
fn only_tasks_that_ended_are_part_of_a_track_record() {
    let ended = |status| Task { kind: "bread".into(), status, run: Some(RunId::new()), ..titled("Bake") };
    let mut record = TrackRecord::default();
    for status in [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Paused, TaskStatus::Skipped] {
        record.count_task(&ended(status));
    }
    record.count_task(&Task { kind: String::new(), ..ended(TaskStatus::Completed) });
    record.count_task(&Task { run: None, ..ended(TaskStatus::Completed) });
    assert_eq!(record, TrackRecord::default());
    record.count_task(&ended(TaskStatus::Completed));
    record.count_task(&ended(TaskStatus::Failed));
    let mut expected = TrackRecord::default();
    expected.add("Bread", 1, 1);
    assert_eq!(record, expected);
}

#[test]
fn what_points_to_nobody_is_not_clear() {
    let mut fallback = agent("zed", "Does this and that");
    fallback.is_default = true;
    let agents = [agent("web-browser", "Searches the web"), fallback];
    let choice = select_by_rules(&titled("Xyzzy"), &agents);
    assert_eq!((choice.agent.as_deref(), choice.clear), (Some("zed"), false));
    assert_eq!(select_by_rules(&titled("Xyzzy"), &[]).agent, None);
}

#[test]
fn the_order_of_agents_changes_nothing() {
    let mut agents =
        vec![agent("b-reviewer", "Reviews"), agent("a-reviewer", "Reviews"), agent("planner", "Plans")];
    let first = select_by_rules(&titled("Review the plan"), &agents);
    agents.reverse();
    assert_eq!(select_by_rules(&titled("Review the plan"), &agents), first);
    assert!(!first.clear, "two that say the same are for a model to tell apart");
}

#[test]
fn an_answer_that_names_no_agent_is_not_used() {
    let agents = [agent("planner", ""), agent("task-planner", ""), agent("spec-writer", "")];
    for (text, expected) in [
        ("{\"agent\": \"planner\", \"reason\": \"not the task-planner\"}", Some("planner")),
        ("task-planner", Some("task-planner")),
        ("`Spec-Writer`.", Some("spec-writer")),
        ("The task-planner fits best.", Some("task-planner")),
        ("Either planner or spec-writer.", None),
        ("{\"agent\": \"somebody\"}", None),
        ("Nobody fits.", None),
        ("", None),
    ] {
        assert_eq!(parse_selection(text, &agents).as_deref(), expected, "{text}");
    }
}

#[test]
fn the_question_lists_every_agent() {
    let agents = [agent("planner", "Plans"), agent("writer", "Writes")];
    let question = selection_question(&titled("Plan it"), &agents);
    assert!(!question.prompt.contains("handles"));
    assert!(question.prompt.contains("- planner: Plans"));
    assert_eq!(question.schema["properties"]["agent"]["enum"], json!(["planner", "writer"]));
}

#[test]
fn the_question_says_what_an_agent_handles() {
    let mut cook = agent("cook", "Cooks");
    cook.config = json!({ "handles": { "work": ["Cook meals", "Bake bread"] } }).as_object().unwrap().clone();
    let question = selection_question(&titled("Plan it"), &[cook]);
    assert!(question.prompt.contains("  handles: Cook meals; Bake bread\n"), "{}", question.prompt);
}

#[test]
fn similarities_decide_where_words_do_not() {
    let agents = [agent("cook", "Cooks meals"), agent("translator", "Translates letters")];
    let similarities = AgentSimilarities::new([("cook".to_owned(), 0.55), ("translator".to_owned(), 0.25)]);
    let choice = select_with_similarity(&titled("Something for dinner"), &agents, &similarities);
    assert_eq!((choice.agent.as_deref(), choice.clear), (Some("cook"), true));
    assert!(choice.reason.contains("similar"), "{}", choice.reason);
    let choice = select_with_similarity(&titled("Translate letters"), &agents, &similarities);
    assert_eq!(choice.agent.as_deref(), Some("translator"), "shared words outweigh them");
}

#[test]
fn equal_similarities_change_nothing() {
    let agents = [agent("cook", "Cooks meals"), agent("translator", "Translates letters")];
    let same = AgentSimilarities::new(agents.iter().map(|agent| (agent.name.clone(), 0.8)));
    for title in ["Cook dinner", "Xyzzy"] {
        let choice = select_with_similarity(&titled(title), &agents, &same);
        assert_eq!(choice, select_by_rules(&titled(title), &agents));
    }
}

#[test]
fn an_agent_is_compared_sentence_by_sentence() {
    let mut cook = agent("head-cook", "Cooks");
    cook.config = json!({ "handles": { "work": ["Bake bread"] } }).as_object().unwrap().clone();
    assert_eq!(agent_sentences(&cook), ["head cook: Cooks", "Bake bread"]);
    let long = task(NewTask { title: "é".repeat(2_000), ..NewTask::default() });
    assert!(task_text(&long).chars().count() < 1_100);
}
