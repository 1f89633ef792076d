//! Objects: versions, keys, deletion and restoring, lists, and concurrent writes.

use crate::support;

use std::{collections::HashSet, sync::Arc};

use emergent_domain::{
    cursor::Page,
    filter::{Filter, Op},
    ids::ObjectId,
    indexed_text::indexed_text,
    object::{NewObject, Object, ObjectPatch},
    object_ref::ObjectRef,
    query::ObjectFilter,
    time::Clock,
};
use emergent_graph::{Error, Graph, UpsertOutcome};
use emergent_store::objects::{self as rows, NewRow};
use emergent_testkit::both_engines;
use serde_json::json;
use support::*;

fn properties(changes: serde_json::Value) -> ObjectPatch {
    ObjectPatch { properties: Some(map(changes)), ..ObjectPatch::default() }
}

both_engines! {
    async fn an_object_reads_back_as_it_was_written(db: TestDb) {
        let harness = Harness::new(&db).await;
        let wanted = NewObject {
            status: Some("open".to_owned()),
            labels: vec!["b".to_owned(), "a".to_owned(), "b".to_owned()],
            ..new("Task", "t-1", json!({ "title": "Tag things", "n": 1.5, "big": 9_007_199_254_740_993_i64, "gone": null }))
        };
        let made = harness.graph.create_object(harness.actor, wanted).await.unwrap();
        assert_eq!((made.version, made.author), (1, harness.actor.author));
        assert_eq!(made.labels, ["a", "b"]);
        assert_eq!(made.properties.to_map(), map(json!({ "title": "Tag things", "n": 1.5, "big": 9_007_199_254_740_993_i64 })));
        assert_eq!(harness.graph.get_object(harness.project(), made.id).await.unwrap(), made);
        assert_eq!(indexed(&harness.graph, harness.project()).await, [made.id]);
        assert_eq!(harness.change_kinds().await, ["object_created"]);
    }

    async fn a_key_belongs_to_one_living_object_of_its_type(db: TestDb) {
        let harness = Harness::new(&db).await;
        let first = harness.object(new("Task", "a", json!({}))).await;
        harness.object(new("Note", "a", json!({}))).await;
        harness.object(new("Task", "", json!({}))).await;
        harness.object(new("Task", "", json!({}))).await;
        match harness.graph.create_object(harness.actor, new("Task", "a", json!({}))).await {
            Err(Error::KeyTaken { type_, key, id }) => assert_eq!((type_.as_str(), key.as_str(), id), ("Task", "a", first)),
            other => panic!("{other:?}"),
        }
        let other = project(&harness.graph, "other", false).await;
        harness.graph.create_object(other, new("Task", "a", json!({}))).await.unwrap();

        harness.graph.delete_object(harness.actor, first, None).await.unwrap();
        let second = harness.object(new("Task", "a", json!({}))).await;
        match harness.graph.restore_object(harness.actor, first).await {
            Err(Error::KeyTaken { id, .. }) => assert_eq!(id, second),
            other => panic!("{other:?}"),
        }
        // By its key, the deleted one cannot be meant: that names the live one.
        let by_key = ObjectRef::Key { type_: "Task".into(), key: "a".into() };
        match harness.graph.restore_named_object(harness.actor, by_key.clone()).await {
            Err(Error::KeyReused { live, deleted, .. }) => assert_eq!((live, deleted), (second, first)),
            other => panic!("{other:?}"),
        }
        // Neither renaming nor changing the type can take over a key that is in use.
        let third = harness.object(new("Task", "c", json!({}))).await;
        let rename = ObjectPatch { key: Some(Some("a".to_owned())), ..ObjectPatch::default() };
        let renamed = harness.graph.update_object(harness.actor, third, rename).await;
        assert!(matches!(renamed, Err(Error::KeyTaken { id, .. }) if id == second), "{renamed:?}");
        let retype = ObjectPatch { type_: Some("Note".to_owned()), ..ObjectPatch::default() };
        assert!(matches!(harness.graph.update_object(harness.actor, second, retype).await, Err(Error::KeyTaken { .. })));
        let drop_key = ObjectPatch { key: Some(None), ..ObjectPatch::default() };
        assert_eq!(harness.graph.update_object(harness.actor, second, drop_key).await.unwrap().key, None);
        assert_eq!(harness.graph.restore_named_object(harness.actor, by_key.clone()).await.unwrap().id, first);
        let live = harness.graph.restore_named_object(harness.actor, by_key).await.unwrap();
        assert_eq!((live.id, live.version), (first, 3), "what is live stays as it is");
    }

    async fn a_change_is_a_version_and_no_change_is_none(db: TestDb) {
        let harness = Harness::new(&db).await;
        let id = harness.object(new("Task", "a", json!({ "title": "one", "n": 1 }))).await;
        let same = harness.graph.update_object(harness.actor, id, properties(json!({ "n": 1.0, "missing": null }))).await.unwrap();
        assert_eq!(same.version, 1);
        let next = harness.graph.update_object(harness.actor, id, properties(json!({ "n": 2, "title": null }))).await.unwrap();
        assert_eq!((next.version, next.properties.to_map()), (2, map(json!({ "n": 2 }))));
        assert!(next.updated_at > next.created_at, "even when the clock stands still");
        let labels = ObjectPatch { labels: Some(vec!["x".to_owned()]), status: Some(Some("done".to_owned())), ..ObjectPatch::default() };
        let last = harness.graph.update_object(harness.actor, id, labels.clone()).await.unwrap();
        assert_eq!((last.version, last.status.as_deref()), (3, Some("done")));
        assert_eq!(harness.graph.update_object(harness.actor, id, labels).await.unwrap(), last);
        assert_eq!(harness.change_kinds().await, ["object_created", "object_updated", "object_updated"]);

        let history = all_pages(async |page| harness.graph.object_history(harness.project(), id, page).await).await;
        let versions: Vec<i64> = history.iter().map(|object| object.version).collect();
        assert_eq!((versions, &history[0]), (vec![3, 2, 1], &last));
        assert_eq!(history[2].properties.to_map(), map(json!({ "title": "one", "n": 1 })));
    }

    async fn a_write_that_expects_another_version_hears_the_current_one(db: TestDb) {
        let harness = Harness::new(&db).await;
        let id = harness.object(new("Task", "", json!({}))).await;
        let patch = |n: i64, expected| ObjectPatch { expected_version: Some(expected), ..properties(json!({ "n": n })) };
        assert_eq!(harness.graph.update_object(harness.actor, id, patch(1, 1)).await.unwrap().version, 2);
        for outcome in [
            harness.graph.update_object(harness.actor, id, patch(2, 1)).await,
            harness.graph.delete_object(harness.actor, id, Some(1)).await,
        ] {
            assert!(matches!(outcome, Err(Error::VersionConflict { expected: 1, current: 2, .. })), "{outcome:?}");
        }
        assert_eq!(harness.graph.delete_object(harness.actor, id, Some(2)).await.unwrap().version, 3);
    }

    async fn deletion_takes_the_edges_along_and_return_brings_them_back(db: TestDb) {
        let harness = Harness::new(&db).await;
        let [a, b, c] = [
            harness.object(new("Task", "a", json!({ "title": "a" }))).await,
            harness.object(new("Task", "b", json!({}))).await,
            harness.object(new("Task", "c", json!({}))).await,
        ];
        harness.edge("blocks", a, b).await;
        harness.edge("blocks", c, a).await;
        harness.edge("likes", a, a).await;
        let kept = harness.edge("blocks", b, c).await;
        let dropped = harness.edge("likes", a, c).await;
        harness.graph.delete_relationship(harness.actor, dropped.id, None).await.unwrap();

        let tombstone = harness.graph.delete_object(harness.actor, a, None).await.unwrap();
        assert_eq!((tombstone.version, tombstone.deleted_at), (2, Some(tombstone.updated_at)));
        assert!(matches!(harness.graph.get_object(harness.project(), a).await, Err(Error::NotFound { .. })));
        assert!(matches!(harness.graph.delete_object(harness.actor, a, None).await, Err(Error::NotFound { .. })));
        assert!(matches!(harness.graph.update_object(harness.actor, a, properties(json!({ "x": 1 }))).await, Err(Error::NotFound { .. })));
        assert_eq!(harness.neighbours(b).await, [c]);
        let mut living = vec![b, c];
        living.sort();
        assert_eq!(indexed(&harness.graph, harness.project()).await, living);
        assert_eq!(problem(harness.graph.create_relationship(harness.actor, edge("blocks", b, a)).await), "toId: no object with this id in this project");

        let back = harness.graph.restore_object(harness.actor, a).await.unwrap();
        assert_eq!((back.version, back.deleted_at, back.key.as_deref()), (3, None, Some("a")));
        assert_eq!(harness.graph.restore_object(harness.actor, a).await.unwrap(), back);
        let mut around = vec![a, b, c];
        around.sort();
        assert_eq!(harness.neighbours(a).await, around, "but not the one that was deleted by itself");
        assert_eq!(harness.neighbours(b).await.len(), 2);
        assert_eq!(indexed(&harness.graph, harness.project()).await.len(), 3);
        assert_eq!(harness.graph.get_relationship(harness.project(), kept.id).await.unwrap().version, 1);
        let kinds = harness.change_kinds().await;
        let count = |kind: &str| kinds.iter().filter(|one| *one == kind).count();
        assert_eq!((count("relationship_deleted"), count("relationship_restored")), (4, 3));
    }

    async fn an_edge_returns_as_soon_as_both_its_ends_have(db: TestDb) {
        let harness = Harness::new(&db).await;
        let a = harness.object(new("Task", "", json!({}))).await;
        let b = harness.object(new("Task", "", json!({}))).await;
        let edge = harness.edge("blocks", a, b).await;
        for (first, second) in [(a, b), (b, a)] {
            harness.graph.delete_object(harness.actor, a, None).await.unwrap();
            harness.graph.delete_object(harness.actor, b, None).await.unwrap();
            harness.graph.restore_object(harness.actor, first).await.unwrap();
            assert!(harness.neighbours(first).await.is_empty());
            harness.graph.restore_object(harness.actor, second).await.unwrap();
            assert_eq!(harness.neighbours(a).await, [b]);
        }
        assert_eq!(harness.graph.get_relationship(harness.project(), edge.id).await.unwrap().version, 5);
    }

    async fn an_id_of_another_project_is_not_found(db: TestDb) {
        let harness = Harness::new(&db).await;
        let id = harness.object(new("Task", "a", json!({}))).await;
        let other = project(&harness.graph, "other", false).await;
        let theirs = harness.graph.create_object(other, new("Task", "", json!({}))).await.unwrap().id;
        let graph = &harness.graph;
        let not_found = |error: Option<Error>| assert!(matches!(error, Some(Error::NotFound { .. })), "{error:?}");
        not_found(graph.get_object(other.project, id).await.err());
        not_found(graph.update_object(other, id, properties(json!({ "a": 1 }))).await.err());
        not_found(graph.delete_object(other, id, None).await.err());
        not_found(graph.restore_object(other, id).await.err());
        not_found(graph.object_history(other.project, id, Page::first(10)).await.err());
        not_found(graph.object_edges(other.project, id, Default::default(), vec![], Page::first(10)).await.err());
        assert_eq!(problem(graph.create_relationship(other, edge("x", id, theirs)).await), "fromId: no object with this id in this project");
        assert_eq!(graph.list_objects(other.project, ObjectFilter::default(), Page::first(10)).await.unwrap().items.len(), 1);
    }

    async fn many_objects_come_each_on_its_own_or_all_or_none(db: TestDb) {
        let harness = Harness::new(&db).await;
        harness.object(new("Task", "taken", json!({}))).await;
        let list = || vec![
            new("Task", "one", json!({})),
            new("not a type", "", json!({})),
            new("Task", "taken", json!({})),
            new("Task", "one", json!({})),
            new("Task", "two", json!({})),
        ];
        let refused = harness.graph.bulk_create_objects(harness.actor, list(), true).await;
        assert!(problem(refused).starts_with("objects[1].type"));
        let mut no_bad_type = list();
        no_bad_type.remove(1);
        assert!(matches!(harness.graph.bulk_create_objects(harness.actor, no_bad_type, true).await, Err(Error::KeyTaken { key, .. }) if key == "taken"));
        assert_eq!(harness.change_kinds().await.len(), 1, "nothing was written");

        let outcomes = harness.graph.bulk_create_objects(harness.actor, list(), false).await.unwrap();
        let words: Vec<&str> = outcomes.iter().map(|outcome| match outcome {
            Ok(_) => "made",
            Err(Error::Invalid(_)) => "invalid",
            Err(Error::KeyTaken { .. }) => "taken",
            Err(other) => panic!("{other:?}"),
        }).collect();
        assert_eq!(words, ["made", "invalid", "taken", "taken", "made"]);
        let (Ok(one), Err(Error::KeyTaken { id, .. })) = (&outcomes[0], &outcomes[3]) else { panic!() };
        assert_eq!(one.id, *id);
        assert_eq!(indexed(&harness.graph, harness.project()).await.len(), 3);
        assert_eq!(harness.change_kinds().await.len(), 3);
        assert!(harness.graph.bulk_create_objects(harness.actor, vec![], true).await.unwrap().is_empty());

        let many: Vec<_> = (0..1_500).map(|n| new("Many", &format!("k{n}"), json!({ "n": n }))).collect();
        let made = harness.graph.bulk_create_objects(harness.actor, many, true).await.unwrap();
        assert_eq!(made.len(), 1_500);
        assert_eq!(indexed(&harness.graph, harness.project()).await.len(), 1_503);
    }

    async fn a_name_controls_no_terminal(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let id = harness.object(new("Note", "a", json!({}))).await;
        for bad in ["a\u{1b}[2J", "a\nb", "a\tb", "a\rb", "a\u{9b}", "a\u{202e}b", "a\u{2028}b"] {
            let (key, status, labels) = (new("Note", bad, json!({})), Some(bad.to_owned()), vec!["a".to_owned(), bad.to_owned()]);
            let named = |new: NewObject| async { problem(graph.create_object(harness.actor, new).await) };
            let refused = "must not contain control characters, such as line breaks and those that reverse the direction of text";
            assert_eq!(named(key.clone()).await, format!("key: {refused}"), "{bad:?}");
            assert!(problem(graph.upsert_object(harness.actor, key).await).starts_with("key: "));
            assert_eq!(named(NewObject { status: status.clone(), ..new("Note", "b", json!({})) }).await, format!("status: {refused}"));
            assert_eq!(named(NewObject { labels: labels.clone(), ..new("Note", "b", json!({})) }).await, format!("labels[1]: {refused}"));
            for (field, patch) in [
                ("key", ObjectPatch { key: Some(status.clone()), ..ObjectPatch::default() }),
                ("status", ObjectPatch { status: Some(status), ..ObjectPatch::default() }),
                ("labels[1]", ObjectPatch { labels: Some(labels), ..ObjectPatch::default() }),
            ] {
                assert!(problem(graph.update_object(harness.actor, id, patch).await).starts_with(field), "{field} {bad:?}");
            }
            let line = json!({ "kind": "object", "type": "Note", "key": bad, "properties": {} });
            let imported = graph.import_batch(harness.actor, vec![(7, line.to_string())]).await.unwrap();
            assert_eq!((imported.errors[0].line, imported.errors[0].field.as_deref()), (7, Some("key")));
        }
        graph.create_object(harness.actor, new("Note", "Ünï-κόδ אבג 👩\u{200d}👧", json!({ "text": "a\nb" }))).await.unwrap();
    }

    async fn a_stored_name_is_no_obstacle(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let id = harness.object(new("Note", "a", json!({}))).await;
        // As an earlier version stored it.
        let object = graph.get_object(harness.project(), id).await.unwrap();
        let stored = Object { id: ObjectId::new(), key: Some("a\u{1b}[2J\n".into()), labels: vec!["b\u{202e}".into()], ..object };
        let (id, key, inner, actor) = (stored.id, stored.key.clone(), graph.clone(), harness.actor);
        let text = indexed_text("Note", None, &[], &serde_json::Map::new());
        let inserted: Result<_, Error> = graph.db().write(move |tx| {
            let ctx = inner.write_context(tx, actor)?;
            Ok(rows::insert_many(tx, ctx.project.no, &[NewRow { object: &stored, text: &text }])?)
        }).await;
        inserted.unwrap();
        let updated = graph.update_object(harness.actor, id, properties(json!({ "text": "new" }))).await.unwrap();
        assert_eq!((updated.version, &updated.key), (2, &key));
        let renamed = ObjectPatch { key: Some(Some("b".into())), ..ObjectPatch::default() };
        assert_eq!(graph.update_object(harness.actor, id, renamed).await.unwrap().key.as_deref(), Some("b"));
        graph.delete_object(harness.actor, id, None).await.unwrap();
        assert_eq!(graph.restore_object(harness.actor, id).await.unwrap().labels, ["b\u{202e}"]);
    }

    async fn an_upsert_makes_changes_or_leaves_alone(db: TestDb) {
        let harness = Harness::new(&db).await;
        let upsert = async |new: NewObject| harness.graph.upsert_object(harness.actor, new).await;
        let first = NewObject { labels: vec!["l".to_owned()], status: Some("open".to_owned()), ..new("Task", "a", json!({ "x": 1, "y": 2, "z": null })) };
        let (made, what) = upsert(first.clone()).await.unwrap();
        assert_eq!((made.version, what), (1, UpsertOutcome::Created));
        assert_eq!(upsert(first).await.unwrap(), (made.clone(), UpsertOutcome::Unchanged));
        let (changed, what) = upsert(new("Task", "a", json!({ "x": 3, "y": null }))).await.unwrap();
        assert_eq!((changed.id, changed.version, what), (made.id, 2, UpsertOutcome::Updated));
        assert_eq!(changed.properties.to_map(), map(json!({ "x": 3 })));
        assert_eq!((changed.labels, changed.status.as_deref()), (made.labels, Some("open")));
        assert_eq!(problem(upsert(new("Task", "", json!({}))).await), "key: is required");
        harness.graph.delete_object(harness.actor, made.id, None).await.unwrap();
        let (again, what) = upsert(new("Task", "a", json!({}))).await.unwrap();
        assert_ne!((again.id, what), (made.id, UpsertOutcome::Updated));
    }

    async fn lists_are_newest_first_filtered_and_paged(db: TestDb) {
        let harness = Harness::new(&db).await;
        let clock = harness.graph.clock().clone();
        let mut made = Vec::new();
        for n in 0..7 {
            if n % 3 == 0 {
                clock.advance(std::time::Duration::from_millis(1));
            }
            let labels = if n % 2 == 0 { vec!["even".to_owned()] } else { vec![] };
            let type_ = if n < 5 { "Task" } else { "Note" };
            made.push(harness.object(NewObject { labels, ..new(type_, &format!("k{n}"), json!({ "n": n })) }).await);
        }
        let list = async |filter: ObjectFilter| -> Vec<ObjectId> {
            let found = all_pages(async |page| harness.graph.list_objects(harness.project(), filter.clone(), page).await).await;
            found.iter().map(|object: &Object| object.id).collect()
        };
        let newest_first = |wanted: &[usize]| wanted.iter().map(|n| made[*n]).collect::<Vec<_>>();
        assert_eq!(list(ObjectFilter::default()).await, newest_first(&[6, 5, 4, 3, 2, 1, 0]));
        let tasks = ObjectFilter { types: vec!["Task".to_owned()], ..ObjectFilter::default() };
        assert_eq!(list(tasks.clone()).await, newest_first(&[4, 3, 2, 1, 0]));
        let even = ObjectFilter { labels: vec!["even".to_owned()], ..tasks.clone() };
        assert_eq!(list(even).await, newest_first(&[4, 2, 0]));
        let above = Filter { path: "n".to_owned(), op: Op::Gt, value: Some(json!(2)) };
        assert_eq!(list(ObjectFilter { filters: vec![above], ..tasks }).await, newest_first(&[4, 3]));
        assert_eq!(list(ObjectFilter { key: Some("k5".to_owned()), ..ObjectFilter::default() }).await, newest_first(&[5]));
    }

    async fn texts_of_any_size_and_shape_can_be_indexed(db: TestDb) {
        let harness = Harness::new(&db).await;
        let long = "x".repeat(900_000);
        let words: String = (0..100_000).map(|n| format!("w{n} ")).collect();
        let parts: String = (0..60_000).map(|n| format!("ab{n}-")).collect();
        let hosts: String = (0..20_000).map(|n| format!("http://h{n}.example.com/p{n} ")).collect();
        let unicode = "ß漢字İ🦀 ".repeat(20_000);
        for text in [long, words.clone(), parts, hosts, unicode] {
            let id = harness.object(new("Text", "", json!({ "body": text, "title": text[..text.floor_char_boundary(100_000)] }))).await;
            for body in [json!(null), json!(words)] {
                harness.graph.update_object(harness.actor, id, properties(json!({ "body": body }))).await.unwrap();
            }
            harness.graph.delete_object(harness.actor, id, None).await.unwrap();
            harness.graph.restore_object(harness.actor, id).await.unwrap();
        }
        assert_eq!(indexed(&harness.graph, harness.project()).await.len(), 5);
    }

    async fn no_update_is_lost_when_many_write_to_few_objects(db: TestDb) {
        let graphs = [Graph::new(db.db.clone(), Clock::system(), None), Graph::new(db.second_connection().await, Clock::system(), None)];
        let actor = project(&graphs[0], "test", false).await;
        let mut ids = Vec::new();
        for n in 0..3 {
            ids.push(graphs[0].create_object(actor, new("Counter", &format!("c{n}"), json!({ "n": 0 }))).await.unwrap().id);
        }
        let ids = Arc::new(ids);
        let clients = (0..64_usize).map(|client| {
            // A SQLite file has one writer, so the second server exists only on PostgreSQL.
            let server = if db.engine() == emergent_store::Engine::Postgres { client % 2 } else { 0 };
            let (graph, ids) = (graphs[server].clone(), Arc::clone(&ids));
            tokio::spawn(async move {
                for round in 0..4 {
                    increment(&graph, actor, ids[(client + round) % ids.len()]).await;
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        let mut total = 0;
        for id in ids.iter() {
            let object = graphs[0].get_object(actor.project, *id).await.unwrap();
            let n = object.properties.to_map()["n"].as_i64().unwrap();
            assert_eq!(object.version, n + 1);
            let history = all_pages(async |page| graphs[0].object_history(actor.project, *id, page).await).await;
            let versions: Vec<i64> = history.iter().map(|one| one.version).collect();
            assert_eq!(versions, (1..=n + 1).rev().collect::<Vec<_>>());
            total += n;
        }
        assert_eq!(total, 64 * 4);
    }

    async fn a_key_is_given_once_however_many_ask(db: TestDb) {
        let graph = Graph::new(db.db.clone(), Clock::system(), None);
        let actor = project(&graph, "test", false).await;
        let tasks: Vec<_> = (0..48).map(|n| {
            let graph = graph.clone();
            tokio::spawn(async move {
                let key = format!("k{}", n % 4);
                match n % 3 {
                    0 => graph.create_object(actor, new("Task", &key, json!({ "n": n }))).await.map(|object| object.id),
                    1 => graph.upsert_object(actor, new("Task", &key, json!({ "n": n }))).await.map(|(object, _)| object.id),
                    _ => {
                        let own = graph.create_object(actor, new("Task", &format!("own{n}"), json!({}))).await?;
                        let rename = ObjectPatch { key: Some(Some(key)), ..ObjectPatch::default() };
                        graph.update_object(actor, own.id, rename).await.map(|object| object.id)
                    }
                }
            })
        }).collect();
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) | Err(Error::KeyTaken { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        let all = all_pages(async |page| graph.list_objects(actor.project, ObjectFilter::default(), page).await).await;
        let keys: Vec<_> = all.iter().filter_map(|object| object.key.clone()).collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        assert!((0..4).all(|n| keys.contains(&format!("k{n}"))));
        let living: Vec<_> = { let mut ids: Vec<_> = all.iter().map(|object| object.id).collect(); ids.sort(); ids };
        assert_eq!(indexed(&graph, actor.project).await, living);
    }

    async fn no_living_edge_hangs_on_a_dead_object(db: TestDb) {
        let graph = Graph::new(db.db.clone(), Clock::system(), None);
        let actor = project(&graph, "test", false).await;
        let made = graph.bulk_create_objects(actor, (0..12).map(|n| new("Task", &format!("k{n}"), json!({}))).collect(), true).await.unwrap();
        let ids: Arc<Vec<ObjectId>> = Arc::new(made.into_iter().map(|object| object.unwrap().id).collect());
        let tasks: Vec<_> = (0..48_usize).map(|n| {
            let (graph, ids) = (graph.clone(), Arc::clone(&ids));
            tokio::spawn(async move {
                for round in 0..6 {
                    let (a, b) = (ids[(n * 5 + round) % ids.len()], ids[(n * 7 + round * 3) % ids.len()]);
                    let outcome = match n % 4 {
                        0 => graph.delete_object(actor, a, None).await.err(),
                        1 => graph.restore_object(actor, a).await.err(),
                        _ => graph.create_relationship(actor, edge("e", a, b)).await.err(),
                    };
                    match outcome {
                        None | Some(Error::NotFound { .. } | Error::Invalid(_)) => {}
                        Some(other) => panic!("{other:?}"),
                    }
                }
            })
        }).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let hanging: Vec<i64> = graph.db().read(|tx| tx.query(
            "SELECT e.no FROM graph_relationships AS e JOIN graph_objects AS o ON o.id = e.from_id OR o.id = e.to_id
             WHERE e.deleted_at IS NULL AND o.deleted_at IS NOT NULL", &[], |row| row.get(0)))
            .await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert!(hanging.is_empty());
    }

    async fn writes_in_a_project_that_is_gone_are_refused(db: TestDb) {
        let harness = Harness::new(&db).await;
        harness.graph.delete_project(harness.project()).await.unwrap();
        let outcome = harness.graph.create_object(harness.actor, new("Task", "", json!({}))).await;
        assert!(matches!(outcome, Err(Error::NotFound { what: "project", .. })), "{outcome:?}");
    }
}

/// Increments a value with optimistic concurrency, and retries on version conflicts.
async fn increment(graph: &Graph, actor: emergent_graph::Actor, id: ObjectId) {
    loop {
        let object = graph.get_object(actor.project, id).await.unwrap();
        let n = object.properties.to_map()["n"].as_i64().unwrap();
        let patch =
            ObjectPatch { expected_version: Some(object.version), ..properties(json!({ "n": n + 1 })) };
        match graph.update_object(actor, id, patch).await {
            Ok(_) => return,
            Err(Error::VersionConflict { expected, current, .. }) => assert!(current > expected),
            Err(other) => panic!("{other:?}"),
        }
    }
}
