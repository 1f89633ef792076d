//! What failures come to where nobody wants to be asked: what waits for them is skipped, the rest is
//! done, and the workflow says why it failed.

use std::time::Duration;

use emergent_coordination::{Settings, Shown, Steer};
use emergent_domain::{
    agent::AgentDefinition,
    task::{NewTask, TaskStatus, VerdictKind},
    workflow::{Limit, OnFailure, WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::{
    both,
    scripted::{Scripted, calls, fails, hangs, says},
};
use serde_json::json;

use crate::house::{House, task};

fn skips() -> WorkflowSettings {
    WorkflowSettings { on_failure: OnFailure::Skip, ..WorkflowSettings::default() }
}

fn status(shown: &Shown, key: &str) -> TaskStatus {
    shown.tasks.iter().find(|one| one.task.key == key).unwrap().task.status
}

impl House {
    /// Why a workflow ended, as its last event says it.
    async fn why(&self, shown: &Shown) -> String {
        let last = self.events(shown.workflow.id).await.pop().unwrap();
        assert_eq!(last.kind, "workflow_ended");
        last.data["reason"].as_str().unwrap().to_owned()
    }
}

both! {
    async fn a_cancelled_run_fails_its_task_and_what_waits_for_it_is_skipped(db: TestDb) {
        let model = Scripted::default().agent("builder", [hangs()]).agent("other", [says("Fine.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "other"]).await;
        let tasks = vec![task("build", "builder", &[]), task("tell", "other", &["build"]), task("else", "other", &[])];
        let id = house.dispatch_with(skips(), tasks).await;
        let run = house.reaches(id, "build", TaskStatus::InProgress).await.run.unwrap();
        house.dispatcher.executor().cancel(house.actor(), run).await.unwrap();
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Failed, "{:?}", shown.workflow.escalation);
        assert_eq!([status(&shown, "build"), status(&shown, "tell"), status(&shown, "else")],
            [TaskStatus::Failed, TaskStatus::Skipped, TaskStatus::Completed]);
        let why = house.why(&shown).await;
        assert!(why.contains("`build` failed") && why.contains("cancelled"), "{why}");
        house.close().await;
    }

    async fn a_budget_that_is_used_up_ends_it_as_failed_and_more_of_it_opens_everything_again(db: TestDb) {
        let lines = (0..4).map(|_| says("Done."));
        let house = House::open(&db, Scripted::default().agent("builder", lines)).await;
        house.agents(&["builder"]).await;
        let budget = Limit { tokens: Some(1), microusd: None };
        let settings = WorkflowSettings { budget, ..skips() };
        let id = house.dispatch_with(settings, vec![task("a", "builder", &[]), task("b", "builder", &["a"])]).await;
        let shown = house.ended(id).await;
        assert_eq!((shown.workflow.status, shown.workflow.escalation.as_ref()), (WorkflowStatus::Failed, None));
        assert_eq!([status(&shown, "a"), status(&shown, "b")], [TaskStatus::Failed, TaskStatus::Skipped]);
        let why = house.why(&shown).await;
        assert!(why.contains("the budget is used up"), "{why}");
        assert!(shown.workflow.summary.unwrap().contains("the budget is used up"));
        let more = Some(Limit { tokens: Some(1_000_000), microusd: None });
        house.dispatcher.resume(house.actor(), id, None, more).await.unwrap();
        let shown = house.completed(id).await;
        assert_eq!([status(&shown, "a"), status(&shown, "b")], [TaskStatus::Completed, TaskStatus::Completed]);
        house.close().await;
    }

    async fn a_task_that_nobody_can_do_is_a_failure_like_any_other(db: TestDb) {
        let first = says("Done.").after(Duration::from_millis(400));
        let house = House::open(&db, Scripted::default().agent("builder", [first])).await;
        house.agents(&["builder"]).await;
        let leaver = AgentDefinition { model: Scripted::MODEL.parse().ok(), ..AgentDefinition::named("leaver") };
        let leaver = house.dispatcher.executor().create_agent(house.actor(), leaver).await.unwrap();
        let tasks = vec![task("first", "builder", &[]), task("build", "leaver", &["first"]), task("tell", "builder", &["build"])];
        let id = house.dispatch_with(skips(), tasks).await;
        house.dispatcher.executor().delete_agent(house.actor(), leaver.id).await.unwrap();
        let shown = house.ended(id).await;
        assert_eq!((shown.workflow.status, shown.workflow.escalation.as_ref()), (WorkflowStatus::Failed, None));
        assert_eq!([status(&shown, "first"), status(&shown, "build"), status(&shown, "tell")],
            [TaskStatus::Completed, TaskStatus::Failed, TaskStatus::Skipped]);
        house.close().await;
    }

    async fn a_model_that_says_a_person_has_to_look_is_heard_all_the_same(db: TestDb) {
        let refused = emergent_llm::Error::BadRequest { model: Scripted::MODEL.into(), status: 400, message: "no".into() };
        let model = Scripted::default()
            .agent("builder", [fails(refused), says("Built."), says("Told.")])
            .agent("triage", [says(r#"{"action": "escalate", "note": "the credentials are missing"}"#)]);
        let house = House::with(&db, model, Settings { judge: Scripted::MODEL.parse().ok(), ..Settings::default() }).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch_with(skips(), vec![task("build", "builder", &[]), task("tell", "builder", &["build"])]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let escalation = shown.workflow.escalation.as_ref().unwrap();
        assert!(escalation.reason.contains("the credentials are missing"));
        assert_eq!(status(&shown, "tell"), TaskStatus::Pending, "it is not given up before that person said so");
        house.dispatcher.steer(house.actor(), escalation.task.unwrap(), Steer::Retry { note: None }).await.unwrap();
        house.completed(id).await;
        house.close().await;
    }

    async fn what_a_judge_refused_as_often_as_it_may_goes_to_a_person_all_the_same(db: TestDb) {
        let no = json!({ "verdict": "FAIL", "issues": ["It does not start"], "summary": "as found" });
        let model = Scripted::default()
            .agent("builder", [says("Built it.")])
            .agent("tester", [calls("submit_verdict", no), says("No.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester"]).await;
        let build = NewTask { max_retries: Some(0), ..task("build", "builder", &[]) };
        let test = NewTask { verdict: VerdictKind::Test, ..task("test", "tester", &["build"]) };
        let id = house.dispatch_with(skips(), vec![build, test]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        assert_eq!([status(&shown, "build"), status(&shown, "test")], [TaskStatus::Failed, TaskStatus::Pending]);
        house.close().await;
    }
}
