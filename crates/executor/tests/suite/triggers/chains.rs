//! Triggers that run by themselves: agents that trigger one another, and how quickly a trigger fires.

use std::time::Instant;

use emergent_domain::{run::RunStatus, trigger::EventKind};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedReply, calls, says},
};
use tokio::{sync::watch, task::JoinHandle};

use crate::triggers::{support::with_tools, *};

/// Fires triggers until it is dropped.
pub(crate) struct Firing(watch::Sender<bool>, JoinHandle<()>);

impl Firing {
    pub(crate) fn at(harness: &Harness) -> Self {
        let (stop, stopping) = watch::channel(false);
        let executor = harness.executor.clone();
        Self(stop, tokio::spawn(async move { executor.run_triggers(stopping).await }))
    }

    pub(crate) async fn stop(self) {
        let _ = self.0.send(true);
        tokio::time::timeout(Duration::from_secs(5), self.1).await.expect("it stops when told").unwrap();
    }
}

/// The replies of an agent that creates another object of the type it is triggered by.
fn echo(lines: usize) -> Vec<ScriptedReply> {
    let write = || calls("entities_create", json!({ "type": "Note", "properties": {} }));
    (0..lines).flat_map(|_| [write(), says("Written.")]).collect()
}

fn writer(name: &str, trigger: &str, settings: Value) -> AgentDefinition {
    let plain = triggered(name, trigger, settings);
    AgentDefinition { trigger: plain.trigger, config: plain.config, ..with_tools(name, &["entities_create"]) }
}

both_engines! {
    async fn an_agent_that_sets_itself_off_ends_at_depth_three(db: TestDb) {
        let model = ScriptedModel::default().agent("echo", echo(6));
        let harness = Harness::open(&db, model).await;
        harness.agent(writer("echo", "on_entity_created", json!({ "types": ["Note"] }))).await;
        let firing = Firing::at(&harness);
        create(&harness, "Note", json!({})).await;
        until("the chain has ended", async || outcomes(&firings(&harness).await).contains(&"skipped depth".to_owned())).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let runs = runs(&harness).await;
        assert_eq!(runs.iter().map(|run| run.cause_depth).collect::<Vec<_>>(), [0, 1, 2, 3]);
        // Each run names the previous one as its cause, also to the agent.
        let causes: Vec<_> = runs.iter().map(|run| run.cause).collect();
        assert_eq!(causes, [None, Some(runs[0].id), Some(runs[1].id), Some(runs[2].id)]);
        assert_eq!(context(&harness, &runs[1]).await["causedByRun"], json!(runs[0].id));
        assert_eq!(outcomes(&firings(&harness).await), ["admitted", "admitted", "admitted", "admitted", "skipped depth"]);
        firing.stop().await;
        harness.close().await;
    }

    async fn a_chain_through_children_is_no_shorter(db: TestDb) {
        let spawn = || calls("spawn_agents", json!({ "tasks": [{ "agent_name": "hand", "task": "Write." }] }));
        let model = ScriptedModel::default()
            .agent("head", (0..6).flat_map(|_| [spawn(), says("Done.")]))
            .agent("hand", echo(6));
        let harness = Harness::open(&db, model).await;
        harness.agent(with_tools("hand", &["entities_create"])).await;
        let head = triggered("head", "on_entity_created", json!({ "max_depth": 1 }));
        harness.agent(AgentDefinition { trigger: head.trigger, config: head.config, ..with_tools("head", &["spawn_agents"]) }).await;
        let firing = Firing::at(&harness);
        create(&harness, "Note", json!({})).await;
        until("the chain has ended", async || outcomes(&firings(&harness).await).contains(&"skipped depth".to_owned())).await;
        let depths: Vec<_> = runs(&harness).await.iter().map(|run| (run.agent_name.clone(), run.cause_depth)).collect();
        let depths: Vec<_> = depths.iter().map(|(name, depth)| (name.as_str(), *depth)).collect();
        assert_eq!(depths, [("head", 0), ("hand", 0), ("head", 1), ("hand", 1)]);
        firing.stop().await;
        harness.close().await;
    }

    async fn an_event_is_heard_at_once_and_a_schedule_is_on_time(db: TestDb) {
        let model = ScriptedModel::default().agent("notes", [says("Seen.")]);
        let harness = Harness::open(&db, model).await;
        let firing = Firing::at(&harness);
        // The trigger is created while the servers poll, so none has to restart for it.
        triggered_agent(&harness, "notes", "on_entity_created", json!({})).await;
        let began = Instant::now();
        create(&harness, "Note", json!({})).await;
        until("it has run", async || runs(&harness).await.iter().any(|run| run.status == RunStatus::Completed)).await;
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!(harness.executor.list_triggers(harness.project).await.unwrap().events[0].event, EventKind::EntityCreated);
        firing.stop().await;
        harness.close().await;
    }
}
