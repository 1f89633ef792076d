//! Triggers: two servers on one database poll the same schedules and events, and each of them fires
//! once. The test controls the clock and which server polls when.

use crate::support;

mod capacity;
mod chains;
mod events;
mod limited;
mod many;
mod metrics;
mod narrowed;
mod overlap;
mod paused;
mod schedules;
mod suspended;

use std::time::Duration;

use emergent_domain::{
    agent::{Agent, AgentDefinition},
    change::FeedPosition,
    cursor::Page,
    ids::ObjectId,
    object::{NewObject, Object, ObjectPatch},
    run::Run,
    time::Clock,
    trigger::{FiringStatus, Schedule},
};
use emergent_executor::{
    Settings,
    agents::{AgentPatch, Save, UnchangedTrigger},
    history::RunFilter,
    triggers::{FiringFilter, ListedFiring},
};
use emergent_store::{Error, Tx};
use emergent_testkit::{TestDb, fixed_clock, scripted::ScriptedModel};
use serde_json::{Value, json};
use support::{Harness, HarnessOptions, agent, until};
use uuid::Uuid;

/// TwoServers servers without a runner: runs stay queued until the test ends them.
struct TwoServers {
    here: Harness,
    there: Harness,
    clock: Clock,
}

impl TwoServers {
    async fn open(db: &TestDb) -> Self {
        Self::with(db, Settings::default()).await
    }

