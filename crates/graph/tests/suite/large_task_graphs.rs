//! Tasks with very many `blocks` edges, and with names of megabytes: whoever writes them delays nobody else.

use emergent_domain::{
    ids::{ObjectId, RelationshipId},
    object::ObjectPatch,
    relationship::Relationship,
};
use emergent_graph::{Error, Result};
use emergent_store::{projects, relationships, tasks::MAX_FOLLOWED_BLOCKS};
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::support::{Harness, edge, map, new, problem};

async fn create_tasks(harness: &Harness, count: usize) -> Vec<ObjectId> {
    let task = |_| new("SpecTask", "", json!({ "title": "t" }));
    let created =
        harness.graph.bulk_create_objects(harness.actor, (0..count).map(task).collect(), true).await;
    created.unwrap().into_iter().map(|task| task.unwrap().id).collect()
}

/// Stores edges as they are, without the checks of the graph. `sample` is one of the project.
async fn store_blocks(harness: &Harness, sample: &Relationship, ends: Vec<(ObjectId, ObjectId)>) {
    for ends in ends.chunks(2_000) {
        let copy = |(from, to): &(ObjectId, ObjectId)| Relationship {
            id: RelationshipId::new(),
            from: *from,
            to: *to,
            ..sample.clone()
        };
        let (rows, project): (Vec<Relationship>, _) = (ends.iter().map(copy).collect(), harness.project());
        let store = move |tx: &mut emergent_store::Tx<'_>| {
            let project = projects::get(tx, project)?.expect("the project");
            relationships::insert_many(tx, project.no, &rows)
        };
        harness.graph.db().write(store).await.unwrap();
    }
}

/// A task that blocks each task of one layer, each of which blocks each of another. Returns it and the last layer.
async fn layers(harness: &Harness, size: usize) -> (ObjectId, Vec<ObjectId>) {
    let tasks = create_tasks(harness, 2 * size + 1).await;
    let (root, first, last) = (tasks[0], &tasks[1..=size], &tasks[size + 1..]);
    let sample = harness.edge("blocks", root, first[0]).await;
    let others = first[1..].iter().map(|task| (root, *task));
    let between = first.iter().flat_map(|from| last.iter().map(move |to| (*from, *to)));
    store_blocks(harness, &sample, others.chain(between).collect()).await;
    (root, last.to_vec())
}

/// The task with this key.
async fn named(harness: &Harness, key: &str) -> ObjectId {
    let reference = format!("SpecTask/{key}").parse().unwrap();
    harness.graph.resolve_object(harness.project(), reference).await.unwrap()
}

fn conflict<T: std::fmt::Debug>(outcome: Result<T>) -> String {
    match outcome {
        Err(error @ Error::Conflict { .. }) => error.to_string(),
        other => panic!("expected a conflict, got {other:?}"),
    }
}

fn reasons(results: Vec<Result<Relationship>>) -> Vec<String> {
    results.into_iter().map(problem).collect()
}

