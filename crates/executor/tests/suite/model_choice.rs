//! Which model a run uses: the one of its start request, of the server, or of the definition.

use crate::support;

use emergent_domain::agent::{AgentDefinition, FlowConfig, FlowType, ModelConfig};
use emergent_executor::StartOptions;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::json;
use support::{Harness, HarnessOptions, agent, with_tools};

fn start_with(model: &str) -> StartOptions {
    StartOptions { input: "Go.".into(), model: Some(model.parse().unwrap()), ..StartOptions::default() }
}

fn pinned(name: &str, model: &str) -> AgentDefinition {
    AgentDefinition {
        model: Some(model.parse().unwrap()),
        config: json!({ "pin_model": true }).as_object().unwrap().clone(),
        ..agent(name)
    }
}

async fn server(db: &TestDb, model: ScriptedModel, server_model: &str) -> Harness {
    let models = model.models().with_model(server_model.parse().unwrap());
    Harness::with(db, HarnessOptions { models: Some(models), ..HarnessOptions::new(model) }).await
}

both_engines! {
    async fn the_model_of_the_start_request_beats_the_one_of_the_server(db: TestDb) {
        let harness = server(&db, ScriptedModel::new([says("a"), says("b")]), "scripted/server").await;
        let model = ModelConfig { temperature: Some(0.5), ..ScriptedModel::MODEL.parse().unwrap() };
        let worker = harness.agent(AgentDefinition { model: Some(model), ..agent("worker") }).await;
        let run = harness.run(&worker, "Go.").await;
        assert_eq!(run.model.to_string(), "scripted/server");
        let run = harness.run_with(&worker, start_with("scripted/asked")).await;
        assert_eq!(run.model.to_string(), "scripted/asked");
        assert_eq!(run.model.temperature, Some(0.5), "the definition says the rest");
        harness.close().await;
    }

    async fn the_model_of_the_start_request_reaches_children_unless_they_are_pinned(db: TestDb) {
        let task = |name: &str| json!({ "agent_name": name, "task": "Work." });
        let tasks = json!({ "tasks": [task("free"), task("pinned")] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("spawn_agents", tasks), says("Done.")])
            .agent("", [says("x"), says("y")]);
        let harness = server(&db, model, "scripted/server").await;
        harness.agent(agent("free")).await;
        harness.agent(pinned("pinned", "scripted/pinned")).await;
        let lead = harness.agent(with_tools("lead", &["spawn_agents"])).await;
        let run = harness.run_with(&lead, start_with("scripted/asked")).await;
        let models: Vec<String> = harness.children(run.id).await.iter().map(|run| run.model.to_string()).collect();
        assert_eq!(models, ["scripted/asked", "scripted/pinned"]);
        harness.close().await;
    }

    async fn the_model_of_the_start_request_reaches_the_parts_of_a_flow(db: TestDb) {
        let harness = server(&db, ScriptedModel::new([says("x"), says("y")]), "scripted/server").await;
        harness.agent(agent("first")).await;
        harness.agent(agent("second")).await;
        let agents = vec!["first".to_owned(), "second".to_owned()];
        let flow = harness.agent(AgentDefinition {
            flow_type: FlowType::Sequential,
            flow_config: Some(FlowConfig { agents, ..FlowConfig::default() }),
            ..agent("flow")
        }).await;
        let run = harness.run_with(&flow, start_with("scripted/asked")).await;
        let children = harness.children(run.id).await;
        assert!(children.len() == 2 && children.iter().all(|run| run.model.name == "asked"), "{children:?}");
        harness.close().await;
    }

    async fn a_resumed_run_keeps_its_model(db: TestDb) {
        let look = calls("entities_query", json!({ "type": "T" }));
        let harness = server(&db, ScriptedModel::new([look, says("So far."), says("Done.")]), "scripted/server").await;
        let worker = AgentDefinition { tools: vec!["entities_query".into()], ..pinned("worker", "scripted/pinned") };
        let worker = harness.agent(worker).await;
        let paused = harness.run_with(&worker, StartOptions { max_steps: Some(1), ..start_with("scripted/asked") }).await;
        let resumed = harness.resumed(paused.id).await;
        assert_eq!((paused.model.name.as_str(), resumed.model.name.as_str()), ("asked", "asked"));
        harness.close().await;
    }
}
