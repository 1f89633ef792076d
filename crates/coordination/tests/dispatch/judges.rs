//! Where a model is asked: who does a task, whether the result will do, what to do after a failure.

use emergent_coordination::Settings;
use emergent_domain::{
    task::NewTask,
    workflow::{SelectorKind, WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::{
    both,
    scripted::{Scripted, fails, says},
};

use crate::house::{House, task};

fn judged() -> Settings {
    Settings { judge: Scripted::MODEL.parse().ok(), ..Settings::default() }
}

fn refused() -> emergent_llm::Error {
    emergent_llm::Error::BadRequest {
        model: Scripted::MODEL.into(),
        status: 400,
        message: "no such column".into(),
    }
}

both! {
    async fn a_model_chooses_among_the_agents_and_a_name_that_is_none_is_not_used(db: TestDb) {
        let model = Scripted::default()
            .agent("selector", [says(r#"{"agent": "second", "reason": "knows tables"}"#), says(r#"{"agent": "nobody"}"#)])
            .agent("first", [says("Done by the first.")])
            .agent("second", [says("Done by the second.")]);
        let house = House::with(&db, model, judged()).await;
        house.agents(&["first", "second"]).await;
        let settings = WorkflowSettings { selector: SelectorKind::Llm, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![task("one", "", &[])]).await;
        let shown = house.completed(id).await;
        assert_eq!(shown.tasks[0].task.assigned_agent.as_deref(), Some("second"));
        let started = house.events(id).await.into_iter().find(|event| event.kind == "task_started").unwrap();
        assert!(started.data["reason"].as_str().unwrap().contains("model"), "{}", started.data);
        assert!(shown.spent.by_agent.iter().any(|share| share.of == "selector" && share.spent.tokens > 0));

        // A name that is no agent's: rules decide, or nobody does.
        let settings = WorkflowSettings { selector: SelectorKind::Llm, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![NewTask { title: "The first thing".into(), ..task("two", "", &[]) }]).await;
        let shown = house.ended(id).await;
        assert_ne!(shown.tasks[0].task.assigned_agent.as_deref(), Some("nobody"));
        house.close().await;
    }

    async fn a_result_that_will_not_do_is_done_again_with_the_reason(db: TestDb) {
        let model = Scripted::default()
            .agent("builder", [says("I thought about it."), says("Built, with tests.")])
            .agent("evaluator", [
                says(r#"{"verdict": "redo", "why": "nothing was built"}"#),
                says(r#"{"verdict": "accept"}"#),
            ]);
        let house = House::with(&db, model, judged()).await;
        house.agents(&["builder"]).await;
        let settings = WorkflowSettings { evaluate: true, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![task("build", "builder", &[])]).await;
        let shown = house.completed(id).await;
        assert_eq!((shown.tasks[0].runs.len(), shown.tasks[0].task.retry_count), (2, 1));
        let prompt = house.prompt(shown.tasks[0].runs[1]).await;
        assert!(prompt.contains("nothing was built"), "{prompt}");
        house.close().await;
    }

    async fn after_a_failure_the_task_is_given_to_another(db: TestDb) {
        let model = Scripted::default()
            .agent("first", [fails(refused())])
            .agent("second", [says("Done.")])
            .agent("selector", [says(r#"{"agent": "first"}"#)])
            .agent("triage", [says(r#"{"action": "reassign", "agent": "second", "note": "it has the tools"}"#)]);
        let house = House::with(&db, model, judged()).await;
        house.agents(&["first", "second"]).await;
        let settings = WorkflowSettings { selector: SelectorKind::Llm, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![task("build", "", &[])]).await;
        let shown = house.completed(id).await;
        assert_eq!(shown.tasks[0].task.assigned_agent.as_deref(), Some("second"));
        house.close().await;
    }

    async fn a_failure_that_no_agent_mends_goes_to_a_person(db: TestDb) {
        let model = Scripted::default()
            .agent("builder", [fails(refused())])
            .agent("triage", [says(r#"{"action": "escalate", "note": "the credentials are missing"}"#)]);
        let house = House::with(&db, model, judged()).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch(vec![task("build", "builder", &[])]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        assert!(shown.workflow.escalation.unwrap().reason.contains("the credentials are missing"));
        assert_eq!(shown.tasks[0].runs.len(), 1, "it was not tried again");
        house.close().await;
    }
}
