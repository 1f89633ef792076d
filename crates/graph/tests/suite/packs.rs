//! Template packs: versions, assignment, and rejected writes.

use crate::support;

use emergent_domain::{
    author::Author,
    cursor::Page,
    ids::PackId,
    object::{NewObject, ObjectPatch},
    pack::TemplatePack,
    project::ProjectPatch,
    relationship::{NewRelationship, RelationshipPatch},
    token::Scope,
};
use emergent_graph::{Actor, Error, Graph, StoredPack, packs};
use emergent_store::Tx;
use emergent_testkit::both_engines;
use serde_json::{Value, json};
use support::*;

fn pack(name: &str, version: &str, rest: Value) -> TemplatePack {
    let mut whole = json!({ "name": name, "version": version });
    whole.as_object_mut().unwrap().extend(map(rest));
    serde_json::from_value(whole).unwrap()
}

/// A pack with tasks that have a priority and block one another.
fn tasks(version: &str, max: i64) -> TemplatePack {
    pack(
        "tasks",
        version,
        json!({
            "objectTypeSchemas": {
                "Task": { "properties": { "priority": { "type": "integer", "maximum": max } }, "required": ["priority"] },
                "Person": {},
            },
            "relationshipTypeSchemas": {
                "blocks": { "from": "Task", "to": "Task", "properties": { "since": { "type": "string" } } },
            },
        }),
    )
}

async fn assigned(harness: &Harness, pack: TemplatePack) -> StoredPack {
    let stored = harness.graph.create_pack(harness.project(), pack).await.unwrap();
    assert!(!stored.assigned);
    harness.graph.assign_pack(harness.project(), stored.id).await.unwrap()
}

async fn names(graph: &Graph, harness: &Harness) -> Vec<(String, String, bool)> {
    let all = all_pages(async |page| graph.list_packs(harness.project(), page).await).await;
    all.into_iter().map(|stored| (stored.pack.name, stored.pack.version, stored.assigned)).collect()
}

