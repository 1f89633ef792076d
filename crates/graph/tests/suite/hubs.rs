//! Objects with more relationships than one transaction writes: deleting, restoring and reverting them.

use crate::support;

use std::time::Duration;

use emergent_domain::{
    author::Author,
    cursor::Page,
    ids::{ObjectId, RelationshipId},
    json::JsonObject,
    query::{Direction, PathQuery},
    relationship::Relationship,
};
use emergent_graph::{Error, RelationshipFilter};
use emergent_store::{Param, projects, relationships as rows};
use emergent_testkit::both_engines;
use futures_util::TryStreamExt;
use serde_json::json;
use support::*;
use tokio::sync::watch;

/// More than two batches.
const EDGES: usize = 2 * rows::CASCADE_BATCH + 700;

/// A hub with many edges to `far`, and some from `near`, which is joined with `far` only through the hub.
struct Hub {
    hub: ObjectId,
    near: ObjectId,
    far: ObjectId,
    last: RelationshipId,
}

async fn hub(harness: &Harness) -> Hub {
    let [hub, near, far] = [
        harness.object(new("Hub", "hub", json!({}))).await,
        harness.object(new("Spoke", "near", json!({}))).await,
        harness.object(new("Spoke", "far", json!({}))).await,
    ];
    let (project, author) = (harness.project(), harness.actor.author);
    let now = harness.graph.clock().now();
    let edge = move |n: usize| Relationship {
        id: RelationshipId::new(),
        project,
        type_: format!("t{n}"),
        from: if n.is_multiple_of(10) { near } else { hub },
        to: if n.is_multiple_of(10) { hub } else { far },
        properties: JsonObject::from_map(&map(json!({ "n": n }))),
        weight: None,
        version: 1,
        created_at: now,
        updated_at: now,
        deleted_at: None,
        deleted_with: None,
        author,
        reason: None,
    };
    let edges: Vec<Relationship> = (0..EDGES).map(edge).collect();
    let last = edges[EDGES - 1].id;
    for batch in edges.chunks(1_000).map(<[Relationship]>::to_vec) {
        let insert = move |tx: &mut emergent_store::Tx<'_>| {
            let number = projects::get(tx, project)?.expect("the project exists").no;
            rows::insert_many(tx, number, &batch).map(|_| ())
        };
        harness
            .graph
            .db()
            .write(insert)
            .await
            .unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
    }
    Hub { hub, near, far, last }
}

async fn count(harness: &Harness, sql: &'static str) -> usize {
    let project = harness.project();
    let read = move |tx: &mut emergent_store::Tx<'_>| {
        tx.query(sql, &[Param::from(project)], |row| row.get::<i64>(0))
    };
    let found = harness.graph.db().read(read).await;
    usize::try_from(found.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"))[0]).unwrap()
}

const LIVE: &str = "SELECT count(*) FROM graph_relationships WHERE project_id = $1 AND deleted_at IS NULL";
const OPEN_JOBS: &str =
    "SELECT count(*) FROM jobs WHERE project_id = $1 AND queue = 'edges' AND status IN ('queued', 'running')";

/// Runs the jobs until none is left.
async fn run_jobs(harness: &Harness) {
    let (stop, stopped) = watch::channel(false);
    let graph = harness.graph.clone();
    let worker = tokio::spawn(async move { graph.run_cascades(stopped).await });
    for _ in 0..600 {
        if count(harness, OPEN_JOBS).await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(count(harness, OPEN_JOBS).await, 0);
    stop.send(true).unwrap();
    worker.await.unwrap();
}

/// Checks that no reader returns an edge of the hub.
async fn nobody_sees_an_edge(harness: &Harness, Hub { near, far, last, .. }: &Hub) {
    let (graph, project) = (&harness.graph, harness.project());
    for id in [*near, *far] {
        assert_eq!(harness.neighbours(id).await, []);
    }
    let all =
        graph.list_relationships(project, RelationshipFilter::default(), Page::first(10)).await.unwrap();
    assert!(all.items.is_empty());
    assert!(matches!(graph.get_relationship(project, *last).await, Err(Error::NotFound { .. })));
    let weight =
        emergent_domain::relationship::RelationshipPatch { weight: Some(Some(1.0)), ..Default::default() };
    assert!(graph.update_relationship(harness.actor, *last, weight).await.is_err());
    let query = PathQuery {
        from: *near,
        to: *far,
        direction: Direction::Both,
        max_depth: 4,
        relationship_types: Vec::new(),
        as_of: None,
    };
    assert!(graph.shortest_path(project, query).await.unwrap().is_none());
    let lines: Vec<bytes::Bytes> = graph.export(project).try_collect().await.unwrap();
    let text = String::from_utf8(lines.concat()).unwrap();
    assert!(!text.contains("\"n\":"), "the export has an edge of the deleted hub");
}

/// How many edges have this author, version and state.
async fn written(harness: &Harness, author: Author, version: i64, deleted_with: Option<ObjectId>) -> usize {
    let project = harness.project();
    let read = move |tx: &mut emergent_store::Tx<'_>| {
        tx.query(
            "SELECT id FROM graph_relationships WHERE project_id = $1 AND version = $2",
            &[Param::from(project), Param::from(version)],
            |row| row.get::<RelationshipId>(0),
        )
    };
    let ids =
        harness.graph.db().read(read).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
    // One of them stands for all: the statement writes them alike.
    let history =
        harness.graph.relationship_history(project, ids[ids.len() - 1], Page::first(1)).await.unwrap();
    assert_eq!((history.items[0].author, history.items[0].deleted_with), (author, deleted_with));
    ids.len()
}

