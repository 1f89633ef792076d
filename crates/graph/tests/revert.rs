//! Undoing what one run wrote.

mod support;

use emergent_domain::{
    document::NewDocument,
    ids::{ObjectId, RunId},
    object::ObjectPatch,
    relationship::RelationshipPatch,
};
use emergent_graph::{
    Error,
    revert::{EntityKind, RevertReport, UndoAction},
};
use emergent_testkit::both_engines;
use serde_json::{Map, Value, json};
use support::*;

fn set(properties: Value) -> ObjectPatch {
    ObjectPatch { properties: Some(map(properties)), ..ObjectPatch::default() }
}

fn key(key: &str) -> ObjectPatch {
    ObjectPatch { key: Some(Some(key.to_owned())), ..ObjectPatch::default() }
}

async fn properties(world: &World, id: ObjectId) -> Map<String, Value> {
    world.graph.get_object(world.project(), id).await.unwrap().properties.to_map()
}

async fn is_gone(world: &World, id: ObjectId) -> bool {
    matches!(world.graph.get_object(world.project(), id).await, Err(Error::NotFound { .. }))
}

/// What was done, as `object deleted`, in order.
fn done(report: &RevertReport) -> Vec<String> {
    report.undone.iter().map(|one| format!("{} {}", one.kind.as_str(), one.how.as_str())).collect()
}

async fn revert_cleanly(world: &World, run: RunId) -> RevertReport {
    let report = world.graph.revert_run(world.actor, run).await.unwrap();
    assert_eq!(report.conflicts, []);
    report
}

/// The one reason why something stays.
async fn refusal(world: &World, run: RunId) -> (EntityKind, uuid::Uuid, String) {
    let report = world.graph.revert_run(world.actor, run).await.unwrap();
    let [conflict] = &report.conflicts[..] else { panic!("{report:?}") };
    (conflict.kind, conflict.id, conflict.reason.clone())
}

