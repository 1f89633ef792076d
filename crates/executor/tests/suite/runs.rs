//! A run from its start to its end.

use crate::support;

use std::time::Duration;

use emergent_domain::{agent::AgentDefinition, run::RunStatus};
use emergent_executor::{Error, StartOptions};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::json;
use support::{Harness, HarnessOptions, agent, until, with_tools};

both_engines! {
    async fn a_run_answers_and_is_recorded_whole(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says("Four.")])).await;
        let agent = harness.agent(agent("adder")).await;
        let run = harness.run(&agent, "What is two and two?").await;
        assert_eq!(run.status, RunStatus::Completed, "{run:?}");
        assert_eq!(run.summary.as_deref(), Some("Four."));
        assert_eq!(run.step_count, 1);
        let timeline = harness.timeline(run.id).await;
        assert_eq!(timeline, "0 system: You are adder.\n1 user: What is two and two?\nstarted\n1 assistant: Four.\nended completed: Four.");
        harness.close().await;
    }

    async fn a_tools_writes_are_in_the_graph_with_the_run_that_made_them(db: TestDb) {
        let model = ScriptedModel::new([
            calls("create_entity", json!({ "objects": [{ "type": "Person", "key": "ada", "properties": { "name": "Ada" } }] })),
            calls("entities_query", json!({ "type": "Person" })),
            says("Ada is in."),
        ]);
        let harness = Harness::open(&db, model).await;
        let agent = harness.agent(with_tools("writer", &["entities_*"])).await;
        let run = harness.run(&agent, "Note Ada.").await;
        let timeline = harness.timeline(run.id).await;
        assert_eq!(run.status, RunStatus::Completed, "{timeline}");
        assert_eq!(run.step_count, 3);
        harness.close().await;
    }

    async fn an_input_is_required_and_bounded(db: TestDb) {
        let harness = Harness::build(&db, HarnessOptions::new(ScriptedModel::new([]))).await;
        let adder = harness.agent(agent("adder")).await;
        for input in [" ".to_owned(), "x".repeat((1 << 20) + 1), "a\0b".to_owned()] {
            let start = StartOptions { input, ..StartOptions::default() };
            let refused = harness.executor.trigger(harness.actor(), adder.id, start).await.unwrap_err();
            assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        }
    }

    async fn more_runs_than_may_wait_are_refused_by_the_name_of_the_limit(db: TestDb) {
        let mut plan = HarnessOptions::new(ScriptedModel::new([]));
        plan.settings.max_queued = 2;
        let harness = Harness::build(&db, plan).await;
        let adder = harness.agent(agent("adder")).await;
        harness.start(&adder, "One.").await;
        harness.start(&adder, "Two.").await;
        let start = StartOptions { input: "Three.".into(), ..StartOptions::default() };
        let refused = harness.executor.trigger(harness.actor(), adder.id, start).await.unwrap_err();
        assert!(matches!(refused, Error::Overloaded { limit: "max_queued", .. }), "{refused}");
    }

    async fn a_run_keeps_the_definition_it_started_with(db: TestDb) {
        let model = ScriptedModel::new([calls("project_info", json!({})).with_delay(Duration::from_millis(200)), says("Done.")]);
        let harness = Harness::open(&db, model).await;
        let worker = harness.agent(with_tools("worker", &["project_info"])).await;
        let run = harness.start(&worker, "Go.").await;
        until("it is asked", async || harness.model.open() == 1).await;
        let change = |definition: AgentDefinition| AgentDefinition { system_prompt: "Another.".into(), tools: vec![], ..definition };
        harness.executor.update_agent(harness.actor(), worker.id, None, change).await.unwrap();
        let run = harness.ended(run.id).await;
        assert_eq!((run.agent_version, run.status), (1, RunStatus::Completed));
        let request = harness.model.requests();
        assert!(request.iter().all(|request| request.system == "You are worker." && request.tools == ["project_info"]));
        harness.close().await;
    }
}