both_engines! {
    async fn one_of_many_edges_that_closes_one_of_many_cycles_is_found_soon(db: TestDb) {
        let harness = Harness::reader(&db).await;
        let (root, last) = layers(&harness, 90).await;
        // 999 edges that close nothing, and one that does. A write may take 2.5 seconds.
        let mut edges: Vec<_> = create_tasks(&harness, 999).await.into_iter().map(|x| edge("blocks", x, root)).collect();
        edges.push(edge("blocks", last[0], root));
        let refused = problem(harness.graph.bulk_create_relationships(harness.actor, edges, true).await);
        assert!(refused.starts_with("relationships[999].toId: would create a dependency cycle: t → t → t → t;"), "{refused}");

        // A thousand that all close some.
        let edges = (0..1_000).map(|n| edge("blocks", last[n % last.len()], root)).collect();
        let refused = reasons(harness.graph.bulk_create_relationships(harness.actor, edges, false).await.unwrap());
        assert!(refused[9].contains("would create a dependency cycle: t → t → t → t;"), "{}", refused[9]);
        assert!(refused[10..].iter().all(|reason| reason.contains("together with other new edges: 10 before it")));
    }

    async fn more_edges_than_are_followed_are_refused_and_what_is_there_can_be_changed(db: TestDb) {
        let harness = Harness::reader(&db).await;
        let (root, last) = layers(&harness, 142).await;
        let [x, y] = [create_tasks(&harness, 1).await[0], create_tasks(&harness, 1).await[0]];
        let limit = format!("more than {MAX_FOLLOWED_BLOCKS} `blocks` edges");
        let refused = problem(harness.graph.create_relationship(harness.actor, edge("blocks", x, root)).await);
        assert!(refused.starts_with("toId: may create a dependency cycle: ") && refused.contains(&limit), "{refused}");
        // Nothing waits for a new task, so any other can block it.
        let added = harness.edge("blocks", last[0], y).await;
        // What is deleted is restored only if it is known to close no cycle, and deleting more helps.
        harness.graph.delete_relationship(harness.actor, added.id, None).await.unwrap();
        harness.graph.restore_relationship(harness.actor, added.id).await.unwrap();
        harness.graph.delete_object(harness.actor, root, None).await.unwrap();
        let refused = conflict(harness.graph.restore_object(harness.actor, root).await);
        assert!(refused.contains("it cannot be restored: it may create a dependency cycle: ") && refused.contains(&limit));
        for task in &last[..3] {
            harness.graph.delete_object(harness.actor, *task, None).await.unwrap();
        }
        harness.graph.restore_object(harness.actor, root).await.unwrap();
        // An object with as many edges can still become no task.
        let thing = ObjectPatch { type_: Some("Thing".into()), ..ObjectPatch::default() };
        harness.graph.update_object(harness.actor, x, thing).await.unwrap();
        harness.edge("blocks", x, root).await;
        for task in &last[..3] {
            harness.graph.restore_object(harness.actor, *task).await.unwrap();
        }
        let task = ObjectPatch { type_: Some("SpecTask".into()), ..ObjectPatch::default() };
        let refused = conflict(harness.graph.update_object(harness.actor, x, task).await);
        assert!(refused.contains("it cannot be a task: it may create") && refused.contains(&limit), "{refused}");
    }

    async fn a_message_about_a_long_cycle_of_long_names_is_short(db: TestDb) {
        let harness = Harness::reader(&db).await;
        // An import brings tasks as earlier versions stored them.
        let title = "A".repeat(500_000);
        let line = |key: &str| json!({ "kind": "object", "type": "SpecTask", "key": key, "properties": { "title": title } }).to_string();
        let lines = vec![(1, line("a")), (2, line("b"))];
        assert_eq!(harness.graph.import_batch(harness.actor, lines).await.unwrap().objects.created, 2);
        let (a, b) = (named(&harness, "a").await, named(&harness, "b").await);
        let sample = harness.edge("blocks", a, b).await;
        let refused = problem(harness.graph.create_relationship(harness.actor, edge("blocks", b, a)).await);
        let name = format!("{}…", "A".repeat(80));
        assert_eq!(refused, format!("toId: would create a dependency cycle: {name} → {name} → {name}; remove one of these edges"));

        let chain: Vec<ObjectId> = (0..3_000).map(|_| ObjectId::new()).collect();
        let mut ends = vec![(b, chain[0])];
        ends.extend(chain.windows(2).map(|pair| (pair[0], pair[1])));
        let end = create_tasks(&harness, 1).await[0];
        ends.push((chain[chain.len() - 1], end));
        store_blocks(&harness, &sample, ends).await;
        let refused = problem(harness.graph.create_relationship(harness.actor, edge("blocks", end, a)).await);
        assert!(refused.contains(" → … 2994 more … → ") && refused.len() < 1_000, "{refused}");
    }

    async fn a_task_that_is_written_as_an_object_has_short_names(db: TestDb) {
        let harness = Harness::reader(&db).await;
        let graph = &harness.graph;
        let with = |properties: Value| ObjectPatch { properties: Some(map(properties)), ..ObjectPatch::default() };
        let (fits, long) = ("t".repeat(500), "t".repeat(501));
        for name in ["title", "key"] {
            let refused = problem(graph.create_object(harness.actor, new("SpecTask", "", json!({ name: long }))).await);
            assert_eq!(refused, format!("properties.{name}: must have at most 500 bytes in a `SpecTask`"));
        }
        let task = harness.object(new("SpecTask", "", json!({ "title": fits, "key": fits }))).await;
        let refused = problem(graph.update_object(harness.actor, task, with(json!({ "title": long }))).await);
        assert!(refused.starts_with("properties.title: "), "{refused}");
        // Other objects may have longer titles, but not become tasks with them.
        let thing = harness.object(new("Thing", "", json!({ "title": long }))).await;
        let turn = ObjectPatch { type_: Some("SpecTask".into()), ..ObjectPatch::default() };
        assert!(problem(graph.update_object(harness.actor, thing, turn).await).starts_with("properties.title: "));

        // A task of an earlier version keeps its title, and is changed in other fields.
        let line = json!({ "kind": "object", "type": "SpecTask", "key": "old", "properties": { "title": long } });
        graph.import_batch(harness.actor, vec![(1, line.to_string())]).await.unwrap();
        let old = named(&harness, "old").await;
        let changed = graph.update_object(harness.actor, old, with(json!({ "title": long, "description": "d" }))).await.unwrap();
        assert_eq!(changed.version, 2);
        let longer = with(json!({ "title": format!("{long}.") }));
        assert!(matches!(graph.update_object(harness.actor, old, longer).await, Err(Error::Invalid(_))));
        graph.update_object(harness.actor, old, with(json!({ "title": "short" }))).await.unwrap();
    }
}
