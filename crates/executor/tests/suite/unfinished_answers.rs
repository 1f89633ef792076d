//! Runs whose time ends while their models write, and children whose parent's time ends as well: what was streamed is
//! their result.

use crate::support;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_domain::run::{Reason, Run, RunStatus};
use emergent_executor::StartOptions;
use emergent_llm::{Answer, ChatRequest, Delta, Error, Models, Provider};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, calls, hangs, hangs_after, says},
};
use serde_json::{Value, json};
use support::{Harness, HarnessOptions, assert_ended, with_tools};
use tokio::time::sleep;

/// The children still sum up when the time of their parent is up.
const LONG_GRACE: Duration = Duration::from_secs(30);
const SHORT_GRACE: Duration = Duration::from_millis(300);
const WORD_INTERVAL: Duration = Duration::from_millis(50);

fn text(words: usize) -> String {
    (0..words).map(|number| format!("w{number} ")).collect()
}

/// A model of which the agent `worker` gets a word now and then, without an end. The others get scripted replies.
struct SlowModel(ScriptedModel);

#[async_trait]
impl Provider for SlowModel {
    fn name(&self) -> &str {
        self.0.name()
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        if request.meta.agent != "worker" {
            return self.0.chat(request, on_delta).await;
        }
        for number in 0.. {
            sleep(WORD_INTERVAL).await;
            on_delta(Delta::Text(format!("w{number} ")));
        }
        unreachable!("the words have no end")
    }
}

/// Runs `parent` for two seconds, which starts these agents for one second each. Returns them in this order, with what
/// the parent reads about them.
async fn run_out_of_time(db: &TestDb, plan: HarnessOptions, children: &[&str]) -> (Harness, Vec<Run>, Value) {
    let tasks: Vec<Value> =
        children.iter().map(|name| json!({ "agent_name": name, "task": "Work." })).collect();
    plan.model.add("parent", [calls("spawn_agents", json!({ "tasks": tasks })), says("Time was up.")]);
    let harness = Harness::with(db, plan.grace(LONG_GRACE)).await;
    for name in children {
        harness.agent(with_tools(name, &["entities_query"])).await;
    }
    let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
    let start = StartOptions { input: "Go.".into(), timeout_seconds: Some(2), ..StartOptions::default() };
    let run = harness.run_with(&parent, start).await;
    assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
    let mut runs = harness.children(run.id).await;
    runs.sort_by_key(|child| child.child_index);
    let results = harness.answers(run.id).await.remove(0);
    for child in &runs {
        assert_ended(child, RunStatus::Paused, Some(Reason::Timeout));
    }
    (harness, runs, results)
}

both_engines! {
    async fn a_child_that_is_stopped_while_it_writes_its_summary_keeps_the_words_that_it_wrote(db: TestDb) {
        let model = ScriptedModel::default();
        let models = Models::default().with_provider(Arc::new(SlowModel(model.clone())));
        let plan = HarnessOptions { models: Some(models), ..HarnessOptions::new(model) };
        let (harness, children, results) = run_out_of_time(&db, plan, &["worker"]).await;
        let summary = children[0].summary.clone().unwrap();
        // The summary begins anew, after the words of the answer that the deadline dropped.
        let (answer, summing_up) = summary.split_once("\n\n").unwrap();
        for part in [answer, summing_up] {
            let words = part.split_whitespace().count();
            assert!(words > 2 && part == text(words), "{summary}");
        }
        assert_eq!(results[0]["summary"], json!(summary));
        harness.close().await;
    }

    async fn a_summary_that_is_not_finished_in_time_keeps_the_answer_before_it(db: TestDb) {
        let model = ScriptedModel::new([hangs_after("finding0 finding1"), hangs_after("To")]);
        let harness = Harness::with(&db, HarnessOptions::new(model).grace(SHORT_GRACE)).await;
        let slow = harness.agent(with_tools("slow", &["entities_query"])).await;
        let start = StartOptions { input: "Go.".into(), timeout_seconds: Some(1), ..StartOptions::default() };
        let run = harness.run_with(&slow, start).await;
        assert_ended(&run, RunStatus::Paused, Some(Reason::Timeout));
        assert_eq!(run.summary.as_deref(), Some("finding0 finding1\n\nTo"));
        harness.close().await;
    }

    async fn text_that_was_streamed_is_the_partial_result_of_a_child_that_its_parent_stops(db: TestDb) {
        let looks = || says("I look.").and(calls("entities_query", json!({ "type": "T" })));
        let model = ScriptedModel::default()
            .agent("dropped", [hangs_after("Bees\0 have fi"), hangs()])
            .agent("summing", [hangs_after("Bees have fi"), hangs_after("So far: be")])
            .agent("recorded", [looks(), hangs_after("Bees have fi"), hangs()])
            .agent("continued", [says("I found one, ").truncated(), hangs_after("and tw"), hangs()])
            .agent("silent", [hangs(), hangs()]);
        let names = ["dropped", "summing", "recorded", "continued", "silent"];
        let (harness, children, results) = run_out_of_time(&db, HarnessOptions::new(model), &names).await;
        let expected =
            [
                "Bees\u{fffd} have fi",
                "Bees have fi\n\nSo far: be",
                "I look.\n\nBees have fi",
                "I found one, and tw",
            ];
        for (index, expected) in expected.into_iter().enumerate() {
            assert_eq!(children[index].summary.as_deref(), Some(expected), "{}", names[index]);
            assert_eq!(results[index]["summary"], json!(expected), "{}", names[index]);
        }
        let nothing = children[4].summary.as_deref().unwrap();
        assert!(nothing.contains("wrote no text"), "{nothing}");
        harness.close().await;
    }
}
