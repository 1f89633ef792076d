//! Export and import of whole graphs.

use crate::support;

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, ProjectId},
    object::{NewObject, ObjectPatch},
    patch::canonical_json,
    project::ProjectPatch,
    query::ObjectFilter,
    relationship::NewRelationship,
    text::is_control,
};
use emergent_graph::{
    Actor, Error, Graph, RelationshipFilter,
    transfer::{Counts, ImportOptions, ImportProgress, LineError, OnError},
};
use emergent_store::{Db, TimeLimits, Tx, params};
use emergent_testkit::{TestDb, both_engines, fixed_clock};
use futures_util::{StreamExt, TryStreamExt, stream};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};
use support::*;

async fn export(graph: &Graph, project: ProjectId) -> Vec<u8> {
    let parts: Vec<Bytes> = graph.export(project).try_collect().await.unwrap();
    parts.concat()
}

/// Imports a file that arrives in parts of this many bytes. Returns every progress report in order.
async fn import_parts(
    graph: &Graph,
    actor: Actor,
    file: &[u8],
    size: usize,
    on_error: OnError,
) -> Vec<ImportProgress> {
    let parts: Vec<Result<Bytes, Infallible>> =
        file.chunks(size).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
    graph.import(actor, stream::iter(parts), ImportOptions { on_error }).try_collect().await.unwrap()
}

async fn import(graph: &Graph, actor: Actor, file: impl AsRef<[u8]>) -> ImportProgress {
    let progress = import_parts(graph, actor, file.as_ref(), 1_000, OnError::Skip).await;
    assert!(progress.iter().rev().skip(1).all(|one| !one.done) && progress.last().unwrap().done);
    let errors = progress.iter().flat_map(|one| one.errors.clone()).collect();
    ImportProgress { errors, ..progress.last().unwrap().clone() }
}

/// Returns the content of a project without ids, versions and timestamps, which may differ after an
/// import. Objects are identified by their key, or by the property `n`.
#[derive(Debug, PartialEq)]
struct Contents {
    objects: Vec<String>,
    edges: Vec<String>,
}

async fn contents(graph: &Graph, project: ProjectId) -> Contents {
    let mut names = std::collections::HashMap::new();
    let mut objects = Vec::new();
    let mut page = Page::first(100);
    loop {
        let found = graph.list_objects(project, ObjectFilter::default(), page).await.unwrap();
        for object in found.items {
            let properties = canonical_json(&Value::Object(object.properties.to_map()));
            let name = format!(
                "{} {:?} {}",
                object.type_,
                object.key,
                object.properties.to_map().get("n").unwrap_or(&Value::Null)
            );
            objects.push(format!("{name} {:?} {:?} {properties}", object.status, object.labels));
            names.insert(object.id, name);
        }
        let Some(next) = found.next else { break };
        page.after = Some(next);
    }
    let mut edges = Vec::new();
    let mut page = Page::first(100);
    loop {
        let found = graph.list_relationships(project, RelationshipFilter::default(), page).await.unwrap();
        for edge in found.items {
            let properties = canonical_json(&Value::Object(edge.properties.to_map()));
            let weight = edge.weight.map(f64::to_bits);
            edges.push(format!(
                "{} -{}-> {} {properties} {weight:?}",
                names[&edge.from], edge.type_, names[&edge.to]
            ));
        }
        let Some(next) = found.next else { break };
        page.after = Some(next);
    }
    objects.sort();
    edges.sort();
    Contents { objects, edges }
}

fn counts(created: u64, updated: u64, unchanged: u64) -> Counts {
    Counts { created, updated, unchanged }
}

const FAMILY: &str = r#"{"kind":"object","type":"Person","key":"ada","status":"alive","labels":["b","a"],"properties":{"name":"Ada","n":1}}
{"kind":"object","type":"Person","key":"bob","properties":{"name":"Bob"}}

{"kind":"relationship","type":"knows","from":{"type":"Person","key":"ada"},"to":{"type":"Person","key":"bob"},"properties":{"since":1990},"weight":0.5}
"#;

