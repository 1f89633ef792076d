//! References at an earlier time: a key names the object that had it then.

use std::{collections::BTreeMap, time::Duration};

use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, ProjectId},
    object::ObjectPatch,
    object_ref::ObjectRef,
    query::{Direction, ObjectFilter, TraverseQuery},
    time::Timestamp,
};
use emergent_graph::Error;
use emergent_testkit::both_engines;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;

use crate::support::{Harness, all_pages, new};

const TYPES: [&str; 2] = ["Note", "Task"];
const KEYS: [&str; 3] = ["one", "two", "three"];

/// A time after all that was written so far, and before all that is written next.
fn moment(harness: &Harness) -> Timestamp {
    let clock = harness.graph.clock();
    clock.advance(Duration::from_millis(1));
    let now = clock.now();
    clock.advance(Duration::from_millis(1));
    now
}

fn parse(reference: &str) -> ObjectRef {
    reference.parse().unwrap()
}

async fn resolve_in(
    harness: &Harness,
    project: ProjectId,
    reference: &str,
    at: Timestamp,
) -> Result<ObjectId, Error> {
    harness.graph.resolve_object_at(project, "id", parse(reference), at).await
}

async fn resolve(harness: &Harness, reference: &str, at: Timestamp) -> Result<ObjectId, Error> {
    resolve_in(harness, harness.project(), reference, at).await
}

/// Why a reference named no live object at a time.
async fn refusal(harness: &Harness, reference: &str, at: Timestamp) -> String {
    match resolve(harness, reference, at).await {
        Err(Error::NotLiveAt(problem)) if problem.field == "id" => problem.reason,
        other => panic!("{reference} at {at}: {other:?}"),
    }
}

async fn rename(harness: &Harness, id: ObjectId, key: &str) {
    let patch = ObjectPatch { key: Some(Some(key.to_owned())), ..ObjectPatch::default() };
    harness.graph.update_object(harness.actor, id, patch).await.unwrap();
}

/// Changes something at random. What is not possible at the moment is left out, such as a key that is in use.
async fn change(harness: &Harness, dice: &mut StdRng, ids: &mut Vec<ObjectId>) {
    let (graph, actor) = (&harness.graph, harness.actor);
    let (type_, key) = (*TYPES.choose(dice).unwrap(), *KEYS.choose(dice).unwrap());
    let some = ids.choose(dice).copied().unwrap_or_else(ObjectId::new);
    match dice.random_range(0..8) {
        0 | 1 => {
            if let Ok(created) = graph.create_object(actor, new(type_, key, json!({}))).await {
                ids.push(created.id);
            }
        }
        2..=4 => {
            let key = dice.random_bool(0.8).then(|| key.to_owned());
            let type_ = dice.random_bool(0.3).then(|| type_.to_owned());
            let patch = ObjectPatch { type_, key: Some(key), ..ObjectPatch::default() };
            drop(graph.update_object(actor, some, patch).await);
        }
        5 | 6 => drop(graph.delete_object(actor, some, None).await),
        _ => drop(graph.restore_object(actor, some).await),
    }
}

