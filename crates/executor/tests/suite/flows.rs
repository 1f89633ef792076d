//! Flows: agents that work through other agents in sequence, in a loop, or in parallel.

use crate::support;

use std::time::Duration;

use emergent_domain::{
    agent::{AgentDefinition, FlowConfig, FlowType, Until},
    run::{Origin, Reason, Run, RunStatus},
};
use emergent_executor::StartOptions;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, fails, hangs, says},
};
use serde_json::json;
use support::{Harness, HarnessOptions, agent, assert_ended, server::Server, until, with_tools};

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

fn look() -> ScriptedReply {
    calls("project_info", json!({}))
}

/// Runs a flow of the agents `writer` and `editor` with a timeout of two seconds, in which its parts have no time to
/// sum up.
async fn two_seconds(db: &TestDb, model: ScriptedModel, flow: AgentDefinition) -> (Harness, Run) {
    let harness = Harness::with(db, HarnessOptions::new(model).grace(Duration::from_secs(30))).await;
    for name in ["writer", "editor"] {
        harness.agent(with_tools(name, &["project_info"])).await;
    }
    let flow = harness.agent(flow).await;
    let start = StartOptions { input: "Go.".into(), timeout_seconds: Some(2), ..StartOptions::default() };
    let run = harness.run_with(&flow, start).await;
    (harness, run)
}

