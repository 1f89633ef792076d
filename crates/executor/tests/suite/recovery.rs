//! A server crashes, and another one recovers its runs. The first server has its own threads and
//! connections here, and is killed without a shutdown.

use crate::support;

use std::{sync::Arc, time::Duration};

use emergent_domain::{
    agent::AgentDefinition,
    chat::Part,
    run::{Reason, Run, RunStatus, ToolCallStatus},
    time::Timestamp,
};
use emergent_executor::StartOptions;
use emergent_store::runs::claim;
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ModelRequest, ScriptedModel, ScriptedReply, calls, hangs, says},
};
use emergent_tools::{Effect, Tool};
use serde_json::{Value, json};
use support::{
    Harness, HarnessOptions, agent, assert_ended,
    server::{Server, content},
    tools::{EXTERNAL, Probe},
    until, with_tools,
};

fn create(key: &str) -> ScriptedReply {
    calls("entities_create", json!({ "objects": [{ "type": "Note", "key": key }] }))
}

fn look(n: usize) -> ScriptedReply {
    calls("entities_query", json!({ "type": format!("T{n}") }))
}

/// What a test needs of its first server.
struct First {
    agents: Vec<AgentDefinition>,
    model: ScriptedModel,
    tools: Vec<Arc<dyn Tool>>,
    start: StartOptions,
}

impl First {
    fn new(agents: Vec<AgentDefinition>, model: ScriptedModel) -> Self {
        Self {
            agents,
            model,
            tools: Vec::new(),
            start: StartOptions { input: "Go.".into(), ..StartOptions::default() },
        }
    }

    fn plan(&self, model: &ScriptedModel) -> HarnessOptions {
        let plan = HarnessOptions::new(model.clone()).grace(Duration::from_millis(300));
        self.tools.iter().fold(plan, |plan, tool| plan.tool(Arc::clone(tool)))
    }
}

/// Starts the last agent on a server that is killed as soon as `dies` holds, with its lease expired.
/// Another server with its own replies then drives the run to its end.
async fn taken_over(
    db: &TestDb,
    first: First,
    dies: impl AsyncFn(&Harness, &Run) -> bool,
    ago: Duration,
    second: ScriptedModel,
) -> (Harness, Run) {
    let server = Server::open(db, first.plan(&first.model)).await;
    let mut started = None;
    for definition in &first.agents {
        started = Some(server.harness.agent(definition.clone()).await);
    }
    let actor = server.harness.actor();
    let run = server.harness.executor.trigger(actor, started.unwrap().id, first.start.clone()).await.unwrap();
    until("the moment to die", async || dies(&server.harness, &run).await).await;
    server.kill(db, ago).await;
    let harness = Harness::with(db, first.plan(&second)).await;
    let ended = harness.ended(run.id).await;
    (harness, ended)
}

/// Returns a model request without the ids of tool calls, which differ between runs.
fn without_ids(request: ModelRequest) -> ModelRequest {
    let none = emergent_domain::ids::ToolCallId(Default::default());
    let mut request = request;
    for part in request.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        match part {
            Part::Call(call) => call.id = none,
            Part::Result(result) => {
                result.id = none;
                forget(&mut result.output);
            }
            _ => {}
        }
    }
    request
}

/// Replaces ids and timestamps, which differ between runs.
fn forget(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if key.ends_with("Id")
                    || key == "id"
                    || key.ends_with("At")
                    || matches!(key.as_str(), "author" | "refs")
                {
                    *value = Value::Null;
                }
                forget(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        _ => {}
    }
}

fn count(rows: &[String], table: &str) -> usize {
    rows.iter().filter(|row| row.starts_with(&format!("{table} "))).count()
}

