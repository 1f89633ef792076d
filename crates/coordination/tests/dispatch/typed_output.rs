//! What tasks hand on as values: the typed output of their runs.

use emergent_coordination::create::NewWorkflow;
use emergent_domain::{
    agent::AgentDefinition,
    run::{Reason, RunStatus},
    task::{NewTask, TaskStatus},
    workflow::{OnFailure, WorkflowSettings},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};
use serde_json::{Value, json};

use crate::harness::{House, task};

fn tags() -> Value {
    json!({ "type": "object", "properties": { "tags": { "type": "array" } }, "required": ["tags"] })
}

async fn typed_agent(house: &House, name: &str) {
    let definition = AgentDefinition {
        model: ScriptedModel::MODEL.parse().ok(),
        output_schema: Some(tags()),
        ..AgentDefinition::new(name)
    };
    house.dispatcher.executor().create_agent(house.actor(), definition).await.unwrap();
}

both_engines! {
    async fn a_task_hands_on_the_typed_output_of_its_run(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("finder", [says("Flat ones."), says("```json\n{ \"tags\": [\"flat\"] }\n```")])
            .agent("builder", [says("Built it.")]);
        let house = House::open(&db, model).await;
        typed_agent(&house, "finder").await;
        house.agents(&["builder"]).await;
        let id = house.dispatch(vec![task("build", "builder", &["find"]), task("find", "finder", &[])]).await;
        let shown = house.completed(id).await;
        let find = shown.tasks.iter().find(|one| one.task.key == "find").unwrap();
        assert_eq!(find.task.output, Some(json!({ "tags": ["flat"] })), "without the text around it");
        assert_eq!(find.task.retry_count, 0, "the run corrects its own answer");
        let build = shown.tasks.iter().find(|one| one.task.key == "build").unwrap();
        let prompt = house.prompt(build.runs[0]).await;
        assert!(prompt.contains(r#"{"tags":["flat"]}"#), "{prompt}");
        house.close().await;
    }

    async fn the_schema_of_a_task_takes_precedence_over_that_of_its_agent(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("finder", [says(r#"{ "tags": [] }"#), says("[1]")])
            .agent("plain", [says("none"), says("[2]")]);
        let house = House::open(&db, model).await;
        typed_agent(&house, "finder").await;
        house.agents(&["plain"]).await;
        let list = |key: &str, agent: &str| NewTask { output_schema: Some(json!({ "type": "array" })), ..task(key, agent, &[]) };
        let id = house.dispatch(vec![list("find", "finder"), list("other", "plain")]).await;
        let shown = house.completed(id).await;
        let output = |key: &str| shown.tasks.iter().find(|one| one.task.key == key).unwrap().task.output.clone();
        assert_eq!((output("find"), output("other")), (Some(json!([1])), Some(json!([2]))));
        house.close().await;
    }

    async fn a_task_whose_run_never_matches_fails_and_says_why(db: TestDb) {
        let model = ScriptedModel::default().agent("finder", [says("a"), says("b"), says("c")]);
        let house = House::open(&db, model).await;
        typed_agent(&house, "finder").await;
        let find = NewTask { max_retries: Some(0), ..task("find", "finder", &[]) };
        let settings = WorkflowSettings { on_failure: OnFailure::Skip, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![find]).await;
        let shown = house.ended(id).await;
        let find = &shown.tasks[0];
        assert_eq!((find.task.status, find.task.output.clone()), (TaskStatus::Failed, None));
        assert!(find.task.failure_context.contains("(invalid_output): the answer is not one JSON value"), "{}", find.task.failure_context);
        let run = house.dispatcher.executor().get_run(house.project, find.runs[0]).await.unwrap();
        assert_eq!((run.status, run.reason), (RunStatus::Failed, Some(Reason::InvalidOutput)));
        house.close().await;
    }

    async fn a_task_with_a_schema_that_cannot_be_used_is_refused(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["plain"]).await;
        let wrong = NewTask { output_schema: Some(json!({ "type": "list" })), ..task("find", "plain", &[]) };
        let new = NewWorkflow { description: "x".into(), settings: WorkflowSettings::default(), tasks: vec![wrong] };
        let refused = house.dispatcher.dispatch(house.actor(), new).await.unwrap_err();
        assert!(refused.to_string().starts_with("`tasks[0].outputSchema.type`: is not a JSON schema"), "{refused}");
        house.close().await;
    }
}
