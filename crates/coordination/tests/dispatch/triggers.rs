//! Schedules and events start workflows.

use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, WorkflowId},
    object::NewObject,
    task::NewTask,
    trigger::FiringStatus,
    workflow::TriggerOrigin,
    workflow_template::WorkflowTemplate,
};
use emergent_executor::triggers::{FiringFilter, ListedFiring, WorkflowTriggerSpec};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};
use serde_json::{Value, json};

use crate::harness::{House, task};

fn spec(name: &str, trigger: &str, config: Value, tasks: Vec<NewTask>) -> WorkflowTriggerSpec {
    let dispatch = WorkflowTemplate { tasks: Some(tasks), ..WorkflowTemplate::default() };
    WorkflowTriggerSpec { name: name.into(), trigger: trigger.parse().unwrap(), config, dispatch }
}

async fn save(house: &House, spec: WorkflowTriggerSpec) {
    house.dispatcher.executor().put_workflow_trigger(house.actor(), spec).await.unwrap();
}

/// Makes every schedule due.
async fn make_due(house: &House) {
    let now = house.graph().clock().now();
    let set = move |tx: &mut emergent_store::Tx<'_>| {
        tx.execute("UPDATE schedules SET next_at = $1", emergent_store::params![now])
    };
    let set: Result<u64, emergent_store::Error> = house.graph().db().write(set).await;
    assert_eq!(set.unwrap(), 1);
}

async fn firings(house: &House) -> Vec<ListedFiring> {
    let executor = house.dispatcher.executor();
    executor.list_firings(house.project, FiringFilter::default(), Page::first(20)).await.unwrap().items
}

async fn workflow_ids(house: &House) -> Vec<WorkflowId> {
    let all = house.dispatcher.workflows(house.project, None, Page::first(20)).await.unwrap();
    all.items.into_iter().map(|workflow| workflow.id).collect()
}