both_engines! {
    async fn a_key_names_the_object_that_had_it_at_the_time(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, actor) = (&harness.graph, harness.actor);
        let before = moment(&harness);
        let a = harness.object(new("Note", "one", json!({}))).await;
        let created = moment(&harness);
        rename(&harness, a, "two").await;
        let renamed = moment(&harness);
        let b = harness.object(new("Note", "one", json!({}))).await;
        let passed = moment(&harness);
        let tombstone = graph.delete_object(actor, a, None).await.unwrap();
        let deleted = moment(&harness);

        let named = [
            (created, Some(a), None),
            (renamed, None, Some(a)),
            (passed, Some(b), Some(a)),
            (deleted, Some(b), None),
        ];
        for (at, one, two) in named {
            assert_eq!(resolve(&harness, "Note/one", at).await.ok(), one, "{at}");
            assert_eq!(resolve(&harness, "Note/two", at).await.ok(), two, "{at}");
        }
        let did_not_exist = |reference: &str, at: Timestamp| format!("the object `{reference}` did not exist at {at}");
        for at in [before, renamed] {
            assert_eq!(refusal(&harness, "Note/one", at).await, did_not_exist("Note/one", at));
        }
        let was_deleted = tombstone.deleted_at.unwrap();
        assert_eq!(refusal(&harness, "Note/two", deleted).await, format!("the object `Note/two` was deleted at {was_deleted}"));

        // An id names the same object at every time, alone and after the type that it had.
        let (id, with_type) = (a.to_string(), format!("Note/{a}"));
        for reference in [id.as_str(), with_type.as_str()] {
            assert_eq!(resolve(&harness, reference, created).await.unwrap(), a);
            assert_eq!(refusal(&harness, reference, before).await, did_not_exist(reference, before));
            assert_eq!(refusal(&harness, reference, deleted).await, format!("the object `{reference}` was deleted at {was_deleted}"));
        }
        let other_type = format!("Task/{a}");
        assert_eq!(refusal(&harness, &other_type, created).await, did_not_exist(&other_type, created));
        let other = crate::support::project(graph, "other", false).await;
        for reference in ["Note/one", id.as_str()] {
            assert!(resolve_in(&harness, other.project, reference, created).await.is_err(), "{reference} of another project");
        }
    }

    async fn reads_of_an_earlier_time_begin_at_the_object_that_had_the_key_then(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, actor, project) = (&harness.graph, harness.actor, harness.project());
        let a = harness.object(new("Note", "one", json!({ "name": "a" }))).await;
        let b = harness.object(new("Note", "two", json!({}))).await;
        let edge = harness.edge("to", a, b).await;
        let then = moment(&harness);
        rename(&harness, a, "old").await;
        let c = harness.object(new("Note", "one", json!({ "name": "c" }))).await;
        graph.delete_object(actor, b, None).await.unwrap();
        let now = moment(&harness);

        for (at, id, version) in [(then, a, 1), (now, c, 1)] {
            let (object, _) = graph.object_at_with_sources(project, parse("Note/one"), at).await.unwrap();
            assert_eq!((object.id, object.key.as_deref(), object.version), (id, Some("one"), version));
        }
        for (at, edges) in [(then, vec![edge.id]), (now, Vec::new())] {
            let options = (Direction::Both, Vec::new());
            let found = graph.object_edges_at(project, parse("Note/one"), options, at, Page::first(10)).await.unwrap();
            assert_eq!(found.items.iter().map(|edge| edge.id).collect::<Vec<_>>(), edges);
        }
        let start = |references: &[&str]| references.iter().map(|reference| parse(reference)).collect::<Vec<_>>();
        let by_id = a.to_string();
        let resolved = graph.resolve_objects_at(project, "startIds", start(&["Note/two", by_id.as_str(), "Note/one"]), then).await;
        assert_eq!(resolved.unwrap(), [b, a, a]);
        let refused = graph.resolve_objects_at(project, "startIds", start(&[by_id.as_str(), "Note/two"]), now).await;
        assert!(matches!(&refused, Err(Error::NotLiveAt(problem)) if problem.field == "startIds[1]"), "{refused:?}");
        let many = vec![parse("Note/one"); TraverseQuery::MAX_START + 1];
        let refused = graph.resolve_objects_at(project, "startIds", many, now).await;
        assert!(matches!(&refused, Err(Error::Invalid(invalid)) if invalid.problems[0].field == "startIds"), "{refused:?}");
    }

    async fn every_key_is_resolved_as_it_was(db: TestDb) {
        let harness = Harness::new(&db).await;
        let seed = rand::random();
        println!("the seed is {seed}");
        let (mut dice, mut ids, mut moments) = (StdRng::seed_from_u64(seed), Vec::new(), Vec::new());
        for _ in 0..40 {
            change(&harness, &mut dice, &mut ids).await;
            let (graph, project) = (&harness.graph, harness.project());
            let live = all_pages(async |page| graph.list_objects(project, ObjectFilter::default(), page).await).await;
            let named: BTreeMap<String, ObjectId> =
                live.iter().filter_map(|object| Some((format!("{}/{}", object.type_, object.key.as_ref()?), object.id))).collect();
            moments.push((moment(&harness), named));
        }
        for (at, named) in &moments {
            for reference in TYPES.iter().flat_map(|type_| KEYS.iter().map(move |key| format!("{type_}/{key}"))) {
                let found = match resolve(&harness, &reference, *at).await {
                    Ok(id) => Some(id),
                    Err(Error::NotLiveAt(_)) => None,
                    Err(error) => panic!("{error}"),
                };
                assert_eq!(found, named.get(&reference).copied(), "{reference} at {at}");
            }
        }
    }
}
