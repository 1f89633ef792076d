//! Daily budgets that are set in the middle of a day: what was spent on that day counts, whatever was recorded of it,
//! and calls under way count when they end.

use crate::support;

use std::time::Duration;

use emergent_domain::{
    agent::{AgentDefinition, ModelConfig},
    chat::Usage,
    ids::ProjectId,
    run::{Reason, Run, RunStatus},
    time::{Clock, Timestamp},
    workflow::{Amount, Limit, WorkflowLink, to_microusd},
};
use emergent_executor::{ModelQuery, StartOptions};
use emergent_store::{
    Db, Tx,
    budget::{self, DayStart, OpenedDay},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use serde_json::json;
use support::{
    Harness, HarnessOptions, agent, assert_ended,
    priced_model::{PricedModel, counters, limit_day, set_limit},
    until, with_tools,
    workflow_runs::{dispatched, workflow},
};

const DAY: Duration = Duration::from_secs(86_400);

fn tokens(tokens: i64) -> Limit {
    Limit { microusd: None, tokens: Some(tokens) }
}

fn costing(reply: ScriptedReply, tokens: u64) -> ScriptedReply {
    reply.with_usage(Usage { input: tokens - 10, output: 10, ..Usage::default() })
}

/// What was spent and is reserved today: of the project, or of an agent.
async fn today(db: &Db, project: ProjectId, agent: Option<&str>) -> (Amount, Amount) {
    let day = budget::utc_day(Timestamp::now());
    let name = agent.map_or(format!("day:{day}"), |agent| format!("day:{day}:{agent}"));
    let found = counters(db, project).await.into_iter().find(|(counter, _)| *counter == name);
    let (_, counter) = found.unwrap_or_else(|| panic!("there is no counter `{name}`"));
    (counter.spent, counter.reserved)
}

/// What the messages of the runs of an agent say that was spent.
async fn in_messages(db: &Db, agent: &'static str) -> Amount {
    let read = move |tx: &mut Tx<'_>| {
        let sql = "SELECT input_tokens + output_tokens, cost FROM agent_run_messages AS m
                   JOIN agent_runs AS r ON r.id = m.run_id WHERE r.agent_name = $1 AND input_tokens IS NOT NULL";
        tx.query(sql, &[agent.into()], |row| {
            let microusd = to_microusd(row.get::<Option<f64>>(1)?.unwrap_or(0.0));
            Ok(Amount { microusd, tokens: row.get(0)? })
        })
    };
    let amounts: Result<Vec<Amount>, emergent_store::Error> = db.read(read).await;
    amounts.unwrap().into_iter().sum()
}

/// Moves a run with its messages one day back.
async fn move_to_yesterday(db: &Db, run: &Run) {
    let (id, at) = (run.id, run.created_at - DAY);
    let write = move |tx: &mut Tx<'_>| {
        tx.execute(
            "UPDATE agent_runs SET created_at = $2, completed_at = $2 WHERE id = $1",
            &[id.into(), at.into()],
        )?;
        tx.execute("UPDATE agent_run_messages SET created_at = $2 WHERE run_id = $1", &[id.into(), at.into()])
    };
    let written: Result<u64, emergent_store::Error> = db.write(write).await;
    assert!(written.unwrap() > 0);
}

/// An agent whose answers are short, so that little is reserved.
fn brief(mut definition: AgentDefinition) -> AgentDefinition {
    definition.model = definition.model.map(|model| ModelConfig { max_tokens: Some(100), ..model });
    definition
}