/// Reads the feed until a change was read. On PostgreSQL a transaction of any other database of the cluster hides
/// new changes until it ends.
async fn read_events(house: &House) {
    for _ in 0..500 {
        if house.dispatcher.executor().read_events(house.project).await.unwrap() > 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the feed shows no change after five seconds");
}

async fn person(house: &House) -> ObjectId {
    let new = NewObject { type_: "Person".into(), key: Some("ada".into()), ..NewObject::default() };
    house.graph().create_object(house.actor(), new).await.unwrap().id
}

both_engines! {
    async fn a_schedule_starts_one_workflow_each_time_it_is_due(db: TestDb) {
        let lines = (0..2).map(|_| says("Done."));
        let house = House::open(&db, ScriptedModel::default().agent("builder", lines)).await;
        house.agents(&["builder"]).await;
        save(&house, spec("weekly", "0 9 * * MON", Value::Null, vec![task("build", "builder", &[])])).await;
        make_due(&house).await;
        let executor = house.dispatcher.executor();
        let (one, two) = tokio::join!(executor.fire_workflow_schedules(5), executor.fire_workflow_schedules(5));
        assert_eq!(one.unwrap() + two.unwrap(), 1, "two servers fire it once");
        let ids = workflow_ids(&house).await;
        let shown = house.completed(ids[0]).await;
        assert_eq!(ids.len(), 1);
        assert!(matches!(&shown.workflow.origin.trigger, Some(TriggerOrigin::Schedule { name, .. }) if name == "weekly"));
        let fired = firings(&house).await;
        assert_eq!((fired.len(), fired[0].firing.status, fired[0].firing.workflow), (1, FiringStatus::Admitted, Some(ids[0])));
        let triggers = executor.list_triggers(house.project).await.unwrap();
        assert_eq!(triggers.schedules[0].last_workflow, Some(ids[0]));
        assert!(triggers.schedules[0].next_at.is_some_and(|next| next > house.graph().clock().now()));
        make_due(&house).await;
        assert_eq!(executor.fire_workflow_schedules(5).await.unwrap(), 1);
        assert_eq!(workflow_ids(&house).await.len(), 2);
        executor.delete_workflow_trigger(house.actor(), "weekly".into()).await.unwrap();
        assert!(executor.list_triggers(house.project).await.unwrap().schedules.is_empty());
        house.close().await;
    }

    async fn a_workflow_that_cannot_start_is_a_recorded_failure(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder"]).await;
        save(&house, spec("weekly", "0 9 * * MON", Value::Null, vec![task("build", "builder", &[])])).await;
        let executor = house.dispatcher.executor();
        let builder = executor.find_agent(house.project, "builder").await.unwrap();
        executor.delete_agent(house.actor(), builder.id).await.unwrap();
        make_due(&house).await;
        assert_eq!(executor.fire_workflow_schedules(5).await.unwrap(), 1);
        let fired = firings(&house).await;
        assert_eq!((fired.len(), fired[0].firing.status), (1, FiringStatus::Refused));
        assert!(fired[0].firing.reason.as_ref().unwrap().contains("there is no agent `builder`"));
        assert!(workflow_ids(&house).await.is_empty(), "nothing of it is left");
        assert_eq!(executor.fire_workflow_schedules(5).await.unwrap(), 0, "the next time is set");
        house.close().await;
    }

    async fn an_event_starts_one_workflow_which_knows_the_event(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("builder", [says("Greeted.")])).await;
        house.agents(&["builder"]).await;
        save(&house, spec("greet", "on_entity_created", Value::Null, vec![task("greet", "builder", &[])])).await;
        let ada = person(&house).await;
        let executor = house.dispatcher.executor();
        read_events(&house).await;
        let (one, two) = tokio::join!(
            executor.fire_workflow_events(house.project, 5), executor.fire_workflow_events(house.project, 5));
        assert_eq!(one.unwrap() + two.unwrap(), 1);
        assert_eq!(executor.fire_events(house.project, 5).await.unwrap(), 0, "no agent is started");
        let ids = workflow_ids(&house).await;
        let shown = house.completed(ids[0]).await;
        assert!(matches!(&shown.workflow.origin.trigger, Some(TriggerOrigin::Event { entity, .. }) if *entity == ada.0));
        assert!(house.prompt(shown.tasks[0].runs[0]).await.contains(&ada.to_string()));
        // The workflow has written tasks and sessions, which are objects as well.
        read_events(&house).await;
        assert_eq!(executor.fire_workflow_events(house.project, 5).await.unwrap(), 0);
        assert_eq!(workflow_ids(&house).await.len(), 1);
        house.close().await;
    }

    async fn a_trigger_is_checked_as_a_dispatch_when_it_is_saved(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder"]).await;
        let hidden = emergent_domain::agent::AgentDefinition {
            visibility: emergent_domain::agent::Visibility::Internal,
            config: json!({ "dispatchable": true }).as_object().cloned().unwrap(),
            ..emergent_domain::agent::AgentDefinition::new("hidden")
        };
        house.dispatcher.executor().create_agent(house.actor(), hidden).await.unwrap();
        let cron = "0 9 * * MON";
        let fine = || vec![task("a", "builder", &[])];
        for (wrong, field) in [
            (spec("t", cron, Value::Null, vec![task("a", "hidden", &[])]), "dispatch.tasks[0].assignedAgent"),
            (spec("t", cron, Value::Null, vec![task("a", "builder", &["b"])]), "dispatch.tasks[0].blockedBy[0]"),
            (spec("t", cron, Value::Null, Vec::new()), "dispatch.tasks"),
            (spec("t", cron, json!({ "input": "x" }), fine()), "config.input"),
            (spec("t", "on_entity_created", json!({ "types": ["SpecTask"] }), fine()), "config.types"),
            (spec("agent:t", cron, Value::Null, fine()), "name"),
        ] {
            let refused = house.dispatcher.executor().put_workflow_trigger(house.actor(), wrong).await.unwrap_err();
            let emergent_executor::Error::Invalid(invalid) = refused else { panic!("{refused}") };
            assert_eq!(invalid.problems[0].field, field, "{invalid}");
        }
        assert!(house.dispatcher.executor().list_triggers(house.project).await.unwrap().schedules.is_empty());
        house.close().await;
    }
}
