//! Sources after a run is reverted: those that the run recorded are deleted, unless their entity
//! remains. Those of others remain.

use crate::support;

use std::collections::BTreeSet;

use emergent_domain::{
    ids::{ChunkId, ObjectId, RelationshipId},
    object::ObjectPatch,
};
use emergent_graph::{Actor, Error, revert::RunSet, sources};
use emergent_store::Tx;
use emergent_testkit::both_engines;
use serde_json::json;
use support::*;
use uuid::Uuid;

/// An entity that a source belongs to.
#[derive(Clone, Copy)]
enum Of {
    Object(ObjectId),
    Edge(RelationshipId),
}

/// Records a source of an entity, as an extraction does.
async fn note(harness: &Harness, by: Actor, of: Of, chunk: ChunkId) {
    let graph = harness.graph.clone();
    let work = move |tx: &mut Tx<'_>| -> Result<bool, Error> {
        let writer = graph.write_context(tx, by)?;
        let source = sources::find(tx, writer.project.id, chunk)?;
        match of {
            Of::Object(id) => sources::add_to_object(tx, &writer, id, &source),
            Of::Edge(id) => sources::add_to_relationship(tx, &writer, id, &source),
        }
    };
    harness.graph.db().write(work).await.unwrap();
}

async fn chunks(harness: &Harness, id: Uuid) -> BTreeSet<ChunkId> {
    said_in(harness, id).await.into_iter().map(|source| source.chunk).collect()
}

fn set(value: i64) -> ObjectPatch {
    ObjectPatch { properties: Some(map(json!({ "a": value }))), ..ObjectPatch::default() }
}