    async fn with(db: &TestDb, settings: Settings) -> Self {
        let clock = fixed_clock();
        let plan = || {
            let settings = settings.clone();
            HarnessOptions { clock: clock.clone(), settings, ..HarnessOptions::new(ScriptedModel::default()) }
        };
        let second = db.second_connection().await;
        Self { here: Harness::build(db, plan()).await, there: Harness::build(&second, plan()).await, clock }
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Changes the definition of an agent on the other server.
    async fn change(
        &self,
        agent: &Agent,
        change: impl Fn(AgentDefinition) -> AgentDefinition + Send + 'static,
    ) {
        let there = &self.there;
        there.executor.update_agent(there.actor(), agent.id, None, change).await.unwrap();
    }

    /// Saves an agent as it is, in a request that names its trigger.
    async fn name_trigger(&self, agent: &Agent) {
        let (executor, actor) = (&self.there.executor, self.there.actor());
        let named = AgentPatch {
            expected_version: None,
            trigger: UnchangedTrigger::Reactivate,
            sent: None,
            apply: |definition| definition,
        };
        executor.update_agent_with(actor, agent.id, named, Save::Commit).await.unwrap();
    }

    /// Changes the settings of an agent's trigger.
    async fn set(&self, agent: &Agent, settings: Value) {
        let set = move |mut definition: AgentDefinition| {
            definition.config.insert("trigger".into(), settings.clone());
            definition
        };
        self.change(agent, set).await;
    }

    /// Fires the schedules on both servers at once. Returns how many were fired or skipped.
    async fn look(&self) -> usize {
        let (here, there) =
            tokio::join!(self.here.executor.fire_schedules(50), self.there.executor.fire_schedules(50));
        here.unwrap() + there.unwrap()
    }

    /// Reads the feed and fires events on both servers concurrently, until nothing is due.
    async fn settle(&self) {
        let project = self.here.project;
        let work = async |harness: &Harness| {
            for _ in 0..3 {
                harness.executor.read_events(project).await.unwrap();
                harness.executor.fire_events(project, 7).await.unwrap();
            }
        };
        loop {
            tokio::join!(work(&self.here), work(&self.there));
            let now = self.clock.now();
            let due = self
                .firings()
                .await
                .into_iter()
                .any(|one| one.firing.status == FiringStatus::Pending && one.firing.due_at <= now);
            let unread = self
                .here
                .executor
                .graph()
                .db()
                .read(emergent_store::triggers::projects_with_unread_changes)
                .await;
            let unread: Result<_, Error> = unread;
            if !due && unread.unwrap().is_empty() {
                return;
            }
        }
    }

    async fn firings(&self) -> Vec<ListedFiring> {
        firings(&self.here).await
    }

    async fn runs(&self) -> Vec<Run> {
        runs(&self.here).await
    }

    async fn schedule(&self) -> Schedule {
        let mut listed = self.here.executor.list_triggers(self.here.project).await.unwrap().schedules;
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed.remove(0)
    }

    async fn create(&self, type_: &str, properties: Value) -> Object {
        create(&self.here, type_, properties).await
    }

    async fn update(&self, id: ObjectId, properties: Value) -> Object {
        let patch = ObjectPatch { properties: properties.as_object().cloned(), ..ObjectPatch::default() };
        let graph = self.here.executor.graph();
        let object = graph.update_object(self.here.actor(), id, patch).await.unwrap();
        readable(&self.here, object.id.0, object.version).await;
        object
    }
}

async fn create(harness: &Harness, type_: &str, properties: Value) -> Object {
    let properties = properties.as_object().cloned().unwrap_or_default();
    let new = NewObject { type_: type_.into(), properties, ..NewObject::default() };
    let object = harness.executor.graph().create_object(harness.actor(), new).await.unwrap();
    readable(harness, object.id.0, 1).await;
    object
}

/// Waits until a change can be read: on PostgreSQL, only after every earlier transaction has ended.
async fn readable(harness: &Harness, entity: Uuid, version: i64) {
    let graph = harness.executor.graph();
    until("the change can be read", async || {
        let all = graph.changes(harness.project, FeedPosition::default(), 10_000).await.unwrap();
        all.iter().any(|change| (change.entity, change.version) == (entity, version))
    })
    .await;
}

/// Returns the firings, oldest first.
async fn firings(harness: &Harness) -> Vec<ListedFiring> {
    let (mut all, mut page) = (Vec::new(), Page::first(100));
    loop {
        let filter = FiringFilter::default();
        let paged = harness.executor.list_firings(harness.project, filter, page).await.unwrap();
        all.extend(paged.items);
        match paged.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    all.reverse();
    all
}

/// Returns the runs, oldest first.
async fn runs(harness: &Harness) -> Vec<Run> {
    let (mut all, mut page) = (Vec::new(), Page::first(100));
    loop {
        let paged = harness.executor.list_runs(harness.project, RunFilter::default(), page).await.unwrap();
        all.extend(paged.items.into_iter().map(|one| one.run));
        match paged.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    all.reverse();
    all
}

/// Ends all runs with `status`.
async fn end_runs(harness: &Harness, status: &'static str) {
    let end = move |tx: &mut Tx<'_>| {
        tx.execute(
            "UPDATE agent_runs SET status = $1 WHERE status IN ('queued', 'running')",
            &[status.into()],
        )
    };
    let ended: Result<u64, Error> = harness.executor.graph().db().write(end).await;
    ended.unwrap();
}

fn triggered(name: &str, trigger: &str, settings: Value) -> AgentDefinition {
    let mut definition = AgentDefinition { trigger: Some(trigger.into()), ..agent(name) };
    definition.config.insert("trigger".into(), settings);
    definition
}

async fn triggered_agent(harness: &Harness, name: &str, trigger: &str, settings: Value) -> Agent {
    harness.agent(triggered(name, trigger, settings)).await
}

/// Renders the outcome of each firing, oldest first, for example `admitted` or `skipped missed`.
fn outcomes(firings: &[ListedFiring]) -> Vec<String> {
    let outcome = |one: &ListedFiring| match &one.firing.reason {
        Some(reason) => format!("{} {reason}", one.firing.status),
        None => one.firing.status.to_string(),
    };
    firings.iter().map(outcome).collect()
}

/// Returns the context that the agent was given, from its first message.
async fn context(harness: &Harness, run: &Run) -> Value {
    let timeline = harness.timeline(run.id).await;
    let text = timeline.split("Context:\n").nth(1).unwrap_or_else(|| panic!("no context: {timeline}"));
    serde_json::Deserializer::from_str(text).into_iter::<Value>().next().unwrap().unwrap_or(json!(null))
}
