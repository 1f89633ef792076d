//! Where a model is asked: who does a task, whether the result will do, what to do after a failure.

use std::time::Duration;

use emergent_coordination::{Settings, create::NewWorkflow};
use emergent_domain::{
    ids::WorkflowId,
    task::{NewTask, TaskStatus},
    workflow::{SelectorKind, ThreadingKind, WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, fails, says},
};
use serde_json::json;

use crate::harness::{House, task};

fn judged() -> Settings {
    Settings { judge: ScriptedModel::MODEL.parse().ok(), ..Settings::default() }
}

fn refused() -> emergent_llm::Error {
    emergent_llm::Error::BadRequest {
        model: ScriptedModel::MODEL.into(),
        status: 400,
        message: "no such column".into(),
    }
}

both_engines! {
    async fn a_model_chooses_among_the_agents_and_a_name_that_is_none_is_not_used(db: TestDb) {
        let model = ScriptedModel::default()
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
        assert!(shown.spent.by_agent.iter().any(|share| share.key == "selector" && share.spent.tokens > 0));

        // A name that is no agent's: rules decide, or nobody does.
        let settings = WorkflowSettings { selector: SelectorKind::Llm, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![NewTask { title: "The first thing".into(), ..task("two", "", &[]) }]).await;
        let shown = house.ended(id).await;
        assert_ne!(shown.tasks[0].task.assigned_agent.as_deref(), Some("nobody"));
        house.close().await;
    }

    async fn a_result_that_will_not_do_is_done_again_with_the_reason(db: TestDb) {
        let model = ScriptedModel::default()
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
        let model = ScriptedModel::default()
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
        let model = ScriptedModel::default()
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

    async fn nobody_is_asked_twice_while_others_keep_changing_tasks(db: TestDb) {
        const MANY: usize = 12;
        let choice = || says(r#"{"agent": "builder", "reason": "it builds"}"#).with_delay(Duration::from_millis(5));
        let verdict = || says(r#"{"verdict": "accept", "why": ""}"#).with_delay(Duration::from_millis(5));
        let model = ScriptedModel::default()
            .agent("builder", (0..MANY).map(|_| says("Built.")))
            .agent("selector", (0..MANY * 3).map(|_| choice()))
            .agent("evaluator", (0..MANY * 3).map(|_| verdict()));
        let house = House::with(&db, model, judged()).await;
        house.agents(&["builder", "other"]).await;
        let settings = WorkflowSettings {
            selector: SelectorKind::Llm, evaluate: true, max_concurrent: 4, ..WorkflowSettings::default()
        };
        let keys: Vec<String> = (0..MANY).map(|at| format!("t{at}")).collect();
        let mut tasks: Vec<NewTask> = keys.iter().map(|key| task(key, "", &[])).collect();
        // Nobody's to do before the others are done, so that only its words change.
        let before: Vec<&str> = keys.iter().map(String::as_str).collect();
        tasks.push(task("last", "other", &before));
        house.model.add("other", [says("The end.")]);
        house.model.add("evaluator", [verdict()]);
        let id = house.dispatch_with(settings, tasks).await;
        let last = house.reaches(id, "last", TaskStatus::Pending).await.id;
        for at in 0..100 {
            house.change(last, json!({ "tags": [format!("change {at}")] })).await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let shown = house.completed(id).await;
        assert!(shown.tasks.iter().all(|one| one.runs.len() == 1));
        assert_eq!(house.model.requests_of("selector").len(), MANY);
        assert_eq!(house.model.requests_of("evaluator").len(), MANY + 1);
        house.close().await;
    }

    async fn a_model_chooses_what_a_task_is_told_where_there_is_much_to_tell(db: TestDb) {
        let model = ScriptedModel::default().agent("threader", [says(r#"{"keep": [5, 2]}"#)]);
        let house = House::with(&db, model, judged()).await;
        house.agents(&["finder", "builder"]).await;
        let (id, prompt) = told(&house, ThreadingKind::Llm, 7).await;
        assert!(prompt.find("Found in t4.") < prompt.find("Found in t1."), "in its order: {prompt}");
        assert!(prompt.contains("Found in t4.") && !prompt.contains("Found in t0."), "{prompt}");
        let asked = &house.model.requests_of("threader")[0];
        assert!(asked.last_text().contains("Found in t6.") && asked.last_text().contains("The build"), "{}", asked.last_text());
        let events = house.events(id).await;
        let last = events.iter().rfind(|event| event.kind == "task_started").unwrap();
        assert!(last.data["reason"].as_str().unwrap().contains("a model chose 2 of 7"), "{}", last.data);
        let shown = house.dispatcher.workflow(house.project, id).await.unwrap();
        let build = shown.tasks.iter().find(|one| one.task.key == "build").unwrap();
        let session = &house.beyond(build.task.id, "has_session").await[0];
        assert_eq!(house.beyond(session.id, "informed_by").await.len(), 2, "by what it was told");
        house.close().await;
    }

    async fn without_an_answer_that_can_be_used_rules_say_what_is_told(db: TestDb) {
        let house = House::with(&db, ScriptedModel::default(), judged()).await;
        house.agents(&["finder", "builder"]).await;
        for lines in [[says("All of them, I think."), says("All.")], [fails(refused()), fails(refused())]] {
            house.model.add("threader", lines);
            let (id, prompt) = told(&house, ThreadingKind::Llm, 7).await;
            assert!((0..7).all(|at| prompt.contains(&format!("Found in t{at}."))), "{prompt}");
            let events = house.events(id).await;
            assert!(!events.iter().any(|event| event.data.to_string().contains("a model chose")));
        }
        assert_eq!(house.model.requests_of("threader").len(), 4, "it is asked once more each time");
        house.close().await;
    }

    async fn no_model_is_asked_what_to_tell_unless_the_workflow_wants_it_and_there_is_much(db: TestDb) {
        let house = House::with(&db, ScriptedModel::default(), judged()).await;
        house.agents(&["finder", "builder"]).await;
        told(&house, ThreadingKind::Rules, 7).await;
        told(&house, ThreadingKind::Llm, 6).await;
        assert!(house.model.requests_of("threader").is_empty());
        house.close().await;
    }

    async fn an_answer_outlives_a_database_that_fails_meanwhile(db: TestDb) {
        let said = says(r#"{"agent": "second", "reason": "knows tables"}"#).with_delay(Duration::from_millis(2_500));
        let model = ScriptedModel::default().agent("selector", [said]).agent("second", [says("Done.")]);
        let house = House::with(&db, model, judged()).await;
        house.agents(&["first", "second"]).await;
        let settings = WorkflowSettings { selector: SelectorKind::Llm, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![task("one", "", &[])]).await;
        while house.model.requests_of("selector").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Longer than a walk waits before it looks again.
        for (from, to) in [("workflows", "away"), ("away", "workflows")] {
            let rename = move |tx: &mut emergent_store::Tx<'_>| tx.execute(&format!("ALTER TABLE {from} RENAME TO {to}"), &[]);
            let renamed: Result<u64, emergent_store::Error> = db.write(rename).await;
            renamed.unwrap();
            tokio::time::sleep(Duration::from_millis(1_300)).await;
        }
        let shown = house.completed(id).await;
        assert_eq!(shown.tasks[0].task.assigned_agent.as_deref(), Some("second"));
        assert_eq!(house.model.requests_of("selector").len(), 1, "it was paid for once");
        house.close().await;
    }

    async fn a_result_that_the_judge_could_not_evaluate_says_so(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("Built, with tests."), says("Built again.")])
            .agent("evaluator", [fails(refused()), says("?? 1")]);
        let house = House::with(&db, model, judged()).await;
        house.agents(&["builder"]).await;
        let settings = || WorkflowSettings { evaluate: true, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings(), vec![task("build", "builder", &[])]).await;
        house.completed(id).await;
        assert_eq!(house.model.requests_of("evaluator").len(), 2, "it is asked once more");
        let events = house.events(id).await;
        let failed = events.iter().find(|event| event.kind == "judge_failed").unwrap();
        assert_eq!(failed.data["role"], "evaluator");
        assert!(failed.data["reason"].as_str().unwrap().contains("?? 1"), "{}", failed.data);
        let completed = events.iter().find(|event| event.kind == "task_completed").unwrap();
        assert!(completed.data["reason"].as_str().unwrap().contains("not evaluated"), "{}", completed.data);

        // An answer to the second question counts as any other.
        house.model.add("evaluator", [says("{}"), says(r#"{"verdict": "accept", "why": ""}"#)]);
        let id = house.dispatch_with(settings(), vec![task("more", "builder", &[])]).await;
        house.completed(id).await;
        assert!(house.events(id).await.iter().all(|event| event.kind != "judge_failed"));
        house.close().await;
    }

    async fn a_workflow_whose_judge_is_gone_says_what_was_not_judged(db: TestDb) {
        let model = || ScriptedModel::default().agent("builder", [says("Built, with tests.")]);
        let with_judge = House::with(&db, model(), judged()).await;
        with_judge.agents(&["builder"]).await;
        let (dispatcher, actor) = (with_judge.dispatcher.clone(), with_judge.actor());
        with_judge.close().await;
        let settings = WorkflowSettings { evaluate: true, selector: SelectorKind::Llm, ..WorkflowSettings::default() };
        let new = NewWorkflow { description: "build it".into(), settings, tasks: vec![task("builder", "", &[])] };
        let id = dispatcher.dispatch(actor, new).await.unwrap().id;
        // Another server goes on, which has no judge.
        let house = House::open(&db, model()).await;
        house.completed(id).await;
        let events = house.events(id).await;
        let roles: Vec<_> =
            events.iter().filter(|event| event.kind == "judge_failed").map(|event| event.data["role"].clone()).collect();
        assert_eq!(roles, ["selector", "evaluator"], "{events:#?}");
        let completed = events.iter().find(|event| event.kind == "task_completed").unwrap();
        let reason = completed.data["reason"].as_str().unwrap();
        assert!(reason.contains("not evaluated") && reason.contains("no judge model"), "{reason}");
        house.close().await;
    }

    async fn a_judge_that_cannot_choose_an_agent_is_named_to_the_person_who_is_asked(db: TestDb) {
        let model = ScriptedModel::default().agent("selector", [fails(refused()), fails(refused())]);
        let house = House::with(&db, model, judged()).await;
        house.agents(&["alpha", "beta"]).await;
        let settings = WorkflowSettings { selector: SelectorKind::Llm, ..WorkflowSettings::default() };
        let unclear = NewTask { title: "Zzz".into(), description: "Zzz".into(), ..task("zzz", "", &[]) };
        let id = house.dispatch_with(settings, vec![unclear]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let reason = shown.workflow.escalation.unwrap().reason;
        assert!(reason.contains("the selector failed: ") && reason.contains("no such column"), "{reason}");
        assert!(house.events(id).await.iter().any(|event| event.kind == "judge_failed"));
        house.close().await;
    }
}

/// What a task is told that waits for so many others. They are done one after the other, as the
/// script has their lines.
async fn told(house: &House, threading: ThreadingKind, many: usize) -> (WorkflowId, String) {
    let keys: Vec<String> = (0..many).map(|at| format!("t{at}")).collect();
    house.model.add("finder", keys.iter().map(|key| says(format!("Found in {key}."))));
    house.model.add("builder", [says("Built.")]);
    let mut tasks: Vec<NewTask> = keys.iter().map(|key| task(key, "finder", &[])).collect();
    let before: Vec<&str> = keys.iter().map(String::as_str).collect();
    tasks.push(task("build", "builder", &before));
    let settings = WorkflowSettings { threading, max_concurrent: 1, ..WorkflowSettings::default() };
    let id = house.dispatch_with(settings, tasks).await;
    let shown = house.completed(id).await;
    let build = shown.tasks.iter().find(|one| one.task.key == "build").unwrap();
    (id, house.prompt(build.runs[0]).await)
}
