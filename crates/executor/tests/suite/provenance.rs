//! Everything a run writes carries its provenance and can be reverted.

use crate::support;

use emergent_domain::{
    author::Author,
    cursor::Page,
    ids::RunId,
    object::{NewObject, Object, ObjectPatch},
    query::ObjectFilter,
    run::RunStatus,
};
use emergent_executor::{
    Error,
    revert::{EntityKind, RevertOptions, UndoAction},
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, hangs, says},
};
use serde_json::{Map, Value, json};
use support::{Harness, assert_ended, until, with_tools};

/// Returns the live objects of a type.
async fn objects(harness: &Harness, type_: &str) -> Vec<Object> {
    let query = ObjectFilter { types: vec![type_.to_owned()], ..ObjectFilter::default() };
    harness.executor.graph().list_objects(harness.project, query, Page::first(100)).await.unwrap().items
}

both_engines! {
    async fn every_version_carries_the_run_and_the_call_that_wrote_it(db: TestDb) {
        let model = ScriptedModel::new([
            calls("entities_create", json!({
                "objects": [{ "type": "Note", "key": "a" }, { "type": "Note", "key": "b" }],
                "relationships": [{ "type": "follows", "fromId": "Note/a", "toId": "Note/b" }],
            })),
            calls("entities_update", json!({ "id": "Note/a", "properties": { "text": "changed" } })),
            says("Done."),
        ]);
        let harness = Harness::open(&db, model).await;
        let writer = harness.agent(with_tools("writer", &["entities_*"])).await;
        let run = harness.run(&writer, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let recorded_calls = harness.calls(run.id).await;
        let by = |call: usize| Author::Run { run_id: run.id, tool_call_id: Some(recorded_calls[call].id) };
        let notes = objects(&harness, "Note").await;
        let find = |key: &str| notes.iter().find(|note| note.key.as_deref() == Some(key)).unwrap();
        assert_eq!((find("a").author, find("b").author), (by(1), by(0)));
        let history = harness.executor.graph().object_history(harness.project, find("a").id, Page::first(10)).await.unwrap();
        let authors: Vec<Author> = history.items.iter().map(|version| version.author).collect();
        assert_eq!(authors, [by(1), by(0)]);
        let edges = harness.executor.graph().list_relationships(harness.project, Default::default(), Page::first(10)).await.unwrap();
        assert_eq!(edges.items[0].author, by(0));
        harness.close().await;
    }

    async fn a_child_writes_in_its_own_name(db: TestDb) {
        let model = ScriptedModel::default()
            .agent("parent", [calls("spawn_agents", json!({ "tasks": [{ "agent_name": "writer", "task": "Write." }] })), says("Done.")])
            .agent("writer", [calls("entities_create", json!({ "objects": [{ "type": "Note" }] })), says("Written.")]);
        let harness = Harness::open(&db, model).await;
        harness.agent(with_tools("writer", &["entities_create"])).await;
        let parent = harness.agent(with_tools("parent", &["spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let child = harness.children(run.id).await.remove(0);
        let Author::Run { run_id, .. } = objects(&harness, "Note").await[0].author else { panic!("a run wrote it") };
        assert_eq!(run_id, child.id);
        harness.close().await;
    }

    async fn what_a_run_wrote_can_be_undone_and_what_changed_since_stays(db: TestDb) {
        let model = ScriptedModel::new([
            calls("entities_create", json!({ "objects": [{ "type": "Note", "key": "a" }, { "type": "Note", "key": "b" }] })),
            says("Done."),
        ]);
        let harness = Harness::open(&db, model).await;
        let writer = harness.agent(with_tools("writer", &["entities_create"])).await;
        let run = harness.run(&writer, "Go.").await;
        let notes = objects(&harness, "Note").await;
        let changed = notes.iter().find(|note| note.key.as_deref() == Some("b")).unwrap();
        let properties = Map::from_iter([("by".to_owned(), json!("a person"))]);
        let patch = ObjectPatch { properties: Some(properties), ..ObjectPatch::default() };
        harness.executor.graph().update_object(harness.actor(), changed.id, patch).await.unwrap();
        let reverted = harness.executor.revert_run(harness.actor(), run.id).await.unwrap();
        assert_eq!(reverted.undone.iter().map(|one| (one.kind, one.how)).collect::<Vec<_>>(), [(EntityKind::Object, UndoAction::Deleted)]);
        assert_eq!(reverted.conflicts.iter().map(|one| one.id).collect::<Vec<_>>(), [changed.id.0]);
        let left = objects(&harness, "Note").await;
        assert_eq!(left.iter().map(|note| note.id).collect::<Vec<_>>(), [changed.id]);
        let again = harness.executor.revert_run(harness.actor(), run.id).await.unwrap();
        assert!(again.undone.is_empty(), "a second time finds everything undone");
        harness.close().await;
    }

    async fn a_tree_of_runs_is_reverted_as_one_and_a_dry_run_changes_nothing(db: TestDb) {
        let task = json!({ "agent_name": "child", "task": "Go on." });
        let model = ScriptedModel::default()
            .agent("parent", [
                calls("entities_create", json!({ "objects": [{ "type": "Note", "key": "a" }] })),
                calls("spawn_agents", json!({ "tasks": [task] })),
                says("Done."),
            ])
            .agent("child", [
                // The child changes what the parent made: only both together can be undone.
                calls("entities_update", json!({ "id": "Note/a", "properties": { "text": "by the child" } })),
                calls("entities_create", json!({ "objects": [{ "type": "Note", "key": "b" }] })),
                says("Done."),
            ]);
        let harness = Harness::open(&db, model).await;
        harness.agent(with_tools("child", &["entities_create", "entities_update"])).await;
        let parent = harness.agent(with_tools("parent", &["entities_create", "spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let child = harness.children(run.id).await.remove(0);
        let revert = async |tree, dry_run| {
            harness.executor.revert(harness.actor(), run.id, RevertOptions { tree, dry_run }).await.unwrap()
        };

        let alone = revert(false, true).await;
        assert!(alone.dry_run && alone.runs == [run.id] && alone.report.undone.is_empty(), "{alone:?}");
        assert_eq!(alone.report.conflicts.len(), 1, "the child has changed it since");
        let [writes] = &alone.children[..] else { panic!("{alone:?}") };
        assert_eq!((writes.run, writes.agent_name.as_str(), writes.writes.objects), (child.id, "child", 2));

        let planned = revert(true, true).await;
        assert_eq!((planned.report.undone.len(), planned.report.conflicts.len()), (2, 0), "{planned:?}");
        assert_eq!(objects(&harness, "Note").await.len(), 2, "a dry run changes nothing");

        let done = revert(true, false).await;
        assert_eq!(done.runs, [run.id, child.id]);
        assert_eq!((done.report.undone.len(), done.report.conflicts.len(), done.children.len()), (2, 0, 0));
        assert_eq!((done.written, done.reverted_at), (2, None));
        assert!(objects(&harness, "Note").await.is_empty());
        let again = revert(true, false).await;
        assert!(again.report.undone.is_empty() && revert(false, true).await.children.is_empty());
        assert!(again.written == 2 && again.reverted_at.is_some(), "it says that it is reverted already: {again:?}");
        harness.close().await;
    }

    async fn a_revert_names_the_children_whose_writes_are_below_those_of_others(db: TestDb) {
        let spawn = |agents: &[&str]| {
            let tasks: Vec<Value> = agents.iter().map(|agent| json!({ "agent_name": agent, "task": "Go on." })).collect();
            calls("spawn_agents", json!({ "tasks": tasks }))
        };
        let update = |property: &str| calls("entities_update", json!({ "id": "Note/a", "properties": { property: 1 } }));
        let model = ScriptedModel::default()
            .agent("parent", [
                calls("entities_create", json!({ "objects": [{ "type": "Note", "key": "a" }] })),
                spawn(&["k1"]),
                spawn(&["k2"]),
                update("parent"),
                says("Done."),
            ])
            .agent("k1", [update("k1"), says("Done.")])
            .agent("k2", [update("k2"), says("Done.")]);
        let harness = Harness::open(&db, model).await;
        for child in ["k1", "k2"] {
            harness.agent(with_tools(child, &["entities_update"])).await;
        }
        let tools = ["entities_create", "entities_update", "spawn_agents"];
        let parent = harness.agent(with_tools("parent", &tools)).await;
        let run = harness.run(&parent, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let children: Vec<RunId> = harness.children(run.id).await.iter().map(|run| run.id).collect();
        let revert = async |run, dry_run| {
            let options = RevertOptions { dry_run, ..RevertOptions::default() };
            harness.executor.revert(harness.actor(), run, options).await.unwrap()
        };
        for dry_run in [true, false] {
            let alone = revert(run.id, dry_run).await;
            let listed: Vec<_> = alone.children.iter().map(|child| (child.run, child.writes.objects)).collect();
            assert_eq!(listed, [(children[0], 1), (children[1], 1)], "also those that others wrote over");
            let [conflict] = &alone.report.conflicts[..] else { panic!("{alone:?}") };
            let expected = format!(
                "has been changed since by the runs `{}` (`k1`) and `{}` (`k2`) below this one; with `tree`, they are reverted \
                 together",
                children[0], children[1]
            );
            assert_eq!(conflict.reason, expected);
        }

        let note = objects(&harness, "Note").await.remove(0);
        let properties = Map::from_iter([("by".to_owned(), json!("a person"))]);
        let patch = ObjectPatch { properties: Some(properties), ..ObjectPatch::default() };
        harness.executor.graph().update_object(harness.actor(), note.id, patch).await.unwrap();
        let mixed = revert(run.id, true).await;
        let reason = &mixed.report.conflicts[0].reason;
        assert!(reason.contains("(`k2`) below this one, and by someone else"), "{reason}");
        assert_eq!(mixed.children.len(), 2);
        harness.executor.graph().delete_object(harness.actor(), note.id, None).await.unwrap();
        assert!(revert(run.id, true).await.children.is_empty(), "nothing of what they wrote is left");
        harness.close().await;
    }

    async fn a_child_that_was_reverted_is_not_named_any_more(db: TestDb) {
        let task = |agent: &str| json!({ "agent_name": agent, "task": "Go on." });
        let update = |property: &str| calls("entities_update", json!({ "id": "Note/a", "properties": { property: 1 } }));
        let model = ScriptedModel::default()
            .agent("parent", [
                calls("entities_create", json!({ "objects": [{ "type": "Note", "key": "a" }] })),
                calls("spawn_agents", json!({ "tasks": [task("k1")] })),
                calls("spawn_agents", json!({ "tasks": [task("k2")] })),
                says("Done."),
            ])
            .agent("k1", [update("k1"), says("Done.")])
            .agent("k2", [update("k2"), says("Done.")]);
        let harness = Harness::open(&db, model).await;
        for child in ["k1", "k2"] {
            harness.agent(with_tools(child, &["entities_update"])).await;
        }
        let parent = harness.agent(with_tools("parent", &["entities_create", "spawn_agents"])).await;
        let run = harness.run(&parent, "Go.").await;
        let children: Vec<RunId> = harness.children(run.id).await.iter().map(|run| run.id).collect();
        let reverted = harness.executor.revert_run(harness.actor(), children[1]).await.unwrap();
        assert_eq!(reverted.undone.len(), 1);
        let options = RevertOptions { dry_run: true, ..RevertOptions::default() };
        let alone = harness.executor.revert(harness.actor(), run.id, options).await.unwrap();
        let listed: Vec<RunId> = alone.children.iter().map(|child| child.run).collect();
        assert_eq!(listed, [children[0]], "the content of the first child is back");
        harness.close().await;
    }

    async fn a_revert_validates_large_values_outside_of_its_transaction(db: TestDb) {
        let update = json!({ "id": "Row/a", "properties": { "p7": 2 } });
        let harness = Harness::open(&db, ScriptedModel::new([calls("entities_update", update), says("Done.")])).await;
        let graph = harness.executor.graph();
        let properties: Map<String, Value> = (0..5_000).map(|n| (format!("p{n}"), json!(1))).collect();
        let (type_, key) = ("Row".to_owned(), Some("a".to_owned()));
        let new = NewObject { type_, key, properties: properties.clone(), ..NewObject::default() };
        graph.create_object(harness.actor(), new).await.unwrap();
        let writer = harness.agent(with_tools("writer", &["entities_*"])).await;
        let run = harness.run(&writer, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        // The content before the run is validated against a pack that came after it, which takes a million steps.
        let rules: Vec<Value> = (0..100).map(|_| json!({ "additionalProperties": { "type": "integer" } })).collect();
        let schemas = json!({ "Row": { "allOf": rules } });
        let pack = json!({ "name": "costly", "version": "1.0.0", "objectTypeSchemas": schemas, "relationshipTypeSchemas": {} });
        let pack = graph.create_pack(harness.project, serde_json::from_value(pack).unwrap()).await.unwrap();
        graph.assign_pack(harness.project, pack.id).await.unwrap();
        for dry_run in [true, false] {
            let options = RevertOptions { dry_run, ..RevertOptions::default() };
            let report = harness.executor.revert(harness.actor(), run.id, options).await.unwrap().report;
            assert_eq!((report.undone.len(), report.conflicts), (1, vec![]));
        }
        assert_eq!(objects(&harness, "Row").await[0].properties.to_map(), properties);
        harness.close().await;
    }

    async fn a_preview_of_many_writes_says_what_the_revert_then_does(db: TestDb) {
        let create = |call: usize| {
            let objects: Vec<_> =
                (0..200).map(|n| json!({ "type": "Note", "key": format!("n{call}-{n}") })).collect();
            calls("entities_create", json!({ "objects": objects }))
        };
        let model = ScriptedModel::new([create(0), create(1), create(2), says("Done.")]);
        let harness = Harness::open(&db, model).await;
        let writer = harness.agent(with_tools("writer", &["entities_create"])).await;
        let run = harness.run(&writer, "Go.").await;
        assert_ended(&run, RunStatus::Completed, None);
        let graph = harness.executor.graph();
        let changed = objects(&harness, "Note").await.remove(0);
        let patch = ObjectPatch { labels: Some(vec!["kept".to_owned()]), ..ObjectPatch::default() };
        graph.update_object(harness.actor(), changed.id, patch).await.unwrap();
        let revert = async |dry_run| {
            let options = RevertOptions { tree: false, dry_run };
            harness.executor.revert(harness.actor(), run.id, options).await.unwrap()
        };

        let preview = revert(true).await;
        assert!(preview.dry_run && preview.runs == [run.id]);
        assert_eq!((preview.report.undone.len(), preview.report.conflicts.len()), (599, 1));
        assert_eq!(objects(&harness, "Note").await.len(), 100, "a page of them: a preview changes nothing");
        let done = revert(false).await;
        assert_eq!(preview.report, done.report);
        assert_eq!(objects(&harness, "Note").await.len(), 1);
        harness.close().await;
    }

    async fn a_run_under_way_cannot_be_undone(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([hangs()])).await;
        let writer = harness.agent(with_tools("writer", &["entities_create"])).await;
        let run = harness.start(&writer, "Go.").await;
        until("it is asked", async || harness.model.open() == 1).await;
        let refused = harness.executor.revert_run(harness.actor(), run.id).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)), "{refused}");
        harness.executor.cancel(harness.actor(), run.id).await.unwrap();
        harness.close().await;
    }
}
