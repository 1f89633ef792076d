//! What failures come to where nobody wants to be asked: what waits for them is skipped, the rest is
//! done, and the workflow says why it failed.

use std::time::Duration;

use emergent_coordination::{Settings, TaskCommand, WorkflowDetail};
use emergent_domain::{
    agent::AgentDefinition,
    task::{NewTask, TaskStatus, VerdictKind},
    workflow::{Limit, OnFailure, WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, fails, hangs, says},
};
use serde_json::json;

use crate::harness::{House, task};

fn skips() -> WorkflowSettings {
    WorkflowSettings { on_failure: OnFailure::Skip, ..WorkflowSettings::default() }
}

fn status(shown: &WorkflowDetail, key: &str) -> TaskStatus {
    shown.tasks.iter().find(|one| one.task.key == key).unwrap().task.status
}

impl House {
    /// Why a workflow ended, as its last event says it.
    async fn why(&self, shown: &WorkflowDetail) -> String {
        let last = self.events(shown.workflow.id).await.pop().unwrap();
        assert_eq!(last.kind, "workflow_ended");
        last.data["reason"].as_str().unwrap().to_owned()
    }
}

both_engines! {
    async fn a_cancelled_run_fails_its_task_and_what_waits_for_it_is_skipped(db: TestDb) {
        let model = ScriptedModel::default().agent("builder", [hangs()]).agent("other", [says("Fine.")]);
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
        let house = House::open(&db, ScriptedModel::default().agent("builder", lines)).await;
        house.agents(&["builder"]).await;
        let budget = Limit { tokens: Some(1), microusd: None };
        let settings = WorkflowSettings { budget, ..skips() };
        let id = house.dispatch_with(settings, vec![task("a", "builder", &[]), task("b", "builder", &["a"])]).await;
        let shown = house.ended(id).await;
        assert_eq!((shown.workflow.status, shown.workflow.escalation.as_ref()), (WorkflowStatus::Failed, None));
        assert_eq!([status(&shown, "a"), status(&shown, "b")], [TaskStatus::Failed, TaskStatus::Skipped]);
        let why = house.why(&shown).await;
        assert!(why.contains("the budget is too low"), "{why}");
        assert!(shown.workflow.summary.unwrap().contains("the budget is too low"));
        let more = Some(Limit { tokens: Some(1_000_000), microusd: None });
        house.dispatcher.resume(house.actor(), id, None, more).await.unwrap();
        let shown = house.completed(id).await;
        assert_eq!([status(&shown, "a"), status(&shown, "b")], [TaskStatus::Completed, TaskStatus::Completed]);
        house.close().await;
    }

    async fn a_task_that_nobody_can_do_is_a_failure_like_any_other(db: TestDb) {
        let first = says("Done.").with_delay(Duration::from_millis(400));
        let house = House::open(&db, ScriptedModel::default().agent("builder", [first])).await;
        house.agents(&["builder"]).await;
        let leaver = AgentDefinition { model: ScriptedModel::MODEL.parse().ok(), ..AgentDefinition::new("leaver") };
        let leaver = house.dispatcher.executor().create_agent(house.actor(), leaver).await.unwrap();
        let tasks = vec![task("first", "builder", &[]), task("build", "leaver", &["first"]), task("tell", "builder", &["build"])];
        let id = house.dispatch_with(skips(), tasks).await;
        house.dispatcher.executor().delete_agent(house.actor(), leaver.id).await.unwrap();
        let shown = house.ended(id).await;
        assert_eq!((shown.workflow.status, shown.workflow.escalation.as_ref()), (WorkflowStatus::Failed, None));
        assert_eq!([status(&shown, "first"), status(&shown, "build"), status(&shown, "tell")],
            [TaskStatus::Completed, TaskStatus::Failed, TaskStatus::Skipped]);
        let note = &shown.tasks.iter().find(|one| one.task.key == "build").unwrap().task.failure_context;
        assert!(note.contains("it could not be started: the task names `leaver`"), "{note}");
        let why = house.why(&shown).await;
        assert!(why.contains("`build` failed: it could not be started"), "{why}");
        house.close().await;
    }

    async fn a_model_that_says_a_person_has_to_look_is_heard_all_the_same(db: TestDb) {
        let refused = emergent_llm::Error::BadRequest { model: ScriptedModel::MODEL.into(), status: 400, message: "no".into() };
        let model = ScriptedModel::default()
            .agent("builder", [fails(refused), says("Built."), says("Told.")])
            .agent("triage", [says(r#"{"action": "escalate", "note": "the credentials are missing"}"#)]);
        let house = House::with(&db, model, Settings { judge: ScriptedModel::MODEL.parse().ok(), ..Settings::default() }).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch_with(skips(), vec![task("build", "builder", &[]), task("tell", "builder", &["build"])]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let escalation = shown.workflow.escalation.as_ref().unwrap();
        assert!(escalation.reason.contains("the credentials are missing"));
        assert_eq!(status(&shown, "tell"), TaskStatus::Pending, "it is not given up before that person said so");
        house.dispatcher.command_task(house.actor(), escalation.task.unwrap(), TaskCommand::Retry { note: None }).await.unwrap();
        house.completed(id).await;
        house.close().await;
    }

    async fn what_a_judge_refused_as_often_as_it_may_goes_to_a_person_all_the_same(db: TestDb) {
        let no = json!({ "verdict": "FAIL", "issues": ["It does not start"], "summary": "as found" });
        let model = ScriptedModel::default()
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

    async fn a_person_is_asked_about_each_of_several_that_a_judge_refused_for_good(db: TestDb) {
        let no = json!({ "verdict": "FAIL", "issues": ["It does not start"], "summary": "as found" });
        let yes = json!({ "verdict": "PASS", "steps": [], "issues": [], "summary": "fine" });
        let model = ScriptedModel::default()
            .agent("builder", [says("Built it."), says("Built it."), says("Mended."), says("Mended.")])
            .agent("tester", [calls("submit_verdict", no), says("No."), calls("submit_verdict", yes), says("Yes.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester"]).await;
        let build = |key| NewTask { max_retries: Some(0), ..task(key, "builder", &[]) };
        let test = NewTask { verdict: VerdictKind::Test, ..task("test", "tester", &["a", "b"]) };
        let id = house.dispatch_with(skips(), vec![build("a"), build("b"), test]).await;
        let mut asked = Vec::new();
        for _ in 0..2 {
            let shown = house.ended(id).await;
            assert_eq!(shown.workflow.status, WorkflowStatus::Escalated, "{asked:?}");
            assert_eq!(status(&shown, "test"), TaskStatus::Pending, "it is not given up while somebody can be asked");
            let about = shown.workflow.escalation.unwrap().task.unwrap();
            asked.extend(shown.tasks.iter().filter(|one| one.task.id == about).map(|one| one.task.key.clone()));
            let mended = house.dispatcher.command_task(house.actor(), about, TaskCommand::Retry { note: None }).await.unwrap();
            assert_eq!(mended.needs_person, None);
        }
        asked.sort();
        assert_eq!(asked, ["a", "b"]);
        let shown = house.completed(id).await;
        assert!(shown.tasks.iter().all(|one| one.task.needs_person.is_none()));
        house.close().await;
    }

    async fn what_is_not_started_for_want_of_budget_goes_on_with_more_of_it(db: TestDb) {
        let refused = emergent_llm::Error::BadRequest { model: ScriptedModel::MODEL.into(), status: 400, message: "no".into() };
        let house = House::open(&db, ScriptedModel::default().agent("builder", [says("Done."), fails(refused), says("Done.")])).await;
        house.agents(&["builder"]).await;
        let second = NewTask { max_retries: Some(0), ..task("b", "builder", &["a"]) };
        let budget = Limit { tokens: Some(1_000_000), microusd: None };
        let settings = WorkflowSettings { budget, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![task("a", "builder", &[]), second]).await;
        assert_eq!(house.ended(id).await.workflow.status, WorkflowStatus::Escalated);
        // Less than it has spent by now.
        let less = Some(Limit { tokens: Some(1), microusd: None });
        house.dispatcher.resume(house.actor(), id, None, less).await.unwrap();
        let escalation = house.ended(id).await.workflow.escalation.unwrap();
        assert!(escalation.reason.contains("`b` failed: it could not be started"), "{}", escalation.reason);
        assert_eq!(escalation.options, ["resume", "skip", "cancel"]);
        house.dispatcher.resume(house.actor(), id, None, Some(budget)).await.unwrap();
        house.completed(id).await;
        house.close().await;
    }
}
