//! Entities that already exist are merged by key, name or similarity, exactly once and with a
//! recorded reason.

use crate::support;

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

/// A harness with an embedder for which only the first letter counts: `b` is near `a`, and all
/// other letters are far apart.
async fn harness(db: &TestDb) -> Harness {
    let graph = Graph::new(
        db.db.clone(),
        fixed_clock(),
        Some(Arc::new(Letters { dims: 3, vector: by_first_letter })),
    );
    let actor = project(&graph, "test", false).await;
    Harness { graph, actor }
}

/// Runs a write in a transaction of the caller, as a run does around a tool call.
async fn write<T: Send + 'static>(
    harness: &Harness,
    actor: Actor,
    work: impl Fn(&mut Tx<'_>, &WriteContext) -> Result<T> + Send + 'static,
) -> Result<T> {
    let graph = harness.graph.clone();
    let work = move |tx: &mut Tx<'_>| {
        let writer = graph.write_context(tx, actor)?;
        work(tx, &writer)
    };
    harness.graph.db().write(work).await
}

/// Finds the match of an object and writes it, with a source.
async fn put(
    harness: &Harness,
    actor: Actor,
    new: NewObject,
    chunk: Option<ChunkId>,
) -> MergeOutcome<Object> {
    let found = harness.graph.find_matches(harness.project(), vec![new]).await.unwrap().remove(0);
    write_found(harness, actor, found, chunk).await.unwrap()
}

async fn write_found(
    harness: &Harness,
    actor: Actor,
    found: MergeCandidate,
    chunk: Option<ChunkId>,
) -> Result<MergeOutcome<Object>> {
    write(harness, actor, move |tx, writer| {
        let source = chunk.map(|chunk| sources::find(tx, writer.project.id, chunk)).transpose()?;
        merge::create_or_merge(tx, writer, &found, source.as_ref())
    })
    .await
}

async fn versions(harness: &Harness, id: ObjectId) -> Vec<Object> {
    harness.graph.object_history(harness.project(), id, Page::first(100)).await.unwrap().items
}

async fn embed(harness: &Harness) {
    while harness.graph.embed_batch(harness.project()).await.unwrap() > 0 {}
}

fn by(outcome: &MergeOutcome<Object>) -> (UpsertOutcome, Option<&'static str>) {
    (outcome.written, outcome.by.map(MatchedBy::as_str))
}

