//! Workflows that are planned first.

use emergent_domain::workflow::{WorkflowSettings, WorkflowStatus};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::json;

use crate::harness::House;

both_engines! {
    async fn a_planner_makes_the_tasks_and_they_are_done(db: TestDb) {
        let plan = json!({ "tasks": [
            { "key": "find", "title": "Find out", "assignedAgent": "builder" },
            { "key": "build", "title": "Build", "assignedAgent": "builder", "blockedBy": ["find"] },
        ] });
        let model = ScriptedModel::default()
            .agent("task-planner", [calls("tasks_create", plan), says("Two tasks.")])
            .agent("builder", [says("Found."), says("Built.")]);
        let house = House::open(&db, model).await;
        house.agent("task-planner", &["tasks_create"]).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch(Vec::new()).await;
        let shown = house.completed(id).await;
        let keys: Vec<&str> = shown.tasks.iter().map(|one| one.task.key.as_str()).collect();
        assert_eq!(keys, ["find", "build"]);
        house.close().await;
    }

    async fn a_plan_made_of_plain_objects_belongs_to_its_workflow(db: TestDb) {
        let plan = json!({
            "objects": [
                { "ref": "a", "type": "SpecTask", "properties": { "title": "Find out", "key": "find", "assigned_agent": "builder" } },
                { "ref": "b", "type": "SpecTask", "properties": { "title": "Build it", "assigned_agent": "builder" } },
            ],
            "relationships": [{ "type": "blocks", "fromRef": "a", "toRef": "b" }],
        });
        let model = ScriptedModel::default()
            .agent("task-planner", [calls("entities_create", plan), says("Two tasks.")])
            .agent("builder", [says("Found."), says("Built.")]);
        let house = House::open(&db, model).await;
        house.agent("task-planner", &["entities_create"]).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch(Vec::new()).await;
        let shown = house.completed(id).await;
        let tasks: Vec<(&str, bool)> =
            shown.tasks.iter().map(|one| (one.task.key.as_str(), one.task.agent_is_named)).collect();
        assert_eq!(tasks, [("find", true), ("build-it", true)]);
        house.close().await;
    }

    async fn a_plan_may_have_tasks_that_do_not_depend_on_each_other(db: TestDb) {
        let plan = json!({ "tasks": [
            { "key": "a", "title": "A", "assignedAgent": "builder" },
            { "key": "b", "title": "B", "assignedAgent": "builder" },
        ] });
        let model = ScriptedModel::default()
            .agent("task-planner", [calls("tasks_create", plan), says("Two tasks.")])
            .agent("builder", [says("Done."), says("Done.")]);
        let house = House::open(&db, model).await;
        house.agent("task-planner", &["tasks_create"]).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch(Vec::new()).await;
        assert_eq!(house.completed(id).await.tasks.len(), 2);
        assert_eq!(house.model.requests_of("task-planner").len(), 2, "the plan is taken at once");
        house.close().await;
    }

    async fn a_bad_plan_goes_back_twice_and_then_the_workflow_fails(db: TestDb) {
        let nobody = json!({ "type": "SpecTask", "properties": { "title": "A", "assigned_agent": "nobody" } });
        let lines = [
            calls("entities_create", nobody), says("Planned."),
            says("I made none this time."),
            says("Nor this time."),
        ];
        let house = House::open(&db, ScriptedModel::default().agent("task-planner", lines)).await;
        house.agent("task-planner", &["entities_create"]).await;
        let id = house.dispatch(Vec::new()).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Failed);
        assert!(shown.tasks.is_empty(), "what a refused plan made is gone");
        let asked = house.model.requests_of("task-planner");
        assert!(asked[2].turns[0].text().contains("names the agent `nobody`"), "{}", asked[2].turns[0].text());
        assert!(shown.workflow.summary.unwrap().contains("no plan after 3 attempts"));
        house.close().await;
    }

    async fn without_a_planner_the_workflow_fails_and_says_what_to_do(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder"]).await;
        let settings = WorkflowSettings { planner: Some("nobody".into()), ..WorkflowSettings::default() };
        let new = emergent_coordination::create::NewWorkflow { description: "all of it".into(), settings, tasks: Vec::new() };
        let refused = house.dispatcher.dispatch(house.actor(), new).await.unwrap_err().to_string();
        assert!(refused.contains("nobody"), "{refused}");
        house.close().await;
    }
}
