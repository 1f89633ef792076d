//! The step limit of a run, and what happens when it is reached.

use crate::support;

use emergent_domain::run::{Reason, RunStatus, ToolCallStatus};
use emergent_executor::{Error, StartOptions};
use emergent_store::{Db, Tx};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use serde_json::json;
use support::{Harness, agent, assert_ended, with_tools};

/// The exact text that the model is sent at the limit.
const STEPS_REACHED: &str = "CRITICAL - MAXIMUM STEPS REACHED

Tools are disabled. Respond with text only.

Your response MUST include:
- Summary of what has been accomplished so far
- List of any remaining tasks that were not completed
- Recommendations for what should be done next";

/// Steps that differ from each other, so that none counts as a loop.
fn steps(from: usize, to: usize) -> impl Iterator<Item = ScriptedReply> {
    (from..to).map(|step| calls("entities_query", json!({ "type": format!("T{step}") })))
}

fn limited(max_steps: i64) -> StartOptions {
    StartOptions { input: "Go.".into(), max_steps: Some(max_steps), ..StartOptions::default() }
}

/// Sets the step count of all existing runs.
async fn pretend_steps(db: &Db, steps: i64) {
    let work = move |tx: &mut Tx<'_>| tx.execute("UPDATE agent_runs SET step_count = $1", &[steps.into()]);
    let done: Result<u64, emergent_store::Error> = db.write(work).await;
    done.unwrap();
}

