//! The names of an object: its id, its key, and the keys that it had before.

use crate::support;

use std::time::Duration;

use emergent_domain::{
    approval::{NamedObject, ObjectNames, references},
    ids::{ObjectId, WorkflowId},
    object::ObjectPatch,
    time::Timestamp,
};
use emergent_graph::judged_names::JudgedNames;
use emergent_testkit::both_engines;
use serde_json::{Value, json};
use support::*;

/// How many earlier names count.
const MAX_EARLIER_NAMES: usize = 50;

async fn rename(harness: &Harness, id: ObjectId, key: Option<&str>, properties: Value) {
    let patch = ObjectPatch {
        key: key.map(|key| Some(key.to_owned())),
        properties: Some(map(properties)),
        ..ObjectPatch::default()
    };
    harness.graph.update_object(harness.actor, id, patch).await.unwrap();
}

/// The names of what these references may name, in their order.
async fn names(harness: &Harness, written: &[String]) -> Vec<Vec<ObjectNames>> {
    names_in(harness, &json!({ "ids": written }), written).await
}

/// The names of what these texts of an input may name, in their order.
async fn names_in(harness: &Harness, input: &Value, written: &[String]) -> Vec<Vec<ObjectNames>> {
    let references = references(input).unwrap();
    let mut names = harness.graph.object_names(harness.project(), references, None).await.unwrap();
    written.iter().map(|text| names.remove(text).unwrap_or_default()).collect()
}

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| format!("Note/{key}")).collect()
}

