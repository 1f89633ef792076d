//! Which agent gets a task that names none.

use emergent_domain::task::NewTask;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, fails, says},
};

use crate::harness::{House, task};

fn of_kind(kind: &str, new: NewTask) -> NewTask {
    NewTask { kind: kind.into(), max_retries: Some(0), ..new }
}

both_engines! {
    async fn an_agent_that_completed_tasks_of_a_kind_gets_the_next_one(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("first", [])
            .agent("second", [says("Moved."), says("Moved again."), says("Moved once more.")]);
        let house = House::open(&db, model).await;
        house.agents(&["first", "second"]).await;
        // Within one workflow, and from one workflow to another.
        let tasks = vec![
            of_kind("migration", task("one", "second", &[])),
            of_kind("migration", task("two", "", &["one"])),
        ];
        for tasks in [tasks, vec![of_kind("migration", task("three", "", &[]))]] {
            let id = house.dispatch(tasks).await;
            let shown = house.completed(id).await;
            assert!(shown.tasks.iter().all(|one| one.task.assigned_agent.as_deref() == Some("second")));
            let started = house.events(id).await.into_iter().filter(|event| event.kind == "task_started");
            let reason = started.last().unwrap().data["reason"].to_string();
            assert!(reason.contains("tasks of kind `migration`"), "{reason}");
        }
        house.close().await;
    }

    async fn an_agent_that_failed_tasks_of_a_kind_does_not_get_the_next_one(db: TestDb) {
        let refused = emergent_llm::Error::BadRequest {
            model: ScriptedModel::MODEL.into(),
            status: 400,
            message: "no such column".into(),
        };
        let model = ScriptedModel::default().agent("mover-a", [fails(refused)]).agent("mover-b", [says("Moved.")]);
        let house = House::open(&db, model).await;
        house.agents(&["mover-a", "mover-b"]).await;
        let id = house.dispatch(vec![of_kind("mover", task("one", "mover-a", &[]))]).await;
        house.ended(id).await;
        // Both fit by their names; the first one would be chosen in the order of names.
        let id = house.dispatch(vec![of_kind("mover", task("two", "", &[]))]).await;
        let shown = house.completed(id).await;
        assert_eq!(shown.tasks[0].task.assigned_agent.as_deref(), Some("mover-b"));
        house.close().await;
    }
}