both_engines! {
    async fn a_hub_is_deleted_and_restored_in_bounded_transactions(db: TestDb) {
        let harness = Harness::new(&db).await;
        let edges = hub(&harness).await;
        let (graph, actor) = (&harness.graph, harness.actor);

        let tombstone = graph.delete_object(actor, edges.hub, None).await.unwrap();
        assert_eq!(count(&harness, LIVE).await, EDGES - rows::CASCADE_BATCH, "the rest follows in jobs");
        nobody_sees_an_edge(&harness, &edges).await;
        run_jobs(&harness).await;
        assert_eq!(count(&harness, LIVE).await, 0);
        nobody_sees_an_edge(&harness, &edges).await;
        assert_eq!(written(&harness, actor.author, 2, Some(edges.hub)).await, EDGES);
        let history = graph.relationship_history(harness.project(), edges.last, Page::first(5)).await.unwrap();
        let times: Vec<_> = history.items.iter().map(|edge| edge.deleted_at).collect();
        assert_eq!(times, [tombstone.deleted_at, None], "edges end when their object does");
        let deleted = "SELECT count(*) FROM graph_events WHERE project_id = $1 AND kind = 'relationship_deleted'";
        assert_eq!(count(&harness, deleted).await, EDGES);

        graph.restore_object(actor, edges.hub).await.unwrap();
        assert_eq!(count(&harness, LIVE).await, rows::CASCADE_BATCH);
        run_jobs(&harness).await;
        assert_eq!(count(&harness, LIVE).await, EDGES);
        assert_eq!(written(&harness, actor.author, 3, None).await, EDGES);
        assert_eq!(harness.neighbours(edges.near).await.len(), 100);
    }

    async fn a_hub_is_whole_when_its_state_changes_before_the_jobs_ran(db: TestDb) {
        let harness = Harness::new(&db).await;
        let edges = hub(&harness).await;
        let (graph, actor) = (&harness.graph, harness.actor);
        graph.delete_object(actor, edges.hub, None).await.unwrap();
        graph.restore_object(actor, edges.hub).await.unwrap();
        run_jobs(&harness).await;
        assert_eq!(count(&harness, LIVE).await, EDGES, "restored while edges were still to be deleted");

        graph.delete_object(actor, edges.hub, None).await.unwrap();
        run_jobs(&harness).await;
        graph.restore_object(actor, edges.hub).await.unwrap();
        graph.delete_object(actor, edges.hub, None).await.unwrap();
        nobody_sees_an_edge(&harness, &edges).await;
        run_jobs(&harness).await;
        assert_eq!(count(&harness, LIVE).await, 0, "deleted while edges were still to be restored");
        graph.restore_object(actor, edges.hub).await.unwrap();
        run_jobs(&harness).await;
        assert_eq!(count(&harness, LIVE).await, EDGES);
    }

    async fn reverting_a_run_restores_a_hub_with_all_its_edges(db: TestDb) {
        let harness = Harness::new(&db).await;
        let edges = hub(&harness).await;
        let (run, agent) = run_in(&harness);
        harness.graph.delete_object(agent, edges.hub, None).await.unwrap();
        run_jobs(&harness).await;
        assert_eq!(written(&harness, agent.author, 2, Some(edges.hub)).await, EDGES);
        let report = harness.graph.revert_run(harness.actor, run).await.unwrap();
        assert_eq!((report.undone.len(), report.conflicts.len()), (1, 0), "the edges are part of their object");
        run_jobs(&harness).await;
        assert_eq!(count(&harness, LIVE).await, EDGES);
        assert_eq!(written(&harness, harness.actor.author, 3, None).await, EDGES, "by whom the run was reverted");
        assert_eq!(harness.graph.revert_run(harness.actor, run).await.unwrap(), Default::default());
    }
}
