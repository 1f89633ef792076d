//! Who may start and list which agents, for each interface.

use crate::support;

use emergent_domain::{
    agent::{Agent, AgentDefinition, Visibility},
    cursor::Page,
    run::{Reason, RunStatus},
};
use emergent_executor::{Error, StartOptions, history::RunFilter};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};
use support::{Harness, agent, assert_ended, with_tools};

const LEVELS: [(&str, Visibility); 3] =
    [("outside", Visibility::External), ("project", Visibility::Project), ("inside", Visibility::Internal)];

/// Opens a harness with an agent of each visibility, each with one reply.
async fn levels(db: &TestDb) -> (Harness, Vec<Agent>) {
    let mut model = ScriptedModel::default();
    for (name, _) in LEVELS {
        model = model.agent(name, [says("Here."), says("Here.")]);
    }
    let harness = Harness::open(db, model).await;
    let mut agents = Vec::new();
    for (name, visibility) in LEVELS {
        agents.push(harness.agent(AgentDefinition { visibility, ..agent(name) }).await);
    }
    (harness, agents)
}

fn go() -> StartOptions {
    StartOptions { input: "Go.".into(), ..StartOptions::default() }
}

both_engines! {
    async fn an_agent_is_the_projects_unless_it_says_otherwise(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default()).await;
        assert_eq!(harness.agent(agent("plain")).await.definition.visibility, Visibility::Project);
        harness.close().await;
    }

    async fn by_hand_all_but_internal_agents_can_be_started(db: TestDb) {
        let (harness, agents) = levels(&db).await;
        for agent in &agents[..2] {
            assert_ended(&harness.run(agent, "Go.").await, RunStatus::Completed, None);
        }
        let refused = harness.executor.trigger(harness.actor(), agents[2].id, go()).await.unwrap_err();
        assert!(matches!(&refused, Error::Forbidden(why) if why.contains("spawn_agents")), "{refused}");
        harness.close().await;
    }

    async fn agents_find_and_start_every_agent(db: TestDb) {
        let (harness, _) = levels(&db).await;
        let tasks: Vec<Value> = LEVELS.iter().map(|(name, _)| json!({ "agent_name": name, "task": "Go." })).collect();
        harness.model.add("parent", [
            calls("list_available_agents", json!({})).and(calls("spawn_agents", json!({ "tasks": tasks }))),
            says("All."),
        ]);
        let parent = harness.agent(with_tools("parent", &["list_available_agents", "spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let answers = harness.answers(run.id).await;
        let listed: Vec<&str> = answers[0]["agents"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(listed, ["inside", "outside", "project"]);
        assert!(harness.children(run.id).await.iter().all(|child| child.status == RunStatus::Completed));
        harness.close().await;
    }

    async fn the_list_of_agents_hides_internal_ones_unless_they_are_asked_for(db: TestDb) {
        let (harness, _) = levels(&db).await;
        let names = async |internal: bool| {
            let listed = harness.executor.list_agents(harness.project, internal, Page::first(100)).await.unwrap();
            let mut names: Vec<String> = listed.items.into_iter().map(|agent| agent.definition.name).collect();
            names.sort();
            names
        };
        assert_eq!(names(false).await, ["outside", "project"]);
        assert_eq!(names(true).await, ["inside", "outside", "project"]);
        harness.close().await;
    }

    async fn runs_of_internal_agents_are_in_the_history_and_the_tree(db: TestDb) {
        let (harness, agents) = levels(&db).await;
        harness.model.add("parent", [
            calls("spawn_agents", json!({ "tasks": [{ "agent_name": "inside", "task": "Go." }] })),
            says("Done."),
        ]);
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let tree = harness.executor.run_tree(harness.project, run.id).await.unwrap();
        assert_eq!(tree.children[0].agent_name, "inside");
        let filter = RunFilter { agent: Some(agents[2].id), ..RunFilter::default() };
        let listed = harness.executor.list_runs(harness.project, filter, Page::first(10)).await.unwrap();
        assert_eq!(listed.items.len(), 1);
        harness.close().await;
    }

    async fn an_internal_agent_has_no_trigger(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default()).await;
        let visibility = Visibility::Internal;
        let wrong = AgentDefinition { visibility, trigger: Some("on_document_ingested".into()), ..agent("inside") };
        let refused = harness.executor.create_agent(harness.actor(), wrong).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        harness.close().await;
    }

    async fn a_paused_run_of_an_internal_agent_can_be_gone_on_with(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [calls("spawn_agents", json!({ "tasks": [{ "agent_name": "inside", "task": "Go." }] })), says("Half.")])
            .agent("inside", [calls("project_info", json!({})), says("Half."), says("Whole.")]);
        let harness = Harness::open(&db, model).await;
        let visibility = Visibility::Internal;
        harness.agent(AgentDefinition { visibility, max_steps: Some(1), ..with_tools("inside", &["project_info"]) }).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let child = harness.children(run.id).await.remove(0);
        assert_ended(&child, RunStatus::Paused, Some(Reason::StepLimit));
        assert_ended(&harness.resumed(child.id).await, RunStatus::Completed, None);
        harness.close().await;
    }
}
