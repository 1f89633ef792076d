//! What is found again is completed: by key, by name, by likeness; never silently, and once.

mod support;

use std::sync::Arc;

use emergent_domain::{
    cursor::Page,
    ids::{ChunkId, ObjectId},
    merge::MatchedBy,
    object::{NewObject, Object, ObjectPatch},
    relationship::NewRelationship,
};
use emergent_graph::{
    Actor, Error, Graph, Result, UpsertOutcome, WriteContext,
    merge::{self, MergeCandidate, MergeOutcome},
    revert::RevertReport,
    sources,
};
use emergent_store::Tx;
use emergent_testkit::{TestDb, both_engines, fixed_clock};
use futures_util::{TryStreamExt, future::join_all};
use serde_json::{Value, json};
use support::*;

fn person(name: &str) -> NewObject {
    new("Person", "", json!({ "name": name }))
}

/// A world in which the first letter of a text is its meaning: `b` is near `a`, all else is far.
async fn world(db: &TestDb) -> World {
    let graph = Graph::new(
        db.db.clone(),
        fixed_clock(),
        Some(Arc::new(Letters { dims: 3, vector: by_first_letter })),
    );
    let actor = project(&graph, "test", false).await;
    World { graph, actor }
}

/// A transaction of the caller's own, as a run has it around a tool.
async fn write<T: Send + 'static>(
    world: &World,
    actor: Actor,
    work: impl Fn(&mut Tx<'_>, &WriteContext) -> Result<T> + Send + 'static,
) -> Result<T> {
    let graph = world.graph.clone();
    let work = move |tx: &mut Tx<'_>| {
        let writer = graph.write_context(tx, actor)?;
        work(tx, &writer)
    };
    world.graph.db().write(work).await
}

/// Looks for the same and writes, with a passage.
async fn put(world: &World, actor: Actor, new: NewObject, chunk: Option<ChunkId>) -> MergeOutcome<Object> {
    let found = world.graph.find_matches(world.project(), vec![new]).await.unwrap().remove(0);
    write_found(world, actor, found, chunk).await.unwrap()
}

async fn write_found(
    world: &World,
    actor: Actor,
    found: MergeCandidate,
    chunk: Option<ChunkId>,
) -> Result<MergeOutcome<Object>> {
    write(world, actor, move |tx, writer| {
        let source = chunk.map(|chunk| sources::find(tx, writer.project.id, chunk)).transpose()?;
        merge::create_or_merge(tx, writer, &found, source.as_ref())
    })
    .await
}

async fn versions(world: &World, id: ObjectId) -> Vec<Object> {
    world.graph.object_history(world.project(), id, Page::first(100)).await.unwrap().items
}

async fn embed(world: &World) {
    while world.graph.embed_batch(world.project()).await.unwrap() > 0 {}
}

fn by(outcome: &MergeOutcome<Object>) -> (UpsertOutcome, Option<&'static str>) {
    (outcome.written, outcome.by.map(MatchedBy::as_str))
}

