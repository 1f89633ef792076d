//! Reverts of more than one transaction writes.

use crate::support;

use std::{collections::BTreeSet, time::Duration};

use emergent_domain::{
    ids::{ObjectId, RunId},
    object::ObjectPatch,
    relationship::RelationshipPatch,
    time::Clock,
};
use emergent_graph::{
    Actor, Graph,
    revert::{self, RevertReport, RunSet},
};
use emergent_store::{Db, Param, TimeLimits, Tx, params};
use emergent_testkit::{TestDb, both_engines};
use serde_json::json;
use support::*;
use tokio::sync::watch;

const OBJECTS: usize = 60;

/// Objects as they were before a run: the keys of the first ones, and how many edges there are.
#[derive(Debug, PartialEq)]
struct State {
    objects: Vec<(Option<String>, String)>,
    edges: Vec<Vec<ObjectId>>,
}

async fn state(harness: &Harness, ids: &[ObjectId]) -> State {
    let (mut objects, mut edges) = (Vec::new(), Vec::new());
    for id in ids {
        let object = harness.graph.get_object(harness.project(), *id).await.unwrap();
        objects.push((object.key, serde_json::Value::Object(object.properties.to_map()).to_string()));
        edges.push(harness.neighbours(*id).await);
    }
    State { objects, edges }
}

/// A run that changes, deletes and creates objects and edges, and swaps keys.
async fn work(harness: &Harness) -> (RunId, Vec<ObjectId>, State) {
    let mut ids = Vec::new();
    for n in 0..OBJECTS {
        ids.push(harness.object(new("note", &format!("k{n}"), json!({ "n": n }))).await);
    }
    for pair in ids.windows(2) {
        harness.edge("next", pair[0], pair[1]).await;
    }
    let before = state(harness, &ids).await;
    let (run, agent) = run_in(harness);
    let key = |key: Option<&str>| ObjectPatch { key: Some(key.map(str::to_owned)), ..ObjectPatch::default() };
    // The first and the last object exchange their keys.
    harness.graph.update_object(agent, ids[0], key(None)).await.unwrap();
    let last_key = format!("k{}", OBJECTS - 1);
    harness.graph.update_object(agent, ids[OBJECTS - 1], key(Some("k0"))).await.unwrap();
    harness.graph.update_object(agent, ids[0], key(Some(&last_key))).await.unwrap();
    for (n, id) in ids.iter().enumerate().skip(1).take(OBJECTS - 2) {
        match n % 3 {
            0 => drop(harness.graph.delete_object(agent, *id, None).await.unwrap()),
            1 => {
                let patch =
                    ObjectPatch { properties: Some(map(json!({ "n": -1 }))), ..ObjectPatch::default() };
                harness.graph.update_object(agent, *id, patch).await.unwrap();
            }
            _ => {
                let made = harness.graph.create_object(agent, new("note", "", json!({}))).await.unwrap().id;
                harness.graph.create_relationship(agent, edge("about", made, *id)).await.unwrap();
            }
        }
    }
    assert_ne!(harness.graph.get_object(harness.project(), ids[0]).await.unwrap().key.as_deref(), Some("k0"));
    (run, ids, before)
}

fn patch(properties: serde_json::Value) -> ObjectPatch {
    ObjectPatch { properties: Some(map(properties)), ..ObjectPatch::default() }
}

