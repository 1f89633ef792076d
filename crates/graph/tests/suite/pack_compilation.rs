//! Packs are compiled outside of transactions, and a stored pack with a schema that cannot be used refuses only its own
//! types.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use emergent_domain::{object::NewObject, pack::TemplatePack};
use emergent_graph::{Error, Graph, objects, packs};
use emergent_store::{Tx, packs as rows};
use emergent_testkit::{both_engines, fixed_clock};
use serde_json::{Value, json};

use crate::support::*;

fn pack(name: &str, schemas: Value) -> TemplatePack {
    let pack = json!({ "name": name, "version": "1.0.0", "objectTypeSchemas": schemas });
    serde_json::from_value(pack).unwrap()
}

fn described() -> TemplatePack {
    pack("described", json!({ "Task": { "properties": { "priority": { "type": "integer" } } } }))
}

/// Creates an object in a transaction of the caller, as workflows do, and counts how often the transaction ran.
async fn create(graph: &Graph, harness: &Harness, new: NewObject) -> (Result<(), Error>, usize) {
    let (runs, count) = (Arc::new(AtomicUsize::new(0)), graph.clone());
    let (counted, actor) = (Arc::clone(&runs), harness.actor);
    let work = move |tx: &mut Tx<'_>| {
        counted.fetch_add(1, Ordering::SeqCst);
        let ctx = count.write_context(tx, actor)?;
        objects::create(tx, &ctx, &objects::ObjectDraft::new(new.clone())?).map(|_| ())
    };
    let result = graph.db().write(work).await;
    (result, runs.load(Ordering::SeqCst))
}

both_engines! {
    async fn a_transaction_that_finds_no_compiled_packs_runs_again_when_they_are(db: TestDb) {
        let harness = Harness::new(&db).await;
        let stored = harness.graph.create_pack(harness.project(), described()).await.unwrap();
        harness.graph.assign_pack(harness.project(), stored.id).await.unwrap();
        // Another server, or this one after a restart.
        let cold = Graph::new(db.db.clone(), fixed_clock(), None);
        let (refused, runs) = create(&cold, &harness, new("Task", "a", json!({ "priority": "x" }))).await;
        assert!(problem(refused).starts_with("properties.priority"));
        assert_eq!(runs, 2, "the first run had no packs");
        // What failed was not committed, so its packs are loaded from the cache by their contents only.
        let (created, _) = create(&cold, &harness, new("Task", "b", json!({ "priority": 1 }))).await;
        created.unwrap();
        let (created, runs) = create(&cold, &harness, new("Task", "c", json!({ "priority": 1 }))).await;
        assert_eq!((created.is_ok(), runs), (true, 1), "they are remembered");
    }

    async fn a_transaction_that_assigns_a_pack_writes_by_it(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, actor) = (harness.graph.clone(), harness.actor);
        let work = move |tx: &mut Tx<'_>| {
            let stored = packs::create(tx, actor.project, &described(), graph.clock().now())?;
            packs::assign(tx, actor.project, stored.id, graph.clock().now())?;
            let ctx = graph.write_context(tx, actor)?;
            let draft = |value: Value| objects::ObjectDraft::new(new("Task", "", json!({ "priority": value })));
            let refused = objects::create(tx, &ctx, &draft(json!("x"))?).is_err();
            objects::create(tx, &ctx, &draft(json!(1))?)?;
            Ok::<_, Error>(refused)
        };
        assert!(harness.graph.db().write(work).await.unwrap(), "by the pack that it has just assigned");
    }

    async fn a_stored_pack_with_a_schema_that_is_refused_blocks_its_own_types_only(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let (project, now) = (harness.project(), graph.clock().now());
        // An earlier version accepted this schema.
        let old = pack("old", json!({
            "Doubtful": { "$defs": { "x": { "$id": "http://a/x" } }, "$ref": "#/$defs/x" },
            "Fine": { "properties": { "n": { "type": "integer" } } },
        }));
        let store = move |tx: &mut Tx<'_>| {
            let stored = packs::create(tx, project, &old, now)?;
            packs::assign(tx, project, stored.id, now)?;
            Ok::<_, Error>(stored.id)
        };
        let id = graph.db().write(store).await.unwrap();
        graph.reload_packs(project);
        for type_ in ["Other", "Fine"] {
            graph.create_object(harness.actor, new(type_, "a", json!({ "n": 1 }))).await.unwrap();
        }
        assert!(problem(graph.create_object(harness.actor, new("Fine", "b", json!({ "n": "x" }))).await).contains("properties.n"));
        let refused = problem(graph.create_object(harness.actor, new("Doubtful", "a", json!({}))).await);
        for part in ["type: `Doubtful` cannot be written", "the assigned pack `old`", "`emergent pack unassign old`", "$id"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        // Other packs are assigned beside it, and it is unassigned.
        let other = graph.create_pack(project, described()).await.unwrap();
        graph.assign_pack(project, other.id).await.unwrap();
        graph.unassign_pack(project, id).await.unwrap();
        graph.create_object(harness.actor, new("Doubtful", "a", json!({}))).await.unwrap();
        assert_eq!(rows_of(graph, project).await, ["described"]);
    }
}

async fn rows_of(graph: &Graph, project: emergent_domain::ids::ProjectId) -> Vec<String> {
    let assigned = graph.db().read(move |tx| rows::list_assigned(tx, project)).await;
    assigned
        .unwrap_or_else(|error: emergent_store::Error| panic!("{error}"))
        .into_iter()
        .map(|pack| pack.name)
        .collect()
}
