//! New tasks are executed by themselves, and tasks of cancelled workflows can be executed again.

use std::time::Duration;

use emergent_coordination::{ListedTask, TaskSelection};
use emergent_domain::{
    agent::{AgentDefinition, Visibility},
    author::Author,
    cursor::Page,
    ids::{ObjectId, TokenId, WorkflowId},
    object::NewObject,
    project::ProjectPatch,
    task::{Task, TaskStatus},
    workflow::WorkflowStatus,
};
use emergent_graph::Actor;
use emergent_net::trace_context;
use emergent_store::tasks::TaskFilter;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

use crate::{
    from_graph::{block, existing, loose_task, start},
    harness::{House, task},
};

async fn set_auto_dispatch(house: &House) {
    let on = ProjectPatch { auto_dispatch: Some(true), ..ProjectPatch::default() };
    house.graph().update_project(house.project, on).await.unwrap();
}

async fn read_task(house: &House, id: ObjectId) -> Task {
    Task::from_object(&house.graph().get_object(house.project, id).await.unwrap())
}

async fn wait_for(house: &House, id: ObjectId, status: TaskStatus) {
    for _ in 0..1_500 {
        if read_task(house, id).await.status == status {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the task does not become {status}: {:?}", read_task(house, id).await);
}

async fn list_tasks(house: &House) -> Vec<ListedTask> {
    house.dispatcher.tasks(house.project, TaskFilter::default(), Page::first(20)).await.unwrap().items
}

/// Waits until it is recorded why a task was not taken.
async fn wait_for_refusal(house: &House, id: ObjectId) -> String {
    for _ in 0..1_500 {
        let listed = list_tasks(house).await.into_iter().find(|task| task.object.id == id);
        if let Some(reason) = listed.and_then(|task| task.refusal) {
            return reason;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the task is not refused");
}

both_engines! {
    async fn a_task_that_cannot_be_taken_keeps_no_other_task_waiting(db: TestDb) {
        let lines = (0..3).map(|_| says("Done."));
        let house = House::open(&db, ScriptedModel::default().agent("builder", lines)).await;
        house.agents(&["builder"]).await;
        set_auto_dispatch(&house).await;
        // The task is as large as an object can be, so a workflow cannot add its own properties.
        let text = "word ".repeat(((1 << 20) - 90) / 5);
        let large = loose_task(&house, json!({ "title": "Large", "description": text })).await;
        let joined = loose_task(&house, json!({ "title": "Joined", "assigned_agent": "builder" })).await;
        block(&house, joined, large).await;
        let alone = loose_task(&house, json!({ "title": "Alone", "assigned_agent": "builder" })).await;
        for id in [joined, alone] {
            wait_for(&house, id, TaskStatus::Completed).await;
        }
        let reason = wait_for_refusal(&house, large).await;
        assert!(reason.contains("propert"), "{reason}");
        assert!(list_tasks(&house).await.iter().filter(|task| task.refusal.is_some()).count() == 1);
        // A changed task is tried again.
        house.change(large, json!({ "description": "Short.", "assigned_agent": "builder" })).await;
        wait_for(&house, large, TaskStatus::Completed).await;
        house.close().await;
    }

    async fn a_plan_is_taken_when_the_run_that_writes_it_has_ended(db: TestDb) {
        let plan = json!({ "objects": [{ "ref": "a", "type": "SpecTask",
            "properties": { "title": "Find out", "assigned_agent": "builder" } }] });
        let more = says("That is the plan.").with_delay(Duration::from_millis(4_000));
        let model = ScriptedModel::default()
            .agent("planner", [calls("entities_create", plan), more])
            .agent("builder", [says("Done.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder"]).await;
        house.agent("planner", &["entities_create"]).await;
        set_auto_dispatch(&house).await;
        let executor = house.dispatcher.executor();
        let planner = executor.find_agent(house.project, "planner").await.unwrap();
        let input = emergent_executor::StartOptions { input: "Plan it".into(), ..Default::default() };
        executor.trigger(house.actor(), planner.id, input).await.unwrap();
        let id = loop {
            if let Some(task) = list_tasks(&house).await.first() { break task.object.id; }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        tokio::time::sleep(Duration::from_millis(3_300)).await;
        assert_eq!(read_task(&house, id).await.workflow, None, "its author may add edges to it");
        wait_for(&house, id, TaskStatus::Completed).await;
        house.close().await;
    }

    async fn a_wish_of_a_token_for_an_internal_agent_starts_nothing(db: TestDb) {
        let model = ScriptedModel::default().agent("hidden", [says("Secret."), says("Secret.")]);
        let house = House::open(&db, model).await;
        let Value::Object(config) = json!({ "dispatchable": true }) else { unreachable!() };
        let hidden = AgentDefinition {
            visibility: Visibility::Internal,
            model: ScriptedModel::MODEL.parse().ok(),
            config,
            ..AgentDefinition::new("hidden")
        };
        house.dispatcher.executor().create_agent(house.actor(), hidden).await.unwrap();
        let token = Actor { author: Author::Token { id: TokenId::new() }, ..house.actor() };
        let wish = |title: &str| NewObject {
            type_: "SpecTask".into(),
            properties: json!({ "title": title, "assigned_agent": "hidden" }).as_object().cloned().unwrap(),
            ..NewObject::default()
        };
        let by_request = house.graph().create_object(token, wish("By request")).await.unwrap().id;
        let request = existing(TaskSelection::Ids(vec![by_request]));
        let refused = house.dispatcher.dispatch_existing(token, request).await.unwrap_err().to_string();
        assert!(refused.contains("`hidden` is internal"), "{refused}");
        set_auto_dispatch(&house).await;
        let by_itself = house.graph().create_object(token, wish("By itself")).await.unwrap().id;
        // The server changes the task afterwards, and the wish is still that of the token.
        house.change(by_itself, json!({ "description": "Changed." })).await;
        let reason = wait_for_refusal(&house, by_itself).await;
        assert!(reason.contains("`hidden` is internal"), "{reason}");
        assert_eq!(read_task(&house, by_itself).await.workflow, None);
        assert!(house.model.requests_of("hidden").is_empty());
        house.close().await;
    }

    async fn tasks_of_a_cancelled_workflow_are_dispatched_again(db: TestDb) {
        let lines = (0..4).map(|_| says("Done."));
        let house = House::open(&db, ScriptedModel::default().agent("builder", lines)).await;
        house.agents(&["builder"]).await;
        let [first, second] = ["First", "Second"].map(|title| json!({ "title": title, "assigned_agent": "builder" }));
        let first = loose_task(&house, first).await;
        let second = loose_task(&house, second).await;
        block(&house, first, second).await;
        // A person works on the first task, so the workflow waits until it is cancelled.
        house.change(first, json!({ "status": "in_progress" })).await;
        let cancelled = start(&house, TaskSelection::Ids(vec![second])).await.id;
        house.dispatcher.cancel(house.actor(), cancelled).await.unwrap();
        assert_eq!(read_task(&house, second).await.status, TaskStatus::Skipped);
        let again = start(&house, TaskSelection::Root(second)).await.id;
        assert_eq!(house.completed(again).await.tasks.len(), 2);
        let old = house.dispatcher.workflow(house.project, cancelled).await.unwrap();
        assert_eq!((old.tasks.len(), old.workflow.status), (0, WorkflowStatus::Cancelled));
        let versions = house.graph().object_history(house.project, second, Page::first(50)).await.unwrap().items;
        let workflows: Vec<Option<WorkflowId>> =
            versions.iter().map(|version| Task::from_object(version).workflow).collect();
        assert!(workflows.contains(&Some(cancelled)) && workflows.contains(&Some(again)), "{workflows:?}");
        house.close().await;
    }

    async fn the_runs_of_a_workflow_continue_the_trace_of_its_request(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("builder", [says("Done.")])).await;
        house.agents(&["builder"]).await;
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let dispatch = house.dispatch(vec![task("build", "builder", &[])]);
        let id = trace_context::with_parent(trace_context::parse(trace), dispatch).await;
        let run = house.completed(id).await.tasks[0].runs[0];
        let run = house.dispatcher.executor().get_run(house.project, run).await.unwrap();
        assert_eq!(run.terms.traceparent.as_deref(), Some(trace));
        house.close().await;
    }
}