both_engines! {
    async fn a_limit_that_is_set_during_the_day_counts_what_the_day_has_spent(db: TestDb) {
        let script = [costing(says("Yesterday."), 7_000), costing(says("One."), 100),
            costing(calls("entities_query", json!({})), 1_000), costing(says("Two."), 2_000),
            costing(says("In a workflow."), 20_000), costing(says("A verdict."), 40_000)];
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let project = harness.project;
        let one = harness.agent(brief(agent("one"))).await;
        let two = harness.agent(brief(with_tools("two", &["entities_query"]))).await;
        let old = harness.run(&one, "Go.").await;
        move_to_yesterday(&db, &old).await;
        harness.run(&one, "Go.").await;
        harness.run(&two, "Go.").await;
        let link = WorkflowLink { workflow: Some(workflow(&harness, Limit::default()).await), ..WorkflowLink::default() };
        let run = dispatched(&harness, &one, link, 0).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let query = ModelQuery {
            project,
            workflow: None,
            task: None,
            agent: "evaluator".into(),
            model: one.definition.model.clone().unwrap(),
            system: String::new(),
            prompt: "Is it good?".into(),
            output_schema: None,
            max_tokens: 100,
            timeout: Duration::from_secs(10),
        };
        harness.executor.query_model(query).await.unwrap();
        limit_day(&db, project, Some("one"), tokens(1_000_000)).await;
        assert_eq!(today(&db, project, Some("one")).await.0.tokens, 100 + 20_000);
        limit_day(&db, project, None, tokens(60_000)).await;
        assert_eq!(today(&db, project, None).await.0.tokens, 100 + 3_000 + 20_000 + 40_000);
        let start = StartOptions { input: "Go.".into(), ..StartOptions::default() };
        let refused = harness.executor.trigger(harness.actor(), two.id, start).await.unwrap_err();
        assert!(refused.to_string().contains("63100 tokens spent so far"), "{refused}");
        harness.close().await;
    }

    async fn a_limit_in_dollars_counts_what_the_answers_of_the_day_cost(db: TestDb) {
        let bursar = PricedModel::new(7);
        let options = HarnessOptions { models: Some(bursar.models()), ..HarnessOptions::new(ScriptedModel::default()) };
        let harness = Harness::with(&db, options).await;
        let mut definition = with_tools("one", &["entities_query"]);
        definition.model = Some(ModelConfig { max_tokens: Some(700), ..PricedModel::MODEL.parse().unwrap() });
        definition.max_steps = Some(4);
        let one = harness.agent(definition).await;
        for _ in 0..4 {
            harness.run(&one, "Go.").await;
        }
        limit_day(&db, harness.project, None, Limit { microusd: Some(1), tokens: None }).await;
        let spent = in_messages(&db, "one").await;
        assert!(spent.microusd > 0, "{spent:?}");
        assert_eq!(today(&db, harness.project, None).await, (spent, Amount::default()));
        harness.close().await;
    }

    async fn a_call_that_is_under_way_when_the_limit_is_set_counts_when_it_ends(db: TestDb) {
        let slow = |tokens| costing(says("Done."), tokens).with_delay(Duration::from_millis(300));
        let harness = Harness::open(&db, ScriptedModel::new([slow(500), slow(600), costing(says("No."), 50)])).await;
        let project = harness.project;
        let worker = harness.agent(brief(agent("worker"))).await;
        let unlimited = harness.start(&worker, "Go.").await;
        until("it is asked", async || harness.model.open() == 1).await;
        limit_day(&db, project, Some("worker"), tokens(2_000)).await;
        assert_eq!(today(&db, project, Some("worker")).await, (Amount::default(), Amount::default()));
        assert_ended(&harness.ended(unlimited.id).await, RunStatus::Completed, None);
        assert_eq!(today(&db, project, Some("worker")).await.0.tokens, 500);
        // The next call has a reservation under the limit of the agent when the one of the project is set.
        let limited = harness.start(&worker, "Go.").await;
        until("it is asked", async || harness.model.open() == 1).await;
        limit_day(&db, project, None, tokens(1_100)).await;
        let (spent, reserved) = today(&db, project, None).await;
        assert_eq!(spent.tokens, 500, "the first run is counted once");
        assert!(reserved.tokens > 0, "the call under way is reserved");
        assert_ended(&harness.ended(limited.id).await, RunStatus::Completed, None);
        assert_eq!(today(&db, project, None).await, (Amount { microusd: 0, tokens: 1_100 }, Amount::default()));
        let start = StartOptions { input: "Go.".into(), ..StartOptions::default() };
        assert!(harness.executor.trigger(harness.actor(), worker.id, start).await.is_err());
        harness.close().await;
    }

    async fn calls_that_end_while_the_day_is_summed_up_count_once(db: TestDb) {
        let slow = |tokens| costing(says("Done."), tokens).with_delay(Duration::from_millis(300));
        let script = [costing(says("Before."), 100), slow(200), slow(400), slow(800)];
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let worker = harness.agent(brief(agent("worker"))).await;
        harness.run(&worker, "Go.").await;
        let begin_call = async || {
            let run = harness.start(&worker, "Go.").await;
            until("it is asked", async || harness.model.open() == 1).await;
            run.id
        };
        let run = begin_call().await;
        let opened = OpenedDay::open(&db, harness.project, None, Timestamp::now()).await.unwrap();
        harness.ended(run).await;
        let run = begin_call().await;
        let start = opened.sum(&db).await.unwrap();
        harness.ended(run).await;
        let run = begin_call().await;
        set_limit(&db, start, tokens(10_000)).await;
        harness.ended(run).await;
        assert_eq!(today(&db, harness.project, None).await, (Amount { microusd: 0, tokens: 1_500 }, Amount::default()));
        harness.close().await;
    }

    async fn what_the_day_has_spent_counts_once_if_a_limit_is_set_twice_or_its_setting_was_interrupted(db: TestDb) {
        let script = [100, 200, 400].map(|tokens| costing(says("Done."), tokens));
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let project = harness.project;
        let worker = harness.agent(brief(agent("worker"))).await;
        harness.run(&worker, "Go.").await;
        let read_start = async || DayStart::read(&db, &Clock::system(), project, None).await.unwrap();
        // A server that stops here leaves a counter without what was spent before.
        drop(read_start().await);
        harness.run(&worker, "Go.").await;
        let (first, second) = (read_start().await, read_start().await);
        set_limit(&db, first, tokens(10_000)).await;
        harness.run(&worker, "Go.").await;
        set_limit(&db, second, tokens(20_000)).await;
        limit_day(&db, project, None, tokens(30_000)).await;
        assert_eq!(today(&db, project, None).await, (Amount { microusd: 0, tokens: 700 }, Amount::default()));
        harness.close().await;
    }

    async fn an_answer_after_midnight_counts_for_the_day_of_its_call_alone(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([costing(says("Done."), 100)])).await;
        let worker = harness.agent(brief(agent("worker"))).await;
        // A call under a limit has a row, which says for which day it counts.
        limit_day(&db, harness.project, Some("worker"), tokens(10_000)).await;
        let run = harness.run(&worker, "Go.").await.id;
        let day = budget::utc_day(Timestamp::now());
        let midnight = Timestamp::from_micros(day * 86_400_000_000);
        let (before, after) = (midnight - Duration::from_secs(5), midnight + Duration::from_secs(5));
        let moved = db.write(move |tx| {
            tx.execute("UPDATE model_calls SET at = $1, day = $2", &[before.into(), (day - 1).into()])?;
            tx.execute("UPDATE agent_runs SET created_at = $1 WHERE id = $2", &[before.into(), run.into()])?;
            tx.execute("UPDATE agent_run_messages SET created_at = $1 WHERE run_id = $2", &[after.into(), run.into()])
        });
        let moved: Result<u64, emergent_store::Error> = moved.await;
        assert!(moved.unwrap() > 0);
        limit_day(&db, harness.project, None, tokens(10_000)).await;
        assert_eq!(today(&db, harness.project, None).await, (Amount::default(), Amount::default()));
        harness.close().await;
    }

    async fn what_is_spent_after_a_limit_was_removed_counts_when_it_is_set_again(db: TestDb) {
        let script = (0..3).map(|_| costing(says("Done."), 100));
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let worker = harness.agent(brief(agent("worker"))).await;
        for limit in [tokens(500), Limit::default(), tokens(250)] {
            limit_day(&db, harness.project, None, limit).await;
            if limit.tokens != Some(250) {
                assert_ended(&harness.run(&worker, "Go.").await, RunStatus::Completed, None);
            }
        }
        assert_eq!(today(&db, harness.project, None).await.0.tokens, 200);
        assert_ended(&harness.run(&worker, "Go.").await, RunStatus::Failed, Some(Reason::Budget));
        harness.close().await;
    }

    async fn whenever_a_limit_is_set_no_call_is_lost_and_none_counts_twice(db: TestDb) {
        const NAMES: [&str; 3] = ["one", "two", "three"];
        let script = (0..240).map(|n| {
            let reply = if n % 3 == 0 { says("Done.") } else { calls("entities_query", json!({ "limit": 1 + n % 90 })) };
            costing(reply, 100 + n)
        });
        let options = HarnessOptions::new(ScriptedModel::new(script.chain((0..200).map(|_| says("Done."))))).max_runs(8);
        let harness = Harness::with(&db, options).await;
        let mut runs = Vec::new();
        for name in NAMES {
            let agent = harness.agent(brief(with_tools(name, &["entities_query"]))).await;
            for _ in 0..20 {
                runs.push(harness.start(&agent, "Go.").await.id);
            }
        }
        let much = tokens(1_000_000_000);
        for name in [Some("one"), None, Some("two")] {
            tokio::time::sleep(Duration::from_millis(40)).await;
            limit_day(&db, harness.project, name, much).await;
        }
        for run in runs {
            harness.ended(run).await;
        }
        limit_day(&db, harness.project, Some("three"), much).await;
        let mut total = Amount::default();
        for name in NAMES {
            let spent = in_messages(&db, name).await;
            assert!(spent.tokens > 0);
            assert_eq!(today(&db, harness.project, Some(name)).await, (spent, Amount::default()), "{name}");
            total = total + spent;
        }
        assert_eq!(today(&db, harness.project, None).await, (total, Amount::default()));
        harness.close().await;
    }
}