/// More work of a run, whose parts depend on each other, and changes of others since.
async fn entangled_work(harness: &Harness) -> RunId {
    let (graph, actor) = (&harness.graph, harness.actor);
    let weight = |value: f64| RelationshipPatch { weight: Some(Some(value)), ..RelationshipPatch::default() };
    let (hub, mut olds) = (harness.object(new("hub", "hub", json!({}))).await, Vec::new());
    let mut spokes = Vec::new();
    for n in 0..20 {
        olds.push(harness.object(new("old", &format!("o{n}"), json!({ "n": n }))).await);
        spokes.push(harness.edge("spoke", hub, olds[n]).await.id);
    }
    let (run, agent) = run_in(harness);
    // Some are changed several times, and their keys go to others that the run makes.
    let mut made = Vec::new();
    for (n, id) in olds.iter().enumerate().take(10) {
        let key = Some(Some(format!("moved{n}")));
        graph.update_object(agent, *id, ObjectPatch { key, ..ObjectPatch::default() }).await.unwrap();
        graph.update_object(agent, *id, patch(json!({ "n": -1 }))).await.unwrap();
        graph.update_object(agent, *id, patch(json!({ "n": -2 }))).await.unwrap();
        let new = new("old", &format!("o{n}"), json!({}));
        made.push(graph.create_object(agent, new).await.unwrap().id);
    }
    for pair in made.windows(2) {
        let edge = graph.create_relationship(agent, edge("chain", pair[0], pair[1])).await.unwrap().0;
        graph.update_relationship(agent, edge.id, weight(0.5)).await.unwrap();
    }
    // Relationships that are changed and then deleted with their end, and one that is made again.
    for id in &spokes[8..] {
        graph.update_relationship(agent, *id, weight(0.25)).await.unwrap();
    }
    for id in &olds[10..] {
        graph.delete_object(agent, *id, None).await.unwrap();
    }
    graph.delete_relationship(agent, spokes[3], None).await.unwrap();
    graph.create_relationship(agent, edge("spoke", hub, olds[3])).await.unwrap();
    graph.delete_relationship(agent, spokes[4], None).await.unwrap();
    // Since then others changed, connected and replaced some.
    graph.update_object(actor, olds[0], patch(json!({ "n": 100 }))).await.unwrap();
    harness.edge("mine", hub, made[5]).await;
    harness.object(new("old", "o15", json!({}))).await;
    graph.update_relationship(actor, spokes[9], weight(0.75)).await.unwrap();
    run
}

async fn count_versions(harness: &Harness) -> Vec<i64> {
    let project = harness.project();
    let read = move |tx: &mut emergent_store::Tx<'_>| {
        let mut counts = Vec::new();
        for entity in ["graph_object", "graph_relationship"] {
            let sql = format!(
                "SELECT CAST(coalesce(sum(version), 0) AS bigint) FROM {entity}s WHERE project_id = $1
                 UNION ALL SELECT count(*) FROM {entity}_versions WHERE project_id = $1"
            );
            counts.extend(tx.query(&sql, &[Param::from(project)], |row| row.get::<i64>(0))?);
        }
        Ok::<_, emergent_store::Error>(counts)
    };
    harness.graph.db().read(read).await.unwrap()
}

async fn assert_preview_is_exact(harness: &Harness, run: RunId, at_once: usize) -> RevertReport {
    let versions = count_versions(harness).await;
    let runs = RunSet::from([run]);
    let preview = harness.graph.preview_revert(harness.actor, runs.clone(), at_once).await.unwrap();
    assert_eq!(count_versions(harness).await, versions, "a preview changes nothing");
    let report = harness.graph.revert_in_batches(harness.actor, runs, at_once).await.unwrap();
    assert_eq!(preview, report);
    report
}

async fn count_objects(harness: &Harness) -> i64 {
    let project = harness.project();
    let sql = "SELECT count(*) FROM graph_objects WHERE project_id = $1 AND deleted_at IS NULL";
    let read =
        move |tx: &mut emergent_store::Tx<'_>| tx.query(sql, &[Param::from(project)], |row| row.get(0));
    let found: emergent_store::Result<Vec<i64>> = harness.graph.db().read(read).await;
    found.unwrap()[0]
}

async fn notes_with_keys(harness: &Harness, count: usize) -> Vec<ObjectId> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(harness.object(new("note", &format!("k{n}"), json!({}))).await);
    }
    ids
}

async fn set_key(harness: &Harness, agent: Actor, id: ObjectId, key: Option<String>) {
    let patch = ObjectPatch { key: Some(key), ..ObjectPatch::default() };
    harness.graph.update_object(agent, id, patch).await.unwrap();
}

/// A run that gives each object the key of the one before it in `order`, which has the numbers of all of them. Each key
/// is free again only when the object after it has its own key back.
async fn shift_keys(harness: &Harness, order: Vec<usize>) -> (RunId, Vec<ObjectId>) {
    let ids = notes_with_keys(harness, order.len()).await;
    let (run, agent) = run_in(harness);
    let mut key = "free".to_owned();
    for n in order {
        set_key(harness, agent, ids[n], Some(std::mem::replace(&mut key, format!("k{n}")))).await;
    }
    (run, ids)
}

async fn assert_own_keys(harness: &Harness, ids: &[ObjectId]) {
    for (n, id) in ids.iter().enumerate() {
        let object = harness.graph.get_object(harness.project(), *id).await.unwrap();
        assert_eq!(object.key, Some(format!("k{n}")));
    }
}

