//! What people do to workflows: cancel, help, add.

use std::time::Duration;

use emergent_coordination::{Error, TaskCommand};
use emergent_domain::{
    run::RunStatus,
    task::{NewTask, TaskStatus, VerdictKind},
    workflow::WorkflowStatus,
};
use emergent_store::{Tx, runs};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, hangs, says},
};

use crate::harness::{House, task, text};

both_engines! {
    async fn cancelling_reaches_every_run(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("builder", [hangs(), hangs()])).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch(vec![task("a", "builder", &[]), task("b", "builder", &[]), task("c", "builder", &["a"])]).await;
        for _ in 0..500 {
            if house.model.open() == 2 { break }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        house.dispatcher.cancel(house.actor(), id).await.unwrap();
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Cancelled);
        for one in &shown.tasks {
            assert!(one.task.status.is_terminal(), "{:?}", one.task.status);
            for run in one.runs.clone() {
                let project = house.project;
                let found = house.graph().db().read(move |tx: &mut Tx<'_>| runs::get(tx, project, run)).await;
                let found: Result<_, emergent_store::Error> = found;
                assert_eq!(found.unwrap().unwrap().status, RunStatus::Cancelled);
            }
        }
        for key in ["a", "b"] {
            let task = shown.tasks.iter().find(|one| one.task.key == key).unwrap();
            let sessions = house.beyond(task.task.id, "has_session").await;
            assert_eq!(text(&sessions[0], "status"), "cancelled");
            let properties = sessions[0].properties.to_map();
            assert_eq!(properties["message_count"], 2, "the prompts: {properties:?}");
            assert!(properties["completed_at"].is_string(), "{properties:?}");
        }
        let again = house.dispatcher.cancel(house.actor(), id).await;
        assert!(matches!(again, Err(Error::Conflict(_))));
        house.close().await;
    }

    async fn a_task_that_failed_is_tried_again_with_a_persons_note(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder"]).await;
        let build = NewTask { max_retries: Some(0), ..task("build", "builder", &[]) };
        let id = house.dispatch(vec![build, task("tell", "builder", &["build"])]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let escalation = shown.workflow.escalation.unwrap();
        assert_eq!(escalation.options, ["retry", "reassign", "skip", "cancel"]);
        house.model.add("builder", [says("Built."), says("Told.")]);
        let steer = TaskCommand::Retry { note: Some("use the small schema".into()) };
        house.dispatcher.command_task(house.actor(), escalation.task.unwrap(), steer).await.unwrap();
        let shown = house.completed(id).await;
        let build = shown.tasks.iter().find(|one| one.task.key == "build").unwrap();
        let prompt = house.prompt(*build.runs.last().unwrap()).await;
        assert!(prompt.contains("use the small schema"), "{prompt}");
        house.close().await;
    }

    async fn the_summary_has_what_the_last_attempt_said(db: TestDb) {
        let silent = [says("I forgot the verdict."), says("I forgot the verdict.")];
        let house = House::open(&db, ScriptedModel::default().agent("checker", silent)).await;
        house.agents(&["writer", "checker", "other"]).await;
        house.model.add("writer", [says("A draft."), says("A report.")]);
        let check = NewTask { verdict: VerdictKind::Review, max_retries: Some(0), ..task("check", "checker", &["draft"]) };
        let id = house.dispatch(vec![task("draft", "writer", &[]), check, task("report", "writer", &["check"])]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let asked_about = shown.workflow.escalation.unwrap().task.unwrap();
        house.model.add("other", [says("Good after a person.\n\nVERDICT: APPROVE")]);
        let reassign = TaskCommand::Reassign { agent: "other".into(), note: Some("write the verdict".into()) };
        let pending = house.dispatcher.command_task(house.actor(), asked_about, reassign).await.unwrap();
        assert_eq!((pending.summary, pending.output), (None, None), "an earlier attempt's are not the task's any more");
        let shown = house.completed(id).await;
        let summary = shown.workflow.summary.clone().unwrap();
        assert!(summary.contains("- `check` by other, attempt 2: Good after a person."), "{summary}");
        assert!(!summary.contains("I forgot"), "{summary}");
        let check = shown.tasks.iter().find(|one| one.task.key == "check").unwrap();
        assert!(check.task.summary.as_ref().unwrap().starts_with("Good after a person."), "{:?}", check.task);
        let report = shown.tasks.iter().find(|one| one.task.key == "report").unwrap();
        let prompt = house.prompt(report.runs[0]).await;
        assert!(prompt.contains("Good after a person.") && !prompt.contains("I forgot"), "{prompt}");
        house.close().await;
    }

    async fn a_skipped_task_takes_along_what_waits_for_it(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("other", [says("Fine.")])).await;
        house.agents(&["builder", "other"]).await;
        let build = NewTask { max_retries: Some(0), ..task("build", "builder", &[]) };
        let id = house.dispatch(vec![build, task("tell", "builder", &["build"]), task("else", "other", &[])]).await;
        let shown = house.ended(id).await;
        let failed = shown.workflow.escalation.unwrap().task.unwrap();
        house.dispatcher.command_task(house.actor(), failed, TaskCommand::Skip { reason: None }).await.unwrap();
        let shown = house.completed(id).await;
        let skipped = shown.tasks.iter().filter(|one| one.task.status == TaskStatus::Skipped).count();
        assert_eq!(skipped, 2);
        house.close().await;
    }

    async fn tasks_that_are_added_on_the_way_are_done_too(db: TestDb) {
        let slow = says("One.").with_delay(Duration::from_millis(300));
        let house = House::open(&db, ScriptedModel::default().agent("builder", [slow, says("Two.")])).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch(vec![task("one", "builder", &[])]).await;
        house.reaches(id, "one", TaskStatus::InProgress).await;
        house.dispatcher.add_task(house.actor(), Some(id), task("two", "builder", &["one"])).await.unwrap();
        let shown = house.completed(id).await;
        assert_eq!(shown.tasks.len(), 2);
        house.close().await;
    }
}
