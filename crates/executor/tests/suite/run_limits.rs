//! What one run, and the runs below it, may spend.

use crate::support;

use std::{sync::Arc, time::Duration};

use emergent_domain::{
    agent::{AgentDefinition, FlowConfig, FlowType, ModelConfig, Until},
    chat::{Part, Usage},
    run::{Reason, RunStatus},
    workflow::Limit,
};
use emergent_executor::{Error, StartOptions};
use emergent_store::retention;
use emergent_testkit::{
    both_engines,
    scripted::{ModelRequest, ScriptedModel, ScriptedReply, calls, replies, says},
};
use serde_json::json;
use support::{Harness, HarnessOptions, agent, assert_ended, priced_model::PricedModel, with_tools};

/// A start with a limit in dollars.
fn dollars() -> StartOptions {
    let limit = Limit { microusd: Some(500_000), tokens: None };
    StartOptions { limit, ..limited(1) }
}

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
        assert!(error.contains("(`maxTotalTokens`, `--max-total-tokens`)") && error.contains("11000 tokens"), "{error}");
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

    async fn a_flow_whose_part_reaches_a_limit_fails_for_it(db: TestDb) {
        let spends = |tokens: u64| {
            says("So far.").with_usage(Usage { input: tokens, output: 500, ..Usage::default() })
        };
        // The limit ends the first part, or does not let the second one start.
        let scripts = || [vec![look(1), look(2), look(3), says("So far.")], vec![spends(20_000), says("Never asked.")]];
        let flows = [(FlowType::Sequential, 2), (FlowType::Loop, 1)];
        let cases = flows.into_iter().flat_map(|flow| scripts().map(|script| (flow, script)));
        for (number, ((flow_type, parts), script)) in cases.enumerate() {
            let (helper, desk) = (format!("helper{number}"), format!("desk{number}"));
            let harness = Harness::open(&db, ScriptedModel::default().agent(&helper, script)).await;
            harness.agent(brief(with_tools(&helper, &["entities_query"]))).await;
            let until = (flow_type == FlowType::Loop).then(|| Until::Text("never".into()));
            let config = FlowConfig { agents: vec![helper; parts], until, ..FlowConfig::default() };
            let flow = AgentDefinition { flow_type, flow_config: Some(config), ..agent(&desk) };
            let desk = harness.agent(flow).await;
            let run = harness.run_with(&desk, limited(14_000)).await;
            assert_ended(&run, RunStatus::Failed, Some(Reason::Budget));
            harness.close().await;
        }
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

    async fn a_cost_limit_for_a_model_without_a_price_is_refused(db: TestDb) {
        let model = ScriptedModel::default();
        let models = model.models().with_provider(Arc::new(PricedModel::new(1)));
        let harness = Harness::build(&db, HarnessOptions { models: Some(models), ..HarnessOptions::new(model) }).await;
        let worker = harness.agent(agent("worker")).await;
        let with_model = |model: &str| StartOptions { model: Some(model.parse().unwrap()), ..dollars() };
        for model in [ScriptedModel::MODEL, "openai/unpriced"] {
            let start = with_model(model);
            let refused = harness.executor.trigger(harness.actor(), worker.id, start.clone()).await.unwrap_err();
            let Error::Invalid(invalid) = &refused else { panic!("{refused}") };
            assert_eq!(invalid.problems[0].field, "maxCostUsd");
            let reason = &invalid.problems[0].reason;
            assert!(reason.contains(model) && reason.contains("(`maxTotalTokens`)"), "{reason}");
            assert!(reason.contains("`EMERGENT_MODEL_PRICES`"), "{reason}");
            let start = StartOptions { limit: Limit { microusd: None, tokens: Some(9_000) }, ..start };
            harness.executor.trigger(harness.actor(), worker.id, start).await.unwrap();
        }
        let run = harness.executor.trigger(harness.actor(), worker.id, with_model(PricedModel::MODEL)).await.unwrap();
        assert_eq!(run.terms.limit, dollars().limit);
    }

    async fn a_spawned_agent_without_a_price_is_not_started_with_a_cost_limit(db: TestDb) {
        let task = json!({ "agent_name": "helper", "task": "Work." });
        let mut limited_task = task.clone();
        limited_task["max_cost_usd"] = json!(0.5);
        let tasks = json!({ "tasks": [limited_task, task] });
        let model = ScriptedModel::default()
            .agent("lead", [calls("spawn_agents", tasks), says("One helped.")])
            .agent("helper", [says("Helped.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("helper")).await;
        let lead = harness.agent(with_tools("lead", &["spawn_agents"])).await;
        let run = harness.run(&lead, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let results = harness.answers(run.id).await.remove(0);
        let error = results[0]["error"].as_str().unwrap();
        assert!(error.contains("max_cost_usd") && error.contains("use `max_total_tokens`"), "{results}");
        assert_eq!((&results[0]["status"], &results[1]["status"]), (&json!("failed"), &json!("completed")));
        harness.close().await;
    }

    async fn a_run_without_a_price_may_inherit_a_cost_limit(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says("Worked.")])).await;
        harness.agent(agent("worker")).await;
        // The flow calls no model, so the limit is for its parts.
        let flow = AgentDefinition {
            flow_type: FlowType::Sequential,
            flow_config: Some(FlowConfig { agents: vec!["worker".to_owned()], ..FlowConfig::default() }),
            ..agent("team")
        };
        let flow = harness.agent(flow).await;
        let run = harness.run_with(&flow, dollars()).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(harness.children(run.id).await.remove(0).terms.budget_runs, [run.id]);
        harness.close().await;
    }

    async fn a_resumed_run_counts_towards_the_limit_of_the_run_it_resumes(db: TestDb) {
        let script = [look(1), look(2), says("So far."), look(3), look(4), says("No more.")];
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let worker = harness.agent(brief(with_tools("worker", &["entities_query"]))).await;
        let paused = harness.run_with(&worker, StartOptions { max_steps: Some(2), ..limited(13_000) }).await;
        assert_ended(&paused, RunStatus::Paused, Some(Reason::StepLimit));
        let resumed = harness.resumed(paused.id).await;
        assert_eq!(resumed.terms.budget_runs, [paused.id], "the counter is that of the first run");
        assert_ended(&resumed, RunStatus::Failed, Some(Reason::Budget));
        harness.close().await;
    }

    async fn every_limit_of_a_child_that_is_resumed_again_and_again_counts(db: TestDb) {
        let task = |tokens: i64| json!({ "agent_name": "helper", "task": "Work.", "max_total_tokens": tokens });
        let again = move |tokens: i64| replies(move |request: &ModelRequest| {
            let newest = request.turns.iter().rev().flat_map(|turn| &turn.parts).find_map(|part| match part {
                Part::Result(result) => result.output[0]["run_id"].as_str(),
                _ => None,
            });
            let mut resumed = task(tokens);
            resumed["resume_run_id"] = json!(newest.unwrap());
            calls("spawn_agents", json!({ "tasks": [resumed] }))
        });
        let script = [calls("spawn_agents", json!({ "tasks": [task(900_000)] })), again(800_000), again(700_000), again(100), says("Enough.")];
        let model = ScriptedModel::default()
            .agent("lead", script)
            .agent("helper", [look(1), says("a"), look(2), says("b"), look(3), says("c"), look(4), says("d")]);
        let harness = Harness::open(&db, model).await;
        let helper = AgentDefinition { max_steps: Some(1), ..brief(with_tools("helper", &["entities_query"])) };
        harness.agent(helper).await;
        let lead = harness.agent(brief(with_tools("lead", &["spawn_agents"]))).await;
        let run = harness.run(&lead, "Go.").await;
        let mut children = harness.children(run.id).await;
        children.sort_by_key(|child| child.steps_before);
        assert_eq!(children.iter().map(|child| child.terms.budget_runs.len()).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_ended(&children[2], RunStatus::Paused, Some(Reason::StepLimit));
        assert_ended(&children[3], RunStatus::Failed, Some(Reason::Budget));
        harness.close().await;
    }

    async fn the_counter_of_a_limit_is_deleted_with_its_run(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([look(1), says("Done.")])).await;
        let worker = harness.agent(brief(with_tools("worker", &["entities_query"]))).await;
        let run = harness.run_with(&worker, limited(90_000)).await;
        assert_ended(&run, RunStatus::Completed, None);
        let count = async || {
            let sql = "SELECT count(*) FROM budget_counters WHERE name LIKE 'run:%'";
            let count: Result<Option<i64>, emergent_store::Error> = db.read(move |tx| tx.query_opt(sql, &[], |row| row.get(0))).await;
            count.unwrap().unwrap()
        };
        assert_eq!(count().await, 1);
        let (project, id) = (harness.project, run.id);
        let later = run.completed_at.unwrap() + Duration::from_secs(1);
        let deleted: Result<bool, emergent_store::Error> = db.write(move |tx| {
            let tree = retention::lock_expired_tree(tx, project, id, later)?.unwrap();
            retention::delete_runs(tx, project, &tree, 500)
        }).await;
        assert!(deleted.unwrap());
        assert_eq!(count().await, 0);
        harness.close().await;
    }
}