both_engines! {
    async fn n_steps_have_tools_and_the_summary_after_them_has_none(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new(steps(0, 2).chain([says("Two types looked at.")]))).await;
        let agent = harness.agent(with_tools("looker", &["entities_query"])).await;
        let run = harness.run_with(&agent, limited(2)).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!(run.summary.as_deref(), Some("Two types looked at."));
        assert_eq!(run.step_count, 2, "the summary is no step");
        let asked = harness.model.requests();
        let tools: Vec<usize> = asked.iter().map(|asked| asked.tools.len()).collect();
        assert_eq!(tools, [1, 1, 0]);
        assert_eq!(asked[2].last_text(), STEPS_REACHED);
        let timeline = harness.timeline(run.id).await;
        assert!(timeline.contains("limit step_limit\n2 user: [step_limit]\n2 assistant: Two types"), "{timeline}");
        harness.close().await;
    }

    async fn a_run_that_answers_within_its_steps_is_not_asked_for_a_summary(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new(steps(0, 1).chain([says("Done.")]))).await;
        let agent = harness.agent(with_tools("looker", &["entities_query"])).await;
        let run = harness.run_with(&agent, limited(2)).await;
        assert_ended(&run, RunStatus::Completed, None);
        assert_eq!(run.step_count, 2);
        harness.close().await;
    }

    async fn a_tool_call_in_the_summary_is_refused_and_the_run_ends_all_the_same(db: TestDb) {
        let last = says("Nothing yet.").and(calls("entities_create", json!({ "objects": [{ "type": "Sneaked" }] })));
        let harness = Harness::open(&db, ScriptedModel::new(steps(0, 1).chain([last]))).await;
        let agent = harness.agent(with_tools("sneak", &["entities_*"])).await;
        let run = harness.run_with(&agent, limited(1)).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!(run.summary.as_deref(), Some("Nothing yet."));
        let refused = harness.calls(run.id).await.pop().unwrap();
        assert_eq!((refused.tool.as_str(), refused.status), ("entities_create", ToolCallStatus::Error));
        assert!(refused.output.unwrap()["error"].as_str().unwrap().contains("tools are disabled"));
        let content = support::server::content(&db).await;
        assert!(!content.iter().any(|row| row.starts_with("graph_objects ")), "nothing was written");
        harness.close().await;
    }

    async fn a_summary_that_says_nothing_leaves_what_was_known_before(db: TestDb) {
        let first = says("So far: one type.").and(calls("entities_query", json!({ "type": "T" })));
        let harness = Harness::open(&db, ScriptedModel::new([first, says("  ")])).await;
        let agent = harness.agent(with_tools("mumbler", &["entities_query"])).await;
        let run = harness.run_with(&agent, limited(1)).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!(run.summary.as_deref(), Some("So far: one type."));
        harness.close().await;
    }

    async fn what_the_start_says_goes_before_what_the_definition_says(db: TestDb) {
        let harness = Harness::build(&db, support::HarnessOptions::new(ScriptedModel::new([]))).await;
        let mut definition = agent("walker");
        definition.max_steps = Some(7);
        let walker = harness.agent(definition).await;
        assert_eq!(harness.start(&walker, "Go.").await.max_steps, Some(7));
        let run = harness.executor.trigger(harness.actor(), walker.id, limited(3)).await.unwrap();
        assert_eq!(run.max_steps, Some(3));
        let none = harness.executor.trigger(harness.actor(), walker.id, limited(0)).await.unwrap_err();
        assert!(matches!(none, Error::Invalid(_)), "{none}");
    }

    async fn a_run_at_the_top_has_no_limit_of_its_own_and_a_spawned_one_has_fifty(db: TestDb) {
        let task = json!({ "tasks": [{ "agent_name": "worker", "task": "Work." }] });
        let model = ScriptedModel::new([calls("spawn_agents", task), says("Done.")]).agent("worker", [says("Worked.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(agent("worker")).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        assert_eq!(run.max_steps, None);
        assert_eq!(harness.children(run.id).await[0].max_steps, Some(50));
        harness.close().await;
    }

    async fn a_spawned_run_is_told_to_sum_up_after_fifty_steps(db: TestDb) {
        let task = json!({ "tasks": [{ "agent_name": "worker", "task": "Work." }] });
        let model = ScriptedModel::new([calls("spawn_agents", task), says("Done.")])
            .agent("worker", steps(0, 50).chain([says("Fifty types.")]));
        let harness = Harness::open(&db, model).await;
        harness.agent(with_tools("worker", &["entities_query"])).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let child = harness.children(run.id).await.remove(0);
        assert_ended(&child, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!(child.step_count, 50);
        harness.close().await;
    }

    async fn a_chain_of_resumed_runs_has_five_hundred_steps_in_total(db: TestDb) {
        let model = ScriptedModel::new(steps(0, 1).chain([says("One.")]).chain(steps(1, 3)).chain([says("All.")]));
        let harness = Harness::open(&db, model).await;
        let agent = harness.agent(with_tools("looker", &["entities_query"])).await;
        let first = harness.run_with(&agent, StartOptions { input: "Go.".into(), max_steps: Some(1), ..StartOptions::default() }).await;
        pretend_steps(&db, 498).await;
        let second = harness.executor.resume(harness.actor(), first.id, None).await.unwrap();
        let second = harness.ended(second.id).await;
        // The run may take one step of its own, although two are left in total.
        assert_eq!((second.step_count, second.status), (499, RunStatus::Paused));
        harness.close().await;
    }

    async fn a_run_without_a_limit_sums_up_at_the_total(db: TestDb) {
        let model = ScriptedModel::new(steps(0, 1).chain([says("One.")]));
        let harness = Harness::open(&db, model).await;
        let looker = harness.agent(with_tools("looker", &["entities_query"])).await;
        let first = harness.run_with(&looker, limited(1)).await;
        let unlimited = |tx: &mut Tx<'_>| {
            tx.execute("UPDATE agent_runs SET step_count = 498, max_steps = NULL", &[])
        };
        let done: Result<u64, emergent_store::Error> = db.write(unlimited).await;
        done.unwrap();
        harness.model.add("", steps(1, 3).chain([says("All.")]));
        let second = harness.resumed(first.id).await;
        assert_ended(&second, RunStatus::Paused, Some(Reason::StepLimit));
        assert_eq!((second.step_count, second.summary.as_deref()), (500, Some("All.")));
        let refused = harness.executor.resume(harness.actor(), second.id, None).await.unwrap_err();
        assert!(matches!(&refused, Error::Conflict(why) if why.contains("500")), "{refused}");
        harness.close().await;
    }
}