both_engines! {
    async fn what_a_run_made_is_deleted(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let old = world.object(new("note", "", json!({}))).await;
        let made = world.graph.create_object(agent, new("note", "k", json!({ "a": 1 }))).await.unwrap().id;
        world.graph.create_relationship(agent, edge("about", made, old)).await.unwrap();
        let document = NewDocument {
            title: "page.md".into(),
            mime_type: Some("text/markdown".into()),
            source_url: None,
            metadata: Map::new(),
            content: b"# Of a run\n\nWords.".to_vec(),
        };
        let (document, _) = world.graph.create_document(agent, document).await.unwrap();

        let report = revert_cleanly(&world, run).await;
        assert_eq!(done(&report), ["relationship deleted", "object deleted", "document deleted"]);
        assert!(is_gone(&world, made).await);
        assert_eq!(world.neighbours(old).await, []);
        assert!(world.graph.get_document(world.project(), document.id).await.is_err());
        assert_eq!(indexed(&world.graph, world.project()).await, [old]);
        let versions = world.graph.object_history(world.project(), made, emergent_domain::cursor::Page::first(10));
        let newest = versions.await.unwrap().items.remove(0);
        assert_eq!((newest.version, newest.author), (2, world.actor.author), "undone by whoever asked");
    }

    async fn what_a_run_changed_says_what_it_said_before_the_run(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let note = world.object(new("note", "k", json!({ "a": 1, "deep": { "x": 1 } }))).await;
        let other = world.object(new("note", "", json!({}))).await;
        let link = world.edge("about", note, other).await;
        world.graph.update_object(agent, note, set(json!({ "a": 2, "b": 1, "deep": { "y": 2 } }))).await.unwrap();
        let again = ObjectPatch {
            type_: Some("idea".into()),
            key: Some(None),
            status: Some(Some("open".into())),
            labels: Some(vec!["l".into()]),
            ..set(json!({ "a": null }))
        };
        world.graph.update_object(agent, note, again).await.unwrap();
        let heavier = RelationshipPatch {
            weight: Some(Some(0.5)),
            properties: Some(map(json!({ "p": 1 }))),
            ..RelationshipPatch::default()
        };
        world.graph.update_relationship(agent, link.id, heavier).await.unwrap();

        let report = revert_cleanly(&world, run).await;
        assert_eq!(done(&report), ["object put_back", "relationship put_back"]);
        let object = world.graph.get_object(world.project(), note).await.unwrap();
        assert_eq!(object.properties.to_map(), map(json!({ "a": 1, "deep": { "x": 1 } })));
        assert_eq!((object.type_.as_str(), object.key.as_deref(), object.version), ("note", Some("k"), 4));
        assert_eq!((object.status, object.labels), (None, vec![]));
        let edge = world.graph.get_relationship(world.project(), link.id).await.unwrap();
        assert_eq!((edge.weight, edge.properties.to_map(), edge.version), (None, Map::new(), 3));
    }

    async fn what_a_run_deleted_comes_back_with_its_edges(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let hub = world.object(new("note", "hub", json!({ "a": 1 }))).await;
        let near = world.object(new("note", "near", json!({}))).await;
        let far = world.object(new("note", "far", json!({}))).await;
        world.edge("about", hub, near).await;
        let cut = world.edge("about", near, far).await;
        world.graph.delete_relationship(agent, cut.id, None).await.unwrap();
        world.graph.update_object(agent, hub, set(json!({ "a": 2 }))).await.unwrap();
        world.graph.delete_object(agent, hub, None).await.unwrap();
        // In its place, and so in the way until it is undone.
        world.graph.create_object(agent, new("note", "hub", json!({}))).await.unwrap();

        let report = revert_cleanly(&world, run).await;
        let restored: Vec<UndoAction> = report.undone.iter().map(|one| one.how).collect();
        assert_eq!(restored, [UndoAction::Deleted, UndoAction::Restored, UndoAction::Restored, UndoAction::Restored]);
        assert_eq!(properties(&world, hub).await, map(json!({ "a": 1 })), "as before the run changed it");
        assert_eq!(world.neighbours(near).await, { let mut both = vec![hub, far]; both.sort(); both });
        let mut all = vec![hub, near, far];
        all.sort();
        assert_eq!(indexed(&world.graph, world.project()).await, all);
    }

    async fn what_was_changed_since_is_reported_and_stays(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let note = world.object(new("note", "", json!({ "a": 1 }))).await;
        world.graph.update_object(agent, note, set(json!({ "a": 2 }))).await.unwrap();
        world.graph.update_object(world.actor, note, set(json!({ "b": 1 }))).await.unwrap();
        let why = (EntityKind::Object, note.0, "has been changed by someone else since".to_owned());
        assert_eq!(refusal(&world, run).await, why);

        // In the midst of the run's own changes is no better.
        world.graph.update_object(agent, note, set(json!({ "a": 3 }))).await.unwrap();
        assert_eq!(refusal(&world, run).await, why);
        assert_eq!(properties(&world, note).await, map(json!({ "a": 3, "b": 1 })));
        let report = world.graph.revert_run(world.actor, run).await.unwrap();
        assert_eq!(report.conflicts[0].current_version, 4);
    }

    async fn an_object_that_others_built_on_stays(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let made = world.graph.create_object(agent, new("note", "", json!({}))).await.unwrap().id;
        let own = world.object(new("note", "", json!({}))).await;
        let link = world.edge("about", own, made).await;
        let (what, id, reason) = refusal(&world, run).await;
        assert_eq!((what, id), (EntityKind::Object, made.0));
        assert!(reason.contains(&link.id.to_string()), "{reason}");
        assert_eq!(world.neighbours(own).await, [made]);

        world.graph.delete_relationship(world.actor, link.id, None).await.unwrap();
        revert_cleanly(&world, run).await;
        assert!(is_gone(&world, made).await);
    }

    async fn a_second_time_does_nothing(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let changed = world.object(new("note", "", json!({ "a": 1 }))).await;
        let deleted = world.object(new("note", "", json!({}))).await;
        world.edge("about", changed, deleted).await;
        world.graph.update_object(agent, changed, set(json!({ "a": 2 }))).await.unwrap();
        let made = world.graph.create_object(agent, new("note", "", json!({}))).await.unwrap().id;
        world.graph.create_relationship(agent, edge("about", made, changed)).await.unwrap();
        world.graph.delete_object(agent, deleted, None).await.unwrap();
        revert_cleanly(&world, run).await;

        let told = world.change_kinds().await.len();
        assert_eq!(revert_cleanly(&world, run).await, RevertReport::default());
        assert_eq!(world.change_kinds().await.len(), told);
    }

    async fn keys_that_a_run_exchanged_are_exchanged_back(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let mut notes = Vec::new();
        for name in ["a", "b", "c", "d"] {
            notes.push(world.object(new("note", name, json!({}))).await);
        }
        // a and b change places; c takes d's, which goes elsewhere.
        for (at, to) in [(0, "away"), (1, "a"), (0, "b"), (3, "e"), (2, "d")] {
            world.graph.update_object(agent, notes[at], key(to)).await.unwrap();
        }
        revert_cleanly(&world, run).await;
        for (note, name) in notes.iter().zip(["a", "b", "c", "d"]) {
            let object = world.graph.get_object(world.project(), *note).await.unwrap();
            assert_eq!(object.key.as_deref(), Some(name));
        }
    }

    async fn a_key_that_was_given_away_meanwhile_is_reported(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let gone = world.object(new("note", "k", json!({}))).await;
        world.graph.delete_object(agent, gone, None).await.unwrap();
        let heir = world.object(new("note", "k", json!({}))).await;
        let (what, id, reason) = refusal(&world, run).await;
        assert_eq!((what, id), (EntityKind::Object, gone.0));
        assert!(reason.contains(&heir.to_string()), "{reason}");
    }

    async fn an_edge_whose_end_is_gone_is_reported(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let from = world.object(new("note", "", json!({}))).await;
        let to = world.object(new("note", "", json!({}))).await;
        let link = world.edge("about", from, to).await;
        world.graph.delete_relationship(agent, link.id, None).await.unwrap();
        let twin = world.edge("about", from, to).await;
        let (_, id, reason) = refusal(&world, run).await;
        assert_eq!(id, link.id.0);
        assert!(reason.contains(&twin.id.to_string()), "{reason}");

        world.graph.delete_object(world.actor, to, None).await.unwrap();
        let (_, id, reason) = refusal(&world, run).await;
        assert_eq!(id, link.id.0);
        assert!(reason.contains(&to.to_string()), "{reason}");
    }

    async fn an_edge_the_run_made_does_not_come_back_with_its_end(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let from = world.object(new("note", "", json!({}))).await;
        let to = world.object(new("note", "", json!({}))).await;
        world.graph.create_relationship(agent, edge("about", from, to)).await.unwrap();
        world.graph.delete_object(agent, from, None).await.unwrap();
        revert_cleanly(&world, run).await;
        assert!(!is_gone(&world, from).await);
        assert_eq!(world.neighbours(to).await, []);
    }

    async fn a_run_is_undone_in_the_project_of_whoever_asks_only(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let made = world.graph.create_object(agent, new("note", "", json!({}))).await.unwrap().id;
        let elsewhere = project(&world.graph, "elsewhere", false).await;
        let report = world.graph.revert_run(elsewhere, run).await.unwrap();
        assert_eq!(report, RevertReport::default());
        assert!(!is_gone(&world, made).await);
    }

    async fn what_the_packs_no_longer_allow_is_reported(db: TestDb) {
        let world = World::new(&db).await;
        let (run, agent) = run_in(&world);
        let note = world.object(new("note", "", json!({ "a": "text" }))).await;
        world.graph.update_object(agent, note, set(json!({ "a": 2 }))).await.unwrap();
        let pack = json!({
            "name": "notes", "version": "1.0.0",
            "objectTypeSchemas": { "note": { "properties": { "a": { "type": "number" } } } },
            "relationshipTypeSchemas": {},
        });
        let pack = serde_json::from_value(pack).unwrap();
        let pack = world.graph.create_pack(world.project(), pack).await.unwrap();
        world.graph.assign_pack(world.project(), pack.id).await.unwrap();
        let (_, id, reason) = refusal(&world, run).await;
        assert_eq!(id, note.0);
        assert!(reason.contains("not allowed any more"), "{reason}");
        assert_eq!(properties(&world, note).await, map(json!({ "a": 2 })));
    }
}
