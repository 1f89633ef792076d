//! The rules for tasks hold regardless of how a task is written.

use crate::support;

use emergent_domain::{
    author::Author,
    cursor::Page,
    ids::{ObjectId, RunId, ToolCallId, WorkflowId},
    object::{Object, ObjectPatch},
    query::Direction,
    workflow::WorkflowSettings,
};
use emergent_graph::{
    Actor, EdgeEnd, Error, Graph, NewSubgraph, NewSubgraphEdge, Result, WriteContext, objects, relationships,
};
use emergent_store::{Engine, tasks, tasks::TaskFilter, workflows};
use emergent_testkit::{TestDb, both_engines, fixtures};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Map, json};
use support::*;

async fn task(harness: &Harness, key: &str) -> ObjectId {
    harness.object(new("SpecTask", "", json!({ "key": key, "title": key }))).await
}

async fn tasks_named<const N: usize>(harness: &Harness, keys: [&str; N]) -> [ObjectId; N] {
    let mut ids = [ObjectId(uuid::Uuid::nil()); N];
    for (id, key) in ids.iter_mut().zip(keys) {
        *id = task(harness, key).await;
    }
    ids
}

fn moved(status: &str) -> ObjectPatch {
    ObjectPatch { properties: Some(map(json!({ "status": status }))), ..ObjectPatch::default() }
}

fn status(object: &Object) -> String {
    object.properties.to_map()["status"].as_str().unwrap().to_owned()
}

async fn become_(harness: &Harness, id: ObjectId, to: &str) -> Result<Object> {
    harness.graph.update_object(harness.actor, id, moved(to)).await
}

/// Runs a write that decides about the tasks of a workflow, or about tasks without one.
async fn as_dispatcher<T: Send + 'static>(
    graph: &Graph,
    actor: Actor,
    workflow: Option<WorkflowId>,
    work: impl Fn(&mut emergent_store::Tx<'_>, &WriteContext) -> Result<T> + Send + 'static,
) -> Result<T> {
    let inner = graph.clone();
    graph
        .db()
        .write(move |tx| {
            let writer = match workflow {
                Some(workflow) => inner.workflow_write_context(tx, actor, workflow)?.0,
                None => inner.unassigned_write_context(tx, actor)?,
            };
            work(tx, &writer)
        })
        .await
}

async fn workflow(harness: &Harness, max_tasks: usize) -> WorkflowId {
    workflow_of(harness, max_tasks, None).await
}

/// A workflow that a run started.
async fn workflow_of(harness: &Harness, max_tasks: usize, run: Option<RunId>) -> WorkflowId {
    let settings = WorkflowSettings { max_tasks, ..WorkflowSettings::default() };
    let mut workflow = fixtures::workflow(harness.project(), settings, harness.graph.clock().now());
    workflow.started_by_run = run;
    let id = workflow.id;
    harness
        .graph
        .db()
        .write(move |tx| workflows::insert(tx, &workflow))
        .await
        .unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
    id
}

async fn revision(harness: &Harness, id: WorkflowId) -> i64 {
    let project = harness.project();
    let found: emergent_store::Result<_> =
        harness.graph.db().read(move |tx| workflows::get(tx, project, id)).await;
    found.unwrap().unwrap().revision
}

fn in_workflow(id: WorkflowId, key: &str) -> emergent_domain::object::NewObject {
    new("SpecTask", &format!("{id}/{key}"), json!({ "key": key, "workflow_id": id }))
}

/// An actor that writes as a run, so that its writes can be reverted.
fn by_run(harness: &Harness) -> (Actor, RunId) {
    let run_id = RunId::new();
    let author = Author::Run { run_id, tool_call_id: Some(ToolCallId::new()) };
    (Actor { author, ..harness.actor }, run_id)
}

fn conflict<T: std::fmt::Debug>(outcome: Result<T>) -> String {
    match outcome {
        Err(error @ Error::Conflict { .. }) => error.to_string(),
        other => panic!("expected a conflict, got {other:?}"),
    }
}

