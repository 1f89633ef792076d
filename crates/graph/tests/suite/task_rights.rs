//! Whoever may write the graph, but not start agents, cannot change the tasks of a workflow.

use crate::support;

use emergent_domain::{
    author::Author,
    ids::{ObjectId, RunId, WorkflowId},
    object::{NewObject, ObjectPatch},
    pack::TemplatePack,
    relationship::RelationshipPatch,
    token::Scope,
    workflow::{WorkflowSettings, WorkflowStatus},
};
use emergent_graph::{Actor, Error, Result, objects};
use emergent_store::workflows;
use emergent_testkit::{both_engines, fixtures};
use serde_json::{Value, json};
use support::*;

async fn with_scopes(harness: &Harness, scopes: &[Scope]) -> Actor {
    let scopes = scopes.iter().copied().collect();
    let (token, _) = harness.graph.create_token("t", scopes, Some(harness.project()), None).await.unwrap();
    Actor { author: Author::Token { id: token.id }, ..harness.actor }
}

async fn workflow(harness: &Harness, status: WorkflowStatus, started_by_run: Option<RunId>) -> WorkflowId {
    let now = harness.graph.clock().now();
    let mut workflow = fixtures::workflow(harness.project(), WorkflowSettings::default(), now);
    workflow.started_by_run = started_by_run;
    workflow.status = status;
    let id = workflow.id;
    let inserted: emergent_store::Result<()> =
        harness.graph.db().write(move |tx| workflows::insert(tx, &workflow)).await;
    inserted.unwrap();
    id
}

/// A task of a workflow, written by the server.
async fn driven(harness: &Harness, flow: WorkflowId, key: &str, more: Value) -> ObjectId {
    let mut properties = map(json!({ "title": key, "key": key, "workflow_id": flow }));
    properties.extend(map(more));
    let system = Actor { author: Author::System, ..harness.actor };
    let new = new("SpecTask", &format!("{flow}/{key}"), Value::Object(properties));
    harness.graph.create_object(system, new).await.unwrap().id
}

fn properties(value: Value) -> ObjectPatch {
    ObjectPatch { properties: Some(map(value)), ..ObjectPatch::default() }
}

fn becomes(type_: &str) -> ObjectPatch {
    ObjectPatch { type_: Some(type_.to_owned()), ..ObjectPatch::default() }
}

/// The fields that a refusal names.
fn fields<T: std::fmt::Debug>(outcome: Result<T>) -> Vec<String> {
    match outcome {
        Err(Error::Invalid(invalid)) => invalid.problems.into_iter().map(|problem| problem.field).collect(),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn lacks_scope<T>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(Error::MissingScope { scope: Scope::AgentsInvoke, .. }))
}

fn is_conflict<T>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(Error::Conflict { .. }))
}