both_engines! {
    async fn a_long_row_of_keys_that_wait_for_each_other_is_reverted_in_one_transaction(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, ids) = shift_keys(&harness, (0..250).collect()).await;
        // Trying all of them again after each success takes 30,000 attempts, which is longer than a write may take.
        let report = harness.graph.revert_run(harness.actor, run).await.unwrap();
        assert_eq!((report.undone.len(), report.conflicts.len()), (250, 0));
        assert_own_keys(&harness, &ids).await;
    }

    async fn keys_that_wait_for_each_other_are_reverted_in_many_transactions(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, ids) = shift_keys(&harness, (0..20).collect()).await;
        let report = assert_preview_is_exact(&harness, run, 3).await;
        assert_eq!((report.undone.len(), report.conflicts), (20, vec![]));
        assert_own_keys(&harness, &ids).await;
    }

    async fn keys_that_wait_for_each_other_in_any_order_are_reverted_in_many_transactions(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, ids) = shift_keys(&harness, (0..20).map(|n| n * 7 % 20).collect()).await;
        let report = assert_preview_is_exact(&harness, run, 3).await;
        assert_eq!((report.undone.len(), report.conflicts), (20, vec![]));
        assert_own_keys(&harness, &ids).await;
    }

    async fn keys_that_many_pairs_exchanged_are_reverted_in_many_transactions(db: TestDb) {
        let harness = Harness::new(&db).await;
        let ids = notes_with_keys(&harness, 20).await;
        let (run, agent) = run_in(&harness);
        for n in 0..10 {
            set_key(&harness, agent, ids[n], None).await;
            set_key(&harness, agent, ids[n + 10], Some(format!("k{n}"))).await;
            set_key(&harness, agent, ids[n], Some(format!("k{}", n + 10))).await;
        }
        let report = assert_preview_is_exact(&harness, run, 3).await;
        assert_eq!((report.undone.len(), report.conflicts), (20, vec![]));
        assert_own_keys(&harness, &ids).await;
    }

    async fn a_revert_in_many_transactions_does_what_one_would_do(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, ids, before) = work(&harness).await;
        let report = harness.graph.revert_in_batches(harness.actor, RunSet::from([run]), 7).await.unwrap();
        assert_eq!(report.conflicts, []);
        assert_eq!(state(&harness, &ids).await, before);
        assert_eq!(count_objects(&harness).await, i64::try_from(OBJECTS).unwrap(), "what it created is gone");
        assert!(report.undone.len() > OBJECTS, "{}", report.undone.len());
        let again = harness.graph.revert_run(harness.actor, run).await.unwrap();
        assert_eq!((again.undone, again.conflicts), (vec![], vec![]), "nothing is left to do");
        let again = harness.graph.revert_in_batches(harness.actor, RunSet::from([run]), 7).await.unwrap();
        assert_eq!((again.undone, again.conflicts), (vec![], vec![]));
    }

    async fn a_preview_in_many_transactions_says_what_the_revert_then_does(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, ids, before) = work(&harness).await;
        let report = assert_preview_is_exact(&harness, run, 7).await;
        assert_eq!((report.conflicts.len(), state(&harness, &ids).await), (0, before));
    }

    async fn a_preview_knows_what_earlier_transactions_would_have_changed(db: TestDb) {
        let Harness { graph, .. } = Harness::new(&db).await;
        for (name, at_once) in [("small", 3), ("large", 1_000)] {
            let actor = project(&graph, name, false).await;
            let harness = Harness { graph: graph.clone(), actor };
            let run = entangled_work(&harness).await;
            let report = assert_preview_is_exact(&harness, run, at_once).await;
            assert!(report.undone.len() > 40, "{report:?}");
            let found: Vec<&str> = report.conflicts.iter().map(|one| one.reason.as_str()).collect();
            let has = |text: &str| found.iter().any(|reason| reason.contains(text));
            assert!(has("changed by someone else"), "{found:?}");
            assert!(has("connected it to other objects"), "{found:?}");
            assert!(has("is already used by the object"), "{found:?}");
            assert!(has("no longer exists"), "{found:?}");
        }
    }

    async fn large_objects_are_reverted_in_as_many_transactions_as_their_size_needs(db: TestDb) {
        // Each transaction has a time of its own, so the times of the versions say how many there were.
        let graph = Graph::new(db.db.clone(), Clock::system(), None);
        let actor = project(&graph, "large", false).await;
        let harness = Harness { graph, actor };
        let text = "x".repeat(1_000_000);
        let mut ids = Vec::new();
        for n in 0..18 {
            ids.push(harness.object(new("note", &format!("k{n}"), json!({ "n": n, "text": text }))).await);
        }
        let (run, agent) = run_in(&harness);
        for (n, id) in ids.iter().enumerate() {
            match n % 2 {
                0 => drop(harness.graph.delete_object(agent, *id, None).await.unwrap()),
                _ => {
                    let emptied = patch(json!({ "n": -1, "text": null }));
                    harness.graph.update_object(agent, *id, emptied).await.unwrap();
                }
            }
        }
        let report = assert_preview_is_exact(&harness, run, 1_000).await;
        assert_eq!((report.undone.len(), report.conflicts), (ids.len(), vec![]));
        let mut times = BTreeSet::new();
        for (n, id) in ids.iter().enumerate() {
            let object = harness.graph.get_object(harness.project(), *id).await.unwrap();
            assert_eq!(object.properties.to_map(), map(json!({ "n": n, "text": text })));
            times.insert(object.updated_at);
        }
        // Eight objects that were changed fit into a transaction. Of those that were deleted it may be half as many,
        // because the tombstone has the content as well, and a transaction that takes too long is divided.
        assert!((4..=18).contains(&times.len()), "{times:?}");
    }

    async fn a_document_that_is_deleted_during_a_revert_does_not_stop_it(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let by_run = Harness { graph: harness.graph.clone(), actor: agent };
        for n in 0..25 {
            document(&by_run, &format!("Document {n}"), &format!("Text {n}.")).await;
        }
        // Both read the list of documents, and each deletes those that the other one has not deleted.
        let revert = || harness.graph.revert_in_batches(harness.actor, RunSet::from([run]), 7);
        let (one, other) = tokio::join!(revert(), revert());
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!((one.undone.len() + other.undone.len(), one.conflicts, other.conflicts), (25, vec![], vec![]));
    }

    async fn a_revert_that_was_interrupted_is_continued_by_a_job(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, ids, before) = work(&harness).await;
        let (graph, actor) = (harness.graph.clone(), harness.actor);
        let enqueue = move |tx: &mut emergent_store::Tx<'_>| {
            let ctx = graph.write_context(tx, actor)?;
            revert::enqueue(tx, &ctx, &RunSet::from([run]))
        };
        let enqueued: emergent_graph::Result<()> = harness.graph.db().write(enqueue).await;
        enqueued.unwrap();
        // The server is killed after some of the transactions.
        let reverting = harness.graph.revert_in_batches(harness.actor, RunSet::from([run]), 3);
        let _ = tokio::time::timeout(Duration::from_millis(25), reverting).await;
        harness.graph.clock().advance(Duration::from_secs(61));
        let (stop, stopped) = watch::channel(false);
        let graph = harness.graph.clone();
        let worker = tokio::spawn(async move { graph.run_reverts(stopped).await });
        let open = "SELECT count(*) FROM jobs WHERE project_id = $1 AND queue = 'reverts' AND status IN ('queued', 'running')";
        for _ in 0..600 {
            let project = harness.project();
            let read = move |tx: &mut emergent_store::Tx<'_>| tx.query(open, &[Param::from(project)], |row| row.get(0));
            let found: emergent_store::Result<Vec<i64>> = harness.graph.db().read(read).await;
            if found.unwrap()[0] == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        stop.send(true).unwrap();
        worker.await.unwrap();
        assert_eq!(state(&harness, &ids).await, before);
        assert_eq!(count_objects(&harness).await, i64::try_from(OBJECTS).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revert_that_takes_too_long_for_one_transaction_is_made_in_several() {
    let mut db = TestDb::sqlite().await;
    let harness = Harness::new(&db).await;
    let (run, ids, before) = work(&harness).await;
    // Each change takes some milliseconds longer.
    let slow = "CREATE TRIGGER slow_updates AFTER UPDATE ON graph_objects BEGIN
        SELECT count(*) FROM sqlite_master AS a, sqlite_master AS b, (SELECT 1 FROM sqlite_master LIMIT 3) AS c
            WHERE a.name || b.name = 'x';
    END";
    db.write(move |tx: &mut Tx<'_>| tx.execute(slow, params![])).await.unwrap();
    let limits = TimeLimits { read: Duration::from_secs(10), write: Duration::from_millis(150) };
    db.db = Db::open_with(db.config().clone(), limits).await.unwrap();
    let graph = Graph::new(db.db.clone(), harness.graph.clock().clone(), None);
    let harness = Harness { graph, actor: harness.actor };
    let report = assert_preview_is_exact(&harness, run, 1_000).await;
    assert_eq!(report.conflicts, vec![]);
    assert_eq!(state(&harness, &ids).await, before);
}
