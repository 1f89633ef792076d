//! Whoever may write the graph cannot link tasks and discussions to workflows, runs and decisions.

use crate::support;

use emergent_domain::{
    author::Author,
    cursor::Page,
    ids::{ObjectId, RunId, WorkflowId},
    object::{Object, ObjectPatch},
    token::Scope,
    workflow::WorkflowSettings,
};
use emergent_graph::{Actor, Error, NewSubgraph, Result};
use emergent_store::workflows;
use emergent_testkit::{both_engines, fixtures};
use serde_json::{Value, json};
use support::*;

async fn workflow(harness: &Harness, started_by_run: Option<RunId>) -> WorkflowId {
    let now = harness.graph.clock().now();
    let mut workflow = fixtures::workflow(harness.project(), WorkflowSettings::default(), now);
    workflow.started_by_run = started_by_run;
    let id = workflow.id;
    let inserted: emergent_store::Result<()> =
        harness.graph.db().write(move |tx| workflows::insert(tx, &workflow)).await;
    inserted.unwrap();
    id
}

/// A token that may change the tasks of workflows, but not their links.
async fn invoker(harness: &Harness) -> Actor {
    let scopes = [Scope::GraphRead, Scope::GraphWrite, Scope::AgentsInvoke].into();
    let (token, _) = harness.graph.create_token("t", scopes, Some(harness.project()), None).await.unwrap();
    Actor { author: Author::Token { id: token.id }, ..harness.actor }
}

fn properties(value: Value) -> ObjectPatch {
    ObjectPatch { properties: Some(map(value)), ..ObjectPatch::default() }
}