both_engines! {
    async fn an_object_is_called_by_its_id_and_by_the_keys_that_it_had(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (a, b) = (harness.object(new("Note", "a0", json!({}))).await, harness.object(new("Note", "b", json!({}))).await);
        let bare = harness.object(new("Note", "", json!({}))).await;
        for number in 1..=MAX_EARLIER_NAMES + 1 {
            rename(&harness, a, Some(&format!("a{number}")), json!({})).await;
        }
        // A key that it had before is one name, and versions with the same key are no further names.
        for (key, text) in [(Some("b2"), "1"), (None, "2"), (Some("b"), "3"), (Some("b3"), "4")] {
            rename(&harness, b, key, json!({ "text": text })).await;
        }
        harness.graph.delete_object(harness.actor, b, None).await.unwrap();
        let written = [a.to_string(), "Note/b3".to_owned(), format!("Note/{bare}"), "Note/none".to_owned()];
        let last = format!("a{}", MAX_EARLIER_NAMES + 1);
        assert_eq!(names(&harness, &written).await, [
            vec![ObjectNames::new(a, "Note", keys(&[&last])).with_unknown_keys()],
            vec![ObjectNames::new(b, "Note", keys(&["b3", "b", "b2"])).deleted()],
            vec![ObjectNames::new(bare, "Note", Vec::new())],
            Vec::new(),
        ]);
    }

    async fn an_object_has_the_names_of_all_its_versions_however_many_there_are(db: TestDb) {
        let harness = Harness::new(&db).await;
        let kept = harness.object(new("Note", "keep", json!({}))).await;
        rename(&harness, kept, Some("tmp"), json!({})).await;
        let project = harness.project();
        // As if it had been changed many times since.
        let sql = "INSERT INTO graph_object_versions
                       (object_id, version, project_id, type, key, labels, properties, created_at, updated_at, valid_to)
                   SELECT object_id, version + $2, project_id, type, 'tmp', labels, properties, created_at, updated_at, valid_to
                   FROM graph_object_versions WHERE object_id = $1 AND version = 1";
        let insert = move |tx: &mut emergent_store::Tx<'_>| {
            for number in 1_000..3_000_i64 {
                tx.execute(sql, &[kept.into(), number.into()])?;
            }
            Ok::<_, emergent_store::Error>(())
        };
        harness.graph.db().write(insert).await.unwrap();
        let names = harness.graph.object_names(project, references(&json!({ "id": kept })).unwrap(), None).await.unwrap();
        assert_eq!(names[&kept.to_string()], [ObjectNames::new(kept, "Note", keys(&["tmp", "keep"]))]);
    }

    async fn an_object_without_a_key_is_called_by_the_types_that_it_had(db: TestDb) {
        let harness = Harness::new(&db).await;
        let bare = harness.object(new("Vault", "", json!({}))).await;
        let retyped = ObjectPatch { type_: Some("Junk".to_owned()), ..ObjectPatch::default() };
        harness.graph.update_object(harness.actor, bare, retyped).await.unwrap();
        let expected = ObjectNames::new(bare, "Junk", Vec::new()).without_key_as(&["Junk".to_owned(), "Vault".to_owned()]);
        assert_eq!(names(&harness, &[bare.to_string(), format!("Junk/{bare}")]).await, [vec![expected.clone()], vec![expected]]);
    }

    async fn a_text_may_name_the_live_object_the_deleted_one_and_the_one_with_the_id(db: TestDb) {
        let harness = Harness::new(&db).await;
        let kept = harness.object(new("Note", "keep", json!({}))).await;
        let written = format!("Note/{kept}");
        let ids = async || -> Vec<ObjectId> {
            let found = names(&harness, std::slice::from_ref(&written)).await;
            found[0].iter().filter_map(|names| names.object()).map(|object| object.id).collect()
        };
        assert_eq!(ids().await, [kept]);
        let decoy = harness.object(new("Note", &kept.to_string(), json!({}))).await;
        assert_eq!(ids().await, [decoy, kept]);
        harness.graph.delete_object(harness.actor, decoy, None).await.unwrap();
        assert_eq!(ids().await, [decoy, kept]);
        let second = harness.object(new("Note", &kept.to_string(), json!({}))).await;
        assert_eq!(ids().await, [second, decoy, kept]);
    }

    async fn a_text_may_name_what_had_the_key_at_the_time_of_the_read(db: TestDb) {
        let harness = Harness::new(&db).await;
        let kept = harness.object(new("Note", "keep", json!({}))).await;
        rename(&harness, kept, Some("tmp"), json!({})).await;
        let then = harness.graph.get_object(harness.project(), kept).await.unwrap().updated_at;
        harness.graph.clock().advance(Duration::from_secs(1));
        rename(&harness, kept, Some("keep"), json!({})).await;
        let other = harness.object(new("Note", "tmp", json!({}))).await;
        let written = ["Note/tmp".to_owned()];
        let ids = async |as_of: Value| -> Vec<ObjectId> {
            let found = names_in(&harness, &json!({ "id": "Note/tmp", "asOf": as_of }), &written).await;
            found[0].iter().filter_map(|names| names.object()).map(|object| object.id).collect()
        };
        assert_eq!(ids(json!(null)).await, [other]);
        assert_eq!(ids(json!(then)).await, [other, kept]);
    }

    async fn the_key_of_a_task_alone_names_the_task_also_with_a_slash(db: TestDb) {
        let harness = Harness::new(&db).await;
        let task = harness.object(new("SpecTask", "area/one", json!({ "title": "One" }))).await;
        let written = ["area/one".to_owned(), "SpecTask/area/one".to_owned()];
        let found = names_in(&harness, &json!({ "id": written[0], "task": written[1] }), &written).await;
        let expected = vec![ObjectNames::new(task, "SpecTask", vec!["SpecTask/area/one".to_owned()])];
        assert_eq!(found, [expected.clone(), expected]);
    }

    async fn a_task_of_a_workflow_is_also_called_by_its_key_there(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let flow = WorkflowId::new();
        let name = format!("{flow}/review");
        let properties = |key: &str| json!({ "title": "t", "key": key, "workflow_id": flow });
        let made = harness.object(new("SpecTask", &name, properties("review"))).await;
        let taken = harness.object(new("SpecTask", "", properties("build"))).await;
        let outside = harness.object(new("SpecTask", "", json!({ "title": "t", "key": "build" }))).await;
        let found = names(&harness, &[made.to_string(), taken.to_string(), outside.to_string()]).await;
        let task = |id, keys| ObjectNames::new(id, "SpecTask", keys);
        assert_eq!(found, [
            vec![task(made, vec![format!("SpecTask/{name}")]).with_key_in_workflow("review")],
            vec![task(taken, Vec::new()).with_key_in_workflow("build")],
            vec![task(outside, Vec::new())],
        ]);
    }

    async fn a_change_finds_what_was_decided_about_by_its_key(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (a, b) = (harness.object(new("Note", "a", json!({}))).await, harness.object(new("Note", "b", json!({}))).await);
        let at = harness.graph.get_object(harness.project(), b).await.unwrap().created_at;
        let resolve = async |judged: &[(&str, ObjectId, bool)], at: Timestamp| {
            let named = |id, is_deleted| vec![NamedObject { id, is_deleted }];
            let objects = judged.iter().map(|(text, id, is_deleted)| ((*text).to_owned(), named(*id, *is_deleted))).collect();
            let (graph, actor, judged) = (harness.graph.clone(), harness.actor, JudgedNames { objects, at });
            let resolved = harness.graph.db().write(move |tx| {
                let mut ctx = graph.write_context(tx, actor)?;
                ctx.judged = [judged.clone()].into();
                ctx.resolve_object(tx, &"Note/a".parse().unwrap())
            });
            resolved.await.map_err(|error: emergent_graph::Error| error.to_string())
        };
        let before = Timestamp::from_micros(at.as_micros() - 1_000_000_000);
        assert_eq!(resolve(&[("Note/a", a, false)], at).await, Ok(a));
        for judged in [&[("Note/a", b, false)][..], &[("Note/a", b, true)], &[]] {
            let refused = resolve(judged, at).await.unwrap_err();
            assert!(refused.contains("`Note/a` was given to another object"), "{refused}");
        }
        // What was created since was not there to be decided about.
        assert_eq!(resolve(&[], before).await, Ok(a));
        assert_eq!(resolve(&[("Note/a", b, true)], before).await, Ok(a));
        assert!(resolve(&[("Note/a", b, false)], before).await.is_err());
    }

    async fn a_key_names_the_live_object_and_the_one_that_was_deleted_last(db: TestDb) {
        let harness = Harness::new(&db).await;
        let references = |written: &[&str]| references(&json!({ "ids": written })).unwrap();
        let named = async |written: &[&str], until: Timestamp| {
            let found = harness.graph.objects_named(harness.project(), references(written), until).await.unwrap();
            let named = |text: &&str| found.get(*text).into_iter().flatten().map(|named| (named.id, named.is_deleted));
            written.iter().map(|text| named(text).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let first = harness.object(new("Note", "a", json!({}))).await;
        harness.graph.delete_object(harness.actor, first, None).await.unwrap();
        let now = harness.graph.get_object(harness.project(), harness.object(new("Note", "b", json!({}))).await).await.unwrap();
        assert_eq!(named(&["Note/a", "Note/b", "Other/a"], now.created_at).await, [vec![(first, true)], vec![(now.id, false)], vec![]]);
        let before = Timestamp::from_micros(now.created_at.as_micros() - 1);
        assert_eq!(named(&["Note/b"], before).await, [vec![]], "it was created afterwards");
        let second = harness.object(new("Note", "a", json!({}))).await;
        let later = Timestamp::from_micros(now.created_at.as_micros() + 1_000_000_000);
        assert_eq!(named(&["Note/a"], later).await, [vec![(second, false), (first, true)]]);
    }
}