both_engines! {
    async fn a_warning_of_a_loop_holds_after_a_crash(db: TestDb) {
        let agents = vec![with_tools("circler", &["entities_query"])];
        let first = First::new(agents, ScriptedModel::new([look(1), look(1), look(1), look(2), hangs()]));
        let dies = async |harness: &Harness, _: &Run| harness.model.open() == 1 && harness.model.requests().len() == 5;
        let second = ScriptedModel::new([look(3), look(1), says("never said")]);
        let (harness, run) = taken_over(&db, first, dies, Duration::ZERO, second).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        assert_eq!(run.step_count, 6);
        harness.close().await;
    }

    async fn the_loop_guard_decides_from_the_record_after_a_crash(db: TestDb) {
        const READ_ONLY: Effect = Effect::External { read_only: true, idempotent: true };
        let plan = |model: ScriptedModel, peek: Effect| {
            HarnessOptions::new(model)
                .grace(Duration::from_millis(300))
                .tool(Probe::new("a", Effect::Reads).build())
                .tool(Probe::new("peek", peek).build())
        };
        let a = || calls("a", json!({ "x": 1 }));
        // Of the calls after the warning, `peek` changed nothing and excuses no repetition.
        let script = [a(), a(), a(), calls("peek", json!({})), hangs()];
        let server = Server::open(&db, plan(ScriptedModel::new(script), READ_ONLY)).await;
        let circler = server.harness.agent(with_tools("circler", &["a", "peek"])).await;
        let start = StartOptions { input: "Go.".into(), ..StartOptions::default() };
        let run = server.harness.executor.trigger(server.harness.actor(), circler.id, start).await.unwrap();
        until("the moment to die", async || server.harness.model.open() == 1 && server.harness.model.requests().len() == 5).await;
        server.kill(&db, Duration::ZERO).await;
        // Its server declares the tool otherwise by now.
        let harness = Harness::with(&db, plan(ScriptedModel::new([a(), says("never said")]), EXTERNAL)).await;
        let run = harness.ended(run.id).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        harness.close().await;
    }

    async fn a_truncated_answer_is_continued_after_a_crash(db: TestDb) {
        let first = First::new(vec![agent("writer")], ScriptedModel::new([says("One, ").truncated(), hangs()]));
        let dies = async |harness: &Harness, _: &Run| harness.model.open() == 1 && harness.model.requests().len() == 2;
        let second = ScriptedModel::new([says("two.")]);
        let (harness, run) = taken_over(&db, first, dies, Duration::ZERO, second).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.summary.as_deref(), run.step_count), (Some("One, two."), 1));
        harness.close().await;
    }

    async fn a_correction_of_the_output_goes_on_after_a_crash(db: TestDb) {
        let typed = || AgentDefinition { output_schema: Some(json!({ "type": "object" })), ..agent("typed") };
        let before = || First::new(vec![typed()], ScriptedModel::new([says("one"), says("[2]"), hangs()]));
        let dies = async |harness: &Harness, _: &Run| harness.model.open() == 1 && harness.model.requests().len() == 3;
        let second = ScriptedModel::new([says(r#"{"n": 3}"#)]);
        let (harness, run) = taken_over(&db, before(), dies, Duration::ZERO, second).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.output, run.step_count), (Some(json!({ "n": 3 })), 3));
        let request = harness.model.requests().remove(0);
        assert!(request.last_text().contains("a list is not an object"), "{}", request.last_text());
        harness.close().await;

        // The corrections before the crash count.
        let other = TestDb::new(db.engine()).await;
        let second = ScriptedModel::new([says("three"), says(r#"{"n": 4}"#)]);
        let (harness, run) = taken_over(&other, before(), dies, Duration::ZERO, second).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::InvalidOutput));
        assert_eq!((run.output, harness.model.requests().len()), (None, 1));
        harness.close().await;
    }

    async fn another_server_goes_on_with_the_same_run_as_if_nothing_had_happened(db: TestDb) {
        let agents = || vec![with_tools("writer", &["entities_create", "entities_query"])];
        let before = || [says("First.").and(create("one")), look(1).and(look(2)).and(create("two")), hangs()];
        let request = |harness: &Harness| harness.model.open() == 1 && harness.model.requests().len() == 3;
        let first = First::new(agents(), ScriptedModel::new(before()));
        let second = ScriptedModel::new([create("three"), says("Three notes.")]);
        let (harness, run) = taken_over(&db, first, async |harness, _| request(harness), Duration::ZERO, second).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.step_count, run.summary.as_deref()), (4, Some("Three notes.")));
        assert!(harness.timeline(run.id).await.contains("\nstarted again\n"));
        let interrupted: Vec<ModelRequest> = harness.model.requests().into_iter().map(without_ids).collect();
        harness.close().await;

        // The same test without an interruption, in its own database.
        let other = TestDb::new(db.engine()).await;
        let [one, two, _] = before();
        let harness = Harness::open(&other, ScriptedModel::new([one, two, create("three"), says("Three notes.")])).await;
        let writer = harness.agent(agents().remove(0)).await;
        harness.run(&writer, "Go.").await;
        let whole: Vec<ModelRequest> = harness.model.requests().into_iter().skip(2).map(without_ids).collect();
        assert_eq!(interrupted, whole);
        harness.close().await;
    }

    async fn a_loop_is_seen_across_the_interruption(db: TestDb) {
        let same = || calls("entities_query", json!({ "type": "T" }));
        let first = First::new(vec![with_tools("circler", &["entities_query"])], ScriptedModel::new([same(), same(), hangs()]));
        let second = ScriptedModel::new([same(), same()]);
        let (harness, run) = taken_over(&db, first, async |harness, _| harness.model.requests().len() == 3, Duration::ZERO, second).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::DoomLoop));
        harness.close().await;
    }

    async fn an_external_call_that_was_being_made_is_in_doubt_and_not_made_again(db: TestDb) {
        let send = Probe::new("send", EXTERNAL).never_answers().build();
        let mut first = First::new(vec![with_tools("sender", &["send"])], ScriptedModel::new([calls("send", json!({}))]));
        first.tools = vec![send.clone()];
        let (harness, run) = taken_over(&db, first, async |_, _| send.at_work() == 1, Duration::ZERO, ScriptedModel::new([says("I will see.")])).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(send.called(), 1);
        let call = harness.calls(run.id).await.remove(0);
        assert_eq!(call.status, ToolCallStatus::Error);
        assert!(call.output.unwrap()["error"].as_str().unwrap().contains("Whether it took effect is not known"));
        harness.close().await;
    }

    async fn an_external_call_that_had_not_begun_is_made(db: TestDb) {
        let slow = Probe::new("slow", Effect::Reads).taking(Duration::from_millis(300)).build();
        let send = Probe::new("send", EXTERNAL).build();
        let message = calls("slow", json!({})).and(calls("send", json!({})));
        let mut first = First::new(vec![with_tools("sender", &["send", "slow"])], ScriptedModel::new([message]));
        first.tools = vec![slow.clone(), send.clone()];
        let second = ScriptedModel::new([says("Sent.")]);
        // The answer is recorded shortly after its first call has started.
        let recorded = async |harness: &Harness, run: &Run| {
            slow.at_work() == 1 && harness.timeline(run.id).await.contains("call send")
        };
        let (harness, run) = taken_over(&db, first, recorded, Duration::ZERO, second).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((slow.called(), send.called()), (2, 1), "what only reads is simply done again");
        harness.close().await;
    }

    async fn an_external_call_that_says_it_bears_repeating_is_made_again(db: TestDb) {
        for (name, read_only) in [("fetch", true), ("put", false)] {
            let effect = Effect::External { read_only, idempotent: !read_only };
            let tool = Probe::new(name, effect).taking(Duration::from_millis(300)).build();
            let mut first = First::new(vec![with_tools(&format!("{name}er"), &[name])], ScriptedModel::new([calls(name, json!({}))]));
            first.tools = vec![tool.clone()];
            let (harness, run) = taken_over(&db, first, async |_, _| tool.at_work() == 1, Duration::ZERO, ScriptedModel::new([says("Done.")])).await;
            assert_ended(&run, RunStatus::Completed, None);
            assert_eq!(tool.called(), 2, "{name}");
            assert_eq!(harness.calls(run.id).await[0].status, ToolCallStatus::Completed);
            harness.close().await;
        }
    }

    async fn a_built_in_write_happens_once_wherever_the_server_dies(db: TestDb) {
        let message = |n: usize| (0..10).fold(says(format!("Message {n}.")), |say, m| say.and(create(&format!("{n}-{m}"))));
        let first = First::new(vec![with_tools("writer", &["entities_create"])], ScriptedModel::new((0..4).map(message).chain([hangs()])));
        let second = ScriptedModel::new([says("All written."), says("All written.")]);
        // The server is killed at an arbitrary point during forty writes, or after them.
        let (harness, run) = taken_over(
            &db, first, async |harness, run| harness.calls(run.id).await.len() > 12, Duration::ZERO, second,
        ).await;
        assert_ended(&run, RunStatus::Completed, None);
        let calls = harness.calls(run.id).await;
        assert!(calls.iter().all(|call| call.status == ToolCallStatus::Completed), "no key was taken already");
        let rows = content(&db).await;
        assert_eq!(count(&rows, "graph_objects"), calls.len());
        assert_eq!(count(&rows, "graph_object_versions"), 0);
        harness.close().await;
    }

    async fn children_are_not_started_twice(db: TestDb) {
        let tasks: Vec<Value> = (0..3).map(|_| json!({ "agent_name": "worker", "task": "Work." })).collect();
        let model = ScriptedModel::default()
            .agent("parent", [calls("spawn_agents", json!({ "tasks": tasks }))])
            .agent("worker", [says("One."), hangs(), hangs()]);
        let first = First::new(vec![agent("worker"), with_tools("parent", &["spawn_agents"])], model);
        let second = ScriptedModel::default().agent("worker", [says("Two."), says("Three.")]).agent("parent", [says("All.")]);
        let (harness, run) = taken_over(&db, first, async |harness, run| {
            let children = harness.children(run.id).await;
            harness.model.open() == 2 && children.iter().filter(|child| child.status == RunStatus::Completed).count() == 1
        }, Duration::ZERO, second).await;
        assert_ended(&run, RunStatus::Completed, None);
        let children = harness.children(run.id).await;
        assert_eq!(children.len(), 3);
        assert!(children.iter().all(|child| child.status == RunStatus::Completed));
        harness.close().await;
    }

    async fn the_deadline_moves_on_by_the_time_nobody_drove_the_run(db: TestDb) {
        let mut first = First::new(vec![agent("slow")], ScriptedModel::new([hangs()]));
        first.start.timeout_seconds = Some(30);
        let away = Duration::from_secs(3_600);
        let (harness, run) = taken_over(&db, first, async |harness, _| harness.model.open() == 1, away, ScriptedModel::new([says("Done.")])).await;
        assert_ended(&run, RunStatus::Completed, None);
        let moved = run.deadline_base.unwrap().since(run.started_at.unwrap());
        assert!(moved >= away && moved < away + Duration::from_secs(30), "{moved:?}");
        harness.close().await;
    }

    async fn a_run_left_by_a_server_that_stopped_in_good_order_has_its_time_as_well(db: TestDb) {
        let clock = emergent_testkit::fixed_clock();
        let plan = |model: ScriptedModel| HarnessOptions { clock: clock.clone(), ..HarnessOptions::new(model) };
        let first = Harness::with(&db, plan(ScriptedModel::new([hangs()]))).await;
        let slow = first.agent(agent("slow")).await;
        let start = StartOptions { input: "Go.".into(), timeout_seconds: Some(30), ..StartOptions::default() };
        let run = first.executor.trigger(first.actor(), slow.id, start).await.unwrap();
        until("it is asked", async || first.model.open() == 1).await;
        first.close().await;
        clock.advance(Duration::from_secs(3_600));
        let second = Harness::with(&db, plan(ScriptedModel::new([says("Done.")]))).await;
        let run = second.ended(run.id).await;
        assert_ended(&run, RunStatus::Completed, None);
        second.close().await;
    }

    async fn a_summary_that_was_asked_for_is_asked_for_again(db: TestDb) {
        let mut first = First::new(vec![with_tools("looker", &["entities_query"])], ScriptedModel::new([look(0), hangs()]));
        first.start.max_steps = Some(1);
        let second = ScriptedModel::new([says("One type.")]);
        let (harness, run) = taken_over(&db, first, async |harness, _| harness.model.requests().len() == 2, Duration::ZERO, second).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!(run.summary.as_deref(), Some("One type."));
        let request = harness.model.requests().remove(0);
        assert!(request.tools.is_empty() && request.last_text().starts_with("CRITICAL - MAXIMUM STEPS"));
        harness.close().await;
    }

    async fn a_resumed_run_is_recovered_with_the_chains_conversation(db: TestDb) {
        let mut first = First::new(vec![with_tools("looker", &["entities_query"])], ScriptedModel::new([look(0), says("One."), hangs()]));
        first.start.max_steps = Some(1);
        let second = ScriptedModel::new([says("All.")]);
        let server = Server::open(&db, first.plan(&first.model)).await;
        let looker = server.harness.agent(first.agents[0].clone()).await;
        let paused = server.harness.run_with(&looker, first.start.clone()).await;
        let resumed = server.harness.executor.resume(server.harness.actor(), paused.id, None).await.unwrap();
        until("it is asked", async || server.harness.model.open() == 1).await;
        let before = server.harness.model.requests().pop().unwrap();
        server.kill(&db, Duration::ZERO).await;
        let harness = Harness::with(&db, first.plan(&second)).await;
        let run = harness.ended(resumed.id).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!((run.step_count, harness.model.requests().remove(0)), (2, before));
        harness.close().await;
    }

    async fn a_pool_that_grew_meanwhile_gives_a_run_nothing_new(db: TestDb) {
        let model = ScriptedModel::new([look(0), hangs()]);
        let server = Server::open(&db, HarnessOptions::new(model.clone())).await;
        let looker = server.harness.agent(with_tools("looker", &["entities_q*", "probe*"])).await;
        let run = server.harness.start(&looker, "Go.").await;
        until("it is asked again", async || server.harness.model.requests().len() == 2).await;
        server.kill(&db, Duration::ZERO).await;
        let second = ScriptedModel::new([calls("probe", json!({})), says("Done."), says("Fresh.")]);
        let probe = Probe::new("probe", EXTERNAL).build();
        let harness = Harness::with(&db, HarnessOptions::new(second).tool(probe)).await;
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        assert_eq!(harness.model.requests()[0].tools, ["entities_query"]);
        assert!(harness.model.requests()[1].last_text().contains("tool not found"));
        // A run that starts now gets the tools that exist now.
        let fresh = harness.start(&looker, "Go.").await;
        harness.ended(fresh.id).await;
        assert_eq!(harness.model.requests()[2].tools, ["entities_query", "probe"]);
        harness.close().await;
    }

    async fn a_runner_that_lost_a_run_can_write_no_more_to_it(db: TestDb) {
        let model = ScriptedModel::new([create("late").with_delay(Duration::from_millis(400)), says("Done.")]);
        let harness = Harness::open(&db, model).await;
        let writer = harness.agent(with_tools("writer", &["entities_create"])).await;
        let run = harness.start(&writer, "Go.").await;
        until("it is asked", async || harness.model.open() == 1).await;
        // The other runner is alive, because the run of an expired one would be claimed back at once.
        let now = Timestamp::now();
        let taken = db.write(move |tx| {
            claim::register(tx, "another", now + Duration::from_secs(3600), now)?;
            tx.execute("UPDATE agent_runs SET owner = 'another'", &[])
        });
        let taken: Result<u64, emergent_store::Error> = taken.await;
        taken.unwrap();
        let before = content(&db).await;
        until("it is given up", async || harness.executor.driven_count() == 0).await;
        assert_eq!(content(&db).await, before);
        assert_eq!(harness.executor.get_run(harness.project, run.id).await.unwrap().status, RunStatus::Running);
        harness.close().await;
    }
}