both_engines! {
    async fn what_stays_keeps_its_passages_and_what_is_undone_loses_the_runs(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (_, first) = document(&harness, "One", "First.").await;
        let (_, second) = document(&harness, "Two", "Second.").await;
        let (run, agent) = run_in(&harness);
        let (_, other) = run_in(&harness);
        let put_back = harness.object(new("note", "", json!({ "a": 1 }))).await;
        let untouched = harness.object(new("note", "", json!({}))).await;
        harness.graph.update_object(agent, put_back, set(2)).await.unwrap();
        let deleted = harness.graph.create_object(agent, new("note", "", json!({}))).await.unwrap().id;
        let changed = harness.graph.create_object(agent, new("note", "", json!({ "a": 1 }))).await.unwrap().id;
        harness.graph.update_object(harness.actor, changed, set(3)).await.unwrap();
        for id in [put_back, untouched, deleted, changed] {
            note(&harness, agent, Of::Object(id), first).await;
        }
        for id in [put_back, untouched, changed] {
            note(&harness, other, Of::Object(id), second).await;
        }
        let report = harness.graph.revert_run(harness.actor, run).await.unwrap();
        assert_eq!(report.conflicts.iter().map(|one| one.id).collect::<Vec<_>>(), [changed.0]);
        assert_eq!(chunks(&harness, deleted.0).await, [].into());
        assert_eq!(chunks(&harness, put_back.0).await, [second].into(), "it no longer says what the run read");
        assert_eq!(chunks(&harness, untouched.0).await, [second].into(), "the run only noted a passage");
        assert_eq!(chunks(&harness, changed.0).await, [first, second].into(), "it still says what the run read");
    }

    async fn a_passage_that_others_found_as_well_stays_theirs(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (_, chunk) = document(&harness, "One", "Ada.").await;
        let ((first, one), (second, two)) = (run_in(&harness), run_in(&harness));
        let made = harness.graph.create_object(one, new("note", "", json!({}))).await.unwrap().id;
        let old = harness.object(new("note", "", json!({}))).await;
        for by in [one, two, one] {
            note(&harness, by, Of::Object(made), chunk).await;
            note(&harness, by, Of::Object(old), chunk).await;
        }
        assert_eq!(said_in(&harness, made.0).await.len(), 1, "to a reader it is one");

        let report = harness.graph.revert_run(harness.actor, first).await.unwrap();
        let [conflict] = &report.conflicts[..] else { panic!("{report:?}") };
        assert_eq!((conflict.id, conflict.reason.as_str()), (made.0, "was also extracted from a document by someone else"));
        assert_eq!(chunks(&harness, made.0).await, [chunk].into());
        assert_eq!(chunks(&harness, old.0).await, [chunk].into());

        harness.graph.revert_run(harness.actor, second).await.unwrap();
        assert_eq!(chunks(&harness, old.0).await, [].into());
        let report = harness.graph.revert_run(harness.actor, first).await.unwrap();
        assert_eq!(report.undone.iter().map(|one| one.id).collect::<Vec<_>>(), [made.0]);
        assert_eq!(chunks(&harness, made.0).await, [].into());
    }

    async fn passages_of_edges_go_and_stay_alike(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (_, chunk) = document(&harness, "One", "Ada knows Bob.").await;
        let (run, agent) = run_in(&harness);
        let (a, b) = (harness.object(new("note", "", json!({}))).await, harness.object(new("note", "", json!({}))).await);
        let (gone, _) = harness.graph.create_relationship(agent, edge("knows", a, b)).await.unwrap();
        let (kept, _) = harness.graph.create_relationship(agent, edge("likes", a, b)).await.unwrap();
        for id in [gone.id, kept.id] {
            note(&harness, agent, Of::Edge(id), chunk).await;
        }
        note(&harness, harness.actor, Of::Edge(kept.id), chunk).await;
        harness.graph.revert_run(harness.actor, run).await.unwrap();
        assert_eq!(chunks(&harness, gone.id.0).await, [].into());
        let (_, said) = harness.graph.relationship_with_sources(harness.project(), kept.id).await.unwrap();
        assert_eq!(said.iter().map(|source| source.chunk).collect::<Vec<_>>(), [chunk]);
        assert!(harness.graph.relationship_with_sources(harness.project(), gone.id).await.is_err());
    }

    async fn passages_of_many_entities_go_in_many_transactions_and_a_second_revert_deletes_what_is_left(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (_, first) = document(&harness, "One", "First.").await;
        let (_, second) = document(&harness, "Two", "Second.").await;
        let (run, agent) = run_in(&harness);
        let (_, other) = run_in(&harness);
        let (mut untouched, mut made) = (Vec::new(), Vec::new());
        for _ in 0..7 {
            untouched.push(harness.object(new("note", "", json!({}))).await);
            made.push(harness.graph.create_object(agent, new("note", "", json!({ "a": 1 }))).await.unwrap().id);
        }
        let changed = made.pop().unwrap();
        harness.graph.update_object(harness.actor, changed, set(3)).await.unwrap();
        for id in untouched.iter().chain(&made).chain([&changed]) {
            note(&harness, agent, Of::Object(*id), first).await;
        }
        note(&harness, other, Of::Object(untouched[6]), second).await;
        let revert = async || harness.graph.revert_in_batches(harness.actor, RunSet::from([run]), 2).await.unwrap();
        let report = revert().await;
        assert_eq!(report.conflicts.iter().map(|one| one.id).collect::<Vec<_>>(), [changed.0]);
        for id in untouched[..6].iter().chain(&made) {
            assert_eq!(chunks(&harness, id.0).await, [].into());
        }
        assert_eq!(chunks(&harness, untouched[6].0).await, [second].into(), "another run named it");
        assert_eq!(chunks(&harness, changed.0).await, [first].into(), "it still says what the run read");
        // A server that stops in between leaves the last ones, and deletes them when it continues.
        for id in &untouched[4..] {
            note(&harness, agent, Of::Object(*id), first).await;
        }
        revert().await;
        assert_eq!(chunks(&harness, untouched[5].0).await, [].into());
        assert_eq!(chunks(&harness, untouched[6].0).await, [second].into());
        assert_eq!(chunks(&harness, changed.0).await, [first].into());
    }
}
