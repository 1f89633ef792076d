//! Reverting the writes of a run.

use crate::support;

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

async fn properties(harness: &Harness, id: ObjectId) -> Map<String, Value> {
    harness.graph.get_object(harness.project(), id).await.unwrap().properties.to_map()
}

async fn is_gone(harness: &Harness, id: ObjectId) -> bool {
    matches!(harness.graph.get_object(harness.project(), id).await, Err(Error::NotFound { .. }))
}

/// Returns the reverted entities in order, as in `object deleted`.
fn done(report: &RevertReport) -> Vec<String> {
    report.undone.iter().map(|one| format!("{} {}", one.kind.as_str(), one.how.as_str())).collect()
}

async fn revert_cleanly(harness: &Harness, run: RunId) -> RevertReport {
    let report = harness.graph.revert_run(harness.actor, run).await.unwrap();
    assert_eq!(report.conflicts, []);
    report
}

/// Returns the only conflict of a revert.
async fn refusal(harness: &Harness, run: RunId) -> (EntityKind, uuid::Uuid, String) {
    let report = harness.graph.revert_run(harness.actor, run).await.unwrap();
    let [conflict] = &report.conflicts[..] else { panic!("{report:?}") };
    (conflict.kind, conflict.id, conflict.reason.clone())
}