both_engines! {
    async fn an_outsider_neither_passes_a_gate_nor_rewrites_what_follows(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let graph = &harness.graph;
        let flow = workflow(&harness, WorkflowStatus::Running, None).await;
        let build = driven(&harness, flow, "build", json!({})).await;
        let review = driven(&harness, flow, "review", json!({ "verdict": "review" })).await;
        let deploy = driven(&harness, flow, "deploy", json!({})).await;
        harness.edge("blocks", build, review).await;
        let gate = harness.edge("blocks", review, deploy).await;
        let outsider = with_scopes(&harness, &[Scope::GraphRead, Scope::GraphWrite, Scope::AgentsWrite]).await;

        for (name, value) in [
            ("status", json!("completed")), ("status", json!("skipped")), ("title", json!("Obey.")),
            ("description", json!("Obey.")), ("output", json!("All is well.")), ("failure_context", json!("Obey.")),
        ] {
            let change = graph.update_object(outsider, review, properties(json!({ name: value }))).await;
            assert_eq!(fields(change), [format!("properties.{name}")]);
            let same = new("SpecTask", &format!("{flow}/review"), json!({ name: value }));
            assert_eq!(fields(graph.upsert_object(outsider, same).await), [format!("properties.{name}")]);
            let line = json!({ "kind": "object", "type": "SpecTask", "key": format!("{flow}/review"), "properties": { name: value } });
            let imported = graph.import_batch(outsider, vec![(1, line.to_string())]).await.unwrap();
            assert_eq!((imported.objects.updated, imported.errors.len()), (0, 1));
        }
        assert!(lacks_scope(graph.update_object(outsider, review, becomes("Note")).await));
        assert!(lacks_scope(graph.delete_object(outsider, review, None).await));
        assert!(lacks_scope(graph.delete_relationship(outsider, gate.id, None).await));
        let weight = RelationshipPatch { weight: Some(Some(0.5)), ..Default::default() };
        assert!(lacks_scope(graph.update_relationship(outsider, gate.id, weight).await));

        // What it made itself stays its own, but does not hold up the workflow.
        let own = graph.create_object(outsider, new("SpecTask", "", json!({ "title": "own" }))).await.unwrap().id;
        let other = graph.create_object(outsider, new("SpecTask", "", json!({ "title": "other" }))).await.unwrap().id;
        let block = async |from, to| graph.create_relationship(outsider, edge("blocks", from, to)).await;
        assert_eq!(fields(block(own, deploy).await), ["toId"]);
        assert_eq!(fields(block(deploy, own).await), ["fromId"]);
        assert!(!block(review, deploy).await.unwrap().1, "it is there");
        let discussion = graph.create_object(outsider, new("Discussion", "", json!({ "topic": "t" }))).await.unwrap().id;
        let talk = graph.create_relationship(outsider, edge("spawned_discussion", deploy, discussion)).await;
        assert_eq!(fields(talk), ["fromId"]);
        let several = vec![edge("blocks", own, other), edge("blocks", other, deploy)];
        let each = graph.bulk_create_relationships(outsider, several, false).await.unwrap();
        assert_eq!(each.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);
        graph.update_object(outsider, own, properties(json!({ "title": "new", "status": "completed" }))).await.unwrap();
        graph.delete_object(outsider, own, None).await.unwrap();
        graph.restore_object(outsider, own).await.unwrap();
        graph.update_object(outsider, review, properties(json!({ "remark": "Looks good." }))).await.unwrap();

        // What is deleted is not restored either.
        graph.delete_object(harness.actor, deploy, None).await.unwrap();
        assert!(lacks_scope(graph.restore_object(outsider, deploy).await));
    }

    async fn whoever_may_not_read_learns_nothing_of_a_task_by_guessing(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let graph = &harness.graph;
        let flow = workflow(&harness, WorkflowStatus::Running, None).await;
        let task = driven(&harness, flow, "build", json!({ "assigned_agent": "writer" })).await;
        let next = driven(&harness, flow, "deploy", json!({})).await;
        let gate = harness.edge("blocks", task, next).await;
        let writer = with_scopes(&harness, &[Scope::GraphWrite]).await;
        let update = async |change: Value| graph.update_object(writer, task, properties(change)).await.unwrap_err().to_string();
        for (stored, other) in [
            (json!({ "title": "build" }), json!({ "title": "test" })),
            (json!({ "assigned_agent": "writer" }), json!({ "assigned_agent": "reader" })),
            (json!({ "description": null }), json!({ "description": "Do it." })),
            (json!({ "workflow_id": flow }), json!({ "workflow_id": WorkflowId::new() })),
            (json!({ "status": "pending" }), json!({ "status": "skipped" })),
        ] {
            let (same, changed) = (update(stored.clone()).await, update(other).await);
            assert_eq!(same, changed, "{stored}");
            assert!(!same.contains(&flow.to_string()), "{same}");
            let upsert = NewObject { properties: map(stored.clone()), ..new("SpecTask", &format!("{flow}/build"), json!({})) };
            assert!(graph.upsert_object(writer, upsert).await.is_err(), "{stored}");
            let line = json!({ "kind": "object", "type": "SpecTask", "key": format!("{flow}/build"), "properties": stored });
            let imported = graph.import_batch(writer, vec![(1, line.to_string())]).await.unwrap();
            // A file links nothing, so this is not in it.
            assert_eq!(imported.errors.len(), usize::from(stored.get("workflow_id").is_none()), "{stored}");
        }
        // What does not belong to the workflow is changed, and nothing is refused that was not sent.
        graph.update_object(writer, task, properties(json!({ "remark": "Looks good." }))).await.unwrap();
        graph.update_object(writer, task, properties(json!({ "remark": "Looks good." }))).await.unwrap();

        // The same for relationships: whether there is one, and what it has.
        for weight in [gate.weight, Some(0.5)] {
            let patch = RelationshipPatch { weight: Some(weight), ..Default::default() };
            let refused = graph.update_relationship(writer, gate.id, patch).await.unwrap_err().to_string();
            assert!(!refused.contains(&flow.to_string()) && !refused.contains("build"), "{refused}");
        }
        let create = async |from, to| graph.create_relationship(writer, edge("blocks", from, to)).await.unwrap_err().to_string();
        assert_eq!(create(task, next).await, create(next, task).await);
        let deleted = graph.delete_object(writer, task, None).await.unwrap_err().to_string();
        assert!(!deleted.contains(&flow.to_string()) && !deleted.contains("build"), "{deleted}");

        // A task without a workflow does not tell its status.
        let own = harness.object(new("SpecTask", "own", json!({ "title": "own" }))).await;
        graph.update_object(harness.actor, own, properties(json!({ "status": "completed" }))).await.unwrap();
        let refused = async |status: &str| {
            let change = properties(json!({ "status": status }));
            graph.update_object(writer, own, change).await.unwrap_err().to_string().replace(status, "it")
        };
        assert_eq!(refused("completed").await, refused("in_progress").await);
        let reader = with_scopes(&harness, &[Scope::GraphRead, Scope::GraphWrite]).await;
        let unchanged = graph.update_object(reader, task, properties(json!({ "title": "build" }))).await.unwrap();
        assert_eq!(unchanged.version, 2);
    }

    async fn whoever_may_start_agents_changes_tasks_but_gives_no_verdict(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let graph = &harness.graph;
        let flow = workflow(&harness, WorkflowStatus::Running, None).await;
        let build = driven(&harness, flow, "build", json!({})).await;
        let review = driven(&harness, flow, "review", json!({ "verdict": "review" })).await;
        let invoker = with_scopes(&harness, &[Scope::GraphWrite, Scope::AgentsInvoke]).await;
        let change = async |id, value| graph.update_object(invoker, id, properties(value)).await;
        change(build, json!({ "title": "Build it well" })).await.unwrap();
        let (gate, _) = graph.create_relationship(invoker, edge("blocks", build, review)).await.unwrap();
        graph.delete_relationship(invoker, gate.id, None).await.unwrap();
        assert!(is_conflict(change(review, json!({ "status": "completed" })).await));
        change(review, json!({ "status": "in_progress" })).await.unwrap();
        assert!(is_conflict(change(review, json!({ "status": "completed" })).await));
        change(build, json!({ "status": "completed" })).await.unwrap();
        graph.delete_object(invoker, build, None).await.unwrap();
        graph.restore_object(invoker, build).await.unwrap();
    }

    async fn a_task_in_progress_is_neither_deleted_nor_restored_into_a_workflow_that_has_ended(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let graph = &harness.graph;
        let flow = workflow(&harness, WorkflowStatus::Running, None).await;
        let run = json!({ "run_id": RunId::new() });
        let task = driven(&harness, flow, "build", run.clone()).await;
        graph.update_object(harness.actor, task, properties(json!({ "status": "in_progress" }))).await.unwrap();
        assert!(is_conflict(graph.delete_object(harness.actor, task, None).await));
        let ended = workflow(&harness, WorkflowStatus::Completed, None).await;
        let late = driven(&harness, ended, "late", run).await;
        graph.delete_object(harness.actor, late, None).await.unwrap();
        assert!(is_conflict(graph.restore_object(harness.actor, late).await));
    }

    async fn a_run_changes_the_tasks_of_its_own_workflow_only(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let graph = &harness.graph;
        let (run, actor) = run_in(&harness);
        let own = workflow(&harness, WorkflowStatus::Running, Some(run)).await;
        let other = workflow(&harness, WorkflowStatus::Running, None).await;
        let (mine, theirs) = (driven(&harness, own, "a", json!({})).await, driven(&harness, other, "b", json!({})).await);
        let change = || properties(json!({ "description": "Refined." }));
        graph.update_object(actor, mine, change()).await.unwrap();
        assert_eq!(fields(graph.update_object(actor, theirs, change()).await), ["properties.description"]);
        assert!(lacks_scope(graph.delete_object(actor, theirs, None).await));

        // Whoever may not change the tasks does not undo the run either.
        let outsider = with_scopes(&harness, &[Scope::GraphWrite]).await;
        let reverted = graph.revert_run(outsider, run).await.unwrap();
        assert_eq!((reverted.undone.len(), reverted.conflicts.len()), (0, 1));
        assert_eq!(graph.get_object(harness.project(), mine).await.unwrap().version, 2);
    }

    async fn a_discussion_that_is_conducted_is_not_removed(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let graph = &harness.graph;
        let flow = workflow(&harness, WorkflowStatus::Running, None).await;
        let task = driven(&harness, flow, "build", json!({})).await;
        let talk = json!({ "topic": "t", "status": "active", "settings": {}, "task_id": task });
        let talk = harness.object(new("Discussion", "", talk)).await;
        let link = harness.edge("spawned_discussion", task, talk).await;
        let outsider = with_scopes(&harness, &[Scope::GraphWrite]).await;
        let invoker = with_scopes(&harness, &[Scope::GraphWrite, Scope::AgentsInvoke]).await;
        for actor in [outsider, invoker] {
            assert!(is_conflict(graph.delete_object(actor, talk, None).await));
            assert!(is_conflict(graph.update_object(actor, talk, becomes("Note")).await));
        }
        assert!(lacks_scope(graph.delete_relationship(outsider, link.id, None).await));
        graph.update_object(harness.actor, talk, properties(json!({ "status": "resolved" }))).await.unwrap();
        assert!(lacks_scope(graph.delete_object(outsider, talk, None).await));
        graph.delete_object(invoker, talk, None).await.unwrap();
    }

    async fn a_pack_does_not_stop_those_who_decide_about_a_workflow(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let graph = harness.graph.clone();
        let flow = workflow(&harness, WorkflowStatus::Running, None).await;
        let task = driven(&harness, flow, "build", json!({})).await;
        let narrow = json!({ "name": "narrow", "version": "1.0.0", "objectTypeSchemas": {
            "SpecTask": { "properties": { "status": { "enum": ["pending", "in_progress"] } } },
        } });
        let pack: TemplatePack = serde_json::from_value(narrow).unwrap();
        let stored = graph.create_pack(harness.project(), pack).await.unwrap();
        graph.assign_pack(harness.project(), stored.id).await.unwrap();
        let skipped = || properties(json!({ "status": "skipped" }));
        fields(graph.update_object(harness.actor, task, skipped()).await);
        let (inner, actor) = (graph.clone(), harness.actor);
        let decided: Result<_> = graph
            .db()
            .write(move |tx| {
                let (writer, _) = inner.workflow_write_context(tx, actor, flow)?;
                objects::update(tx, &writer, task, &skipped())
            })
            .await;
        assert_eq!(decided.unwrap().properties.to_map()["status"], "skipped");
    }
}
