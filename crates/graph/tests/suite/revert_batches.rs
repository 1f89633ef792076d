//! Reverts of more than one transaction writes.

use crate::support;

use std::time::Duration;

use emergent_domain::{
    ids::{ObjectId, RunId},
    object::ObjectPatch,
};
use emergent_graph::revert::{self, RunSet};
use emergent_store::Param;
use emergent_testkit::both_engines;
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

async fn count_objects(harness: &Harness) -> i64 {
    let project = harness.project();
    let sql = "SELECT count(*) FROM graph_objects WHERE project_id = $1 AND deleted_at IS NULL";
    let read =
        move |tx: &mut emergent_store::Tx<'_>| tx.query(sql, &[Param::from(project)], |row| row.get(0));
    let found: emergent_store::Result<Vec<i64>> = harness.graph.db().read(read).await;
    found.unwrap()[0]
}

both_engines! {
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
