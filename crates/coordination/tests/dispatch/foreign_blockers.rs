//! Tasks that wait for what is not done in their workflow: for a task of another one, or for somebody
//! who took them by hand.

use std::time::Duration;

use emergent_coordination::{Error, TaskCommand, TaskDetail, WorkflowDetail};
use emergent_domain::{
    ids::{ObjectId, WorkflowId},
    object::ObjectPatch,
    relationship::NewRelationship,
    task::{NewTask, TaskStatus},
    workflow::{Escalation, OnFailure, WorkflowSettings, WorkflowStatus},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, ScriptedReply, hangs, says},
};
use serde_json::{Map, json};

use crate::harness::{House, task};

fn of<'a>(shown: &'a WorkflowDetail, key: &str) -> &'a TaskDetail {
    shown.tasks.iter().find(|one| one.task.key == key).unwrap()
}

fn slowly(text: &str) -> ScriptedReply {
    says(text).with_delay(Duration::from_millis(400))
}

impl House {
    async fn shown(&self, id: WorkflowId) -> WorkflowDetail {
        self.dispatcher.workflow(self.project, id).await.unwrap()
    }

    async fn id_of(&self, id: WorkflowId, key: &str) -> ObjectId {
        of(&self.shown(id).await, key).task.id
    }

    async fn blocks(&self, from: ObjectId, to: ObjectId) {
        let edge = NewRelationship { type_: "blocks".into(), from, to, properties: Map::new(), weight: None };
        self.graph().create_relationship(self.actor(), edge).await.unwrap();
    }

    async fn moves(&self, task: ObjectId, status: &str) {
        let properties = json!({ "status": status }).as_object().cloned();
        let patch = ObjectPatch { properties, ..ObjectPatch::default() };
        self.graph().update_object(self.actor(), task, patch).await.unwrap();
    }

    /// As a verdict does: a completed task is open again.
    async fn sends_back(&self, workflow: WorkflowId, task: ObjectId) {
        let (graph, actor) = (self.graph().clone(), self.actor());
        let work = move |tx: &mut emergent_store::Tx<'_>| {
            let (writer, _) = graph.workflow_write_context(tx, actor, workflow)?;
            let properties = json!({ "status": "pending", "run_id": null }).as_object().cloned();
            let patch = ObjectPatch { properties, ..ObjectPatch::default() };
            emergent_graph::objects::update(tx, &writer, task, &patch)?;
            Ok(emergent_store::workflows::bump_revision(tx, actor.project, workflow)?)
        };
        let done: Result<_, emergent_graph::Error> = self.graph().db().write(work).await;
        done.unwrap();
    }

    /// Waits until something is told of a workflow, and how often it was.
    async fn told(&self, id: WorkflowId, kind: &str) -> Vec<String> {
        for _ in 0..1_000 {
            let events = self.events(id).await;
            let found: Vec<String> = events
                .into_iter()
                .filter(|event| event.kind == kind)
                .map(|event| event.data["reason"].as_str().unwrap_or_default().to_owned())
                .collect();
            if !found.is_empty() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{kind} is not told");
    }

    /// A workflow whose `ship` waits for `api` of another one.
    async fn ship_after(&self, api: ObjectId, settings: WorkflowSettings) -> WorkflowId {
        self.model.add("slow", [slowly("Prepared.")]);
        let tasks = vec![
            task("prepare", "slow", &[]),
            task("ship", "shipper", &["prepare"]),
            task("tell", "shipper", &["ship"]),
        ];
        let id = self.dispatch_with(settings, tasks).await;
        self.blocks(api, self.id_of(id, "ship").await).await;
        id
    }

    async fn asked(&self, id: WorkflowId) -> Escalation {
        let shown = self.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated, "{:?}", shown.workflow);
        shown.workflow.escalation.unwrap()
    }
}

/// A workflow with one task, `api`, that fails at once.
async fn failing(house: &House) -> (WorkflowId, ObjectId) {
    let id = house.dispatch(vec![NewTask { max_retries: Some(0), ..task("api", "builder", &[]) }]).await;
    house.ended(id).await;
    (id, house.id_of(id, "api").await)
}

