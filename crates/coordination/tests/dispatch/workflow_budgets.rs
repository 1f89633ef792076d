//! The budget of a workflow is changed while the workflow is at work, or waits.

use std::time::Duration;

use emergent_coordination::Error;
use emergent_domain::{
    ids::WorkflowId,
    task::TaskStatus,
    workflow::{Limit, OnFailure, WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};

use crate::harness::{House, task};

fn tokens(tokens: i64) -> Limit {
    Limit { tokens: Some(tokens), microusd: None }
}

fn limited(budget: Limit) -> WorkflowSettings {
    WorkflowSettings { budget, ..WorkflowSettings::default() }
}

impl House {
    /// Starts two tasks, one after the other, and returns while the model answers the first one.
    async fn start_work(&self, budget: Limit) -> WorkflowId {
        self.start_work_before(budget, &["b"]).await
    }

    /// Starts a task and those that wait for it, and returns while the model answers the first one.
    async fn start_work_before(&self, budget: Limit, followers: &[&str]) -> WorkflowId {
        self.agents(&["builder"]).await;
        let mut tasks = vec![task("a", "builder", &[])];
        tasks.extend(followers.iter().map(|key| task(key, "builder", &["a"])));
        let id = self.dispatch_with(limited(budget), tasks).await;
        for _ in 0..500 {
            if self.model.open() == 1 {
                return id;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the model is not asked");
    }
}

fn slow_and_quick() -> ScriptedModel {
    let slow = says("A.").with_delay(Duration::from_secs(1));
    ScriptedModel::default().agent("builder", [slow, says("B.")])
}

both_engines! {
    async fn a_flow_that_uses_up_the_budget_is_not_tried_again(db: TestDb) {
        let spends = |text: &str| {
            says(text).with_usage(emergent_domain::chat::Usage { input: 1_500, output: 600, ..Default::default() })
        };
        let house = House::open(&db, ScriptedModel::default().agent("part", [spends("One."), spends("Two.")])).await;
        let part = emergent_domain::agent::AgentDefinition {
            model: ScriptedModel::MODEL.parse().ok().map(|model| emergent_domain::agent::ModelConfig {
                max_tokens: Some(1_000),
                ..model
            }),
            ..emergent_domain::agent::AgentDefinition::new("part")
        };
        let desk = emergent_domain::agent::AgentDefinition {
            flow_type: emergent_domain::agent::FlowType::Sequential,
            flow_config: Some(emergent_domain::agent::FlowConfig {
                agents: vec!["part".into(), "part".into()],
                ..Default::default()
            }),
            ..emergent_domain::agent::AgentDefinition::new("desk")
        };
        for definition in [part, desk] {
            house.dispatcher.executor().create_agent(house.actor(), definition).await.unwrap();
        }
        let id = house.dispatch_with(limited(tokens(2_200)), vec![task("a", "desk", &[])]).await;
        let shown = house.ended(id).await;
        assert_eq!((shown.workflow.status, shown.tasks[0].attempts), (WorkflowStatus::Escalated, 1));
        let reason = shown.workflow.escalation.unwrap().reason;
        assert!(reason.contains("the budget is too low"), "{reason}");
        house.close().await;
    }

    async fn a_smaller_budget_holds_for_what_comes_next_and_a_larger_one_waits_to_be_resumed(db: TestDb) {
        let house = House::open(&db, slow_and_quick()).await;
        let id = house.start_work(tokens(1_000_000)).await;
        let reason = Some("no more than this".to_owned());
        let changed = house.dispatcher.set_workflow_budget(house.actor(), id, tokens(2), reason).await.unwrap();
        assert_eq!((changed.status, changed.settings.budget), (WorkflowStatus::Running, tokens(2)));
        let shown = house.ended(id).await;
        assert_eq!((shown.workflow.status, shown.workflow.settings.budget), (WorkflowStatus::Escalated, tokens(2)));
        assert_eq!(shown.workflow.escalation.unwrap().options, ["resume", "skip", "cancel"]);

        // More budget alone decides nothing for the person who is asked.
        let changed = house.dispatcher.set_workflow_budget(house.actor(), id, tokens(1_000_000), None).await.unwrap();
        assert_eq!(changed.status, WorkflowStatus::Escalated);
        house.dispatcher.resume(house.actor(), id, None, None).await.unwrap();
        house.completed(id).await;
        let events = house.events(id).await;
        let changes: Vec<_> = events.iter().filter(|event| event.kind == "budget_changed").collect();
        let reasons: Vec<_> = changes.iter().map(|event| event.data["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons, ["from 1000000 tokens to 2 tokens: no more than this", "from 2 tokens to 1000000 tokens"]);
        assert!(changes.iter().all(|event| event.data["by"] == "person" && event.data["usd"].is_null()));
        assert_eq!(changes[1].data["tokens"], 1_000_000);
        house.close().await;
    }

    async fn tasks_that_the_budget_stops_at_the_same_time_are_all_refused(db: TestDb) {
        let house = House::open(&db, slow_and_quick()).await;
        let id = house.start_work_before(tokens(1_000_000), &["b", "c", "d"]).await;
        house.dispatcher.set_workflow_budget(house.actor(), id, tokens(2), None).await.unwrap();
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let stopped = shown.tasks.iter().filter(|one| one.task.status == TaskStatus::Failed).count();
        assert_eq!(stopped, 3, "{:?}", shown.tasks.iter().map(|one| one.task.status).collect::<Vec<_>>());
        house.close().await;
    }

    async fn more_budget_while_tasks_are_refused_spares_the_question(db: TestDb) {
        const FOLLOWERS: usize = 30;
        let keys: Vec<String> = (0..FOLLOWERS).map(|n| format!("b{n}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let slow = says("A.").with_delay(Duration::from_secs(1));
        let replies = std::iter::once(slow).chain((0..FOLLOWERS).map(|_| says("B.")));
        let house = House::open(&db, ScriptedModel::default().agent("builder", replies)).await;
        let id = house.start_work_before(tokens(1_000_000), &keys).await;
        house.dispatcher.set_workflow_budget(house.actor(), id, tokens(2), None).await.unwrap();
        let tasks = house.dispatcher.workflow(house.project, id).await.unwrap().tasks;
        let first = tasks.iter().find(|one| one.task.key == "a").unwrap().runs[0];
        let runs = house.dispatcher.executor();
        while !runs.get_run(house.project, first).await.unwrap().status.is_terminal() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Each task is refused by a transaction of its own, so only the first ones are refused by now.
        tokio::time::sleep(Duration::from_millis(50)).await;
        house.dispatcher.set_workflow_budget(house.actor(), id, tokens(2_000_000), None).await.unwrap();
        house.completed(id).await;
        assert!(house.events(id).await.iter().all(|event| event.kind != "escalated"));
        house.close().await;
    }

    async fn more_budget_in_time_spares_the_question(db: TestDb) {
        let house = House::open(&db, slow_and_quick()).await;
        let id = house.start_work(tokens(1_000_000)).await;
        house.dispatcher.set_workflow_budget(house.actor(), id, tokens(2), None).await.unwrap();
        house.dispatcher.set_workflow_budget(house.actor(), id, tokens(2_000_000), None).await.unwrap();
        let shown = house.completed(id).await;
        assert_eq!(shown.workflow.settings.budget, tokens(2_000_000));
        assert!(house.events(id).await.iter().all(|event| event.kind != "escalated"));
        house.close().await;
    }

    async fn a_workflow_that_has_ended_takes_no_budget(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("builder", [says("Done.")])).await;
        house.agents(&["builder"]).await;
        let settings = WorkflowSettings { on_failure: OnFailure::Skip, ..limited(tokens(1)) };
        let id = house.dispatch_with(settings, vec![task("a", "builder", &[])]).await;
        assert_eq!(house.ended(id).await.workflow.status, WorkflowStatus::Failed);
        let refused = house.dispatcher.set_workflow_budget(house.actor(), id, tokens(1_000_000), None).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)), "{refused:?}");
        assert!(refused.to_string().contains("emergent workflow resume"), "{refused}");

        house.dispatcher.resume(house.actor(), id, None, Some(tokens(1_000_000))).await.unwrap();
        house.completed(id).await;
        let refused = house.dispatcher.set_workflow_budget(house.actor(), id, tokens(5), None).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)), "{refused:?}");
        assert!(refused.to_string().contains("it has ended"), "{refused}");
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.settings.budget, tokens(1_000_000));
        assert!(house.events(id).await.iter().all(|event| event.kind != "budget_changed"));
        house.close().await;
    }
}
