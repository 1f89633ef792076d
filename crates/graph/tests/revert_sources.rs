//! Passages after a run was undone: what it said goes, what others said stays, and so does all that
//! speaks of something which stays.

mod support;

use std::collections::BTreeSet;

use emergent_domain::{
    ids::{ChunkId, ObjectId, RelationshipId},
    object::ObjectPatch,
};
use emergent_graph::{Actor, Error, sources};
use emergent_store::Tx;
use emergent_testkit::both_engines;
use serde_json::json;
use support::*;
use uuid::Uuid;

/// Something a passage can speak of.
#[derive(Clone, Copy)]
enum Of {
    Object(ObjectId),
    Edge(RelationshipId),
}

/// Notes that a passage speaks of something, as an extraction does.
async fn note(world: &World, by: Actor, of: Of, chunk: ChunkId) {
    let graph = world.graph.clone();
    let work = move |tx: &mut Tx<'_>| -> Result<bool, Error> {
        let writer = graph.write_context(tx, by)?;
        let source = sources::find(tx, writer.project.id, chunk)?;
        match of {
            Of::Object(id) => sources::add_to_object(tx, &writer, id, &source),
            Of::Edge(id) => sources::add_to_relationship(tx, &writer, id, &source),
        }
    };
    world.graph.db().write(work).await.unwrap();
}

async fn chunks(world: &World, id: Uuid) -> BTreeSet<ChunkId> {
    said_in(world, id).await.into_iter().map(|source| source.chunk).collect()
}

fn set(value: i64) -> ObjectPatch {
    ObjectPatch { properties: Some(map(json!({ "a": value }))), ..ObjectPatch::default() }
}

both_engines! {
    async fn what_stays_keeps_its_passages_and_what_is_undone_loses_the_runs(db: TestDb) {
        let world = World::new(&db).await;
        let (_, first) = document(&world, "One", "First.").await;
        let (_, second) = document(&world, "Two", "Second.").await;
        let (run, agent) = run_in(&world);
        let (_, other) = run_in(&world);
        let put_back = world.object(new("note", "", json!({ "a": 1 }))).await;
        let untouched = world.object(new("note", "", json!({}))).await;
        world.graph.update_object(agent, put_back, set(2)).await.unwrap();
        let deleted = world.graph.create_object(agent, new("note", "", json!({}))).await.unwrap().id;
        let changed = world.graph.create_object(agent, new("note", "", json!({ "a": 1 }))).await.unwrap().id;
        world.graph.update_object(world.actor, changed, set(3)).await.unwrap();
        for id in [put_back, untouched, deleted, changed] {
            note(&world, agent, Of::Object(id), first).await;
        }
        for id in [put_back, untouched, changed] {
            note(&world, other, Of::Object(id), second).await;
        }
        let report = world.graph.revert_run(world.actor, run).await.unwrap();
        assert_eq!(report.conflicts.iter().map(|one| one.id).collect::<Vec<_>>(), [changed.0]);
        assert_eq!(chunks(&world, deleted.0).await, [].into());
        assert_eq!(chunks(&world, put_back.0).await, [second].into(), "it no longer says what the run read");
        assert_eq!(chunks(&world, untouched.0).await, [second].into(), "the run only noted a passage");
        assert_eq!(chunks(&world, changed.0).await, [first, second].into(), "it still says what the run read");
    }

    async fn a_passage_that_others_found_as_well_stays_theirs(db: TestDb) {
        let world = World::new(&db).await;
        let (_, chunk) = document(&world, "One", "Ada.").await;
        let ((first, one), (second, two)) = (run_in(&world), run_in(&world));
        let made = world.graph.create_object(one, new("note", "", json!({}))).await.unwrap().id;
        let old = world.object(new("note", "", json!({}))).await;
        for by in [one, two, one] {
            note(&world, by, Of::Object(made), chunk).await;
            note(&world, by, Of::Object(old), chunk).await;
        }
        assert_eq!(said_in(&world, made.0).await.len(), 1, "to a reader it is one");

        let report = world.graph.revert_run(world.actor, first).await.unwrap();
        let [conflict] = &report.conflicts[..] else { panic!("{report:?}") };
        assert_eq!((conflict.id, conflict.reason.as_str()), (made.0, "was also extracted from a document by someone else"));
        assert_eq!(chunks(&world, made.0).await, [chunk].into());
        assert_eq!(chunks(&world, old.0).await, [chunk].into());

        world.graph.revert_run(world.actor, second).await.unwrap();
        assert_eq!(chunks(&world, old.0).await, [].into());
        let report = world.graph.revert_run(world.actor, first).await.unwrap();
        assert_eq!(report.undone.iter().map(|one| one.id).collect::<Vec<_>>(), [made.0]);
        assert_eq!(chunks(&world, made.0).await, [].into());
    }

    async fn passages_of_edges_go_and_stay_alike(db: TestDb) {
        let world = World::new(&db).await;
        let (_, chunk) = document(&world, "One", "Ada knows Bob.").await;
        let (run, agent) = run_in(&world);
        let (a, b) = (world.object(new("note", "", json!({}))).await, world.object(new("note", "", json!({}))).await);
        let (gone, _) = world.graph.create_relationship(agent, edge("knows", a, b)).await.unwrap();
        let (kept, _) = world.graph.create_relationship(agent, edge("likes", a, b)).await.unwrap();
        for id in [gone.id, kept.id] {
            note(&world, agent, Of::Edge(id), chunk).await;
        }
        note(&world, world.actor, Of::Edge(kept.id), chunk).await;
        world.graph.revert_run(world.actor, run).await.unwrap();
        assert_eq!(chunks(&world, gone.id.0).await, [].into());
        let (_, said) = world.graph.relationship_with_sources(world.project(), kept.id).await.unwrap();
        assert_eq!(said.iter().map(|source| source.chunk).collect::<Vec<_>>(), [chunk]);
        assert!(world.graph.relationship_with_sources(world.project(), gone.id).await.is_err());
    }
}
