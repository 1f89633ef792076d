//! What one run, and the runs below it, may spend.

use crate::support;

use emergent_domain::{
    agent::{AgentDefinition, ModelConfig},
    chat::Usage,
    run::{Reason, RunStatus},
    workflow::Limit,
};
use emergent_executor::StartOptions;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use serde_json::json;
use support::{Harness, agent, assert_ended, with_tools};

fn limited(tokens: i64) -> StartOptions {
    let limit = Limit { tokens: Some(tokens), microusd: None };
    StartOptions { input: "Go.".into(), limit, ..StartOptions::default() }
}

/// An agent whose answers are limited, so that little has to be reserved for them.
fn brief(mut definition: AgentDefinition) -> AgentDefinition {
    definition.model = definition.model.map(|model| ModelConfig { max_tokens: Some(1_000), ..model });
    definition
}

fn look(n: i64) -> ScriptedReply {
    calls("entities_query", json!({ "limit": n })).with_usage(Usage {
        input: 3_000,
        output: 500,
        ..Usage::default()
    })
}

both_engines! {
    async fn a_run_that_reached_its_own_limit_sums_up_and_fails(db: TestDb) {
        let script = [look(1), look(2), says("Two of three.")];
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let worker = harness.agent(brief(with_tools("worker", &["entities_query"]))).await;
        let run = harness.run_with(&worker, limited(11_000)).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Budget));
        assert_eq!(run.summary.as_deref(), Some("Two of three."));
        let error = run.error.unwrap();
        assert!(error.contains("`maxTotalTokens`") && error.contains("11000 tokens"), "{error}");
        let unlimited = harness.agent(brief(agent("other"))).await;
        harness.model.add("other", [says("Fine.")]);
        assert_ended(&harness.run(&unlimited, "Go.").await, RunStatus::Completed, None);
        harness.close().await;
    }

    async fn the_runs_below_count_towards_the_limit(db: TestDb) {
        let tasks = json!({ "tasks": [{ "agent_name": "helper", "task": "Work." }] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("spawn_agents", tasks), says("It was too much.")])
            .agent("helper", [look(1), look(2), look(3), says("So far.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(brief(with_tools("helper", &["entities_query"]))).await;
        let lead = harness.agent(brief(with_tools("lead", &["spawn_agents"]))).await;
        let run = harness.run_with(&lead, limited(14_000)).await;
        let helper = harness.children(run.id).await.remove(0);
        assert_ended(&helper, RunStatus::Failed, Some(Reason::Budget));
        harness.close().await;
    }

    async fn a_spawned_run_may_have_a_limit_of_its_own(db: TestDb) {
        let tasks = json!({ "tasks": [{ "agent_name": "helper", "task": "Work.", "max_total_tokens": 9_000 }] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("spawn_agents", tasks), says("It was enough.")])
            .agent("helper", [look(1), look(2), says("So far.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(brief(with_tools("helper", &["entities_query"]))).await;
        let lead = harness.agent(brief(with_tools("lead", &["spawn_agents"]))).await;
        let run = harness.run(&lead, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_ended(&harness.children(run.id).await.remove(0), RunStatus::Failed, Some(Reason::Budget));
        harness.close().await;
    }

    async fn limits_and_steps_out_of_range_are_refused(db: TestDb) {
        let harness = Harness::build(&db, support::HarnessOptions::new(ScriptedModel::new([]))).await;
        let worker = harness.agent(agent("worker")).await;
        for (start, field) in [
            (limited(0), "maxTotalTokens"),
            (StartOptions { limit: Limit { microusd: Some(0), tokens: None }, ..limited(1) }, "maxCostUsd"),
            (StartOptions { max_steps: Some(501), ..StartOptions::default() }, "maxSteps"),
        ] {
            let start = StartOptions { input: "Go.".into(), ..start };
            let refused = harness.executor.trigger(harness.actor(), worker.id, start).await.unwrap_err();
            assert!(refused.to_string().contains(field), "{refused}");
        }
        let too_many = AgentDefinition { max_steps: Some(501), ..agent("many") };
        let refused = harness.executor.create_agent(harness.actor(), too_many).await.unwrap_err();
        assert!(refused.to_string().contains("1 to 500"), "{refused}");
    }
}