both_engines! {
    async fn what_a_run_made_is_deleted(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let old = harness.object(new("note", "", json!({}))).await;
        let made = harness.graph.create_object(agent, new("note", "k", json!({ "a": 1 }))).await.unwrap().id;
        harness.graph.create_relationship(agent, edge("about", made, old)).await.unwrap();
        let document = NewDocument {
            title: "page.md".into(),
            mime_type: Some("text/markdown".into()),
            source_url: None,
            metadata: Map::new(),
            content: b"# Of a run\n\nWords.".to_vec(),
        };
        let (document, _) = harness.graph.create_document(agent, document).await.unwrap();

        let report = revert_cleanly(&harness, run).await;
        assert_eq!(done(&report), ["relationship deleted", "object deleted", "document deleted"]);
        assert_eq!(report.undone[2].name.as_deref(), Some("page.md"));
        assert!(is_gone(&harness, made).await);
        assert_eq!(harness.neighbours(old).await, []);
        assert!(harness.graph.get_document(harness.project(), document.id).await.is_err());
        assert_eq!(indexed(&harness.graph, harness.project()).await, [old]);
        let versions = harness.graph.object_history(harness.project(), made, emergent_domain::cursor::Page::first(10));
        let newest = versions.await.unwrap().items.remove(0);
        assert_eq!((newest.version, newest.author), (2, harness.actor.author), "undone by whoever asked");
    }

    async fn what_a_run_changed_says_what_it_said_before_the_run(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let note = harness.object(new("note", "k", json!({ "a": 1, "deep": { "x": 1 } }))).await;
        let other = harness.object(new("note", "", json!({}))).await;
        let link = harness.edge("about", note, other).await;
        harness.graph.update_object(agent, note, set(json!({ "a": 2, "b": 1, "deep": { "y": 2 } }))).await.unwrap();
        let again = ObjectPatch {
            type_: Some("idea".into()),
            key: Some(None),
            status: Some(Some("open".into())),
            labels: Some(vec!["l".into()]),
            ..set(json!({ "a": null }))
        };
        harness.graph.update_object(agent, note, again).await.unwrap();
        let heavier = RelationshipPatch {
            weight: Some(Some(0.5)),
            properties: Some(map(json!({ "p": 1 }))),
            ..RelationshipPatch::default()
        };
        harness.graph.update_relationship(agent, link.id, heavier).await.unwrap();

        let report = revert_cleanly(&harness, run).await;
        assert_eq!(done(&report), ["object put_back", "relationship put_back"]);
        let object = harness.graph.get_object(harness.project(), note).await.unwrap();
        assert_eq!(object.properties.to_map(), map(json!({ "a": 1, "deep": { "x": 1 } })));
        assert_eq!((object.type_.as_str(), object.key.as_deref(), object.version), ("note", Some("k"), 4));
        assert_eq!((object.status, object.labels), (None, vec![]));
        let edge = harness.graph.get_relationship(harness.project(), link.id).await.unwrap();
        assert_eq!((edge.weight, edge.properties.to_map(), edge.version), (None, Map::new(), 3));
    }

    async fn what_a_run_deleted_comes_back_with_its_edges(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let hub = harness.object(new("note", "hub", json!({ "a": 1 }))).await;
        let near = harness.object(new("note", "near", json!({}))).await;
        let far = harness.object(new("note", "far", json!({}))).await;
        harness.edge("about", hub, near).await;
        let cut = harness.edge("about", near, far).await;
        harness.graph.delete_relationship(agent, cut.id, None).await.unwrap();
        harness.graph.update_object(agent, hub, set(json!({ "a": 2 }))).await.unwrap();
        harness.graph.delete_object(agent, hub, None).await.unwrap();
        // The new edge has the same type and ends, so it blocks the restore until it is reverted.
        harness.graph.create_object(agent, new("note", "hub", json!({}))).await.unwrap();

        let report = revert_cleanly(&harness, run).await;
        let restored: Vec<UndoAction> = report.undone.iter().map(|one| one.how).collect();
        assert_eq!(restored, [UndoAction::Deleted, UndoAction::Restored, UndoAction::Restored, UndoAction::Restored]);
        assert_eq!(properties(&harness, hub).await, map(json!({ "a": 1 })), "as before the run changed it");
        assert_eq!(harness.neighbours(near).await, { let mut both = vec![hub, far]; both.sort(); both });
        let mut all = vec![hub, near, far];
        all.sort();
        assert_eq!(indexed(&harness.graph, harness.project()).await, all);
    }

    async fn what_was_changed_since_is_reported_and_stays(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let note = harness.object(new("note", "", json!({ "a": 1 }))).await;
        harness.graph.update_object(agent, note, set(json!({ "a": 2 }))).await.unwrap();
        harness.graph.update_object(harness.actor, note, set(json!({ "b": 1 }))).await.unwrap();
        let why = (EntityKind::Object, note.0, "has been changed by someone else since".to_owned());
        assert_eq!(refusal(&harness, run).await, why);

        // A change between two writes of the run is a conflict too.
        harness.graph.update_object(agent, note, set(json!({ "a": 3 }))).await.unwrap();
        assert_eq!(refusal(&harness, run).await, why);
        assert_eq!(properties(&harness, note).await, map(json!({ "a": 3, "b": 1 })));
        let report = harness.graph.revert_run(harness.actor, run).await.unwrap();
        assert_eq!(report.conflicts[0].current_version, 4);
    }

    async fn an_object_that_others_built_on_stays(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let made = harness.graph.create_object(agent, new("note", "", json!({}))).await.unwrap().id;
        let own = harness.object(new("note", "", json!({}))).await;
        let link = harness.edge("about", own, made).await;
        let (what, id, reason) = refusal(&harness, run).await;
        assert_eq!((what, id), (EntityKind::Object, made.0));
        assert!(reason.contains(&link.id.to_string()), "{reason}");
        assert_eq!(harness.neighbours(own).await, [made]);

        harness.graph.delete_relationship(harness.actor, link.id, None).await.unwrap();
        revert_cleanly(&harness, run).await;
        assert!(is_gone(&harness, made).await);
    }

    async fn a_second_time_does_nothing(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let changed = harness.object(new("note", "", json!({ "a": 1 }))).await;
        let deleted = harness.object(new("note", "", json!({}))).await;
        harness.edge("about", changed, deleted).await;
        harness.graph.update_object(agent, changed, set(json!({ "a": 2 }))).await.unwrap();
        let made = harness.graph.create_object(agent, new("note", "", json!({}))).await.unwrap().id;
        harness.graph.create_relationship(agent, edge("about", made, changed)).await.unwrap();
        harness.graph.delete_object(agent, deleted, None).await.unwrap();
        revert_cleanly(&harness, run).await;

        let told = harness.change_kinds().await.len();
        assert_eq!(revert_cleanly(&harness, run).await, RevertReport::default());
        assert_eq!(harness.change_kinds().await.len(), told);
    }

    async fn keys_that_a_run_exchanged_are_exchanged_back(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let mut notes = Vec::new();
        for name in ["a", "b", "c", "d"] {
            notes.push(harness.object(new("note", name, json!({}))).await);
        }
        // a and b swap their keys; c takes the key of d, and d gets another one.
        for (at, to) in [(0, "away"), (1, "a"), (0, "b"), (3, "e"), (2, "d")] {
            harness.graph.update_object(agent, notes[at], key(to)).await.unwrap();
        }
        revert_cleanly(&harness, run).await;
        for (note, name) in notes.iter().zip(["a", "b", "c", "d"]) {
            let object = harness.graph.get_object(harness.project(), *note).await.unwrap();
            assert_eq!(object.key.as_deref(), Some(name));
        }
    }

    async fn a_key_that_was_given_away_meanwhile_is_reported(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let gone = harness.object(new("note", "k", json!({}))).await;
        harness.graph.delete_object(agent, gone, None).await.unwrap();
        let heir = harness.object(new("note", "k", json!({}))).await;
        let (what, id, reason) = refusal(&harness, run).await;
        assert_eq!((what, id), (EntityKind::Object, gone.0));
        assert!(reason.contains(&heir.to_string()), "{reason}");
    }

    async fn an_edge_whose_end_is_gone_is_reported(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let from = harness.object(new("note", "", json!({}))).await;
        let to = harness.object(new("note", "", json!({}))).await;
        let link = harness.edge("about", from, to).await;
        harness.graph.delete_relationship(agent, link.id, None).await.unwrap();
        let twin = harness.edge("about", from, to).await;
        let (_, id, reason) = refusal(&harness, run).await;
        assert_eq!(id, link.id.0);
        assert!(reason.contains(&twin.id.to_string()), "{reason}");

        harness.graph.delete_object(harness.actor, to, None).await.unwrap();
        let (_, id, reason) = refusal(&harness, run).await;
        assert_eq!(id, link.id.0);
        assert!(reason.contains(&to.to_string()), "{reason}");
    }

    async fn an_edge_the_run_made_does_not_come_back_with_its_end(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let from = harness.object(new("note", "", json!({}))).await;
        let to = harness.object(new("note", "", json!({}))).await;
        harness.graph.create_relationship(agent, edge("about", from, to)).await.unwrap();
        harness.graph.delete_object(agent, from, None).await.unwrap();
        revert_cleanly(&harness, run).await;
        assert!(!is_gone(&harness, from).await);
        assert_eq!(harness.neighbours(to).await, []);
    }

    async fn a_run_is_undone_in_the_project_of_whoever_asks_only(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let made = harness.graph.create_object(agent, new("note", "", json!({}))).await.unwrap().id;
        let elsewhere = project(&harness.graph, "elsewhere", false).await;
        let report = harness.graph.revert_run(elsewhere, run).await.unwrap();
        assert_eq!(report, RevertReport::default());
        assert!(!is_gone(&harness, made).await);
    }

    async fn what_the_packs_no_longer_allow_is_reported(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (run, agent) = run_in(&harness);
        let note = harness.object(new("note", "", json!({ "a": "text" }))).await;
        harness.graph.update_object(agent, note, set(json!({ "a": 2 }))).await.unwrap();
        let pack = json!({
            "name": "notes", "version": "1.0.0",
            "objectTypeSchemas": { "note": { "properties": { "a": { "type": "number" } } } },
            "relationshipTypeSchemas": {},
        });
        let pack = serde_json::from_value(pack).unwrap();
        let pack = harness.graph.create_pack(harness.project(), pack).await.unwrap();
        harness.graph.assign_pack(harness.project(), pack.id).await.unwrap();
        let (_, id, reason) = refusal(&harness, run).await;
        assert_eq!(id, note.0);
        assert!(reason.contains("no longer valid"), "{reason}");
        assert_eq!(properties(&harness, note).await, map(json!({ "a": 2 })));
    }
}
