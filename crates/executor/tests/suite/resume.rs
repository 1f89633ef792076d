//! Resuming a paused run.

use crate::support;

use emergent_domain::{
    agent::Agent,
    run::{Reason, Run, RunStatus},
};
use emergent_executor::{Error, StartOptions};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, hangs, says},
};
use serde_json::json;
use support::{Harness, agent, assert_ended, until, with_tools};

fn look(n: usize) -> ScriptedReply {
    calls("entities_query", json!({ "type": format!("T{n}") }))
}

/// Returns a run that is paused after two steps; `more` are the replies for later runs.
async fn paused(db: &TestDb, more: Vec<ScriptedReply>) -> (Harness, Agent, Run) {
    let script = vec![look(0), look(1), says("Two so far.")];
    let harness = Harness::open(db, ScriptedModel::new(script.into_iter().chain(more))).await;
    let agent = harness.agent(with_tools("looker", &["entities_query"])).await;
    let start =
        StartOptions { input: "Look at everything.".into(), max_steps: Some(2), ..StartOptions::default() };
    let run = harness.run_with(&agent, start).await;
    assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
    (harness, agent, run)
}

both_engines! {
    async fn a_resumed_run_is_a_new_run_that_goes_on_with_the_conversation(db: TestDb) {
        let (harness, _, first) = paused(&db, vec![says("That was all.")]).await;
        let before = harness.model.requests().pop().unwrap();
        let second = harness.resumed(first.id).await;
        assert_ended(&second, RunStatus::Completed, None);
        assert_ne!(second.id, first.id);
        assert_eq!(second.resumed_from, Some(first.id));
        let after = harness.model.requests().pop().unwrap();
        assert_eq!(after.turns[..before.turns.len()], before.turns, "what was said before is unchanged");
        let new: Vec<String> = after.turns[before.turns.len()..].iter().map(|turn| turn.text()).collect();
        assert_eq!(new, ["Two so far.", "Continue your work."]);
        assert_eq!(after.system, before.system);
        assert_eq!(harness.ended(first.id).await, first, "the paused run stays as it was");
        harness.close().await;
    }

    async fn what_is_said_at_the_resumption_is_told_to_the_model(db: TestDb) {
        let (harness, _, first) = paused(&db, vec![says("Seen.")]).await;
        let second = harness.executor.resume(harness.actor(), first.id, Some("Look at T9 too.".into())).await.unwrap();
        harness.ended(second.id).await;
        let prompt = harness.model.requests().pop().unwrap().last_text();
        assert_eq!(prompt, "Continue your work. Here is additional context: Look at T9 too.");
        harness.close().await;
    }

    async fn the_step_counter_goes_on_and_the_budget_is_fresh(db: TestDb) {
        let (harness, _, first) = paused(&db, vec![look(2), look(3), says("Four so far.")]).await;
        let second = harness.resumed(first.id).await;
        assert_ended(&second, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!((first.step_count, second.step_count, second.max_steps), (2, 4, Some(2)));
        let steps: Vec<i64> = harness.calls(second.id).await.iter().map(|call| call.step).collect();
        assert_eq!(steps, [3, 4]);
        harness.close().await;
    }

    async fn a_chain_of_three_tells_the_model_all_of_it(db: TestDb) {
        let more = vec![look(2), look(3), says("Four so far."), says("All.")];
        let (harness, _, first) = paused(&db, more).await;
        let second = harness.resumed(first.id).await;
        let third = harness.resumed(second.id).await;
        assert_ended(&third, RunStatus::Completed, None);
        let turns = harness.model.requests().pop().unwrap().turns;
        let results = turns.iter().filter(|turn| turn.speaker == emergent_domain::chat::Speaker::Tools).count();
        assert_eq!((results, turns[0].text()), (4, "Look at everything.".to_owned()));
        let detail = harness.executor.run_detail(harness.project, third.id).await.unwrap();
        assert_eq!(detail.resume_chain, [second.id, first.id]);
        harness.close().await;
    }

    async fn only_a_paused_run_can_be_resumed(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says("Done.")])).await;
        let worker = harness.agent(agent("worker")).await;
        let completed = harness.run(&worker, "Go.").await;
        let failed = harness.run(&worker, "Go.").await;
        assert_ended(&failed, RunStatus::Failed, Some(Reason::Provider));
        harness.model.add("", [hangs(), hangs()]);
        let cancelled = harness.start(&worker, "Go.").await;
        harness.executor.cancel(harness.actor(), cancelled.id).await.unwrap();
        let running = harness.start(&worker, "Go.").await;
        until("it runs", async || harness.model.open() == 1).await;
        for run in [completed.id, failed.id, cancelled.id, running.id] {
            let refused = harness.executor.resume(harness.actor(), run, None).await.unwrap_err();
            assert!(matches!(&refused, Error::Conflict(why) if why.contains("only a paused run")), "{refused}");
        }
        harness.executor.cancel(harness.actor(), running.id).await.unwrap();
        harness.close().await;
    }

    async fn a_paused_run_is_resumed_once_whoever_tries(db: TestDb) {
        let (harness, _, first) = paused(&db, vec![says("All.")]).await;
        let tries = (0..8).map(|_| {
            let (executor, actor, id) = (harness.executor.clone(), harness.actor(), first.id);
            tokio::spawn(async move { executor.resume(actor, id, None).await })
        });
        let mut resumed = Vec::new();
        for tried in tries.collect::<Vec<_>>() {
            match tried.await.unwrap() {
                Ok(run) => resumed.push(run.id),
                Err(Error::Conflict(why)) => assert!(why.contains("already resumed"), "{why}"),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(resumed.len(), 1);
        harness.ended(resumed[0]).await;
        harness.close().await;
    }

    async fn a_run_of_an_agent_that_is_gone_cannot_be_resumed(db: TestDb) {
        let (harness, agent, first) = paused(&db, vec![]).await;
        harness.executor.delete_agent(harness.actor(), agent.id).await.unwrap();
        let refused = harness.executor.resume(harness.actor(), first.id, None).await.unwrap_err();
        assert!(matches!(&refused, Error::Conflict(why) if why.contains("was deleted")), "{refused}");
        harness.close().await;
    }

    async fn a_resumed_child_stays_as_deep_as_it_was(db: TestDb) {
        let task = json!({ "tasks": [{ "agent_name": "worker", "task": "Work." }] });
        let model = ScriptedModel::default()
            .agent("parent", [calls("spawn_agents", task), says("Half.")])
            .agent("worker", [look(0), says("Half."), says("Whole.")]);
        let harness = Harness::open(&db, model).await;
        let mut worker = with_tools("worker", &["entities_query", "spawn_agents"]);
        worker.max_steps = Some(1);
        harness.agent(worker).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let child = harness.children(run.id).await.remove(0);
        let resumed = harness.resumed(child.id).await;
        assert_eq!((resumed.depth, resumed.status), (1, RunStatus::Completed));
        let tools = harness.model.requests_of("worker").pop().unwrap().tools;
        assert_eq!(tools, ["entities_query"], "resuming gives it no tools it did not have");
        harness.close().await;
    }

    async fn a_run_that_ran_out_of_time_goes_on_with_the_same_time_anew(db: TestDb) {
        let model = ScriptedModel::new([hangs(), says("Not done."), says("Done.")]);
        let harness = Harness::open(&db, model).await;
        let slow = harness.agent(agent("slow")).await;
        let start = StartOptions { input: "Go.".into(), timeout_seconds: Some(1), ..StartOptions::default() };
        let first = harness.run_with(&slow, start).await;
        assert_ended(&first, RunStatus::Paused, Some(Reason::Timeout));
        let second = harness.resumed(first.id).await;
        assert_ended(&second, RunStatus::Completed, None);
        assert_eq!(second.timeout_seconds, 1);
        harness.close().await;
    }
}