both_engines! {
    async fn what_an_assigned_pack_describes_is_checked_on_every_write(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let graph = &harness.graph;
        let before = harness.object(new("Task", "old", json!({ "priority": "none" }))).await;
        assigned(&harness, tasks("1.0.0", 10)).await;

        let create = async |new| graph.create_object(harness.actor, new).await;
        assert_eq!(problem(create(new("Task", "", json!({ "priority": 11 }))).await), "properties.priority: 11 is more than the maximum of 10");
        let good = create(new("Task", "", json!({ "priority": 5, "other": true }))).await.unwrap();
        create(new("Anything", "", json!({}))).await.unwrap();
        let patch = |value: Value| ObjectPatch { properties: Some(map(value)), ..ObjectPatch::default() };
        assert!(problem(graph.update_object(harness.actor, good.id, patch(json!({ "priority": 12 }))).await).starts_with("properties.priority"));
        assert!(problem(graph.update_object(harness.actor, before, patch(json!({ "x": 1 }))).await).starts_with("properties.priority"));
        let outcomes = graph.bulk_create_objects(harness.actor, vec![new("Task", "", json!({ "priority": 1 })), new("Task", "", json!({ "priority": 99 }))], false).await.unwrap();
        assert!(outcomes[0].is_ok() && matches!(outcomes[1], Err(Error::Invalid(_))));
        assert!(problem(graph.upsert_object(harness.actor, new("Task", "u", json!({ "priority": 99 }))).await).starts_with("properties.priority"));

        let other = create(new("Task", "", json!({ "priority": 1 }))).await.unwrap();
        let person = create(new("Person", "", json!({}))).await.unwrap();
        let wrong = problem(graph.create_relationship(harness.actor, edge("blocks", good.id, person.id)).await);
        assert_eq!(wrong, "type: `blocks` connects Task to Task, not Task to Person");
        let bad = NewRelationship { properties: map(json!({ "since": 1 })), ..edge("blocks", good.id, other.id) };
        assert!(problem(graph.create_relationship(harness.actor, bad).await).starts_with("properties.since"));
        let made = harness.edge("blocks", good.id, other.id).await;
        let bad = RelationshipPatch { properties: Some(map(json!({ "since": 1 }))), ..RelationshipPatch::default() };
        assert!(problem(graph.update_relationship(harness.actor, made.id, bad).await).starts_with("properties.since"));
        harness.edge("knows", good.id, person.id).await;
        let retype = ObjectPatch { type_: Some("Person".to_owned()), ..ObjectPatch::default() };
        assert!(problem(graph.update_object(harness.actor, good.id, retype.clone()).await).starts_with("type: the object has an edge"));
        graph.delete_relationship(harness.actor, made.id, None).await.unwrap();
        assert_eq!(graph.update_object(harness.actor, good.id, retype).await.unwrap().type_, "Person");
    }

    async fn a_pack_answers_no_guess_of_whoever_may_not_read(db: TestDb) {
        let harness = Harness::new(&db).await.into_system();
        let graph = &harness.graph;
        let stored = NewObject { status: Some("open".into()), labels: vec!["a".into()], ..new("Task", "old", json!({ "pin": 4711 })) };
        let stored = harness.object(stored).await;
        let other = harness.object(new("Task", "other", json!({ "priority": 1 }))).await;
        let made = graph.create_relationship(harness.actor, NewRelationship { properties: map(json!({ "since": 1 })), ..edge("blocks", stored, other) }).await.unwrap().0;
        assigned(&harness, tasks("1.0.0", 10)).await;
        let (token, _) = graph.create_token("t", [Scope::GraphWrite].into(), Some(harness.project()), None).await.unwrap();
        let writer = Actor { author: Author::Token { id: token.id }, ..harness.actor };
        let change = |value: Value| ObjectPatch { properties: Some(map(value)), ..ObjectPatch::default() };
        let status = |status: &str| ObjectPatch { status: Some(Some(status.to_owned())), ..ObjectPatch::default() };
        let labels = |label: &str| ObjectPatch { labels: Some(vec![label.to_owned()]), ..ObjectPatch::default() };
        for (right, wrong) in [
            (change(json!({ "pin": 4711 })), change(json!({ "pin": 1 }))),
            (change(json!({ "gone": null })), change(json!({ "gone": 1 }))),
            (status("open"), status("closed")),
            (labels("a"), labels("b")),
        ] {
            let update = async |patch| problem(graph.update_object(writer, stored, patch).await);
            assert_eq!(update(right).await, update(wrong).await);
        }
        for pin in [4711, 1] {
            let sent = || new("Task", "old", json!({ "pin": pin }));
            assert!(graph.upsert_object(writer, sent()).await.is_err(), "{pin}");
            let line = json!({ "kind": "object", "type": "Task", "key": "old", "properties": { "pin": pin } });
            let imported = graph.import_batch(writer, vec![(1, line.to_string())]).await.unwrap();
            assert_eq!((imported.objects.unchanged, imported.errors.len()), (0, 1), "{pin}");
        }
        for weight in [None, Some(0.5)] {
            let patch = RelationshipPatch { weight: Some(weight), ..RelationshipPatch::default() };
            assert!(graph.update_relationship(writer, made.id, patch).await.is_err(), "{weight:?}");
        }
        // Whoever may read is not told less than before.
        graph.update_object(harness.actor, stored, change(json!({ "pin": 4711 }))).await.unwrap();
    }

    async fn a_strict_project_takes_only_what_is_described(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        assigned(&harness, tasks("1.0.0", 10)).await;
        let a = harness.object(new("Task", "a", json!({ "priority": 1 }))).await;
        let free = harness.object(new("Free", "f", json!({}))).await;
        graph.update_project(harness.project(), ProjectPatch { strict: Some(true), ..ProjectPatch::default() }).await.unwrap();
        assert_eq!(
            problem(graph.create_object(harness.actor, new("Tsak", "", json!({}))).await),
            "type: no template pack of this project describes the object type `Tsak`; did you mean `Task`?"
        );
        assert!(problem(graph.create_relationship(harness.actor, edge("likes", a, a)).await).starts_with("type: no template pack"));
        graph.delete_object(harness.actor, free, None).await.unwrap();
        graph.update_project(harness.project(), ProjectPatch { strict: Some(false), ..ProjectPatch::default() }).await.unwrap();
        graph.create_object(harness.actor, new("Tsak", "", json!({}))).await.unwrap();
    }

    async fn another_version_takes_the_place_of_the_assigned_one(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        // A server that has cached the previous packs notices the change.
        let second = Graph::new(db.second_connection().await, graph.clock().clone(), None);
        let one = assigned(&harness, tasks("1.0.0", 10)).await;
        let task = |priority: i64| new("Task", "", json!({ "priority": priority }));
        second.create_object(harness.actor, task(10)).await.unwrap();
        let two = graph.create_pack(harness.project(), tasks("2.0.0", 20)).await.unwrap();
        assert!(second.create_object(harness.actor, task(20)).await.is_err());
        graph.assign_pack(harness.project(), two.id).await.unwrap();
        second.create_object(harness.actor, task(20)).await.unwrap();
        assert!(!graph.get_pack(harness.project(), one.id).await.unwrap().assigned);
        assert_eq!(names(graph, &harness).await, [("tasks".into(), "2.0.0".into(), true), ("tasks".into(), "1.0.0".into(), false)]);

        let again = graph.create_pack(harness.project(), tasks("1.0.0", 30)).await;
        assert!(matches!(again, Err(Error::Conflict { .. })), "{again:?}");
        assert!(matches!(graph.delete_pack(harness.project(), two.id).await, Err(Error::Conflict { .. })));
        graph.unassign_pack(harness.project(), two.id).await.unwrap();
        assert!(!graph.unassign_pack(harness.project(), two.id).await.unwrap().assigned);
        second.create_object(harness.actor, task(99)).await.unwrap();
        graph.delete_pack(harness.project(), two.id).await.unwrap();
        assert!(matches!(graph.get_pack(harness.project(), two.id).await, Err(Error::NotFound { .. })));
        graph.create_pack(harness.project(), tasks("2.0.0", 20)).await.unwrap();
    }

    async fn several_packs_hold_at_once(db: TestDb) {
        let harness = Harness::new(&db).await;
        assigned(&harness, tasks("1.0.0", 10)).await;
        assigned(&harness, pack("titles", "0.1.0", json!({ "objectTypeSchemas": { "Task": { "required": ["title"] } } }))).await;
        let create = async |properties| harness.graph.create_object(harness.actor, new("Task", "", properties)).await;
        assert_eq!(problem(create(json!({ "priority": 1 })).await), "properties.title: is required");
        assert_eq!(problem(create(json!({ "title": "t" })).await), "properties.priority: is required");
        create(json!({ "title": "t", "priority": 1 })).await.unwrap();
    }

    async fn the_coordination_pack_is_built_in(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        graph.ensure_builtin_packs().await.unwrap();
        graph.ensure_builtin_packs().await.unwrap();
        let all = graph.list_packs(harness.project(), Page::first(10)).await.unwrap().items;
        assert_eq!(all.len(), 1);
        let builtin = &all[0];
        assert_eq!((builtin.project, builtin.pack.name.as_str()), (None, "emergent-coordination"));
        assert!(matches!(graph.delete_pack(harness.project(), builtin.id).await, Err(Error::Conflict { .. })));
        graph.assign_pack(harness.project(), builtin.id).await.unwrap();
        let other = project(graph, "other", false).await;
        assert!(!graph.get_pack(other.project, builtin.id).await.unwrap().assigned);
        assert!(matches!(graph.create_object(harness.actor, new("SpecTask", "", json!({ "priority": "urgent" }))).await, Err(Error::Invalid(_))));
        graph.create_object(other, new("SpecTask", "", json!({ "priority": "urgent" }))).await.unwrap();
    }

    async fn a_project_with_an_older_built_in_pack_gets_the_new_one_in_its_place(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let now = graph.clock().now();
        let builtin = |version: &str, rest: Value| pack("emergent-coordination", version, rest);
        let with_workflows = builtin("1.0.0", json!({ "objectTypeSchemas": { "SpecTask": {}, "Workflow": {} } }));
        // A version that a newer server created remains unchanged on an older server.
        let of_later = builtin("9.0.0", json!({ "objectTypeSchemas": { "SpecTask": {} } }));
        let ids = db
            .write(move |tx| {
                let first = emergent_store::packs::insert(tx, None, &with_workflows, now)?.unwrap();
                let later = emergent_store::packs::insert(tx, None, &of_later, now)?.unwrap();
                Ok::<_, emergent_store::Error>((first, later))
            })
            .await
            .unwrap();
        let (other, ahead, closed) =
            (project(graph, "other", false).await, project(graph, "ahead", false).await, project(graph, "closed", false).await);
        graph.assign_pack(harness.project(), ids.0).await.unwrap();
        graph.assign_pack(closed.project, ids.0).await.unwrap();
        graph.assign_pack(ahead.project, ids.1).await.unwrap();
        assigned(&harness, tasks("1.0.0", 10)).await;
        graph.delete_project(closed.project).await.unwrap();
        let workflow = harness.object(new("Workflow", "w", json!({ "title": "kept" }))).await;

        for _ in 0..2 {
            graph.ensure_builtin_packs().await.unwrap();
        }
        let of = async |project| {
            let all = graph.list_packs(project, Page::first(10)).await.unwrap().items;
            let mut assigned: Vec<String> = all
                .into_iter()
                .filter(|stored| stored.assigned)
                .map(|stored| format!("{} {}", stored.pack.name, stored.pack.version))
                .collect();
            assigned.sort();
            assigned
        };
        assert_eq!(of(harness.project()).await, ["emergent-coordination 1.3.0", "tasks 1.0.0"]);
        assert_eq!(of(ahead.project).await, ["emergent-coordination 9.0.0"]);
        assert!(of(other.project).await.is_empty(), "who had none gets none");
        // The new version takes effect at once, and the types of the old one still exist.
        assert!(matches!(graph.create_object(harness.actor, new("SpecTask", "", json!({ "resumes": "often" }))).await, Err(Error::Invalid(_))));
        assert_eq!(graph.get_object(harness.project(), workflow).await.unwrap().version, 1);
    }

    async fn a_pack_of_another_project_is_not_found(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let mine = graph.create_pack(harness.project(), tasks("1.0.0", 10)).await.unwrap();
        let other = project(graph, "other", false).await.project;
        let not_found = |error: Option<Error>| assert!(matches!(error, Some(Error::NotFound { .. })), "{error:?}");
        not_found(graph.get_pack(other, mine.id).await.err());
        not_found(graph.assign_pack(other, mine.id).await.err());
        not_found(graph.unassign_pack(other, mine.id).await.err());
        not_found(graph.delete_pack(other, mine.id).await.err());
        not_found(graph.assign_pack(harness.project(), PackId::new()).await.err());
        assert!(graph.list_packs(other, Page::first(10)).await.unwrap().items.is_empty());
        let invalid = graph.create_pack(other, pack("p", "1", json!({}))).await;
        assert!(problem(invalid).starts_with("version"));
    }

    async fn a_run_that_is_not_there_assigns_no_pack(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = harness.graph.clone();
        let stored = graph.create_pack(harness.project(), tasks("1.0.0", 10)).await.unwrap();
        let (_, actor) = run_in(&harness);
        let work = move |tx: &mut Tx<'_>| {
            let ctx = graph.write_context(tx, actor)?;
            packs::assign_by(tx, &ctx, stored.id)
        };
        let refused: Result<StoredPack, Error> = harness.graph.db().write(work).await;
        assert!(matches!(refused, Err(Error::NeedsScope { scope: Scope::GraphRead, .. })), "{refused:?}");
    }
}