/// The fields that a refusal names.
fn refused<T: std::fmt::Debug>(outcome: Result<T>) -> Vec<String> {
    match outcome {
        Err(Error::Invalid(invalid)) => invalid.problems.into_iter().map(|problem| problem.field).collect(),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

async fn stored(harness: &Harness, id: ObjectId) -> Object {
    harness.graph.get_object(harness.project(), id).await.unwrap()
}

both_engines! {
    async fn a_token_cannot_link_a_task_however_it_writes_it(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, token) = (&harness.graph, harness.actor);
        let flow = workflow(&harness, None).await;
        let wish = json!({ "title": "t", "assigned_agent": "inside", "collaborators": ["a"], "kind": "test" });
        let task = harness.object(new("SpecTask", "wish", wish)).await;
        for (name, value) in [("workflow_id", json!(flow)), ("run_id", json!(RunId::new())), ("resumes", json!(1))] {
            let (forged, field) = (json!({ "title": "t", name: value }), format!("properties.{name}"));
            let object = || new("SpecTask", "", forged.clone());
            assert_eq!(refused(graph.create_object(token, object()).await), [field.as_str()]);
            let each = graph.bulk_create_objects(token, vec![object()], false).await.unwrap().remove(0);
            assert_eq!(refused(each), [field.as_str()]);
            let listed = [format!("objects[0].{field}")];
            assert_eq!(refused(graph.bulk_create_objects(token, vec![object()], true).await), listed);
            let subgraph = NewSubgraph { objects: vec![(None, object())], ..NewSubgraph::default() };
            assert_eq!(refused(graph.create_subgraph(token, subgraph).await), listed);
            let upsert = new("SpecTask", "wish", forged.clone());
            assert_eq!(refused(graph.upsert_object(token, upsert).await), [field.as_str()]);
            assert_eq!(refused(graph.update_object(token, task, properties(forged.clone())).await), [field.as_str()]);
            // By the way of another type, whose properties mean nothing.
            let note = harness.object(new("Note", "", forged.clone())).await;
            let becomes = ObjectPatch { type_: Some("SpecTask".into()), ..ObjectPatch::default() };
            assert_eq!(refused(graph.update_object(token, note, becomes).await), [field]);
        }
        assert_eq!(stored(&harness, task).await.version, 1);
        graph.update_object(token, task, properties(json!({ "assigned_agent": "other" }))).await.unwrap();
    }

    async fn the_task_of_a_workflow_stays_there_with_its_agent(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let flow = workflow(&harness, None).await;
        let linked = json!({ "title": "t", "workflow_id": flow, "run_id": RunId::new(), "assigned_agent": "a" });
        let task = harness.object(new("SpecTask", "", linked)).await;
        let token = invoker(&harness).await;
        let change = async |value| harness.graph.update_object(token, task, properties(value)).await;
        assert_eq!(refused(change(json!({ "assigned_agent": "b" })).await), ["properties.assigned_agent"]);
        assert_eq!(refused(change(json!({ "collaborators": ["b"] })).await), ["properties.collaborators"]);
        assert_eq!(refused(change(json!({ "workflow_id": null })).await), ["properties.workflow_id"]);
        assert_eq!(refused(change(json!({ "run_id": RunId::new() })).await), ["properties.run_id"]);
        let same = json!({ "title": "new", "workflow_id": flow, "assigned_agent": "a" });
        assert_eq!(change(same).await.unwrap().version, 2);
    }

    async fn the_task_of_a_workflow_stays_a_task_so_that_its_links_stay(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let graph = &harness.graph;
        let flow = workflow(&harness, None).await;
        let becomes = |type_: &str| ObjectPatch { type_: Some(type_.into()), ..ObjectPatch::default() };
        let linked = json!({ "title": "t", "workflow_id": flow });
        let (run, of_run) = run_in(&harness);
        let own = json!({ "title": "t", "workflow_id": workflow(&harness, Some(run)).await });
        let token = invoker(&harness).await;
        for (author, links) in [
            (token, linked.clone()),
            (token, json!({ "title": "t", "run_id": RunId::new() })),
            (token, json!({ "title": "t", "needs_person": true })),
            (of_run, own),
        ] {
            let task = harness.object(new("SpecTask", "", links)).await;
            assert_eq!(refused(graph.update_object(author, task, becomes("Tmp")).await), ["type"]);
            assert_eq!(stored(&harness, task).await.version, 1);
        }
        // Neither does an import change it, also not while it restores the task.
        let task = harness.object(new("SpecTask", "here", linked)).await;
        let free = json!({ "title": "new", "workflow_id": null });
        let line = json!({ "kind": "object", "id": task, "type": "Tmp", "properties": free }).to_string();
        for deleted in [false, true] {
            if deleted {
                graph.delete_object(token, task, None).await.unwrap();
            }
            let outcome = graph.import_batch(token, vec![(1, line.clone())]).await.unwrap();
            assert_eq!((outcome.objects.updated, outcome.errors.len()), (0, 1), "{outcome:?}");
            let history = graph.object_history(harness.project(), task, Page::first(10)).await.unwrap().items;
            assert_eq!((history.len(), &*history[0].type_), (1 + usize::from(deleted), "SpecTask"));
            assert_eq!(history[0].properties.to_map()["workflow_id"], json!(flow));
        }
        // Without links it is an object like any other.
        let wish = harness.object(new("SpecTask", "", json!({ "title": "t", "assigned_agent": "a" }))).await;
        graph.update_object(token, wish, becomes("Tmp")).await.unwrap();
        graph.update_object(token, wish, becomes("SpecTask")).await.unwrap();
    }

    async fn a_run_adds_tasks_to_its_own_workflow_only(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, actor) = run_in(&harness);
        let (own, other) = (workflow(&harness, Some(run)).await, workflow(&harness, None).await);
        let task = |flow: WorkflowId| new("SpecTask", "", json!({ "title": "t", "workflow_id": flow }));
        harness.graph.create_object(actor, task(own)).await.unwrap();
        assert_eq!(refused(harness.graph.create_object(actor, task(other)).await), ["properties.workflow_id"]);
    }

    async fn an_import_brings_no_links_and_leaves_those_there_are(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let flow = workflow(&harness, None).await;
        let linked = json!({ "title": "t", "workflow_id": flow, "run_id": RunId::new() });
        let task = harness.object(new("SpecTask", "here", linked)).await;
        let links = json!({ "title": "new", "workflow_id": flow, "run_id": RunId::new(), "resumes": 1 });
        let line = |key: &str| {
            json!({ "kind": "object", "type": "SpecTask", "key": key, "properties": links }).to_string()
        };
        let token = invoker(&harness).await;
        let lines = vec![(1, line("here")), (2, line("there"))];
        let outcome = harness.graph.import_batch(token, lines).await.unwrap();
        assert_eq!((outcome.objects.updated, outcome.objects.created, outcome.errors), (1, 1, vec![]));
        let before = stored(&harness, task).await.properties.to_map();
        assert_eq!((&before["title"], &before["workflow_id"]), (&json!("new"), &json!(flow)));
        assert_ne!(before["run_id"], links["run_id"]);
        let found = harness.graph.upsert_object(token, new("SpecTask", "there", json!({}))).await.unwrap().0;
        assert_eq!(found.properties.to_map(), map(json!({ "title": "new", "status": "pending" })));
    }

    async fn nobody_forges_the_decision_of_a_person(db: TestDb) {
        let harness = Harness::new(&db).await;
        let token = harness.actor;
        let decision = json!({ "topic": "t", "decided_by_person": { "decision": "yes", "reason": "", "by": null } });
        let made = harness.graph.create_object(token, new("Discussion", "", decision.clone())).await;
        assert_eq!(refused(made), ["properties.decided_by_person"]);
        let plain = harness.object(new("Discussion", "", json!({ "topic": "t", "status": "active" }))).await;
        let resolves = properties(json!({ "status": "resolved" }));
        harness.graph.update_object(token, plain, resolves.clone()).await.unwrap();

        let system = Actor { author: Author::System, ..token };
        let conducted = json!({ "topic": "t", "status": "active", "settings": {}, "run_id": RunId::new() });
        let conducted = harness.graph.create_object(system, new("Discussion", "", conducted)).await.unwrap().id;
        let change = async |patch| refused(harness.graph.update_object(token, conducted, patch).await);
        assert_eq!(change(properties(decision)).await, ["properties.decided_by_person"]);
        assert_eq!(change(resolves).await, ["properties.status"]);
        assert_eq!(change(properties(json!({ "settings": null }))).await, ["properties.settings"]);
    }

    async fn a_task_of_a_workflow_keeps_its_key(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let (graph, flow) = (&harness.graph, workflow(&harness, None).await);
        let key = |key: &str| json!({ "title": "t", "key": key, "workflow_id": flow });
        let name = format!("{flow}/review");
        let task = harness.object(new("SpecTask", &name, key("review"))).await;
        let token = invoker(&harness).await;
        for other in [json!("other"), json!("SpecTask/zz"), Value::Null] {
            let changed = graph.update_object(token, task, properties(json!({ "key": other }))).await;
            assert_eq!(refused(changed), ["properties.key"], "{other}");
        }
        let upsert = new("SpecTask", &name, json!({ "key": "other" }));
        assert_eq!(refused(graph.upsert_object(token, upsert).await), ["properties.key"]);
        graph.update_object(token, task, properties(json!({ "key": "review", "remark": "fine" }))).await.unwrap();
        assert_eq!(stored(&harness, task).await.properties.to_map()["key"], "review");

        // An import does not change it either, also not while it restores the task.
        let taken = harness.object(new("SpecTask", "", key("build"))).await;
        graph.delete_object(token, taken, None).await.unwrap();
        let line = json!({ "kind": "object", "id": taken, "type": "SpecTask", "properties": { "key": "other" } });
        let imported = graph.import_batch(token, vec![(1, line.to_string())]).await.unwrap();
        assert_eq!((imported.objects.updated, imported.errors.len()), (0, 1), "{imported:?}");

        // Outside of workflows, a task is an object like any other.
        let outside = harness.object(new("SpecTask", "", json!({ "title": "t", "key": "a" }))).await;
        graph.update_object(token, outside, properties(json!({ "key": "b" }))).await.unwrap();
    }
}