both_engines! {
    async fn a_flow_of_other_agents_needs_no_model(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [says("A draft."), says("A draft.")])
            .agent("editor", [says("A text."), says("A text.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("writer")).await;
        harness.agent(agent("editor")).await;
        // Without a model, and with one that this server cannot call.
        for own in [None, "google/gemini-2.5-flash".parse().ok()] {
            let name = if own.is_none() { "none" } else { "keyless" };
            let desk = AgentDefinition { model: own, ..flow(name, FlowType::Parallel, &["writer", "editor"]) };
            let desk = harness.agent(desk).await;
            let run = harness.run(&desk, "About rain.").await;
            assert_ended(&run, RunStatus::Completed, None);
            assert_eq!(run.model.to_string(), "flow/parallel");
        }
        // A flow without other agents is its own part, and calls one.
        let alone = AgentDefinition { model: None, ..flow("alone", FlowType::Loop, &[]) };
        let alone = harness.agent(alone).await;
        let start = StartOptions { input: "Go.".into(), ..StartOptions::default() };
        let refused = harness.executor.trigger(harness.actor(), alone.id, start).await.unwrap_err();
        assert!(matches!(refused, emergent_executor::Error::NoModel(_)), "{refused}");
        // A model that nobody can call is refused as before if the request names it.
        let start = StartOptions { model: "gogle/x".parse().ok(), input: "Go.".into(), ..StartOptions::default() };
        let desk = harness.agent(flow("desk", FlowType::Sequential, &["writer"])).await;
        let refused = harness.executor.trigger(harness.actor(), desk.id, start).await.unwrap_err();
        assert!(refused.to_string().contains("gogle"), "{refused}");
        harness.close().await;
    }

    async fn a_sequence_hands_each_part_the_output_of_the_one_before(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("A draft.")]).agent("editor", [says("A text.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("writer")).await;
        harness.agent(agent("editor")).await;
        let desk = harness.agent(flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        let run = harness.run(&desk, "About rain.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.summary.as_deref(), Some("A text."));
        let prompts: Vec<String> = harness.model.requests().iter().map(|request| request.last_text()).collect();
        assert_eq!(prompts, ["About rain.", "A draft."]);
        let children = harness.children(run.id).await;
        let parts: Vec<_> = children.iter().map(|part| (part.agent_name.as_str(), part.child_index, part.origin, part.depth)).collect();
        assert_eq!(parts, [("writer", 0, Origin::Flow, 1), ("editor", 1, Origin::Flow, 1)]);
        let tree = harness.executor.run_tree(harness.project, run.id).await.unwrap();
        assert_eq!(tree.children.len(), 2, "each part is in the tree");
        harness.close().await;
    }

    async fn a_sequence_stops_at_the_part_that_does_not_complete(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default().agent("writer", [])).await;
        harness.agent(agent("writer")).await;
        harness.agent(agent("editor")).await;
        let desk = harness.agent(flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        let run = harness.run(&desk, "About rain.").await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Flow));
        assert!(run.error.as_deref().unwrap().contains("`writer` is failed"), "{:?}", run.error);
        assert_eq!(harness.children(run.id).await.len(), 1);
        harness.close().await;
    }

    async fn a_loop_goes_on_until_its_words_are_said(db: TestDb) {
        let model = ScriptedModel::default().agent("polish", [says("Better."), says("Even better."), says("It is DONE.")]);
        let harness = Harness::open(&db, model).await;
        let polish = harness.agent(looping("polish", &[], Some("DONE"), 9)).await;
        let run = harness.run(&polish, "Polish it.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.summary.as_deref(), Some("It is DONE."));
        let prompts: Vec<String> = harness.model.requests().iter().map(|request| request.last_text()).collect();
        assert_eq!(prompts.len(), 3);
        assert_eq!(prompts[0], "Polish it.");
        assert!(prompts[2].starts_with("Polish it.") && prompts[2].ends_with("Even better."), "{}", prompts[2]);
        assert_eq!(harness.children(run.id).await.len(), 3);
        harness.close().await;
    }

    async fn a_loop_ends_after_its_rounds(db: TestDb) {
        let model = ScriptedModel::default().agent("try", [says("a"), says("b"), says("c"), says("d")]);
        let harness = Harness::open(&db, model).await;
        let unmet = harness.agent(looping("try", &[], Some("DONE"), 2)).await;
        let run = harness.run(&unmet, "Try.").await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert!(run.summary.as_deref().unwrap().ends_with("b"), "{:?}", run.summary);
        harness.executor.delete_agent(harness.actor(), unmet.id).await.unwrap();
        let plain = harness.agent(looping("try", &[], None, 2)).await;
        let run = harness.run(&plain, "Try.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.summary.as_deref(), harness.children(run.id).await.len()), (Some("d"), 2));
        harness.close().await;
    }

    async fn a_loop_over_a_sequence_goes_through_all_of_it_each_round(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [says("One."), says("Two.")])
            .agent("critic", [says("Again."), says("GOOD.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("writer")).await;
        harness.agent(agent("critic")).await;
        let desk = harness.agent(looping("desk", &["writer", "critic"], Some("GOOD"), 5)).await;
        let run = harness.run(&desk, "Write.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let names: Vec<String> = harness.children(run.id).await.into_iter().map(|part| part.agent_name).collect();
        assert_eq!(names, ["writer", "critic", "writer", "critic"]);
        harness.close().await;
    }

    async fn parallel_parts_run_side_by_side_and_are_joined(db: TestDb) {
        let slow = Duration::from_millis(200);
        let model = ScriptedModel::default()
            .agent("east", [says("Sunrise.").with_delay(slow)])
            .agent("west", [says("Sunset.").with_delay(slow)])
            .agent("north", []);
        let harness = Harness::open(&db, model).await;
        for name in ["east", "west", "north"] {
            harness.agent(agent(name)).await;
        }
        let compass = harness.agent(flow("compass", FlowType::Parallel, &["east", "west", "north"])).await;
        let run = harness.run(&compass, "Look.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let summary = run.summary.unwrap();
        assert!(summary.starts_with("## east\n\nSunrise.\n\n## west\n\nSunset.\n\n## north\n\n(failed"), "{summary}");
        assert!(harness.model.max_open() >= 2);
        assert!(harness.model.requests().iter().all(|request| request.last_text() == "Look."));
        harness.close().await;
    }

    async fn a_parallel_flow_fails_when_every_part_did(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default()).await;
        harness.agent(agent("east")).await;
        harness.agent(agent("west")).await;
        let compass = harness.agent(flow("compass", FlowType::Parallel, &["east", "west"])).await;
        let run = harness.run(&compass, "Look.").await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Provider));
        harness.close().await;
    }

    async fn a_parallel_flow_that_fails_has_the_reasons_and_errors_of_its_parts(db: TestDb) {
        let auth = || emergent_llm::Error::Auth { model: ScriptedModel::MODEL.into(), message: "the key is wrong".into() };
        let model = ScriptedModel::default().agent("east", [fails(auth())]).agent("west", [fails(auth())]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("east")).await;
        harness.agent(agent("west")).await;
        let compass = harness.agent(flow("compass", FlowType::Parallel, &["east", "west"])).await;
        let run = harness.run(&compass, "Look.").await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Provider));
        let (error, summary) = (run.error.unwrap(), run.summary.unwrap());
        assert!(error.contains("`east` is failed (provider)") && error.contains("the key is wrong"), "{error}");
        assert!(summary.contains("## west\n\n(failed (provider)"), "{summary}");
        harness.close().await;
    }

    async fn a_flow_asks_no_model_itself_and_leaves_its_place_to_its_parts(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("a")]).agent("editor", [says("b")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).max_runs(1)).await;
        harness.agent(agent("writer")).await;
        harness.agent(agent("editor")).await;
        let desk = harness.agent(flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        let run = harness.run(&desk, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert!(harness.model.requests_of("desk").is_empty());
        harness.close().await;
    }

    async fn a_flow_that_runs_out_of_time_is_paused(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default().agent("writer", [hangs()])).await;
        harness.agent(agent("writer")).await;
        let desk = harness.agent(flow("desk", FlowType::Sequential, &["writer"])).await;
        let run = harness.run_with(&desk, StartOptions { input: "Go.".into(), timeout_seconds: Some(1), ..StartOptions::default() }).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!(harness.model.open(), 0);
        harness.close().await;
    }

    async fn a_part_of_a_sequence_whose_time_is_up_is_paused_with_its_partial_result(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [says("A draft.")])
            .agent("editor", [says("Half.").and(look()), hangs(), hangs()]);
        let (harness, run) = two_seconds(&db, model, flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        let editor = harness.children(run.id).await.remove(1);
        assert_ended(&editor, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!((editor.summary.as_deref(), editor.timeout_seconds), (Some("Half."), 1));
        let summary = run.summary.unwrap();
        assert!(summary.starts_with("Half.") && summary.contains("`editor` was shortened from 300 to 1 seconds"), "{summary}");
        harness.model.add("editor", [says("Whole.")]);
        let resumed = harness.resumed(run.id).await;
        assert_ended(&resumed, RunStatus::Completed, None);
        assert_eq!(resumed.summary.as_deref(), Some("Whole."));
        harness.close().await;
    }

    async fn parallel_parts_whose_time_is_up_are_paused_and_so_is_their_flow(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("writer", [says("Sunrise.").and(look()), hangs(), hangs()])
            .agent("editor", [hangs(), hangs()]);
        let (harness, run) = two_seconds(&db, model, flow("desk", FlowType::Parallel, &["writer", "editor"])).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        for part in harness.children(run.id).await {
            assert_ended(&part, RunStatus::Paused, Some(Reason::Timeout));
        }
        let summary = run.summary.unwrap();
        assert!(summary.starts_with("## writer\n\n(paused (timeout)) Sunrise.\n\n(The timeout"), "{summary}");
        harness.close().await;
    }

    async fn a_loop_whose_time_is_up_keeps_the_result_of_the_round_before(db: TestDb) {
        let model = ScriptedModel::default().agent("desk", [says("Better."), hangs(), hangs()]);
        let (harness, run) = two_seconds(&db, model, looping("desk", &[], Some("DONE"), 9)).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        let second = harness.children(run.id).await.remove(1);
        assert_ended(&second, RunStatus::Paused, Some(Reason::Timeout));
        let summary = run.summary.unwrap();
        assert!(summary.starts_with("The result of the round before:\nBetter.\n\n(The timeout"), "{summary}");
        harness.close().await;
    }

    async fn a_flow_is_taken_up_where_it_was(db: TestDb) {
        let model = ScriptedModel::default().agent("writer", [says("A draft.")]).agent("editor", [hangs()]);
        let server = Server::open(&db, HarnessOptions::new(model.clone())).await;
        server.harness.agent(agent("writer")).await;
        server.harness.agent(agent("editor")).await;
        let desk = server.harness.agent(flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        let run = server.harness.start(&desk, "About rain.").await;
        until("the editor is asked", async || model.requests_of("editor").len() == 1).await;
        server.kill(&db, Duration::ZERO).await;
        let harness = Harness::open(&db, ScriptedModel::default().agent("editor", [says("A text.")])).await;
        let run = harness.ended(run.id).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.summary.as_deref(), harness.children(run.id).await.len()), (Some("A text."), 2));
        assert_eq!(harness.model.requests_of("editor")[0].last_text(), "A draft.");
        harness.close().await;
    }

    async fn a_paused_flow_goes_on_with_its_paused_part(db: TestDb) {
        let look = calls("project_info", json!({}));
        let model = ScriptedModel::default()
            .agent("writer", [says("A draft.")])
            .agent("editor", [look, says("Half."), says("Whole.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("writer")).await;
        let mut editor = with_tools("editor", &["project_info"]);
        editor.max_steps = Some(1);
        harness.agent(editor).await;
        let desk = harness.agent(flow("desk", FlowType::Sequential, &["writer", "editor"])).await;
        let first = harness.run(&desk, "About rain.").await;
        assert_ended(&first, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!(first.summary.as_deref(), Some("Half."));
        let second = harness.resumed(first.id).await;
        assert_ended(&second, RunStatus::Completed, None);
        assert_eq!(second.summary.as_deref(), Some("Whole."));
        assert_eq!(harness.model.requests_of("writer").len(), 1, "what is done is not done again");
        let part = harness.children(second.id).await.remove(0);
        assert_eq!(part.resumed_from, Some(harness.children(first.id).await[1].id));
        harness.close().await;
    }

    async fn a_part_that_starts_anew_reads_the_input_of_the_resumption(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::default().agent("writer", [hangs(), says("Short.")])).await;
        harness.agent(agent("writer")).await;
        let desk = harness.agent(flow("desk", FlowType::Sequential, &["writer"])).await;
        let start = StartOptions { input: "Write.".into(), timeout_seconds: Some(1), ..StartOptions::default() };
        let paused = harness.run_with(&desk, start).await;
        assert_eq!(harness.children(paused.id).await[0].status, RunStatus::Cancelled, "it had no time of its own");
        let resumed = harness.executor.resume(harness.actor(), paused.id, Some("Be brief.".into())).await.unwrap();
        assert_ended(&harness.ended(resumed.id).await, RunStatus::Completed, None);
        assert_eq!(harness.model.requests_of("writer")[1].last_text(), "Write.\n\nBe brief.");
        harness.close().await;
    }

    async fn a_part_that_a_person_resumes_goes_on_and_starts_no_flow(db: TestDb) {
        let model = ScriptedModel::default().agent("polish", [look(), says("Half."), says("Whole.")]);
        let harness = Harness::open(&db, model).await;
        let mut definition = looping("polish", &[], Some("DONE"), 9);
        (definition.tools, definition.max_steps) = (vec!["project_info".into()], Some(1));
        let polish = harness.agent(definition).await;
        let run = harness.run(&polish, "Polish it.").await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        let part = harness.children(run.id).await.remove(0);
        let resumed = harness.resumed(part.id).await;
        assert_ended(&resumed, RunStatus::Completed, None);
        assert_eq!((resumed.summary.as_deref(), resumed.step_count), (Some("Whole."), 2));
        assert!(harness.children(resumed.id).await.is_empty(), "it is no flow");
        harness.close().await;
    }
}