both_engines! {
    async fn a_task_begins_pending_and_moves_only_as_tasks_move(db: TestDb) {
        let harness = Harness::reader(&db).await;
        let id = task(&harness, "build").await;
        assert_eq!(status(&harness.graph.get_object(harness.project(), id).await.unwrap()), "pending");
        assert_eq!(
            problem(harness.graph.create_object(harness.actor, new("SpecTask", "", json!({ "status": "completed" }))).await),
            "properties.status: a new task must be pending, not completed: create it as pending, then change its status"
        );
        assert_eq!(
            problem(become_(&harness, id, "done").await),
            "properties.status: \"done\" is not one of pending, in_progress, completed, failed, paused, skipped"
        );
        assert_eq!(
            conflict(become_(&harness, id, "failed").await),
            "the task `build` is pending, which can only become in_progress, completed or skipped; it cannot become failed"
        );
        assert_eq!(status(&become_(&harness, id, "in_progress").await.unwrap()), "in_progress");
        assert_eq!(status(&become_(&harness, id, "completed").await.unwrap()), "completed");
        assert_eq!(
            conflict(become_(&harness, id, "pending").await),
            "the task `build` is completed, which is final; it cannot become pending"
        );
        // Removing the status resets the task to pending. All other properties may change.
        let none = ObjectPatch { properties: Some(map(json!({ "status": null }))), ..ObjectPatch::default() };
        conflict(harness.graph.update_object(harness.actor, id, none).await);
        let other = ObjectPatch { properties: Some(map(json!({ "summary": "s" }))), ..ObjectPatch::default() };
        assert_eq!(status(&harness.graph.update_object(harness.actor, id, other).await.unwrap()), "completed");
        // An object that becomes a task must be pending.
        let thing = harness.object(new("Thing", "", json!({ "status": "completed" }))).await;
        let turn = ObjectPatch { type_: Some("SpecTask".into()), ..ObjectPatch::default() };
        assert!(problem(harness.graph.update_object(harness.actor, thing, turn).await).starts_with("properties.status"));
        harness.object(new("Thing", "", json!({ "status": "whatever" }))).await;
    }

    async fn the_dispatcher_makes_moves_of_its_own(db: TestDb) {
        let harness = Harness::reader(&db).await;
        let id = task(&harness, "build").await;
        for to in ["in_progress", "completed", "pending", "failed", "pending"] {
            let step = moved(to);
            let after = as_dispatcher(&harness.graph, harness.actor, None, move |tx, writer| {
                objects::update(tx, writer, id, &step)
            });
            assert_eq!(status(&after.await.unwrap()), to);
        }
        let back = as_dispatcher(&harness.graph, harness.actor, None, move |tx, writer| {
            objects::update(tx, writer, id, &moved("paused"))
        });
        assert_eq!(
            conflict(back.await),
            "the task `build` is pending, which can only become in_progress, completed, failed or skipped; it cannot become paused"
        );
    }

    async fn a_writer_decides_only_about_the_tasks_of_its_own_workflow(db: TestDb) {
        let harness = Harness::reader(&db).await.into_system();
        let (flow, other) = (workflow(&harness, 10).await, workflow(&harness, 10).await);
        let ours = harness.object(in_workflow(flow, "ours")).await;
        let theirs = harness.object(in_workflow(other, "theirs")).await;
        let unassigned = task(&harness, "unassigned").await;
        let fails = |decides: Option<WorkflowId>, id: ObjectId| {
            as_dispatcher(&harness.graph, harness.actor, decides, move |tx, writer| {
                objects::update(tx, writer, id, &moved("failed"))
            })
        };
        for (decides, id) in [(Some(flow), theirs), (Some(flow), unassigned), (None, ours)] {
            assert!(conflict(fails(decides, id).await).ends_with("it cannot become failed"));
        }
        for (decides, id) in [(Some(flow), ours), (Some(other), theirs), (None, unassigned)] {
            assert_eq!(status(&fails(decides, id).await.unwrap()), "failed");
        }
    }

    async fn an_import_brings_tasks_as_they_are_and_moves_them_as_tasks_move(db: TestDb) {
        let harness = Harness::reader(&db).await;
        let line = |key: &str, status: &str| {
            json!({ "kind": "object", "type": "SpecTask", "key": key, "properties": { "status": status } }).to_string()
        };
        let lines = vec![(1, line("a", "failed")), (2, line("b", "completed")), (3, line("c", "in_progress"))];
        let first = harness.graph.import_batch(harness.actor, lines).await.unwrap();
        assert_eq!((first.objects.created, first.errors.len()), (3, 0));
        let lines = vec![(1, line("a", "failed")), (2, line("b", "pending")), (3, line("c", "completed"))];
        let again = harness.graph.import_batch(harness.actor, lines).await.unwrap();
        assert_eq!((again.objects.unchanged, again.objects.updated), (1, 1));
        assert_eq!(again.errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2]);
        let edge = |from: &str, to: &str| {
            let end = |key: &str| json!({ "type": "SpecTask", "key": key });
            json!({ "kind": "relationship", "type": "blocks", "from": end(from), "to": end(to) }).to_string()
        };
        let lines = vec![(1, edge("a", "b")), (2, edge("b", "c")), (3, edge("c", "a")), (4, edge("a", "c"))];
        let edges = harness.graph.import_batch(harness.actor, lines).await.unwrap();
        assert_eq!(edges.relationships.created, 3);
        assert_eq!(edges.errors.len(), 1);
        assert_eq!(edges.errors[0].line, 3);
        assert!(edges.errors[0].message.contains("dependency cycle: "), "{}", edges.errors[0].message);
    }

    async fn tasks_do_not_wait_for_one_another_in_a_circle(db: TestDb) {
        let harness = Harness::reader(&db).await;
        let graph = &harness.graph;
        let [a, b, c] = tasks_named(&harness, ["a", "b", "c"]).await;
        let block = async |from, to| graph.create_relationship(harness.actor, edge("blocks", from, to)).await;
        block(a, b).await.unwrap();
        block(b, c).await.unwrap();
        let round = "would create a dependency cycle: ";
        assert_eq!(problem(block(c, a).await), format!("toId: {round}c → a → b → c; remove one of these edges"));
        assert_eq!(problem(block(b, b).await), format!("toId: {round}b → b; remove one of these edges"));
        assert!(!block(a, b).await.unwrap().1, "the same edge again is the one that is there");

        // Several edges at once, including those that close a cycle only together.
        let d = task(&harness, "d").await;
        let new_edges = || vec![edge("blocks", c, d), edge("blocks", d, a), edge("likes", d, a), edge("blocks", a, d)];
        let all = graph.bulk_create_relationships(harness.actor, new_edges(), true).await;
        assert_eq!(problem(all), format!("relationships[1].toId: {round}d → a → b → c → d; remove one of these edges"));
        let each = graph.bulk_create_relationships(harness.actor, new_edges(), false).await.unwrap();
        assert_eq!(each.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, true]);

        let task_of = |key: &str| (Some(key.to_owned()), new("SpecTask", "", json!({ "title": key })));
        let joined = |from: EdgeEnd, to: EdgeEnd| NewSubgraphEdge {
            type_: "blocks".into(), from, to, properties: Map::new(), weight: None,
        };
        let name = |name: &str| EdgeEnd::Ref(name.into());
        let subgraph = NewSubgraph {
            objects: vec![task_of("x"), task_of("y")],
            relationships: vec![
                joined(name("x"), name("y")),
                joined(name("y"), EdgeEnd::Id(a)),
                joined(EdgeEnd::Id(d), name("x")),
            ],
        };
        let before = harness.change_kinds().await;
        assert_eq!(
            problem(graph.create_subgraph(harness.actor, subgraph).await),
            format!("relationships[2].toId: {round}d → x → y → a → d; remove one of these edges")
        );
        assert_eq!(harness.change_kinds().await, before, "nothing of it is left");

        // Objects other than tasks may form cycles.
        let [p, q] = [harness.object(new("Thing", "", json!({}))).await, harness.object(new("Thing", "", json!({}))).await];
        block(p, q).await.unwrap();
        block(q, p).await.unwrap();
        // They are rejected as soon as they become tasks.
        let turn = || ObjectPatch { type_: Some("SpecTask".into()), ..ObjectPatch::default() };
        assert!(conflict(graph.update_object(harness.actor, p, turn()).await).contains("dependency cycle: "));
    }

    async fn what_comes_back_closes_no_circle(db: TestDb) {
        let harness = Harness::reader(&db).await;
        let graph = &harness.graph;
        let [a, b, c] = tasks_named(&harness, ["a", "b", "c"]).await;
        harness.edge("blocks", a, b).await;
        harness.edge("blocks", b, c).await;
        graph.delete_object(harness.actor, b, None).await.unwrap();
        let back = harness.edge("blocks", c, a).await;
        assert_eq!(
            conflict(graph.restore_object(harness.actor, b).await),
            "it cannot be restored: it would create a dependency cycle: b → c → a → b; remove one of these edges"
        );
        graph.delete_relationship(harness.actor, back.id, None).await.unwrap();
        graph.restore_object(harness.actor, b).await.unwrap();
        assert_eq!(harness.neighbours(b).await.len(), 2);

        // A run deletes an edge and a task, and others then add edges that rely on the deletion.
        let (actor, run) = by_run(&harness);
        let edges = graph.object_edges(harness.project(), b, Direction::Out, vec![], Page::first(9)).await.unwrap().items;
        graph.delete_relationship(actor, edges[0].id, None).await.unwrap();
        let e = task(&harness, "e").await;
        harness.edge("blocks", c, e).await;
        harness.edge("blocks", e, a).await;
        graph.delete_object(actor, e, None).await.unwrap();
        harness.edge("blocks", a, c).await;
        let reverted = graph.revert_run(harness.actor, run).await.unwrap();
        let reasons: Vec<&str> = reverted.conflicts.iter().map(|one| one.reason.as_str()).collect();
        assert!(reasons[0].contains("dependency cycle: "), "{reasons:?}");
        let ahead = db.read(move |tx| tasks::reachable_blocks(tx, &[a, b, c, e])).await.unwrap();
        assert_eq!(emergent_domain::task::find_cycle(&ahead.edges), None);
    }

    async fn undoing_a_run_moves_tasks_as_tasks_move(db: TestDb) {
        let harness = Harness::reader(&db).await;
        let graph = &harness.graph;
        let [a, b, c] = tasks_named(&harness, ["a", "b", "c"]).await;
        let (actor, run) = by_run(&harness);
        for id in [a, b, c] {
            become_(&harness, id, "in_progress").await.unwrap();
        }
        graph.update_object(actor, a, moved("completed")).await.unwrap();
        graph.update_object(actor, b, moved("pending")).await.unwrap();
        graph.update_object(actor, c, moved("completed")).await.unwrap();
        graph.delete_object(actor, c, None).await.unwrap();
        let reverted = graph.revert_run(harness.actor, run).await.unwrap();
        let told: Vec<(ObjectId, &str)> =
            reverted.conflicts.iter().map(|one| (ObjectId(one.id), one.reason.as_str())).collect();
        assert_eq!(told, [
            (a, "the task `a` is completed, which is final; it cannot become in_progress"),
            (c, "the task `c` is completed, which is final; it cannot become in_progress"),
        ]);
        assert_eq!(status(&graph.get_object(harness.project(), b).await.unwrap()), "in_progress");
        assert_eq!(status(&graph.get_object(harness.project(), a).await.unwrap()), "completed");
    }

    async fn whoever_walks_a_workflow_hears_of_every_change_of_its_tasks(db: TestDb) {
        let harness = Harness::reader(&db).await.into_system();
        let graph = &harness.graph;
        let (actor, run) = by_run(&harness);
        let (flow, other) = (workflow_of(&harness, 10, Some(run)).await, workflow(&harness, 10).await);
        let mut seen = 0;
        let mut heard = async |what: &str, whether: bool| {
            let now = revision(&harness, flow).await;
            assert_eq!(now > seen, whether, "{what}");
            seen = now;
        };
        let a = harness.object(in_workflow(flow, "a")).await;
        heard("a new task", true).await;
        let b = harness.object(in_workflow(other, "b")).await;
        heard("a task of another workflow", false).await;
        let edge = harness.edge("blocks", b, a).await;
        heard("a new edge", true).await;
        let weight = emergent_domain::relationship::RelationshipPatch { weight: Some(Some(0.5)), ..Default::default() };
        graph.update_relationship(harness.actor, edge.id, weight).await.unwrap();
        heard("a changed edge", true).await;
        become_(&harness, b, "in_progress").await.unwrap();
        heard("a move elsewhere", false).await;
        become_(&harness, a, "skipped").await.unwrap();
        heard("a move", true).await;
        let before = harness.object(in_workflow(flow, "before")).await;
        let within = harness.edge("blocks", before, a).await;
        heard("an edge within", true).await;
        graph.delete_relationship(actor, within.id, None).await.unwrap();
        heard("an edge that goes", true).await;
        graph.revert_run(harness.actor, run).await.unwrap();
        heard("an edge that comes back", true).await;
        graph.delete_object(harness.actor, b, None).await.unwrap();
        heard("a blocker that goes", true).await;
        graph.restore_object(harness.actor, b).await.unwrap();
        heard("a blocker that comes back", true).await;
        let leaves = ObjectPatch { properties: Some(map(json!({ "workflow_id": other }))), ..ObjectPatch::default() };
        graph.update_object(harness.actor, a, leaves).await.unwrap();
        heard("a task that leaves", true).await;
        harness.object(new("Thing", "", json!({ "workflow_id": flow }))).await;
        heard("something that is no task", false).await;
        let draft = objects::ObjectDraft::new(in_workflow(flow, "c")).unwrap();
        let c = as_dispatcher(graph, harness.actor, Some(flow), move |tx, writer| objects::create(tx, writer, &draft)).await.unwrap();
        let draft = relationships::RelationshipDraft::new(support::edge("blocks", b, c.id)).unwrap();
        as_dispatcher(graph, harness.actor, Some(flow), move |tx, writer| relationships::create(tx, writer, &draft)).await.unwrap();
        heard("what the dispatcher does itself", false).await;
    }

    async fn a_workflow_takes_so_many_tasks_and_no_more(db: TestDb) {
        let harness = Harness::reader(&db).await.into_system();
        let graph = &harness.graph;
        let (flow, wide) = (workflow(&harness, 2).await, workflow(&harness, 10).await);
        let made = graph
            .bulk_create_objects(harness.actor, ["a", "b", "c"].map(|key| in_workflow(flow, key)).into(), false)
            .await
            .unwrap();
        assert_eq!(made.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
        let full = format!("the workflow `{flow}` is full: it has 2 tasks, the limit is `max_tasks`");
        assert_eq!(conflict(graph.create_object(harness.actor, in_workflow(flow, "d")).await), full);
        let from_wide = harness.object(in_workflow(wide, "x")).await;
        let joins = ObjectPatch { properties: Some(map(json!({ "workflow_id": flow }))), ..ObjectPatch::default() };
        assert_eq!(conflict(graph.update_object(harness.actor, from_wide, joins).await), full);
        become_(&harness, made[0].as_ref().unwrap().id, "in_progress").await.unwrap();
    }

    async fn two_who_would_close_a_circle_together_do_not(db: TestDb) {
        let harness = Harness::reader(&db).await;
        let rounds = if db.engine() == Engine::Postgres { 40 } else { 10 };
        for round in 0..rounds {
            let [a, b] = tasks_named(&harness, ["a", "b"]).await;
            let close = |from, to| {
                let (graph, actor) = (harness.graph.clone(), harness.actor);
                tokio::spawn(async move { graph.create_relationship(actor, edge("blocks", from, to)).await })
            };
            let (one, other) = (close(a, b), close(b, a));
            let (one, other) = (one.await.unwrap(), other.await.unwrap());
            assert!(one.is_ok() != other.is_ok(), "round {round}: {one:?} {other:?}");
            let error = one.err().or(other.err()).unwrap();
            assert!(error.to_string().contains("dependency cycle: "), "{error}");
        }
    }

    async fn however_many_write_at_once_there_is_never_a_circle(db: TestDb) {
        let seed = rand::random::<u64>();
        println!("seed {seed}");
        let mut chance = StdRng::seed_from_u64(seed);
        let harness = Harness::reader(&db).await.into_system();
        let flow = workflow(&harness, 100).await;
        let mut ids = Vec::new();
        for at in 0..8 {
            ids.push(harness.object(in_workflow(flow, &format!("t{at}"))).await);
        }
        let mut writers = Vec::new();
        for _ in 0..4 {
            let mut chance = StdRng::seed_from_u64(chance.random());
            let (graph, actor, ids) = (harness.graph.clone(), harness.actor, ids.clone());
            writers.push(tokio::spawn(async move {
                let mut succeeded = 0;
                for _ in 0..25 {
                    let mut one = || ids[chance.random_range(0..ids.len())];
                    let (from, to) = (one(), one());
                    let done = match chance.random_range(0..10) {
                        0 => graph.delete_object(actor, from, None).await.map(|_| ()),
                        1 | 2 => graph.restore_object(actor, from).await.map(|_| ()),
                        3 => {
                            let edges = vec![edge("blocks", from, to), edge("blocks", to, ids[0])];
                            graph.bulk_create_relationships(actor, edges, false).await.map(|_| ())
                        }
                        _ => graph.create_relationship(actor, edge("blocks", from, to)).await.map(|_| ()),
                    };
                    match done {
                        Ok(()) => succeeded += 1,
                        Err(Error::Invalid(_) | Error::NotFound { .. } | Error::Conflict { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
                succeeded
            }));
        }
        let mut succeeded = 0;
        for writer in writers {
            succeeded += writer.await.unwrap();
        }
        assert!(succeeded > 10, "only {succeeded} of 100 writes succeeded: this shows nothing");
        let ahead = db.read(move |tx| tasks::reachable_blocks(tx, &ids)).await.unwrap();
        assert_eq!(emergent_domain::task::find_cycle(&ahead.edges), None);
    }
}

#[tokio::test]
async fn what_can_start_is_found_by_the_index_of_tasks() {
    let db = TestDb::sqlite().await;
    let harness = Harness::reader(&db).await;
    let project = harness.project();
    for (workflow, index) in
        [(Some(WorkflowId::new()), "graph_objects_tasks ("), (None, "graph_objects_tasks_page (")]
    {
        let wanted = TaskFilter { workflow, status: None, available: true };
        let (sql, params) = tasks::list_sql(project, &wanted, &Page::first(20));
        let plan: Vec<String> = db
            .read(move |tx| {
                tx.query(&format!("EXPLAIN QUERY PLAN {sql}"), &params, |row| row.get::<String>(3))
            })
            .await
            .unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert!(plan[0].contains(index), "{wanted:?}: {plan:#?}");
        assert!(plan.iter().any(|step| step.contains("graph_relationships_to")), "{plan:#?}");
        assert!(!plan.iter().any(|step| step.starts_with("SCAN")), "{plan:#?}");
    }
}