both_engines! {
    async fn what_has_no_key_gets_its_names_and_is_found_by_it_again(db: TestDb) {
        let world = World::new(&db).await;
        let (notes, chunk) = document(&world, "Notes", "Ada wrote a program.").await;
        let mut ada = person("Ada Lovelace");
        ada.labels = vec!["british".to_owned()];
        let first = put(&world, world.actor, ada.clone(), Some(chunk)).await;
        assert_eq!(by(&first), (UpsertOutcome::Created, None));
        assert_eq!((first.item.key.as_deref(), &first.item.reason), (Some("ada-lovelace"), &None));

        let before = world.change_kinds().await;
        let again = put(&world, world.actor, ada, Some(chunk)).await;
        assert_eq!(by(&again), (UpsertOutcome::Unchanged, Some("key")));
        assert_eq!((again.item.id, again.conflicts), (first.item.id, vec![]));
        assert_eq!(world.change_kinds().await, before, "a second time writes nothing");

        let mut more = new("Person", "ada-lovelace", json!({ "name": "Countess", "born": 1815 }));
        more.labels = vec!["poet".to_owned()];
        let (_, other) = document(&world, "More", "The Countess was born in 1815.").await;
        let third = put(&world, world.actor, more, Some(other)).await;
        assert_eq!(by(&third), (UpsertOutcome::Updated, Some("key")));
        assert_eq!(third.item.properties.to_map(), map(json!({ "name": "Ada Lovelace", "born": 1815 })));
        assert_eq!(third.item.labels, ["british", "poet"]);
        let kept: Vec<_> = third.conflicts.iter().map(|one| (one.field.as_str(), &one.offered)).collect();
        assert_eq!(kept, [("properties.name", &json!("Countess"))]);

        let versions = versions(&world, first.item.id).await;
        let reason = versions[0].reason.as_deref().unwrap();
        assert!(reason.starts_with("merged by key `ada-lovelace`, from document `More`"), "{reason}");
        assert!(reason.contains(&other.to_string()), "{reason}");
        assert!(reason.ends_with("kept properties.name `Ada Lovelace` instead of `Countess`"), "{reason}");
        assert_eq!(versions[1].reason, None);
        let said = said_in(&world, first.item.id.0).await;
        assert_eq!(said.iter().map(|one| one.title.as_str()).collect::<Vec<_>>(), ["More", "Notes"]);
        assert_eq!((said[1].document, said[1].chunk, said[1].index), (notes, chunk, 0));

        // A change by hand has no reason, and does not inherit the one before.
        let patch = ObjectPatch { status: Some(Some("dead".into())), ..Default::default() };
        assert_eq!(world.graph.update_object(world.actor, first.item.id, patch).await.unwrap().reason, None);
    }

    async fn an_equal_name_is_the_same_unless_two_have_it(db: TestDb) {
        let world = World::new(&db).await;
        let ada = world.object(new("Person", "p-1", json!({ "name": "ada  LOVELACE" }))).await;
        world.object(new("Place", "p-1", json!({ "name": "Ada Lovelace" }))).await;
        let found = put(&world, world.actor, new("Person", "countess", json!({ "name": "Ada-Lovelace", "born": 1815 })), None).await;
        assert_eq!((by(&found), found.item.id), ((UpsertOutcome::Updated, Some("name")), ada));
        assert_eq!(found.item.key.as_deref(), Some("p-1"), "it keeps its key");
        assert_eq!(found.conflicts[0].field, "key");
        assert_eq!(found.item.reason.as_deref().unwrap().split(';').next(), Some("merged by equal name `ada  LOVELACE`"));

        world.object(new("Person", "p-2", json!({ "name": "Ada Lovelace" }))).await;
        let third = put(&world, world.actor, person("Ada Lovelace"), None).await;
        assert_eq!(by(&third), (UpsertOutcome::Created, None), "nobody guesses between two");
        let again = put(&world, world.actor, person("Ada Lovelace"), None).await;
        assert_eq!((by(&again), again.item.id), ((UpsertOutcome::Unchanged, Some("key")), third.item.id));
    }

    async fn the_far_most_alike_is_the_same(db: TestDb) {
        let world = world(&db).await;
        let note = |key: &str| new("Note", key, json!({}));
        let near = world.object(note("a")).await;
        embed(&world).await;
        let found = put(&world, world.actor, NewObject { status: Some("new".into()), ..note("b") }, None).await;
        assert_eq!((by(&found), found.item.id), ((UpsertOutcome::Updated, Some("similarity")), near));
        let reason = found.item.reason.unwrap();
        assert!(reason.starts_with("merged by similarity 0.950 with `a`; kept key `a` instead of `b`"), "{reason}");

        // Two that say nothing are not alike, whatever a model makes of nothing.
        let mute = |count: i64| new("Mute", "", json!({ "count": count }));
        world.object(mute(1)).await;
        embed(&world).await;
        assert_eq!(by(&put(&world, world.actor, mute(2), None).await), (UpsertOutcome::Created, None));

        let far = put(&world, world.actor, note("x"), None).await;
        assert_eq!(by(&far), (UpsertOutcome::Created, None));
        world.object(note("aa")).await;
        embed(&world).await;
        let between = put(&world, world.actor, note("b"), None).await;
        assert_eq!(by(&between), (UpsertOutcome::Created, None), "two are as near");
    }

    async fn what_was_found_is_looked_at_again_before_it_is_written(db: TestDb) {
        let world = World::new(&db).await;
        let (deleted, renamed) = ("Ada", "Bob");
        let ada = world.object(new("Person", "p-1", json!({ "name": deleted }))).await;
        let bob = world.object(new("Person", "p-2", json!({ "name": renamed }))).await;
        let mut found =
            world.graph.find_matches(world.project(), vec![person(deleted), person(renamed)]).await.unwrap();
        assert_eq!(found.iter().map(|one| one.matched).collect::<Vec<_>>(), [Some((ada, MatchedBy::Name)), Some((bob, MatchedBy::Name))]);
        world.graph.delete_object(world.actor, ada, None).await.unwrap();
        let patch = ObjectPatch {
            properties: Some(map(json!({ "name": "Robert" }))), ..Default::default()
        };
        world.graph.update_object(world.actor, bob, patch).await.unwrap();
        for found in found.drain(..) {
            let made = write_found(&world, world.actor, found, None).await.unwrap();
            assert_eq!(by(&made), (UpsertOutcome::Created, None));
        }
    }

    async fn two_who_find_the_same_at_once_make_one(db: TestDb) {
        let world = World::new(&db).await;
        for round in 0..10 {
            let name = format!("Ada {round}");
            // All have looked before any writes.
            let mut found = Vec::new();
            for born in [1, 2, 3, 4] {
                let new = new("Person", "", json!({ "name": name, (format!("p{born}")): born }));
                found.extend(world.graph.find_matches(world.project(), vec![new]).await.unwrap());
            }
            assert!(found.iter().all(|one| one.matched.is_none()));
            let writes = found.into_iter().map(|found| write_found(&world, world.actor, found, None));
            let made = join_all(writes).await;
            let made: Vec<MergeOutcome<Object>> = made.into_iter().map(Result::unwrap).collect();
            assert_eq!(made.iter().filter(|one| one.written == UpsertOutcome::Created).count(), 1);
            assert!(made.iter().all(|one| one.item.id == made[0].item.id));
            let versions = versions(&world, made[0].item.id).await;
            assert_eq!(versions.len(), 4);
            assert_eq!(versions[0].properties.to_map().len(), 5, "nothing is lost");
        }
    }

    async fn an_edge_is_completed_like_an_object(db: TestDb) {
        let world = World::new(&db).await;
        let (a, b) = (world.object(person("Ada")).await, world.object(person("Bob")).await);
        let (_, chunk) = document(&world, "Letters", "Ada knows Bob.").await;
        let knows = |properties: Value, weight: Option<f64>| NewRelationship {
            properties: map(properties), weight, ..edge("knows", a, b)
        };
        let join = async |new: NewRelationship| {
            let work = move |tx: &mut Tx<'_>, writer: &WriteContext| {
                let source = sources::find(tx, writer.project.id, chunk)?;
                merge::create_or_merge_relationship(tx, writer, new.clone(), Some(&source))
            };
            write(&world, world.actor, work).await.unwrap()
        };
        let first = join(knows(json!({ "how": "letters" }), None)).await;
        assert_eq!((first.written, first.item.version), (UpsertOutcome::Created, 1));
        let same = join(knows(json!({ "how": "letters" }), None)).await;
        assert_eq!((same.written, same.item.version), (UpsertOutcome::Unchanged, 1));
        let more = join(knows(json!({ "how": "balls", "since": 1833 }), Some(0.5))).await;
        assert_eq!((more.written, more.item.version, more.item.weight), (UpsertOutcome::Updated, 2, Some(0.5)));
        assert_eq!(more.item.properties.to_map(), map(json!({ "how": "letters", "since": 1833 })));
        assert_eq!(more.conflicts[0].field, "properties.how");
        let history = world.graph.relationship_history(world.project(), first.item.id, Page::first(10)).await.unwrap();
        let reason = history.items[0].reason.as_deref().unwrap();
        assert!(reason.contains("document `Letters`") && reason.contains("kept properties.how"), "{reason}");
        assert_eq!(said_in(&world, first.item.id.0).await.len(), 1);

        // It goes and comes back with its end: those versions are of another's making.
        world.graph.delete_object(world.actor, a, None).await.unwrap();
        world.graph.restore_object(world.actor, a).await.unwrap();
        let history = world.graph.relationship_history(world.project(), first.item.id, Page::first(10)).await.unwrap();
        let reasons: Vec<bool> = history.items.iter().map(|one| one.reason.is_some()).collect();
        assert_eq!(reasons, [false, false, true, false]);
    }

    async fn what_the_packs_do_not_allow_is_refused_and_nothing_is_noted(db: TestDb) {
        let world = World::new(&db).await;
        let (_, chunk) = document(&world, "Notes", "Ada wrote a program.").await;
        let elsewhere = World { actor: project(&world.graph, "other", false).await, graph: world.graph.clone() };
        let (_, foreign) = document(&elsewhere, "Theirs", "Hidden.").await;
        let (gone, deleted) = document(&world, "Gone", "No more.").await;
        world.graph.delete_document(world.actor, gone).await.unwrap();
        for wrong in [foreign, deleted, ChunkId::new()] {
            let found = MergeCandidate { new: person("Ada"), matched: None };
            let told = problem(write_found(&world, world.actor, found, Some(wrong)).await);
            assert_eq!(told, "source.chunkId: no chunk with this id in this project");
        }
        let bad = MergeCandidate { new: new("9", "", json!({ "name": "Ada" })), matched: None };
        assert!(matches!(write_found(&world, world.actor, bad, Some(chunk)).await, Err(Error::Invalid(_))));
        assert_eq!(said_in(&world, ObjectId::new().0).await, []);
        assert!(!world.change_kinds().await.iter().any(|kind| kind.starts_with("object")));
    }

    async fn a_deleted_document_stays_a_source_that_is_gone(db: TestDb) {
        let world = World::new(&db).await;
        let (id, chunk) = document(&world, "Notes", "Ada wrote a program.").await;
        let ada = put(&world, world.actor, person("Ada"), Some(chunk)).await.item.id;
        world.graph.delete_document(world.actor, id).await.unwrap();
        let (_, again) = document(&world, "Notes", "Ada wrote a program.").await;
        assert_eq!(by(&put(&world, world.actor, person("Ada"), Some(again)).await), (UpsertOutcome::Unchanged, Some("key")));
        let (object, said) = world.graph.object_with_sources(world.project(), ada).await.unwrap();
        assert_eq!(object.version, 1);
        let said: Vec<_> = said.iter().map(|one| (one.chunk, one.deleted)).collect();
        assert_eq!(said, [(again, false), (chunk, true)]);
    }

    async fn a_reverted_run_takes_its_sources_back_and_leaves_what_others_found(db: TestDb) {
        let world = World::new(&db).await;
        let (_, chunk) = document(&world, "One", "Ada and Bob.").await;
        let (_, other) = document(&world, "Two", "Bob alone.").await;
        let ((first, one), (second, two)) = (run_in(&world), run_in(&world));
        let ada = put(&world, one, person("Ada"), Some(chunk)).await.item.id;
        let bob = put(&world, one, person("Bob"), Some(chunk)).await.item.id;
        assert_eq!(by(&put(&world, two, person("Bob"), Some(other)).await), (UpsertOutcome::Unchanged, Some("key")));

        let report: RevertReport = world.graph.revert_run(world.actor, first).await.unwrap();
        assert_eq!(report.undone.iter().map(|one| one.id).collect::<Vec<_>>(), [ada.0]);
        let [conflict] = &report.conflicts[..] else { panic!("{report:?}") };
        assert_eq!((conflict.id, conflict.reason.as_str()), (bob.0, "was also extracted from a document by someone else"));
        assert_eq!(said_in(&world, ada.0).await, []);
        let said = async || said_in(&world, bob.0).await.iter().map(|one| one.chunk).collect::<Vec<_>>();
        assert_eq!(said().await.len(), 2, "what stays keeps its passages");

        world.graph.revert_run(world.actor, second).await.unwrap();
        assert_eq!(said().await, [chunk]);
        let report = world.graph.revert_run(world.actor, first).await.unwrap();
        assert_eq!(report.undone.iter().map(|one| one.id).collect::<Vec<_>>(), [bob.0], "now nobody else holds it");
        assert_eq!(said_in(&world, bob.0).await, []);
    }

    async fn a_reason_is_exported_and_has_no_effect_where_it_is_imported(db: TestDb) {
        let world = World::new(&db).await;
        put(&world, world.actor, person("Ada"), None).await;
        put(&world, world.actor, new("Person", "ada", json!({ "born": 1815 })), None).await;
        let line = async |project| {
            let parts: Vec<_> = world.graph.export(project).try_collect().await.unwrap();
            String::from_utf8(parts.concat()).unwrap().trim().to_owned()
        };
        let ours = line(world.project()).await;
        assert!(ours.contains(r#""reason":"merged by key `ada`""#), "{ours}");
        let elsewhere = project(&world.graph, "other", false).await;
        let done = world.graph.import_batch(elsewhere, vec![(1, ours)]).await.unwrap();
        assert_eq!(done.errors, []);
        let theirs = line(elsewhere.project).await;
        assert!(theirs.contains("1815") && !theirs.contains("reason"), "{theirs}");
    }
}

/// A text's meaning is its first letter.
fn by_first_letter(text: &str) -> Vec<f32> {
    match text.chars().next() {
        Some('a') => vec![1.0, 0.0, 0.0],
        Some('b') => vec![0.95, (1.0_f32 - 0.95 * 0.95).sqrt(), 0.0],
        _ => vec![0.0, 0.0, 1.0],
    }
}
