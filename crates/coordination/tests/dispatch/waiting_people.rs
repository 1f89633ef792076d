//! Tasks whose runs wait for people.

use std::time::Duration;

use emergent_domain::{
    approval::{Choice, NewDecision},
    cursor::Page,
    ids::TokenId,
    task::TaskStatus,
    workflow::WorkflowSettings,
};
use emergent_executor::approvals::ApprovalFilter;
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::json;

use crate::harness::{House, task};

both_engines! {
    async fn a_task_whose_run_waits_is_shown_so_and_leaves_its_place_to_another(db: TestDb) {
        let ask = calls("ask_user", json!({ "question": "Which colour?" }));
        let model = ScriptedModel::default()
            .agent("asker", [ask, says("Painted.")])
            .agent("builder", [says("Built.")]);
        let house = House::open(&db, model).await;
        house.agent("asker", &["ask_user"]).await;
        house.agent("builder", &[]).await;
        let settings = WorkflowSettings { max_concurrent: 1, ..WorkflowSettings::default() };
        let tasks = vec![task("paint", "asker", &[]), task("build", "builder", &[])];
        let id = house.dispatch_with(settings, tasks).await;
        // One task at a time: the second one can only be done while the first one waits.
        house.reaches(id, "build", TaskStatus::Completed).await;
        let shown = house.dispatcher.workflow(house.project, id).await.unwrap();
        let paint = shown.tasks.iter().find(|one| one.task.key == "paint").unwrap();
        assert_eq!(paint.task.status, TaskStatus::InProgress);
        assert_eq!(paint.waiting.as_deref(), Some("waits for a person: emergent inbox list"), "{paint:?}");
        let executor = house.dispatcher.executor();
        let requests = executor.list_approvals(house.project, ApprovalFilter::default(), Page::first(10)).await.unwrap();
        assert_eq!(requests.items.len(), 1);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(shown.workflow.status.is_active(), "it is not stuck");
        let answer = NewDecision {
            choice: Choice::Answer, edited_input: None, answer: Some(json!("red")), reason: None, digest: None,
        };
        executor.decide_approval(house.project, requests.items[0].id, answer, TokenId::new()).await.unwrap();
        house.completed(id).await;
        house.close().await;
    }
}