both_engines! {
    async fn what_has_no_key_gets_its_names_and_is_found_by_it_again(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (notes, chunk) = document(&harness, "Notes", "Ada wrote a program.").await;
        let mut ada = person("Ada Lovelace");
        ada.labels = vec!["british".to_owned()];
        let first = put(&harness, harness.actor, ada.clone(), Some(chunk)).await;
        assert_eq!(by(&first), (UpsertOutcome::Created, None));
        assert_eq!((first.item.key.as_deref(), &first.item.reason), (Some("ada-lovelace"), &None));

        let before = harness.change_kinds().await;
        let again = put(&harness, harness.actor, ada, Some(chunk)).await;
        assert_eq!(by(&again), (UpsertOutcome::Unchanged, Some("key")));
        assert_eq!((again.item.id, again.conflicts), (first.item.id, vec![]));
        assert_eq!(harness.change_kinds().await, before, "a second time writes nothing");

        let mut more = new("Person", "ada-lovelace", json!({ "name": "Countess", "born": 1815 }));
        more.labels = vec!["poet".to_owned()];
        let (_, other) = document(&harness, "More", "The Countess was born in 1815.").await;
        let third = put(&harness, harness.actor, more, Some(other)).await;
        assert_eq!(by(&third), (UpsertOutcome::Updated, Some("key")));
        assert_eq!(third.item.properties.to_map(), map(json!({ "name": "Ada Lovelace", "born": 1815 })));
        assert_eq!(third.item.labels, ["british", "poet"]);
        let kept: Vec<_> = third.conflicts.iter().map(|one| (one.field.as_str(), &one.offered)).collect();
        assert_eq!(kept, [("properties.name", &json!("Countess"))]);

        let versions = versions(&harness, first.item.id).await;
        let reason = versions[0].reason.as_deref().unwrap();
        assert!(reason.starts_with("merged by key `ada-lovelace`, from document `More`"), "{reason}");
        assert!(reason.contains(&other.to_string()), "{reason}");
        assert!(reason.ends_with("kept properties.name `Ada Lovelace` instead of `Countess`"), "{reason}");
        assert_eq!(versions[1].reason, None);
        let said = said_in(&harness, first.item.id.0).await;
        assert_eq!(said.iter().map(|one| one.title.as_str()).collect::<Vec<_>>(), ["More", "Notes"]);
        assert_eq!((said[1].document, said[1].chunk, said[1].index), (notes, chunk, 0));

        // A manual change has no reason, and does not inherit the previous one.
        let patch = ObjectPatch { status: Some(Some("dead".into())), ..Default::default() };
        assert_eq!(harness.graph.update_object(harness.actor, first.item.id, patch).await.unwrap().reason, None);
    }

    async fn an_equal_name_is_the_same_unless_two_have_it(db: TestDb) {
        let harness = Harness::new(&db).await;
        let ada = harness.object(new("Person", "p-1", json!({ "name": "ada  LOVELACE" }))).await;
        harness.object(new("Place", "p-1", json!({ "name": "Ada Lovelace" }))).await;
        let found = put(&harness, harness.actor, new("Person", "countess", json!({ "name": "Ada-Lovelace", "born": 1815 })), None).await;
        assert_eq!((by(&found), found.item.id), ((UpsertOutcome::Updated, Some("name")), ada));
        assert_eq!(found.item.key.as_deref(), Some("p-1"), "it keeps its key");
        assert_eq!(found.conflicts[0].field, "key");
        assert_eq!(found.item.reason.as_deref().unwrap().split(';').next(), Some("merged by equal name `ada  LOVELACE`"));

        harness.object(new("Person", "p-2", json!({ "name": "Ada Lovelace" }))).await;
        let third = put(&harness, harness.actor, person("Ada Lovelace"), None).await;
        assert_eq!(by(&third), (UpsertOutcome::Created, None), "nobody guesses between two");
        let again = put(&harness, harness.actor, person("Ada Lovelace"), None).await;
        assert_eq!((by(&again), again.item.id), ((UpsertOutcome::Unchanged, Some("key")), third.item.id));
    }

    async fn the_far_most_alike_is_the_same(db: TestDb) {
        let harness = harness(&db).await;
        let note = |key: &str| new("Note", key, json!({}));
        let near = harness.object(note("a")).await;
        embed(&harness).await;
        let found = put(&harness, harness.actor, NewObject { status: Some("new".into()), ..note("b") }, None).await;
        assert_eq!((by(&found), found.item.id), ((UpsertOutcome::Updated, Some("similarity")), near));
        let reason = found.item.reason.unwrap();
        assert!(reason.starts_with("merged by similarity 0.950 with `a`; kept key `a` instead of `b`"), "{reason}");

        // Two objects without text are not similar, whatever vector a model returns for an empty
        // text.
        let mute = |count: i64| new("Mute", "", json!({ "count": count }));
        harness.object(mute(1)).await;
        embed(&harness).await;
        assert_eq!(by(&put(&harness, harness.actor, mute(2), None).await), (UpsertOutcome::Created, None));

        let far = put(&harness, harness.actor, note("x"), None).await;
        assert_eq!(by(&far), (UpsertOutcome::Created, None));
        harness.object(note("aa")).await;
        embed(&harness).await;
        let between = put(&harness, harness.actor, note("b"), None).await;
        assert_eq!(by(&between), (UpsertOutcome::Created, None), "two are as near");
    }

    async fn what_was_found_is_looked_at_again_before_it_is_written(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (deleted, renamed) = ("Ada", "Bob");
        let ada = harness.object(new("Person", "p-1", json!({ "name": deleted }))).await;
        let bob = harness.object(new("Person", "p-2", json!({ "name": renamed }))).await;
        let mut found =
            harness.graph.find_matches(harness.project(), vec![person(deleted), person(renamed)]).await.unwrap();
        assert_eq!(found.iter().map(|one| one.matched).collect::<Vec<_>>(), [Some((ada, MatchedBy::Name)), Some((bob, MatchedBy::Name))]);
        harness.graph.delete_object(harness.actor, ada, None).await.unwrap();
        let patch = ObjectPatch {
            properties: Some(map(json!({ "name": "Robert" }))), ..Default::default()
        };
        harness.graph.update_object(harness.actor, bob, patch).await.unwrap();
        for found in found.drain(..) {
            let made = write_found(&harness, harness.actor, found, None).await.unwrap();
            assert_eq!(by(&made), (UpsertOutcome::Created, None));
        }
    }

    async fn two_who_find_the_same_at_once_make_one(db: TestDb) {
        let harness = Harness::new(&db).await;
        for round in 0..10 {
            let name = format!("Ada {round}");
            // All writers search for matches before any of them writes.
            let mut found = Vec::new();
            for born in [1, 2, 3, 4] {
                let new = new("Person", "", json!({ "name": name, (format!("p{born}")): born }));
                found.extend(harness.graph.find_matches(harness.project(), vec![new]).await.unwrap());
            }
            assert!(found.iter().all(|one| one.matched.is_none()));
            let writes = found.into_iter().map(|found| write_found(&harness, harness.actor, found, None));
            let made = join_all(writes).await;
            let made: Vec<MergeOutcome<Object>> = made.into_iter().map(Result::unwrap).collect();
            assert_eq!(made.iter().filter(|one| one.written == UpsertOutcome::Created).count(), 1);
            assert!(made.iter().all(|one| one.item.id == made[0].item.id));
            let versions = versions(&harness, made[0].item.id).await;
            assert_eq!(versions.len(), 4);
            assert_eq!(versions[0].properties.to_map().len(), 5, "nothing is lost");
        }
    }

    async fn an_edge_is_completed_like_an_object(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (a, b) = (harness.object(person("Ada")).await, harness.object(person("Bob")).await);
        let (_, chunk) = document(&harness, "Letters", "Ada knows Bob.").await;
        let knows = |properties: Value, weight: Option<f64>| NewRelationship {
            properties: map(properties), weight, ..edge("knows", a, b)
        };
        let join = async |new: NewRelationship| {
            let work = move |tx: &mut Tx<'_>, writer: &WriteContext| {
                let source = sources::find(tx, writer.project.id, chunk)?;
                merge::create_or_merge_relationship(tx, writer, new.clone(), Some(&source))
            };
            write(&harness, harness.actor, work).await.unwrap()
        };
        let first = join(knows(json!({ "how": "letters" }), None)).await;
        assert_eq!((first.written, first.item.version), (UpsertOutcome::Created, 1));
        let same = join(knows(json!({ "how": "letters" }), None)).await;
        assert_eq!((same.written, same.item.version), (UpsertOutcome::Unchanged, 1));
        let more = join(knows(json!({ "how": "balls", "since": 1833 }), Some(0.5))).await;
        assert_eq!((more.written, more.item.version, more.item.weight), (UpsertOutcome::Updated, 2, Some(0.5)));
        assert_eq!(more.item.properties.to_map(), map(json!({ "how": "letters", "since": 1833 })));
        assert_eq!(more.conflicts[0].field, "properties.how");
        let history = harness.graph.relationship_history(harness.project(), first.item.id, Page::first(10)).await.unwrap();
        let reason = history.items[0].reason.as_deref().unwrap();
        assert!(reason.contains("document `Letters`") && reason.contains("kept properties.how"), "{reason}");
        assert_eq!(said_in(&harness, first.item.id.0).await.len(), 1);

        // The edge is deleted and restored with its end, so those versions have another author.
        harness.graph.delete_object(harness.actor, a, None).await.unwrap();
        harness.graph.restore_object(harness.actor, a).await.unwrap();
        let history = harness.graph.relationship_history(harness.project(), first.item.id, Page::first(10)).await.unwrap();
        let reasons: Vec<bool> = history.items.iter().map(|one| one.reason.is_some()).collect();
        assert_eq!(reasons, [false, false, true, false]);
    }

    async fn what_the_packs_do_not_allow_is_refused_and_nothing_is_noted(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (_, chunk) = document(&harness, "Notes", "Ada wrote a program.").await;
        let elsewhere = Harness { actor: project(&harness.graph, "other", false).await, graph: harness.graph.clone() };
        let (_, foreign) = document(&elsewhere, "Theirs", "Hidden.").await;
        let (gone, deleted) = document(&harness, "Gone", "No more.").await;
        harness.graph.delete_document(harness.actor, gone).await.unwrap();
        for wrong in [foreign, deleted, ChunkId::new()] {
            let found = MergeCandidate { new: person("Ada"), matched: None, superseded: Vec::new() };
            let told = problem(write_found(&harness, harness.actor, found, Some(wrong)).await);
            assert_eq!(told, "source.chunkId: no chunk with this id in this project");
        }
        let bad = MergeCandidate { new: new("9", "", json!({ "name": "Ada" })), matched: None, superseded: Vec::new() };
        assert!(matches!(write_found(&harness, harness.actor, bad, Some(chunk)).await, Err(Error::Invalid(_))));
        assert_eq!(said_in(&harness, ObjectId::new().0).await, []);
        assert!(!harness.change_kinds().await.iter().any(|kind| kind.starts_with("object")));
    }

    async fn a_deleted_document_stays_a_source_that_is_gone(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (id, chunk) = document(&harness, "Notes", "Ada wrote a program.").await;
        let ada = put(&harness, harness.actor, person("Ada"), Some(chunk)).await.item.id;
        harness.graph.delete_document(harness.actor, id).await.unwrap();
        let (_, again) = document(&harness, "Notes", "Ada wrote a program.").await;
        assert_eq!(by(&put(&harness, harness.actor, person("Ada"), Some(again)).await), (UpsertOutcome::Unchanged, Some("key")));
        let (object, said) = harness.graph.object_with_sources(harness.project(), ada).await.unwrap();
        assert_eq!(object.version, 1);
        let said: Vec<_> = said.iter().map(|one| (one.chunk, one.deleted)).collect();
        assert_eq!(said, [(again, false), (chunk, true)]);
    }

    async fn a_reverted_run_takes_its_sources_back_and_leaves_what_others_found(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (_, chunk) = document(&harness, "One", "Ada and Bob.").await;
        let (_, other) = document(&harness, "Two", "Bob alone.").await;
        let ((first, one), (second, two)) = (run_in(&harness), run_in(&harness));
        let ada = put(&harness, one, person("Ada"), Some(chunk)).await.item.id;
        let bob = put(&harness, one, person("Bob"), Some(chunk)).await.item.id;
        assert_eq!(by(&put(&harness, two, person("Bob"), Some(other)).await), (UpsertOutcome::Unchanged, Some("key")));

        let report: RevertReport = harness.graph.revert_run(harness.actor, first).await.unwrap();
        assert_eq!(report.undone.iter().map(|one| one.id).collect::<Vec<_>>(), [ada.0]);
        let [conflict] = &report.conflicts[..] else { panic!("{report:?}") };
        assert_eq!((conflict.id, conflict.reason.as_str()), (bob.0, "was also extracted from a document by someone else"));
        assert_eq!(said_in(&harness, ada.0).await, []);
        let said = async || said_in(&harness, bob.0).await.iter().map(|one| one.chunk).collect::<Vec<_>>();
        assert_eq!(said().await.len(), 2, "what stays keeps its passages");

        harness.graph.revert_run(harness.actor, second).await.unwrap();
        assert_eq!(said().await, [chunk]);
        let report = harness.graph.revert_run(harness.actor, first).await.unwrap();
        assert_eq!(report.undone.iter().map(|one| one.id).collect::<Vec<_>>(), [bob.0], "now nobody else holds it");
        assert_eq!(said_in(&harness, bob.0).await, []);
    }

    async fn a_reason_is_exported_and_has_no_effect_where_it_is_imported(db: TestDb) {
        let harness = Harness::new(&db).await;
        put(&harness, harness.actor, person("Ada"), None).await;
        put(&harness, harness.actor, new("Person", "ada", json!({ "born": 1815 })), None).await;
        let line = async |project| {
            let parts: Vec<_> = harness.graph.export(project).try_collect().await.unwrap();
            String::from_utf8(parts.concat()).unwrap().trim().to_owned()
        };
        let ours = line(harness.project()).await;
        assert!(ours.contains(r#""reason":"merged by key `ada`""#), "{ours}");
        let elsewhere = project(&harness.graph, "other", false).await;
        let done = harness.graph.import_batch(elsewhere, vec![(1, ours)]).await.unwrap();
        assert_eq!(done.errors, []);
        let theirs = line(elsewhere.project).await;
        assert!(theirs.contains("1815") && !theirs.contains("reason"), "{theirs}");
    }
}

/// Computes a vector from the first letter of a text.
fn by_first_letter(text: &str) -> Vec<f32> {
    match text.chars().next() {
        Some('a') => vec![1.0, 0.0, 0.0],
        Some('b') => vec![0.95, (1.0_f32 - 0.95 * 0.95).sqrt(), 0.0],
        _ => vec![0.0, 0.0, 1.0],
    }
}
