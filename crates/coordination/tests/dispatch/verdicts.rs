//! Tasks that judge others, and send them back.

use emergent_domain::{
    task::{NewTask, TaskStatus, VerdictKind},
    workflow::WorkflowStatus,
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, says},
};
use serde_json::{Value, json};

use crate::harness::{House, task, text};

fn verdict(word: &str, issue: &str) -> emergent_testkit::scripted::ScriptedReply {
    let issues: Vec<&str> = if issue.is_empty() { Vec::new() } else { vec![issue] };
    calls("submit_verdict", json!({ "verdict": word, "issues": issues, "summary": "as found" }))
}

fn judged(max_retries: i64) -> Vec<NewTask> {
    let build = NewTask { max_retries: Some(max_retries), ..task("build", "builder", &[]) };
    let test = NewTask { verdict: VerdictKind::Test, ..task("test", "tester", &["build"]) };
    vec![build, test]
}

both_engines! {
    async fn a_test_that_fails_sends_back_what_it_tested_with_the_issue(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("Built it."), says("Built it, with a check for loops.")])
            .agent("tester", [
                verdict("NEEDS_CHANGES", "Missing PARENT_TAG cycle detection"), says("Not yet."),
                verdict("PASS", ""), says("All good."),
            ]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester"]).await;
        let id = house.dispatch(judged(2)).await;
        let shown = house.completed(id).await;
        let of = |key: &str| shown.tasks.iter().find(|one| one.task.key == key).unwrap();
        assert_eq!((of("build").runs.len(), of("test").runs.len()), (2, 2));
        assert_eq!((of("build").task.retry_count, of("test").task.retry_count), (1, 0));
        let prompt = house.prompt(of("build").runs[1]).await;
        assert!(prompt.contains("Missing PARENT_TAG cycle detection"), "{prompt}");
        let sessions = house.beyond(of("test").task.id, "has_session").await;
        let mut found = Vec::new();
        for session in &sessions {
            let results = house.beyond(session.id, "has_result").await;
            assert_eq!(results.len(), 1);
            assert_eq!(results[0].type_, "TestResult");
            found.push(text(&results[0], "verdict"));
        }
        assert_eq!(found, ["NEEDS_CHANGES", "PASS"]);
        house.close().await;
    }

    async fn only_one_who_has_to_judge_can_hand_in_a_verdict(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("Built it.")])
            .agent("tester", [says("Everything fits.\nVERDICT: PASS")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester"]).await;
        let id = house.dispatch(judged(2)).await;
        house.completed(id).await;
        assert!(house.model.requests_of("builder")[0].tools.is_empty());
        assert_eq!(house.model.requests_of("tester")[0].tools, ["submit_verdict"]);
        house.close().await;
    }

    async fn when_retries_are_used_up_the_task_has_failed_and_a_person_is_asked(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("Built it.")])
            .agent("tester", [verdict("FAIL", "It does not start"), says("No.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester"]).await;
        let id = house.dispatch(judged(0)).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let escalation = shown.workflow.escalation.unwrap();
        assert!(escalation.reason.contains("It does not start"), "{}", escalation.reason);
        let build = &shown.tasks.iter().find(|one| one.task.key == "build").unwrap().task;
        assert_eq!((build.status, escalation.task), (TaskStatus::Failed, Some(build.id)));
        house.close().await;
    }

    async fn a_review_that_asks_for_changes_has_everything_in_between_done_again(db: TestDb) {
        let review = NewTask {
            verdict: VerdictKind::Review,
            verifies: vec!["build".into()],
            ..task("review", "reviewer", &["test"])
        };
        let mut tasks = judged(2);
        tasks.push(review);
        let model = ScriptedModel::default()
            .agent("builder", [says("One."), says("Two.")])
            .agent("tester", [verdict("PASS", ""), says("Ok."), verdict("PASS", ""), says("Ok.")])
            .agent("reviewer", [
                calls("submit_verdict", json!({ "verdict": "REQUEST_CHANGES", "required_changes": ["name it better"] })),
                says("Please."),
                calls("submit_verdict", json!({ "verdict": "COMMENT", "suggestions": ["add usage analytics"] })),
                says("Fine."),
            ]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester", "reviewer"]).await;
        let id = house.dispatch(tasks).await;
        let shown = house.completed(id).await;
        let runs: Vec<usize> = shown.tasks.iter().map(|one| one.runs.len()).collect();
        assert_eq!(runs, [2, 2, 2]);
        let review = shown.tasks.iter().find(|one| one.task.key == "review").unwrap();
        let sessions = house.beyond(review.task.id, "has_session").await;
        let last = house.beyond(sessions[1].id, "has_result").await;
        assert_eq!((last[0].type_.as_str(), text(&last[0], "verdict")), ("CodeReview", "COMMENT".to_owned()));
        assert_eq!(last[0].properties.to_map()["suggestions"], Value::from(vec!["add usage analytics"]));
        house.close().await;
    }

    async fn one_who_ends_without_a_verdict_is_asked_once_more_in_the_same_conversation(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("Built it.")])
            .agent("tester", [says("I looked at everything there is."), verdict("PASS", ""), says("All good.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester"]).await;
        let mut tasks = judged(2);
        tasks[1].max_retries = Some(0);
        let id = house.dispatch(tasks).await;
        let shown = house.completed(id).await;
        let test = shown.tasks.iter().find(|one| one.task.key == "test").unwrap();
        assert_eq!((test.runs.len(), test.task.retry_count), (2, 0), "it costs no retry");
        let asked = &house.model.requests_of("tester")[1];
        assert!(asked.last_text().contains("`submit_verdict`") && asked.last_text().contains("PASS, FAIL or NEEDS_CHANGES"), "{}", asked.last_text());
        assert!(asked.turns.len() >= 3, "it sees what it said before: {:?}", asked.turns);
        let events = house.events(id).await;
        let again = events.iter().find(|event| event.kind == "task_asked_again").unwrap();
        assert!(again.data["reason"].as_str().unwrap().contains("without a verdict"), "{}", again.data);
        let sessions = house.beyond(test.task.id, "has_session").await;
        assert_eq!(house.beyond(sessions[1].id, "follows_up").await[0].id, sessions[0].id);
        assert_eq!(house.beyond(sessions[1].id, "has_result").await.len(), 1);
        house.close().await;
    }

    async fn one_who_says_it_in_words_when_asked_again_is_read(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("Built it."), says("Built it again.")])
            .agent("tester", [
                says("I looked at everything there is."), says("Verdict: FAIL\nIssues:\n- It does not start"),
                verdict("PASS", ""), says("All good."),
            ]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester"]).await;
        let id = house.dispatch(judged(2)).await;
        let shown = house.completed(id).await;
        let build = shown.tasks.iter().find(|one| one.task.key == "build").unwrap();
        assert!(house.prompt(build.runs[1]).await.contains("It does not start"));
        house.close().await;
    }

    async fn one_who_never_comes_to_a_verdict_has_failed_after_its_second_chance(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("Built it.")])
            .agent("tester", [
                says("I looked."), says("As I said, I looked."),
                says("I looked anew."), verdict("PASS", ""), says("All good."),
            ]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester"]).await;
        let id = house.dispatch(judged(2)).await;
        let shown = house.completed(id).await;
        let test = shown.tasks.iter().find(|one| one.task.key == "test").unwrap();
        assert_eq!((test.runs.len(), test.task.retry_count), (4, 1), "each attempt has its second chance");
        let kinds: Vec<String> = house.events(id).await.into_iter().filter(|event| event.task == Some(test.task.id)).map(|event| event.kind).collect();
        assert_eq!(kinds, [
            "task_added", "task_started", "task_asked_again", "task_resumed", "task_retried",
            "task_started", "task_asked_again", "task_resumed", "task_completed",
        ]);
        house.close().await;
    }

    async fn what_has_to_be_judged_is_told_however_far_back_it_lies(db: TestDb) {
        let yes = json!({ "verdict": "PASS", "steps": [], "issues": [], "summary": "fine" });
        let steps: Vec<String> = (0..11).map(|step| format!("step{step}")).collect();
        let model = ScriptedModel::default()
            .agent("builder", [says("An engine with six cylinders.")].into_iter().chain(steps.iter().map(|_| says("A step."))))
            .agent("tester", [calls("submit_verdict", yes), says("Yes.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester"]).await;
        let mut tasks = vec![task("build", "builder", &[])];
        for step in &steps {
            let before = tasks.last().unwrap().key.clone();
            tasks.push(task(step, "builder", &[&before]));
        }
        let test = NewTask { verdict: VerdictKind::Test, verifies: vec!["build".into()], ..task("test", "tester", &["step10"]) };
        tasks.push(test);
        let id = house.dispatch(tasks).await;
        let shown = house.completed(id).await;
        let test = shown.tasks.iter().find(|one| one.task.key == "test").unwrap();
        let prompt = house.prompt(test.runs[0]).await;
        assert!(prompt.contains("IMPLEMENTED \"The build\""), "{prompt}");
        assert!(prompt.contains("six cylinders"), "{prompt}");
        house.close().await;
    }

    async fn issues_may_be_objects_and_an_error_repeats_the_verdict_that_was_sent(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("Built it."), says("Built it again.")])
            .agent("tester", [
                calls("submit_verdict", json!({ "verdict": "FAIL", "issues": 5 })),
                calls("submit_verdict", json!({ "verdict": "FAIL", "issues": [{ "description": "There is no index" }] })),
                says("No."),
                verdict("PASS", ""),
                says("Yes."),
            ]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "tester"]).await;
        let id = house.dispatch(judged(2)).await;
        let shown = house.completed(id).await;
        let told = house.model.requests_of("tester")[1].last_text().replace('\\', "");
        assert!(told.contains(r#"An input that fits: {"verdict":"FAIL"}"#), "{told}");
        let build = shown.tasks.iter().find(|one| one.task.key == "build").unwrap();
        let prompt = house.prompt(build.runs[1]).await;
        assert!(prompt.contains("There is no index") && !prompt.contains("description"), "{prompt}");
        house.close().await;
    }
}
