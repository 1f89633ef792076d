//! Flows: agents that work through other agents in sequence, in a loop, or in parallel.

mod support;

use std::time::Duration;

use emergent_domain::{
    agent::{AgentDefinition, FlowConfig, FlowType, Until},
    run::{Origin, Reason, RunStatus},
};
use emergent_executor::StartOptions;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, hangs, says},
};
use serde_json::json;
use support::{House, Plan, agent, assert_ended, server::Server, until, with_tools};

fn flow(name: &str, flow_type: FlowType, agents: &[&str]) -> AgentDefinition {
    let agents = agents.iter().map(|agent| (*agent).to_owned()).collect();
    AgentDefinition {
        flow_type,
        flow_config: Some(FlowConfig { agents, ..FlowConfig::default() }),
        ..agent(name)
    }
}

fn looping(name: &str, agents: &[&str], until: Option<&str>, rounds: u32) -> AgentDefinition {
    let mut definition = flow(name, FlowType::Loop, agents);
    let config = definition.flow_config.as_mut().unwrap();
    (config.until, config.max_iterations) = (until.map(|text| Until::Text(text.into())), Some(rounds));
    definition
}

both_engines! {
    async fn a_sequence_hands_each_part_the_output_of_the_one_before(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("A draft.")]).agent("editor", [says("A text.")]);
        let house = House::open(&db, model).await;
        house.agent(agent("writer")).await;
        house.agent(agent("editor")).await;
        let desk = house.agent(flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        let run = house.run(&desk, "About rain.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.summary.as_deref(), Some("A text."));
        let told: Vec<String> = house.model.requests().iter().map(|asked| asked.last_text()).collect();
        assert_eq!(told, ["About rain.", "A draft."]);
        let children = house.children(run.id).await;
        let parts: Vec<_> = children.iter().map(|part| (part.agent_name.as_str(), part.child_index, part.origin, part.depth)).collect();
        assert_eq!(parts, [("writer", 0, Origin::Flow, 1), ("editor", 1, Origin::Flow, 1)]);
        let tree = house.executor.run_tree(house.project, run.id).await.unwrap();
        assert_eq!(tree.children.len(), 2, "each part is in the tree");
        house.close().await;
    }

    async fn a_sequence_stops_at_the_part_that_does_not_complete(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("writer", [])).await;
        house.agent(agent("writer")).await;
        house.agent(agent("editor")).await;
        let desk = house.agent(flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        let run = house.run(&desk, "About rain.").await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Flow));
        assert!(run.error.as_deref().unwrap().contains("`writer` is failed"), "{:?}", run.error);
        assert_eq!(house.children(run.id).await.len(), 1);
        house.close().await;
    }

    async fn a_loop_goes_on_until_its_words_are_said(db: TestDb) {
        let model = ScriptedModel::default().agent("polish", [says("Better."), says("Even better."), says("It is DONE.")]);
        let house = House::open(&db, model).await;
        let polish = house.agent(looping("polish", &[], Some("DONE"), 9)).await;
        let run = house.run(&polish, "Polish it.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.summary.as_deref(), Some("It is DONE."));
        let told: Vec<String> = house.model.requests().iter().map(|asked| asked.last_text()).collect();
        assert_eq!(told.len(), 3);
        assert_eq!(told[0], "Polish it.");
        assert!(told[2].starts_with("Polish it.") && told[2].ends_with("Even better."), "{}", told[2]);
        assert_eq!(house.children(run.id).await.len(), 3);
        house.close().await;
    }

    async fn a_loop_ends_after_its_rounds(db: TestDb) {
        let model = ScriptedModel::default().agent("try", [says("a"), says("b"), says("c"), says("d")]);
        let house = House::open(&db, model).await;
        let unmet = house.agent(looping("try", &[], Some("DONE"), 2)).await;
        let run = house.run(&unmet, "Try.").await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert!(run.summary.as_deref().unwrap().ends_with("b"), "{:?}", run.summary);
        house.executor.delete_agent(house.actor(), unmet.id).await.unwrap();
        let plain = house.agent(looping("try", &[], None, 2)).await;
        let run = house.run(&plain, "Try.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.summary.as_deref(), house.children(run.id).await.len()), (Some("d"), 2));
        house.close().await;
    }

    async fn a_loop_over_a_sequence_goes_through_all_of_it_each_round(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [says("One."), says("Two.")])
            .agent("critic", [says("Again."), says("GOOD.")]);
        let house = House::open(&db, model).await;
        house.agent(agent("writer")).await;
        house.agent(agent("critic")).await;
        let desk = house.agent(looping("desk", &["writer", "critic"], Some("GOOD"), 5)).await;
        let run = house.run(&desk, "Write.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let names: Vec<String> = house.children(run.id).await.into_iter().map(|part| part.agent_name).collect();
        assert_eq!(names, ["writer", "critic", "writer", "critic"]);
        house.close().await;
    }

    async fn parallel_parts_run_side_by_side_and_are_joined(db: TestDb) {
        let slow = Duration::from_millis(200);
        let model = ScriptedModel::default()
            .agent("east", [says("Sunrise.").with_delay(slow)])
            .agent("west", [says("Sunset.").with_delay(slow)])
            .agent("north", []);
        let house = House::open(&db, model).await;
        for name in ["east", "west", "north"] {
            house.agent(agent(name)).await;
        }
        let compass = house.agent(flow("compass", FlowType::Parallel, &["east", "west", "north"])).await;
        let run = house.run(&compass, "Look.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let summary = run.summary.unwrap();
        assert!(summary.starts_with("## east\n\nSunrise.\n\n## west\n\nSunset.\n\n## north\n\n(failed"), "{summary}");
        assert!(house.model.max_open() >= 2);
        assert!(house.model.requests().iter().all(|asked| asked.last_text() == "Look."));
        house.close().await;
    }

    async fn a_parallel_flow_fails_when_every_part_did(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agent(agent("east")).await;
        house.agent(agent("west")).await;
        let compass = house.agent(flow("compass", FlowType::Parallel, &["east", "west"])).await;
        let run = house.run(&compass, "Look.").await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Flow));
        house.close().await;
    }

    async fn a_flow_asks_no_model_itself_and_leaves_its_place_to_its_parts(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("a")]).agent("editor", [says("b")]);
        let house = House::with(&db, Plan::new(model).max_runs(1)).await;
        house.agent(agent("writer")).await;
        house.agent(agent("editor")).await;
        let desk = house.agent(flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        let run = house.run(&desk, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert!(house.model.requests_of("desk").is_empty());
        house.close().await;
    }

    async fn a_flow_that_runs_out_of_time_is_paused(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("writer", [hangs()])).await;
        house.agent(agent("writer")).await;
        let desk = house.agent(flow("desk", FlowType::Sequential, &["writer"])).await;
        let run = house.run_with(&desk, StartOptions { input: "Go.".into(), timeout_seconds: Some(1), ..StartOptions::default() }).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!(house.model.open(), 0);
        house.close().await;
    }

    async fn a_flow_is_taken_up_where_it_was(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("A draft.")]).agent("editor", [hangs()]);
        let server = Server::open(&db, Plan::new(model.clone())).await;
        server.house.agent(agent("writer")).await;
        server.house.agent(agent("editor")).await;
        let desk = server.house.agent(flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        let run = server.house.start(&desk, "About rain.").await;
        until("the editor is asked", async || model.requests_of("editor").len() == 1).await;
        server.kill(&db, Duration::ZERO).await;
        let house = House::open(&db, ScriptedModel::default().agent("editor", [says("A text.")])).await;
        let run = house.ended(run.id).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.summary.as_deref(), house.children(run.id).await.len()), (Some("A text."), 2));
        assert_eq!(house.model.requests_of("editor")[0].last_text(), "A draft.");
        house.close().await;
    }

    async fn a_paused_flow_goes_on_with_its_paused_part(db: TestDb) {
        let look = calls("project_info", json!({}));
        let model = ScriptedModel::default()
            .agent("writer", [says("A draft.")])
            .agent("editor", [look, says("Half."), says("Whole.")]);
        let house = House::open(&db, model).await;
        house.agent(agent("writer")).await;
        let mut editor = with_tools("editor", &["project_info"]);
        editor.max_steps = Some(1);
        house.agent(editor).await;
        let desk = house.agent(flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        let first = house.run(&desk, "About rain.").await;
        assert_ended(&first, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!(first.summary.as_deref(), Some("Half."));
        let second = house.resumed(first.id).await;
        assert_ended(&second, RunStatus::Completed, None);
        assert_eq!(second.summary.as_deref(), Some("Whole."));
        assert_eq!(house.model.requests_of("writer").len(), 1, "what is done is not done again");
        let part = house.children(second.id).await.remove(0);
        assert_eq!(part.resumed_from, Some(house.children(first.id).await[1].id));
        house.close().await;
    }
}
