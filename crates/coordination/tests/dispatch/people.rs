//! What people do to workflows: cancel, help, add.

use std::time::Duration;

use emergent_coordination::{Error, TaskCommand};
use emergent_domain::{
    ids::WorkflowId,
    run::RunStatus,
    task::{NewTask, Task, TaskStatus, VerdictKind},
    workflow::WorkflowStatus,
};
use emergent_store::{Tx, runs};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, hangs, says},
};

use crate::harness::{House, task, text};

impl House {
    /// Waits until a workflow of one task asks a person about it, and returns the task, which has had so many attempts.
    async fn failed_after(&self, id: WorkflowId, attempts: usize) -> Task {
        let mut shown = self.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let failed = shown.tasks.remove(0);
        assert_eq!((failed.task.status, failed.runs.len()), (TaskStatus::Failed, attempts));
        failed.task
    }
}

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

    async fn what_a_person_asks_for_is_one_more_attempt_when_no_retries_are_left(db: TestDb) {
        // The script has nothing for `builder`, so its attempts fail.
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder"]).await;
        for retries in [0, 1] {
            let build = NewTask { max_retries: Some(retries), ..task("build", "builder", &[]) };
            let id = house.dispatch(vec![build]).await;
            let mut attempts = usize::try_from(retries).unwrap() + 1;
            let build = house.failed_after(id, attempts).await;
            let again = TaskCommand::Retry { note: None };
            house.dispatcher.command_task(house.actor(), build.id, again).await.unwrap();
            attempts += 1;
            house.failed_after(id, attempts).await;
            let reassign = TaskCommand::Reassign { agent: "builder".into(), note: None };
            house.dispatcher.command_task(house.actor(), build.id, reassign).await.unwrap();
            attempts += 1;
            house.failed_after(id, attempts).await;
            house.dispatcher.resume(house.actor(), id, None, None).await.unwrap();
            attempts += 1;
            let build = house.failed_after(id, attempts).await;
            assert_eq!((build.retry_count, build.max_retries), (retries, retries));
        }
        house.close().await;
    }

    async fn a_task_that_a_person_retries_keeps_the_retries_that_are_left(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("builder", [hangs()])).await;
        house.agents(&["builder"]).await;
        let build = NewTask { max_retries: Some(1), ..task("build", "builder", &[]) };
        let id = house.dispatch(vec![build]).await;
        let run = house.reaches(id, "build", TaskStatus::InProgress).await.run.unwrap();
        for _ in 0..500 {
            if house.model.open() == 1 { break }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        house.dispatcher.executor().cancel(house.actor(), run).await.unwrap();
        let build = house.failed_after(id, 1).await;
        assert_eq!((build.retry_count, build.max_retries), (0, 1));
        let again = TaskCommand::Retry { note: None };
        house.dispatcher.command_task(house.actor(), build.id, again).await.unwrap();
        let build = house.failed_after(id, 3).await;
        assert_eq!((build.retry_count, build.max_retries), (1, 1));
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
