//! Workflows as a whole: tasks, agents, verdicts, discussions, failures, budgets, people.

mod adoption;
mod assignment;
mod before_start;
mod discussions;
mod failures;
mod foreign_blockers;
mod from_graph;
mod harness;
mod judges;
mod loops;
mod many_tasks;
mod parallel_discussions;
mod people;
mod planning;
mod remote_agents;
mod selection;
mod standalone;
mod triggers;
mod typed_output;
mod verdicts;
mod waiting_people;
mod workflow_budgets;

use std::time::Duration;

use emergent_coordination::{Error, create::NewWorkflow};
use emergent_domain::{
    task::TaskStatus,
    workflow::{Limit, OnFailure, WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, hangs, says},
};
use harness::{House, task, text};
use serde_json::json;

both_engines! {
    async fn tasks_are_done_in_their_order_and_hand_on_what_they_found(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("finder", [says("Tags are flat strings.")])
            .agent("builder", [says("Built it.")]);
        let house = House::open(&db, model).await;
        house.agents(&["finder", "builder"]).await;
        let id = house.dispatch(vec![task("build", "builder", &["find"]), task("find", "finder", &[])]).await;
        let shown = house.completed(id).await;
        let build = shown.tasks.iter().find(|one| one.task.key == "build").unwrap();
        assert_eq!((build.task.status, build.blocked_by.as_slice()), (TaskStatus::Completed, &["find".to_owned()][..]));
        assert_eq!(build.task.output, Some(json!("Built it.")));
        let prompt = house.prompt(build.runs[0]).await;
        assert!(prompt.contains("The build") && prompt.contains("Tags are flat strings."), "{prompt}");
        let kinds: Vec<String> = house.events(id).await.into_iter().map(|event| event.kind).collect();
        let place = |kind: &str| kinds.iter().position(|one| one == kind).unwrap();
        assert!(place("workflow_started") < place("task_started") && place("task_completed") < place("workflow_ended"));
        let summary = shown.workflow.summary.unwrap();
        assert!(summary.contains("2 of 2 tasks completed") && summary.contains("Built it."), "{summary}");
        house.close().await;
    }

    async fn every_attempt_has_a_session_with_its_messages_and_where_it_knows_things_from(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("finder", [calls("entities_query", json!({ "type": "Tag" })), says("There is nothing.")])
            .agent("builder", [says("Built it.")]);
        let house = House::open(&db, model).await;
        house.agent("finder", &["entities_query"]).await;
        house.agent("builder", &[]).await;
        let id = house.dispatch(vec![task("find", "finder", &[]), task("build", "builder", &["find"])]).await;
        let shown = house.completed(id).await;
        let find = shown.tasks.iter().find(|one| one.task.key == "find").unwrap();
        let sessions = house.beyond(find.task.id, "has_session").await;
        assert_eq!(sessions.len(), 1);
        assert_eq!((text(&sessions[0], "status"), text(&sessions[0], "agent_name")), ("completed".into(), "finder".into()));
        assert_eq!(text(&sessions[0], "run_id"), find.runs[0].to_string());
        let messages = house.beyond(sessions[0].id, "has_message").await;
        let roles: Vec<String> = messages.iter().map(|message| text(message, "role")).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant"]);
        assert_eq!(text(&messages[4], "content"), "There is nothing.");
        assert_eq!(sessions[0].properties.to_map()["message_count"], 5, "results of tools count as well");
        let build = shown.tasks.iter().find(|one| one.task.key == "build").unwrap();
        let own = house.beyond(build.task.id, "has_session").await;
        let informed = house.beyond(own[0].id, "informed_by").await;
        assert_eq!(informed.iter().map(|one| one.id).collect::<Vec<_>>(), [sessions[0].id]);
        house.close().await;
    }

    async fn a_session_names_those_it_knows_things_from_behind_its_blockers(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("finder", [says("Tags are flat strings.")])
            .agent("builder", [says("Built it.")])
            .agent("writer", [says("Described it.")]);
        let house = House::open(&db, model).await;
        house.agents(&["finder", "builder", "writer"]).await;
        let tasks = vec![
            task("find", "finder", &[]),
            task("build", "builder", &["find"]),
            task("describe", "writer", &["build"]),
        ];
        let shown = house.completed(house.dispatch(tasks).await).await;
        let mut sessions = Vec::new();
        for key in ["find", "build", "describe"] {
            let one = shown.tasks.iter().find(|one| one.task.key == key).unwrap();
            sessions.push(house.beyond(one.task.id, "has_session").await.remove(0));
        }
        let [found, built, described] = &sessions[..] else { panic!("{sessions:?}") };
        let informed = house.beyond(described.id, "informed_by").await;
        assert_eq!(informed.iter().map(|one| one.id).collect::<Vec<_>>(), [built.id], "an edge to each blocker's");
        assert_eq!(described.properties.to_map()["earlier_sessions"], json!([found.id]));
        assert_eq!(built.properties.to_map().get("earlier_sessions"), None);
        house.close().await;
    }

    async fn a_task_that_fails_is_tried_again_with_what_went_wrong(db: TestDb) {
        let model = ScriptedModel::default().agent("builder", [
            emergent_testkit::scripted::fails(emergent_llm::Error::BadRequest {
                model: "scripted/lines".into(), status: 400, message: "no such column".into(),
            }),
            says("Built it."),
        ]);
        let house = House::open(&db, model).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch(vec![task("build", "builder", &[])]).await;
        let shown = house.completed(id).await;
        let build = &shown.tasks[0];
        assert_eq!((build.task.retry_count, build.runs.len()), (1, 2));
        let prompt = house.prompt(build.runs[1]).await;
        assert!(prompt.contains("no such column"), "{prompt}");
        let sessions = house.beyond(build.task.id, "has_session").await;
        let before = house.beyond(sessions[1].id, "follows_up").await;
        assert_eq!(before[0].id, sessions[0].id);
        assert_eq!(text(&sessions[1], "retry_of"), sessions[0].id.to_string());
        house.close().await;
    }

    async fn no_more_tasks_are_at_work_than_there_are_slots(db: TestDb) {
        let lines = (0..12).map(|_| says("Done.").with_delay(Duration::from_millis(30)));
        let house = House::open(&db, ScriptedModel::default().agent("builder", lines)).await;
        house.agents(&["builder"]).await;
        let keys: Vec<String> = (0..12).map(|at| format!("t{at}")).collect();
        let tasks = keys.iter().map(|key| task(key, "builder", &[])).collect();
        let settings = WorkflowSettings { max_concurrent: 3, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, tasks).await;
        house.completed(id).await;
        assert!(house.model.max_open() <= 3, "{}", house.model.max_open());
        house.close().await;
    }

    async fn what_waits_for_a_failed_task_is_skipped_where_that_is_wanted(db: TestDb) {
        let model = ScriptedModel::default().agent("other", [says("Fine.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "other"]).await;
        let mut build = task("build", "builder", &[]);
        build.max_retries = Some(0);
        let tasks = vec![build, task("test", "other", &["build"]), task("tell", "other", &["test"]), task("else", "other", &[])];
        let settings = WorkflowSettings { on_failure: OnFailure::Skip, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, tasks).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Failed);
        let status = |key: &str| shown.tasks.iter().find(|one| one.task.key == key).unwrap().task.status;
        assert_eq!([status("build"), status("test"), status("tell"), status("else")],
            [TaskStatus::Failed, TaskStatus::Skipped, TaskStatus::Skipped, TaskStatus::Completed]);
        house.close().await;
    }

    async fn a_run_that_meets_a_limit_is_resumed_and_keeps_its_conversation(db: TestDb) {
        let model = ScriptedModel::default().agent("builder", [
            calls("entities_query", json!({ "type": "A" })),
            says("I got half way."),
            says("Done now."),
        ]);
        let house = House::open(&db, model).await;
        let definition = emergent_domain::agent::AgentDefinition {
            model: ScriptedModel::MODEL.parse().ok(),
            tools: vec!["entities_query".into()],
            max_steps: Some(1),
            ..emergent_domain::agent::AgentDefinition::new("builder")
        };
        house.dispatcher.executor().create_agent(house.actor(), definition).await.unwrap();
        let id = house.dispatch(vec![task("build", "builder", &[])]).await;
        let shown = house.completed(id).await;
        assert_eq!(shown.tasks[0].task.output, Some(json!("Done now.")));
        assert_eq!(shown.tasks[0].task.retry_count, 0);
        let asked = house.model.requests_of("builder");
        assert!(asked.last().unwrap().turns.len() > 3, "the resumed run sees what was said before");
        house.close().await;
    }

    async fn a_budget_that_is_used_up_stops_what_would_go_over_and_asks_a_person(db: TestDb) {
        let lines = (0..10).map(|_| says("Done."));
        let house = House::open(&db, ScriptedModel::default().agent("builder", lines)).await;
        house.agents(&["builder"]).await;
        let budget = Limit { tokens: Some(1), microusd: None };
        let settings = WorkflowSettings { budget, ..WorkflowSettings::default() };
        let id = house.dispatch_with(settings, vec![task("a", "builder", &[]), task("b", "builder", &["a"])]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let escalation = shown.workflow.escalation.unwrap();
        assert!(escalation.reason.contains("budget"));
        assert_eq!(escalation.options, ["resume", "skip", "cancel"]);
        assert!(shown.spent.spent.tokens <= 1);
        assert!(house.model.requests().is_empty(), "nothing was asked that could not be paid");
        let more = Some(Limit { tokens: Some(1_000_000), microusd: None });
        house.dispatcher.resume(house.actor(), id, None, more).await.unwrap();
        let shown = house.completed(id).await;
        assert!(shown.spent.spent.tokens > 0 && shown.spent.reserved.tokens == 0);
        house.close().await;
    }

    async fn another_server_goes_on_with_a_workflow_whose_server_died(db: TestDb) {
        let model = ScriptedModel::default().agent("builder", [hangs()]);
        let first = House::open(&db, model).await;
        first.agents(&["builder"]).await;
        let id = first.dispatch(vec![task("a", "builder", &[]), task("b", "builder", &["a"])]).await;
        first.reaches(id, "a", TaskStatus::InProgress).await;
        first.kill();
        let second = House::open(&db, ScriptedModel::default().agent("builder", [says("A."), says("B.")])).await;
        let shown = second.completed(id).await;
        assert_eq!(shown.tasks.iter().map(|one| one.runs.len()).collect::<Vec<_>>(), [1, 1], "the same runs went on");
        second.close().await;
    }

    async fn what_depends_on_a_split_task_waits_for_its_subtasks_and_reads_their_result(db: TestDb) {
        let split = json!({
            "tasks": [{ "key": "part", "title": "One part", "assignedAgent": "helper" }],
            "synthesis": { "key": "whole", "title": "Put it together", "assignedAgent": "helper" },
        });
        let model = ScriptedModel::default()
            .agent("worker", [calls("create_subtasks", split), says("I split it.")])
            .agent("helper", [says("The part.").with_delay(Duration::from_millis(100)), says("All of it together.")])
            .agent("other", [says("Done.")]);
        let house = House::open(&db, model).await;
        house.agent("worker", &["create_subtasks"]).await;
        house.agents(&["helper", "other"]).await;
        let id = house.dispatch(vec![task("a", "worker", &[]), task("z", "other", &["a"])]).await;
        let shown = house.completed(id).await;
        let last = shown.tasks.iter().find(|one| one.task.key == "z").unwrap();
        let prompt = house.prompt(last.runs[0]).await;
        assert!(prompt.contains("All of it together."), "{prompt}");
        house.close().await;
    }

    async fn a_cancelled_workflow_has_a_summary(db: TestDb) {
        let model = ScriptedModel::default().agent("builder", [says("Built it."), hangs()]);
        let house = House::open(&db, model).await;
        house.agents(&["builder"]).await;
        let tasks = vec![task("a", "builder", &[]), task("b", "builder", &["a"]), task("c", "builder", &["b"])];
        let id = house.dispatch(tasks).await;
        house.reaches(id, "b", TaskStatus::InProgress).await;
        house.dispatcher.cancel(house.actor(), id).await.unwrap();
        let summary = house.ended(id).await.workflow.summary.unwrap();
        assert!(summary.contains("1 of 3 tasks completed, 1 failed, 1 skipped; cancelled"), "{summary}");
        assert!(summary.contains("Built it."), "{summary}");
        assert!(summary.contains("- `b` failed: Attempt 1: its workflow was cancelled"), "{summary}");
        let shown = house.ended(id).await;
        let failed = shown.tasks.iter().find(|one| one.task.key == "b").unwrap();
        assert_eq!(failed.task.failure_context, "Attempt 1: its workflow was cancelled");
        let ended = house.events(id).await.into_iter().find(|event| event.kind == "workflow_ended").unwrap();
        assert_eq!(ended.data["summary"], json!(summary));
        house.close().await;
    }

    async fn nothing_is_dispatched_when_the_budget_of_the_day_is_used_up(db: TestDb) {
        let model = ScriptedModel::default().agent("builder", [says("Done."), says("Done.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder"]).await;
        let limit = |tokens: i64| house.dispatcher.set_budget(house.project, None, Limit { tokens: Some(tokens), microusd: None });
        limit(1_000_000).await.unwrap();
        let id = house.dispatch(vec![task("a", "builder", &[])]).await;
        house.completed(id).await;
        limit(1).await.unwrap();
        let new = || NewWorkflow {
            description: "more of it".into(), settings: WorkflowSettings::default(), tasks: vec![task("b", "builder", &[])],
        };
        let refused = house.dispatcher.dispatch(house.actor(), new()).await.unwrap_err();
        assert!(matches!(&refused, Error::Conflict(why) if why.contains("budget for the day is used up")), "{refused}");
        limit(1_000_000).await.unwrap();
        let id = house.dispatcher.dispatch(house.actor(), new()).await.unwrap().id;
        house.completed(id).await;
        house.close().await;
    }

    async fn a_cycle_is_reported_beside_the_other_problems(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder"]).await;
        let tasks = vec![task("a", "builder", &["b"]), task("b", "nobody", &["a", "c"])];
        let new = NewWorkflow { description: "a circle".into(), settings: WorkflowSettings::default(), tasks };
        let refused = house.dispatcher.dispatch(house.actor(), new).await.unwrap_err().to_string();
        for problem in ["there is no agent `nobody`", "there is no task `c`", "would create a dependency cycle: "] {
            assert!(refused.contains(problem), "{problem}: {refused}");
        }
        house.close().await;
    }
}