both_engines! {
    async fn a_task_says_what_it_waits_for_in_another_workflow_until_that_is_done(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("The API.").with_delay(Duration::from_millis(2_500))])
            .agent("shipper", [says("Shipped."), says("Told.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "slow", "shipper"]).await;
        let first = house.dispatch(vec![task("api", "builder", &[])]).await;
        let api = house.id_of(first, "api").await;
        let id = house.ship_after(api, WorkflowSettings::default()).await;
        house.told(id, "task_waiting").await;
        let shown = house.shown(id).await;
        let name = format!("it waits for `api` (The api) of workflow `{first}`");
        assert_eq!(of(&shown, "ship").waiting.as_deref(), Some(name.as_str()));
        assert_eq!((of(&shown, "prepare").waiting.as_ref(), of(&shown, "tell").waiting.as_ref()), (None, None));
        let shown = house.completed(id).await;
        assert_eq!(of(&shown, "ship").waiting, None);
        assert_eq!(house.told(id, "task_waiting").await, [name], "it is told once");
        house.close().await;
    }

    async fn a_person_is_asked_when_what_it_waits_for_failed_and_looks_again_once_it_is_mended(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder", "slow", "shipper"]).await;
        let (first, api) = failing(&house).await;
        let id = house.ship_after(api, WorkflowSettings::default()).await;
        for round in 0..2 {
            let escalation = house.asked(id).await;
            assert_eq!(escalation.options, ["retry", "skip", "cancel"]);
            let reason = format!("`ship` waits for `api` (The api) of workflow `{first}`, which has failed");
            assert_eq!(escalation.reason, reason);
            let shown = house.shown(id).await;
            assert!(of(&shown, "ship").waiting.as_deref().unwrap().ends_with("which has failed"));
            if round == 1 {
                house.model.add("builder", [slowly("The API.")]);
                house.dispatcher.command_task(house.actor(), api, TaskCommand::Retry { note: None }).await.unwrap();
            }
            house.model.add("shipper", [says("Shipped."), says("Told.")]);
            // Nothing was mended the first time: the same is asked again.
            house.dispatcher.command_task(house.actor(), escalation.task.unwrap(), TaskCommand::Retry { note: Some("mended".into()) }).await.unwrap();
        }
        house.completed(first).await;
        let shown = house.completed(id).await;
        let ship = of(&shown, "ship");
        assert_eq!(ship.task.max_retries, 3, "looking again is no attempt");
        let prompt = house.prompt(ship.runs[0]).await;
        assert!(prompt.contains("mended"), "{prompt}");
        house.close().await;
    }

    async fn what_waits_for_a_cancelled_workflow_can_be_skipped(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("builder", [hangs()])).await;
        house.agents(&["builder", "slow", "shipper"]).await;
        let first = house.dispatch(vec![task("api", "builder", &[]), task("docs", "builder", &["api"])]).await;
        let docs = house.id_of(first, "docs").await;
        let id = house.ship_after(docs, WorkflowSettings::default()).await;
        house.told(id, "task_waiting").await;
        house.dispatcher.cancel(house.actor(), first).await.unwrap();
        let escalation = house.asked(id).await;
        assert!(escalation.reason.contains("`docs` (The docs)"), "{}", escalation.reason);
        house.dispatcher.command_task(house.actor(), escalation.task.unwrap(), TaskCommand::Skip { reason: None }).await.unwrap();
        let shown = house.completed(id).await;
        assert_eq!((of(&shown, "ship").task.status, of(&shown, "tell").task.status), (TaskStatus::Skipped, TaskStatus::Skipped));
        house.close().await;
    }

    async fn where_failures_are_skipped_nobody_is_asked_about_another_workflow(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default()).await;
        house.agents(&["builder", "slow", "shipper"]).await;
        let (first, api) = failing(&house).await;
        let settings = WorkflowSettings { on_failure: OnFailure::Skip, ..WorkflowSettings::default() };
        let id = house.ship_after(api, settings).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Failed);
        assert_eq!((of(&shown, "ship").task.status, of(&shown, "tell").task.status), (TaskStatus::Skipped, TaskStatus::Skipped));
        let why = house.told(id, "workflow_ended").await;
        assert!(why[0].contains(&format!("`api` (The api) of workflow `{first}`, which has failed")), "{why:?}");
        house.close().await;
    }

    async fn a_blocker_that_is_deleted_holds_up_nothing(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("shipper", [says("Shipped."), says("Told.")])).await;
        house.agents(&["builder", "slow", "shipper"]).await;
        let (_, api) = failing(&house).await;
        let id = house.ship_after(api, WorkflowSettings::default()).await;
        let ship = house.asked(id).await.task.unwrap();
        house.graph().delete_object(house.actor(), api, None).await.unwrap();
        house.dispatcher.command_task(house.actor(), ship, TaskCommand::Retry { note: None }).await.unwrap();
        house.completed(id).await;
        house.close().await;
    }

    async fn a_task_taken_by_hand_is_told_once_and_waited_for(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("slow", [slowly("Prepared.")])).await;
        house.agents(&["slow", "shipper"]).await;
        let id = house.dispatch(vec![task("prepare", "slow", &[]), task("ship", "shipper", &["prepare"])]).await;
        let ship = house.id_of(id, "ship").await;
        house.moves(ship, "in_progress").await;
        let told = house.told(id, "task_waiting").await;
        assert!(told[0].contains("taken by hand"), "{told:?}");
        assert_eq!(of(&house.shown(id).await, "ship").waiting, Some(told[0].clone()));
        house.reaches(id, "prepare", TaskStatus::Completed).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(house.shown(id).await.workflow.status, WorkflowStatus::Running, "it waits as long as it takes");
        house.moves(ship, "completed").await;
        let shown = house.completed(id).await;
        assert!(of(&shown, "ship").runs.is_empty());
        assert_eq!(house.told(id, "task_waiting").await.len(), 1);
        house.close().await;
    }

    async fn a_task_taken_by_hand_is_taken_back_given_away_or_skipped(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("slow", [slowly("Prepared.")])).await;
        house.agents(&["slow", "first", "second"]).await;
        let tasks = ["again", "other", "without"].map(|key| NewTask { max_retries: Some(0), ..task(key, "first", &["prepare"]) });
        let id = house.dispatch(tasks.into_iter().chain([task("prepare", "slow", &[]), task("after", "first", &["without"])]).collect()).await;
        for key in ["again", "other", "without"] {
            let task = house.id_of(id, key).await;
            house.moves(task, "in_progress").await;
        }
        house.reaches(id, "prepare", TaskStatus::Completed).await;
        house.told(id, "task_waiting").await;
        house.model.add("first", [says("Done by the first.")]);
        house.model.add("second", [says("Done by the second.")]);
        let steer = |key: &'static str, steer: TaskCommand| {
            let house = &house;
            async move { house.dispatcher.command_task(house.actor(), house.id_of(id, key).await, steer).await }
        };
        steer("again", TaskCommand::Retry { note: Some("nobody is at it".into()) }).await.unwrap();
        steer("other", TaskCommand::Reassign { agent: "second".into(), note: None }).await.unwrap();
        let skipped = steer("without", TaskCommand::Skip { reason: Some("not needed".into()) }).await.unwrap();
        assert_eq!(skipped.status, TaskStatus::Skipped);
        let shown = house.completed(id).await;
        let status = |key: &str| of(&shown, key).task.status;
        assert_eq!([status("again"), status("other"), status("without"), status("after")],
            [TaskStatus::Completed, TaskStatus::Completed, TaskStatus::Skipped, TaskStatus::Skipped]);
        assert_eq!(of(&shown, "other").task.assigned_agent.as_deref(), Some("second"));
        assert_eq!(of(&shown, "again").task.max_retries, 0, "taking it back is no attempt");
        let again = steer("without", TaskCommand::Retry { note: None }).await;
        assert!(matches!(again, Err(Error::Conflict(_))), "the workflow is over");
        house.close().await;
    }

    async fn a_task_whose_run_is_at_it_is_not_taken_away(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("builder", [hangs()])).await;
        house.agents(&["builder"]).await;
        let id = house.dispatch(vec![task("build", "builder", &[])]).await;
        let build = house.reaches(id, "build", TaskStatus::InProgress).await;
        assert_eq!(of(&house.shown(id).await, "build").waiting, None);
        for steer in [TaskCommand::Retry { note: None }, TaskCommand::Skip { reason: None }, TaskCommand::Reassign { agent: "builder".into(), note: None }] {
            let refused = house.dispatcher.command_task(house.actor(), build.id, steer).await;
            assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        }
        house.dispatcher.cancel(house.actor(), id).await.unwrap();
        house.close().await;
    }

    async fn what_another_workflow_took_back_is_waited_for_again(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("builder", [says("The API."), says("Better.").with_delay(Duration::from_millis(1_200))])
            .agent("shipper", [says("Shipped."), says("Told.")]);
        let house = House::open(&db, model).await;
        house.agents(&["builder", "hold", "slow", "shipper"]).await;
        house.model.add("hold", [hangs()]);
        let first = house.dispatch(vec![task("api", "builder", &[]), task("more", "hold", &["api"])]).await;
        let api = house.reaches(first, "api", TaskStatus::Completed).await.id;
        let id = house.ship_after(api, WorkflowSettings::default()).await;
        // Its walk knows by now that `api` is done. Nothing of its own workflow changes: it is not told.
        tokio::time::sleep(Duration::from_millis(150)).await;
        house.sends_back(first, api).await;
        house.reaches(id, "prepare", TaskStatus::Completed).await;
        let shown = house.completed(id).await;
        let api = house.graph().get_object(house.project, api).await.unwrap();
        let done = house.events(first).await.into_iter().rfind(|event| event.kind == "task_completed").unwrap();
        let begun = house.events(id).await.into_iter().find(|event| {
            event.kind == "task_started" && event.task == Some(of(&shown, "ship").task.id)
        });
        assert_eq!(crate::harness::text(&api, "status"), "completed");
        assert!(begun.unwrap().at >= done.at, "it began before what it waits for was done again");
        house.dispatcher.cancel(house.actor(), first).await.unwrap();
        house.close().await;
    }

    async fn the_result_of_a_blocker_outside_the_workflow_is_passed_on(db: TestDb) {
        let model = ScriptedModel::default().agent("shipper", [says("Shipped."), says("Told.")]);
        let house = House::open(&db, model).await;
        house.agents(&["slow", "shipper"]).await;
        let manual = NewTask { assigned_agent: None, ..task("manual", "", &[]) };
        let manual = house.dispatcher.add_task(house.actor(), None, manual).await.unwrap().id;
        let id = house.ship_after(manual, WorkflowSettings::default()).await;
        house.reaches(id, "prepare", TaskStatus::Completed).await;
        house.change(manual, json!({ "status": "completed", "output": "The contract is signed." })).await;
        let shown = house.completed(id).await;
        let prompt = house.prompt(of(&shown, "ship").runs[0]).await;
        assert!(prompt.contains("The contract is signed.") && prompt.contains("Prepared."), "{prompt}");
        house.close().await;
    }
}
