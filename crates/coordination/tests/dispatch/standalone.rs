//! Tasks outside of workflows: how they are named, and what they wait for.

use emergent_coordination::{Error, TaskSelection};
use emergent_domain::{
    ids::ObjectId,
    invalid::Problem,
    object_ref::ObjectRef,
    task::{NewTask, Task},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, hangs, says},
};
use serde_json::json;

use crate::{
    from_graph::{loose_task, start},
    harness::{House, task},
};

async fn add(house: &House, new: NewTask) -> Result<Task, Error> {
    house.dispatcher.add_task(house.actor(), None, new).await
}

/// Why the blockers of a task are refused.
async fn problems(house: &House, blocked_by: &[&str]) -> Vec<Problem> {
    match add(house, task("new", "", blocked_by)).await {
        Err(Error::Invalid(invalid)) => invalid.problems,
        other => panic!("it is refused for its blockers, not {other:?}"),
    }
}

async fn named(house: &House, reference: &str) -> Result<ObjectId, Error> {
    house.dispatcher.resolve_task(house.project, reference.parse::<ObjectRef>().unwrap()).await
}

both_engines! {
    async fn a_task_outside_of_workflows_waits_for_the_others_that_it_names(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("finder", [says("Tags are flat."), says("Found.")])
            .agent("builder", [says("Built.")]);
        let house = House::open(&db, model).await;
        house.agents(&["finder", "builder"]).await;
        let find = add(&house, task("find", "finder", &[])).await.unwrap().id;
        let look = add(&house, task("look", "finder", &[])).await.unwrap().id;
        let look_id = look.to_string();
        let build = add(&house, task("build", "builder", &["find", &look_id, "SpecTask/find"])).await.unwrap().id;
        let mut blocked: Vec<ObjectId> = Vec::new();
        for blocker in [find, look] {
            blocked.extend(house.beyond(blocker, "blocks").await.iter().map(|object| object.id));
        }
        assert_eq!(blocked, [build, build]);
        let workflow = start(&house, TaskSelection::Ids(vec![build])).await;
        let shown = house.completed(workflow.id).await;
        let build = shown.tasks.iter().find(|one| one.task.id == build).unwrap();
        assert!(house.prompt(build.runs[0]).await.contains("Tags are flat."));
        house.close().await;
    }

    async fn a_blocker_that_is_no_task_outside_of_workflows_is_refused_by_its_field(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("slow", [hangs()])).await;
        house.agents(&["slow"]).await;
        let of_workflow = house.dispatch(vec![task("planned", "slow", &[])]).await;
        let planned = house.dispatcher.workflow(house.project, of_workflow).await.unwrap().tasks[0].task.id;
        let free = add(&house, task("free", "", &[])).await.unwrap();
        let gone = add(&house, task("gone", "", &[])).await.unwrap();
        house.graph().delete_object(house.actor(), gone.id, None).await.unwrap();
        let (planned, gone) = (planned.to_string(), gone.id.to_string());
        let absent = ObjectId::new().to_string();
        let refused = problems(&house, &["free", &planned, "planned", &gone, &absent, "nobody", "a\0b", ""]).await;
        let fields: Vec<&str> = refused.iter().map(|problem| problem.field.as_str()).collect();
        let mut sorted = fields.clone();
        sorted.sort_unstable();
        let all: Vec<String> = (1..8).map(|index| format!("blockedBy[{index}]")).collect();
        assert_eq!(sorted, all, "{refused:#?}");
        let of = |field: &str| &refused.iter().find(|problem| problem.field == field).unwrap().reason;
        assert!(of("blockedBy[1]").contains(&format!("belongs to the workflow `{of_workflow}`")), "{refused:#?}");
        assert!(of("blockedBy[5]").contains("there is no task `nobody`"), "{refused:#?}");
        let many: Vec<&str> = std::iter::repeat_n("free", 201).collect();
        assert_eq!(problems(&house, &many).await[0].field, "blockedBy");
        assert_eq!(house.beyond(free.id, "blocks").await.len(), 0, "nothing was written");
        house.dispatcher.cancel(house.actor(), of_workflow).await.unwrap();
        house.close().await;
    }

    async fn a_key_names_the_only_task_that_has_it_as_a_property(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("slow", [hangs()])).await;
        house.agents(&["slow"]).await;
        let first = add(&house, task("tk", "slow", &[])).await.unwrap().id;
        assert_eq!(named(&house, "SpecTask/tk").await.unwrap(), first);
        assert!(matches!(named(&house, "SpecTask/other").await, Err(Error::Graph(_))));
        assert!(matches!(named(&house, "Note/tk").await, Err(Error::Graph(_))), "only tasks have such keys");
        let second = loose_task(&house, json!({ "title": "Again", "key": "tk" })).await;
        let several = named(&house, "SpecTask/tk").await.unwrap_err().to_string();
        assert!(several.contains(&first.to_string()) && several.contains(&second.to_string()), "{several}");
        assert!(problems(&house, &["tk"]).await[0].reason.contains("several tasks have the key `tk`"));
        // One that a workflow has taken stands back behind the one that is left.
        let workflow = start(&house, TaskSelection::Ids(vec![first])).await;
        assert_eq!(named(&house, "SpecTask/tk").await.unwrap(), second);
        house.graph().delete_object(house.actor(), second, None).await.unwrap();
        assert_eq!(named(&house, "SpecTask/tk").await.unwrap(), first);
        house.dispatcher.cancel(house.actor(), workflow.id).await.unwrap();
        house.close().await;
    }
}
