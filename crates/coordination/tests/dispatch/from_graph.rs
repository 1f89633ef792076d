//! Tasks that are in the graph already, whoever made them, are executed.

use std::time::Duration;

use emergent_coordination::{ExistingTasks, TaskSelection};
use emergent_domain::{
    filter::{Filter, Op},
    ids::ObjectId,
    object::NewObject,
    project::ProjectPatch,
    relationship::NewRelationship,
    task::TaskStatus,
    workflow::{Workflow, WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

use crate::harness::{House, task};

/// Somebody makes a task as a plain object.
pub async fn loose_task(house: &House, properties: Value) -> ObjectId {
    let Value::Object(properties) = properties else { panic!("properties are an object") };
    let new = NewObject { type_: "SpecTask".into(), properties, ..NewObject::default() };
    house.graph().create_object(house.actor(), new).await.unwrap().id
}

pub async fn block(house: &House, from: ObjectId, to: ObjectId) {
    let new =
        NewRelationship { type_: "blocks".into(), from, to, properties: Default::default(), weight: None };
    house.graph().create_relationship(house.actor(), new).await.unwrap();
}

pub fn existing(selection: TaskSelection) -> ExistingTasks {
    ExistingTasks { selection, settings: WorkflowSettings::default() }
}

pub async fn start(house: &House, selection: TaskSelection) -> Workflow {
    house.dispatcher.dispatch_existing(house.actor(), existing(selection)).await.unwrap()
}

async fn refusal(house: &House, selection: TaskSelection) -> String {
    house.dispatcher.dispatch_existing(house.actor(), existing(selection)).await.unwrap_err().to_string()
}

both_engines! {
    async fn tasks_of_the_graph_are_done_with_everything_that_is_joined_to_them(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("finder", [says("Tags are flat.")])
            .agent("builder", [says("Built."), says("Told.")]);
        let house = House::open(&db, model).await;
        house.agents(&["finder", "builder"]).await;
        let find = loose_task(&house, json!({ "title": "Find out", "assigned_agent": "finder" })).await;
        let build = loose_task(&house, json!({ "title": "Build it", "assigned_agent": "builder", "key": "build" })).await;
        let tell = loose_task(&house, json!({ "title": "Build it", "assigned_agent": "builder", "key": "build" })).await;
        let other = loose_task(&house, json!({ "title": "Something else", "assigned_agent": "builder" })).await;
        block(&house, find, build).await;
        block(&house, build, tell).await;
        let workflow = start(&house, TaskSelection::Ids(vec![build])).await;
        let shown = house.completed(workflow.id).await;
        let mut keys: Vec<&str> = shown.tasks.iter().map(|one| one.task.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["build", "build-2", "find-out"], "each has a name of its own");
        let build = shown.tasks.iter().find(|one| one.task.id == build).unwrap();
        assert_eq!(build.blocked_by, ["find-out"]);
        assert!(house.prompt(build.runs[0]).await.contains("Tags are flat."));
        let other = house.graph().get_object(house.project, other).await.unwrap();
        assert_eq!(emergent_domain::task::Task::from_object(&other).status, TaskStatus::Pending);
        house.close().await;
    }

    async fn a_root_or_a_query_chooses_the_tasks_of_the_graph(db: TestDb) {
        let lines = (0..4).map(|_| says("Done."));
        let house = House::open(&db, ScriptedModel::default().agent("builder", lines)).await;
        house.agents(&["builder"]).await;
        let one = loose_task(&house, json!({ "title": "One", "kind": "a", "assigned_agent": "builder" })).await;
        let two = loose_task(&house, json!({ "title": "Two", "kind": "b", "assigned_agent": "builder" })).await;
        loose_task(&house, json!({ "title": "Three", "kind": "b", "assigned_agent": "builder" })).await;
        block(&house, one, two).await;
        let root = house.completed(start(&house, TaskSelection::Root(two)).await.id).await;
        assert_eq!(root.tasks.len(), 2);
        let of_kind = |kind: &str| TaskSelection::Query {
            labels: Vec::new(),
            filters: vec![Filter { path: "kind".into(), op: Op::Eq, value: Some(json!(kind)) }],
        };
        let misspelt = refusal(&house, of_kind("reserch")).await;
        assert!(misspelt.contains("`query`: does not match the only pending task without a workflow"), "{misspelt}");
        loose_task(&house, json!({ "title": "Four", "kind": "c", "assigned_agent": "builder" })).await;
        let label = TaskSelection::Query { labels: vec!["nolabel".into()], filters: Vec::new() };
        let unlabelled = refusal(&house, label).await;
        assert!(unlabelled.contains("matches none of the 2 pending tasks without a workflow"), "{unlabelled}");
        let found = house.completed(start(&house, of_kind("b")).await.id).await;
        assert_eq!(found.tasks.len(), 1, "a task of another workflow is not taken twice");
        house.completed(start(&house, of_kind("c")).await.id).await;
        assert!(refusal(&house, of_kind("b")).await.contains("no pending task"));
        house.close().await;
    }

    async fn tasks_that_cannot_be_done_are_refused_and_nothing_is_written(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("builder", [says("Done.")])).await;
        house.agents(&["builder"]).await;
        let hidden = emergent_domain::agent::AgentDefinition {
            visibility: emergent_domain::agent::Visibility::Internal,
            model: ScriptedModel::MODEL.parse().ok(),
            ..emergent_domain::agent::AgentDefinition::new("hidden")
        };
        house.dispatcher.executor().create_agent(house.actor(), hidden).await.unwrap();
        let wish = loose_task(&house, json!({ "title": "Read secrets", "assigned_agent": "hidden" })).await;
        let refused = refusal(&house, TaskSelection::Ids(vec![wish])).await;
        assert!(refused.contains("`hidden`") && refused.contains("dispatchable"), "{refused}");
        let nobody = ObjectId::new();
        let refused = refusal(&house, TaskSelection::Ids(vec![wish, nobody])).await;
        assert!(refused.contains(&format!("there is no task `{nobody}`")), "{refused}");
        let id = house.dispatch(vec![task("own", "builder", &[])]).await;
        let own = house.completed(id).await.tasks[0].task.id;
        let refused = refusal(&house, TaskSelection::Root(own)).await;
        assert!(refused.contains("belongs to the workflow"), "{refused}");
        let wish = house.graph().get_object(house.project, wish).await.unwrap();
        assert_eq!(emergent_domain::task::Task::from_object(&wish).workflow, None);
        house.close().await;
    }

    async fn a_task_that_waits_for_one_that_was_skipped_is_refused_with_its_name(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder"]).await;
        let new = |key: &str| json!({ "title": format!("The {key}"), "key": key, "assigned_agent": "builder" });
        let (first, second) = (loose_task(&house, new("u-a")).await, loose_task(&house, new("u-b")).await);
        let third = loose_task(&house, new("u-c")).await;
        block(&house, first, second).await;
        block(&house, second, third).await;
        let skipped = json!({ "status": "skipped" }).as_object().unwrap().clone();
        let patch = emergent_domain::object::ObjectPatch { properties: Some(skipped), ..Default::default() };
        house.graph().update_object(house.actor(), first, patch).await.unwrap();
        let all = TaskSelection::Query { labels: Vec::new(), filters: Vec::new() };
        for selection in [TaskSelection::Ids(vec![second]), TaskSelection::Root(third), all] {
            let refused = refusal(&house, selection.clone()).await;
            let checked = house.dispatcher.dry_run_existing(house.actor(), existing(selection)).await.unwrap_err();
            assert_eq!(checked.to_string(), refused);
            assert!(refused.contains("`u-b` waits for `u-a` (The u-a), a task of no workflow, which was skipped"), "{refused}");
            assert!(refused.contains(&format!("`emergent task retry {first}`")), "{refused}");
        }
        house.close().await;
    }

    async fn a_plan_made_outside_a_workflow_says_how_it_is_started(db: TestDb) {
        let of_plan = |name: &str| json!({ "ref": name, "type": "SpecTask", "properties": { "title": name } });
        let plan = json!({
            "objects": [of_plan("a"), of_plan("b"), of_plan("alone")],
            "relationships": [{ "type": "blocks", "fromRef": "a", "toRef": "b" }],
        });
        let model = ScriptedModel::default().agent("planner", [calls("entities_create", plan), says("One task.")]);
        let house = House::open(&db, model).await;
        house.agent("planner", &["entities_create"]).await;
        let executor = house.dispatcher.executor();
        let agents = executor
            .list_agents(house.project, false, emergent_domain::cursor::Page::first(10))
            .await
            .unwrap()
            .items;
        let options = emergent_executor::StartOptions { input: "Plan it".into(), ..Default::default() };
        executor.trigger(house.actor(), agents[0].id, options).await.unwrap();
        for _ in 0..500 {
            if house.model.requests_of("planner").len() == 2 { break; }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let asked = house.model.requests_of("planner");
        let seen = format!("{:?}", asked[1].turns);
        let command = seen.split_once("emergent dispatch --from-graph ").expect("a command").1;
        let command = command.split_once('`').expect("its end").0;
        let ids = command.split("--task ").skip(1).map(|id| ObjectId(id.trim().parse().expect("an id")));
        let ids: Vec<ObjectId> = ids.collect();
        assert_eq!(ids.len(), 2, "one of each graph: {command}");
        start(&house, TaskSelection::Ids(ids)).await;
        let others = TaskSelection::Query { labels: Vec::new(), filters: Vec::new() };
        assert!(refusal(&house, others).await.contains("no pending task"), "the command starts the whole plan");
        house.close().await;
    }

    async fn a_project_can_have_new_tasks_executed_by_themselves(db: TestDb) {
        let lines = (0..4).map(|_| says("Done."));
        let house = House::open(&db, ScriptedModel::default().agent("builder", lines)).await;
        house.agents(&["builder"]).await;
        let before = loose_task(&house, json!({ "title": "From before", "assigned_agent": "builder" })).await;
        let on = ProjectPatch { auto_dispatch: Some(true), ..ProjectPatch::default() };
        house.graph().update_project(house.project, on).await.unwrap();
        let one = loose_task(&house, json!({ "title": "One", "assigned_agent": "builder" })).await;
        let two = loose_task(&house, json!({ "title": "Two", "assigned_agent": "builder" })).await;
        block(&house, two, one).await;
        let page = || emergent_domain::cursor::Page::first(10);
        for _ in 0..1_000 {
            let done = house.dispatcher.workflows(house.project, Some(WorkflowStatus::Completed), page()).await.unwrap();
            if !done.items.is_empty() { break; }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let all = house.dispatcher.workflows(house.project, None, page()).await.unwrap().items;
        assert_eq!(all.len(), 1, "one standing workflow: {all:?}");
        let shown = house.completed(all[0].id).await;
        let ids: Vec<ObjectId> = shown.tasks.iter().map(|one| one.task.id).collect();
        assert_eq!(ids, [one, two]);
        let before = house.graph().get_object(house.project, before).await.unwrap();
        assert_eq!(emergent_domain::task::Task::from_object(&before).status, TaskStatus::Pending);
        house.close().await;
    }

    async fn a_workflow_that_took_new_tasks_is_resumed_although_another_one_takes_them_now(db: TestDb) {
        let lines = (0..4).map(|_| says("Done."));
        let house = House::open(&db, ScriptedModel::default().agent("builder", lines)).await;
        house.agents(&["builder"]).await;
        let mut standing = Vec::new();
        for (title, status) in [("One", "failed"), ("Two", "running")] {
            let task = loose_task(&house, json!({ "title": title, "assigned_agent": "builder" })).await;
            let workflow = start(&house, TaskSelection::Ids(vec![task])).await.id;
            house.completed(workflow).await;
            standing.push((workflow, status));
        }
        let rows = standing.clone();
        let marked: Result<(), emergent_store::Error> = house.graph().db().write(move |tx| {
            for (workflow, status) in &rows {
                let sql = format!("UPDATE workflows SET standing = $2, status = '{status}', owner = 'nobody' WHERE id = $1");
                tx.execute(&sql, emergent_store::params![*workflow, true])?;
            }
            Ok(())
        }).await;
        marked.unwrap();
        let resumed = house.dispatcher.resume(house.actor(), standing[0].0, None, None).await.unwrap();
        assert_eq!(resumed.status, WorkflowStatus::Running);
        house.close().await;
    }
}