both_engines! {
    async fn a_file_is_imported_and_importing_it_again_changes_nothing(db: TestDb) {
        let harness = Harness::new(&db).await;
        let first = import(&harness.graph, harness.actor, FAMILY).await;
        assert_eq!((first.objects, first.relationships), (counts(2, 0, 0), counts(1, 0, 0)));
        assert_eq!((first.lines, first.bytes, first.failed), (4, FAMILY.len() as u64, 0));
        assert_eq!(harness.change_kinds().await, ["object_created", "object_created", "relationship_created"]);
        assert_eq!(indexed(&harness.graph, harness.project()).await.len(), 2);

        let before = contents(&harness.graph, harness.project()).await;
        let again = import(&harness.graph, harness.actor, FAMILY).await;
        assert_eq!((again.objects, again.relationships), (counts(0, 0, 2), counts(0, 0, 1)));
        assert_eq!(contents(&harness.graph, harness.project()).await, before);
        assert_eq!(harness.change_kinds().await.len(), 3);
    }

    async fn a_changed_file_changes_what_it_names_and_nothing_else(db: TestDb) {
        let harness = Harness::new(&db).await;
        import(&harness.graph, harness.actor, FAMILY).await;
        let changed = r#"{"kind":"object","type":"Person","key":"ada","properties":{"name":"Ada L.","n":null}}
{"kind":"object","type":"Person","key":"ada","status":null}
{"kind":"relationship","type":"knows","from":{"type":"Person","key":"ada"},"to":{"type":"Person","key":"bob"},"weight":0.75}"#;
        let done = import(&harness.graph, harness.actor, changed).await;
        assert_eq!((done.objects, done.relationships, done.failed), (counts(0, 2, 0), counts(0, 1, 0), 0));
        let now = contents(&harness.graph, harness.project()).await;
        assert!(now.objects[0].contains(r#"None ["a", "b"] {"name":"Ada L."}"#), "{now:?}");
        assert!(now.edges[0].contains(r#"{"since":1990}"#), "{now:?}");
        let again = import(&harness.graph, harness.actor, changed).await;
        assert_eq!((again.objects, again.relationships), (counts(0, 0, 2), counts(0, 0, 1)));
    }

    async fn wrong_lines_are_told_with_their_number_and_the_others_go_in(db: TestDb) {
        let harness = Harness::new(&db).await;
        let mut file = FAMILY.as_bytes().to_vec();
        file.extend(b"{broken\n");
        file.extend(b"{\"kind\":\"object\",\"type\":\"T\",\"key\":\"\xff\"}\n");
        file.extend(format!("{{\"kind\":\"object\",\"type\":\"T\",\"key\":\"{}\"}}\n", "x".repeat(3 << 20)).bytes());
        file.extend(br#"{"kind":"relationship","type":"knows","from":{"type":"Person","key":"ada"},"to":{"type":"Person","key":"nobody"}}"#);
        file.extend(b"\n{\"kind\":\"object\",\"type\":\"T\",\"key\":\"last\",\"colour\":1}\n");
        file.extend(b"{\"kind\":\"object\",\"type\":\"T\",\"key\":\"last\"}");
        let done = import(&harness.graph, harness.actor, &file).await;
        let lines: Vec<u64> = done.errors.iter().map(|error| error.line).collect();
        assert_eq!(lines, [5, 6, 7, 8, 9]);
        assert_eq!(done.failed, 5);
        assert_eq!(done.errors[3], LineError {
            line: 8,
            field: Some("to".to_owned()),
            message: "there is no object of type `Person` with the key `nobody` in this project".to_owned(),
        });
        assert!(done.errors[1].message.contains("UTF-8"));
        assert!(done.errors[2].message.contains("longer than 2097152 bytes"));
        assert_eq!((done.objects, done.relationships), (counts(3, 0, 0), counts(1, 0, 0)));
    }

    async fn a_wrong_line_stops_an_import_that_is_told_to(db: TestDb) {
        let harness = Harness::new(&db).await;
        let good = |from: usize, to: usize| -> String {
            (from..to).map(|n| format!("{{\"kind\":\"object\",\"type\":\"T\",\"key\":\"{n}\"}}\n")).collect()
        };
        let file = format!("{}{{broken\n{}", good(0, 3_000), good(3_000, 8_000));
        let progress = import_parts(&harness.graph, harness.actor, file.as_bytes(), 10_000, OnError::Stop).await;
        let last = progress.last().unwrap();
        assert!(last.stopped && last.done);
        assert_eq!((last.lines, last.objects.created, last.failed), (2_000, 2_000, 1), "whole batches are kept");
        assert_eq!(last.errors[0].line, 3_001);
        // After the file is corrected, the import continues.
        let done = import(&harness.graph, harness.actor, good(0, 8_000)).await;
        assert_eq!(done.objects, counts(6_000, 0, 2_000));
    }

    async fn an_import_that_stops_names_every_wrong_line_and_writes_nothing(db: TestDb) {
        let harness = Harness::new(&db).await;
        let file = r#"{"kind":"object","type":"T","key":"a"}
{"kind":"relationship","type":"knows","from":{"type":"T","key":"a"},"to":{"type":"T","key":"nobody"}}
{broken
{"kind":"object","type":"T","key":"b","colour":"red"}"#;
        let progress = import_parts(&harness.graph, harness.actor, file.as_bytes(), 10_000, OnError::Stop).await;
        let last = progress.last().unwrap();
        let lines: Vec<u64> = last.errors.iter().map(|error| error.line).collect();
        assert_eq!((lines, last.stopped, last.failed), (vec![2, 3, 4], true, 3), "{:?}", last.errors);
        assert!(contents(&harness.graph, harness.project()).await.objects.is_empty());
    }

    async fn progress_is_told_batch_by_batch(db: TestDb) {
        let harness = Harness::new(&db).await;
        let file: String = (0..5_000).map(|n| format!("{{\"kind\":\"object\",\"type\":\"T\",\"key\":\"{n}\"}}\n")).collect();
        let progress = import_parts(&harness.graph, harness.actor, file.as_bytes(), 7_777, OnError::Stop).await;
        let lines: Vec<(u64, bool)> = progress.iter().map(|one| (one.lines, one.done)).collect();
        assert_eq!(lines, [(2_000, false), (4_000, false), (5_000, true)]);
        assert_eq!(progress[2].bytes, file.len() as u64);
        let nothing = import(&harness.graph, harness.actor, "").await;
        assert_eq!(nothing, ImportProgress { done: true, ..ImportProgress::default() });
    }

    async fn an_upload_that_breaks_off_is_an_error_and_keeps_what_was_written(db: TestDb) {
        let harness = Harness::new(&db).await;
        let file: String = (0..3_000).map(|n| format!("{{\"kind\":\"object\",\"type\":\"T\",\"key\":\"{n}\"}}\n")).collect();
        let parts = vec![Ok(Bytes::from(file)), Err("the line went dead")];
        let told: Vec<Result<ImportProgress, Error>> =
            harness.graph.import(harness.actor, stream::iter(parts), ImportOptions::default()).collect().await;
        let error = told.last().unwrap().as_ref().unwrap_err();
        assert!(error.to_string().contains("the line went dead"), "{error}");
        assert_eq!(contents(&harness.graph, harness.project()).await.objects.len(), 2_000);
    }

    async fn objects_without_a_key_are_found_again_by_their_id(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (graph, project_id) = (&harness.graph, harness.project());
        let a = harness.object(new("T", "", json!({ "n": 1 }))).await;
        let b = harness.object(new("T", "", json!({ "n": 2 }))).await;
        harness.edge("next", a, b).await;
        let file = export(graph, project_id).await;
        let before = contents(graph, project_id).await;
        let again = import(graph, harness.actor, &file).await;
        assert_eq!((again.objects, again.relationships), (counts(0, 0, 2), counts(0, 0, 1)));

        // In another project of the same database the ids are already in use, and the import still
        // works.
        let other = project(graph, "other", false).await;
        let there = import(graph, other, &file).await;
        assert_eq!((there.objects, there.relationships, there.failed), (counts(2, 0, 0), counts(1, 0, 0), 0));
        assert_eq!(contents(graph, other.project).await, before);
        let again = import(graph, other, &file).await;
        assert_eq!((again.objects, again.relationships), (counts(0, 0, 2), counts(0, 0, 1)));
        assert_eq!(contents(graph, project_id).await, before, "the first is as it was");

        // An object that was deleted is restored with its edges.
        graph.delete_object(harness.actor, a, None).await.unwrap();
        import(graph, harness.actor, &file).await;
        assert_eq!(contents(graph, project_id).await, before);
        assert_eq!(graph.get_object(project_id, a).await.unwrap().version, 3);
    }

    async fn a_file_may_name_keyed_objects_by_ids_of_its_own(db: TestDb) {
        let harness = Harness::new(&db).await;
        let ada = harness.object(new("Person", "ada", json!({}))).await;
        let (x, y) = (ObjectId::new(), "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
        let file = format!(
            r#"{{"kind":"object","id":"{x}","type":"Person","key":"ada"}}
{{"kind":"object","id":"{y}","type":"Person","properties":{{"n":2}}}}
{{"kind":"relationship","type":"knows","from":{{"id":"{x}"}},"to":{{"id":"{y}"}}}}"#
        );
        for round in 0..2 {
            let done = import(&harness.graph, harness.actor, &file).await;
            assert_eq!((done.objects.created, done.relationships.created), if round == 0 { (1, 1) } else { (0, 0) });
            assert_eq!(done.failed, 0, "{:?}", done.errors);
        }
        assert_eq!(harness.neighbours(ada).await.len(), 1);
    }

    async fn ids_are_kept_where_they_are_free(db: TestDb) {
        let harness = Harness::new(&db).await;
        let id = harness.object(new("T", "k", json!({}))).await;
        let file = export(&harness.graph, harness.project()).await;
        let fresh = TestDb::new(db.engine()).await;
        let elsewhere = Harness::new(&fresh).await;
        import(&elsewhere.graph, elsewhere.actor, &file).await;
        assert_eq!(elsewhere.graph.get_object(elsewhere.project(), id).await.unwrap().key.as_deref(), Some("k"));
    }

    async fn what_packs_forbid_is_an_error_of_its_line(db: TestDb) {
        let harness = Harness::new(&db).await;
        let strict = project(&harness.graph, "strict", true).await;
        let done = import(&harness.graph, strict, FAMILY).await;
        assert_eq!(done.errors.iter().map(|error| error.line).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(done.objects.total(), 0);
        assert!(harness.graph.list_objects(strict.project, ObjectFilter::default(), Page::first(1)).await.unwrap().items.is_empty());
    }

    async fn a_line_that_packs_forbid_does_not_bring_its_object_back(db: TestDb) {
        let harness = Harness::new(&db).await;
        let id = harness.object(new("T", "", json!({}))).await;
        harness.graph.delete_object(harness.actor, id, None).await.unwrap();
        harness.graph.update_project(harness.project(), ProjectPatch { strict: Some(true), ..ProjectPatch::default() }).await.unwrap();
        let line = format!("{{\"kind\":\"object\",\"id\":\"{id}\",\"type\":\"T\",\"properties\":{{\"a\":1}}}}");
        let done = import(&harness.graph, harness.actor, &line).await;
        assert_eq!((done.failed, done.objects.total()), (1, 0));
        assert!(harness.graph.get_object(harness.project(), id).await.is_err(), "it is still deleted");
    }

    async fn an_export_has_every_object_before_any_edge_and_no_tombstone(db: TestDb) {
        let harness = Harness::new(&db).await;
        let mut ids = Vec::new();
        for n in 0..1_203 {
            if n % 400 == 0 {
                harness.graph.clock().advance(std::time::Duration::from_secs(1));
            }
            ids.push(new("T", &format!("k{n}"), json!({})));
        }
        let made = harness.graph.bulk_create_objects(harness.actor, ids, true).await.unwrap();
        let made: Vec<ObjectId> = made.into_iter().map(|one| one.unwrap().id).collect();
        for two in made.windows(2).take(600) {
            harness.edge("next", two[0], two[1]).await;
        }
        harness.graph.delete_object(harness.actor, made[0], None).await.unwrap();
        let file = String::from_utf8(export(&harness.graph, harness.project()).await).unwrap();
        let kinds: Vec<bool> = file.lines().map(|line| line.contains("\"kind\":\"relationship\"")).collect();
        assert_eq!(kinds.iter().filter(|edge| !**edge).count(), 1_202);
        assert_eq!(kinds.iter().filter(|edge| **edge).count(), 599);
        assert!(kinds.is_sorted(), "objects first");
        assert!(!file.contains(&made[0].to_string()));
    }

    async fn two_that_import_the_same_file_at_once_make_it_once(db: TestDb) {
        let harness = Harness::new(&db).await;
        let second = Graph::new(db.second_connection().await, fixed_clock(), None);
        let mut file = String::new();
        for n in 0..400 {
            file.push_str(&format!("{{\"kind\":\"object\",\"type\":\"T\",\"key\":\"{n}\",\"properties\":{{\"n\":{n}}}}}\n"));
        }
        for n in 0..399 {
            let end = |n: usize| format!("{{\"type\":\"T\",\"key\":\"{n}\"}}");
            file.push_str(&format!(
                "{{\"kind\":\"relationship\",\"type\":\"next\",\"from\":{},\"to\":{}}}\n", end(n), end(n + 1)
            ));
        }
        let (one, two) =
            tokio::join!(import(&harness.graph, harness.actor, &file), import(&second, harness.actor, &file));
        assert_eq!((one.failed, two.failed), (0, 0));
        assert_eq!(one.objects.created + two.objects.created, 400);
        assert_eq!(one.relationships.created + two.relationships.created, 399);
        let now = contents(&harness.graph, harness.project()).await;
        assert_eq!((now.objects.len(), now.edges.len()), (400, 399));
    }

    async fn a_batch_of_lines_can_be_written_by_itself(db: TestDb) {
        let harness = Harness::new(&db).await;
        let lines = FAMILY.lines().enumerate().map(|(at, line)| (at as u64 + 1, line.to_owned()));
        let done = harness.graph.import_batch(harness.actor, lines.chain([(9, "?".to_owned())]).collect()).await.unwrap();
        assert_eq!((done.objects, done.relationships), (counts(2, 0, 0), counts(1, 0, 0)));
        assert_eq!(done.errors[0].line, 9);
        let nowhere = Actor { project: ProjectId::new(), ..harness.actor };
        let lost = harness.graph.import_batch(nowhere, vec![(1, FAMILY.lines().next().unwrap().to_owned())]).await;
        assert!(matches!(lost, Err(Error::NotFound { what: "project", .. })));
    }
}

/// A small random graph.
#[derive(Debug, Clone)]
struct Story {
    objects: Vec<NewObject>,
    /// The index of the object that is deleted before the export.
    deleted: Option<usize>,
    edges: Vec<(usize, usize, String, Value, Option<f64>)>,
    /// The size of the parts in which the file is imported, in bytes.
    part: usize,
}

fn text() -> impl Strategy<Value = String> {
    // Every text that JSON can represent except NUL, which is rejected.
    prop_oneof![3 => "[a-z]{1,6}", 1 => prop::string::string_regex("[^\u{0}]{1,8}").expect("a pattern")]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        text().prop_map(Value::from),
        Just(json!("1")),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn properties() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(text(), value(), 0..3)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// A text without the characters that no name has.
fn name() -> impl Strategy<Value = String> {
    text().prop_map(|text| text.replace(|char: char| char.is_control() || is_control(char), "-"))
}

fn object() -> impl Strategy<Value = NewObject> {
    let type_ = prop_oneof![Just("Person"), Just("Place"), Just("a.b:c-d_1")];
    let labels = prop::collection::vec(name(), 0..3);
    (type_, any::<bool>(), prop::option::of(name()), labels, properties()).prop_map(
        |(type_, keyed, status, labels, properties)| NewObject {
            type_: type_.to_owned(),
            key: keyed.then(String::new),
            status,
            labels,
            properties: map(properties),
        },
    )
}

fn story() -> impl Strategy<Value = Story> {
    prop::collection::vec(object(), 0..8).prop_flat_map(|mut objects| {
        for (at, object) in objects.iter_mut().enumerate() {
            // Names that identify the objects in this test.
            object.properties.insert("n".to_owned(), at.into());
            object.key = object.key.take().map(|_| format!("key {at} é"));
        }
        let count = objects.len().max(1);
        let weight = prop::option::of(prop::num::f64::NORMAL);
        let edge = (0..count, 0..count, "[a-z]{1,3}", properties(), weight);
        let edges = prop::collection::vec(edge, 0..10);
        (Just(objects), prop::option::weighted(0.2, 0..count), edges, 1..400_usize).prop_map(
            |(objects, deleted, edges, part)| Story {
                edges: if objects.is_empty() { Vec::new() } else { edges },
                deleted: deleted.filter(|at| *at < objects.len()),
                objects,
                part,
            },
        )
    })
}

struct Worlds {
    graph: Graph,
    /// Another database, in which no id is in use.
    elsewhere: Graph,
    _databases: [TestDb; 2],
}

impl Worlds {
    async fn new(databases: [TestDb; 2]) -> Self {
        let [graph, elsewhere] =
            [&databases[0], &databases[1]].map(|db| Graph::new(db.db.clone(), fixed_clock(), None));
        Self { graph, elsewhere, _databases: databases }
    }

    async fn check(&self, story: Story) -> Result<(), TestCaseError> {
        let name = || format!("p{}", ObjectId::new().0.simple());
        let graph = &self.graph;
        let from = project(graph, &name(), false).await;
        let made = graph.bulk_create_objects(from, story.objects, true).await.unwrap();
        let ids: Vec<ObjectId> = made.into_iter().map(|one| one.unwrap().id).collect();
        let edges = story.edges.into_iter().map(|(a, b, type_, properties, weight)| NewRelationship {
            type_,
            from: ids[a],
            to: ids[b],
            properties: map(properties),
            weight,
        });
        graph.bulk_create_relationships(from, edges.collect(), true).await.unwrap();
        if let Some(at) = story.deleted {
            // One object has a history, and one is deleted.
            let patch = ObjectPatch { status: Some(Some("going".to_owned())), ..ObjectPatch::default() };
            graph.update_object(from, ids[at], patch).await.unwrap();
            graph.delete_object(from, ids[at], None).await.unwrap();
        }
        let wanted = contents(graph, from.project).await;
        let file = export(graph, from.project).await;

        for graph in [&self.graph, &self.elsewhere] {
            let to = project(graph, &name(), false).await;
            let done = import_parts(graph, to, &file, story.part, OnError::Stop).await;
            let done = done.last().unwrap();
            prop_assert_eq!(&done.errors, &vec![]);
            prop_assert_eq!(done.objects.created as usize, wanted.objects.len());
            prop_assert_eq!(&contents(graph, to.project).await, &wanted);
            let again = import_parts(graph, to, &file, story.part, OnError::Stop).await;
            let again = again.last().unwrap();
            prop_assert_eq!(again.objects, counts(0, 0, wanted.objects.len() as u64));
            prop_assert_eq!(again.relationships, counts(0, 0, wanted.edges.len() as u64));
            prop_assert_eq!(&contents(graph, to.project).await, &wanted);
        }
        Ok(())
    }
}

/// Runs a property test with a seed that is printed. `SEED` sets it.
fn runner(cases: u32) -> TestRunner {
    let seed: u64 = match std::env::var("SEED") {
        Ok(seed) => seed.parse().expect("SEED is a number"),
        Err(_) => uuid::Uuid::now_v7().as_u64_pair().1,
    };
    println!("SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// A failure prints the smallest graph that reproduces it.
fn journeys(cases: u32, databases: impl Future<Output = [TestDb; 2]>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let worlds = runtime.block_on(async { Worlds::new(databases.await).await });
    runner(cases).run(&story(), |story| runtime.block_on(worlds.check(story))).unwrap();
}

#[test]
fn what_is_exported_and_imported_is_the_same_on_sqlite() {
    journeys(1_000, async { [TestDb::sqlite().await, TestDb::sqlite().await] });
}

#[test]
fn what_is_exported_and_imported_is_the_same_on_postgres() {
    journeys(60, async { [TestDb::postgres().await, TestDb::postgres().await] });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_takes_too_long_for_one_transaction_is_written_in_several() {
    let mut db = TestDb::sqlite().await;
    let limits = TimeLimits { read: Duration::from_secs(10), write: Duration::from_millis(600) };
    db.db = Db::open_with(db.config().clone(), limits).await.unwrap();
    let harness = Harness::new(&db).await;
    // Each new object takes some milliseconds longer.
    let slow = "CREATE TRIGGER slow_inserts AFTER INSERT ON graph_objects BEGIN
        SELECT count(*) FROM sqlite_master AS a, sqlite_master AS b, (SELECT 1 FROM sqlite_master LIMIT 3) AS c
            WHERE a.name || b.name = 'x';
    END";
    db.write(move |tx: &mut Tx<'_>| tx.execute(slow, params![])).await.unwrap();
    let mut file = String::new();
    for n in 0..120 {
        file.push_str(&format!("{{\"kind\":\"object\",\"type\":\"T\",\"key\":\"{n}\"}}\n"));
    }
    for n in 0..119 {
        let end = |n: usize| format!("{{\"type\":\"T\",\"key\":\"{n}\"}}");
        file.push_str(&format!(
            "{{\"kind\":\"relationship\",\"type\":\"next\",\"from\":{},\"to\":{}}}\n",
            end(n),
            end(n + 1)
        ));
    }
    file.push_str("?\n");
    let options = ImportOptions { on_error: OnError::Skip };
    let input = stream::iter([Ok::<_, Infallible>(Bytes::from(file))]);
    let progress: Vec<ImportProgress> =
        harness.graph.import(harness.actor, input, options).try_collect().await.unwrap();
    let last = progress.last().unwrap();
    assert_eq!(
        (last.objects.created, last.relationships.created, last.failed, last.lines),
        (120, 119, 1, 240)
    );
}
