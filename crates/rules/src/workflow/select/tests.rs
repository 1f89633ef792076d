use emergent_domain::task::NewTask;
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
    assert!(question.prompt.contains("- planner: Plans"));
    assert_eq!(question.schema["properties"]["agent"]["enum"], json!(["planner", "writer"]));
}
