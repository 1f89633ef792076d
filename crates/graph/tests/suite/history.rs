//! Random sequences of writes are compared with a naive in-memory model of the graph: the database
//! contains what the model predicts, and history never changes.

use crate::support;

use std::{collections::BTreeMap, panic::AssertUnwindSafe};

use emergent_domain::{
    cursor::Page,
    ids::{ObjectId, ProjectId, RelationshipId},
    object::{NewObject, Object, ObjectPatch},
    query::ObjectFilter,
    relationship::{NewRelationship, Relationship, RelationshipPatch},
};
use emergent_graph::{Actor, Error, Graph, RelationshipFilter, UpsertOutcome};
use emergent_testkit::{TestDb, fixed_clock};
use futures_util::{FutureExt, StreamExt, stream};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};
use support::*;

/// One version of an object, as far as the model predicts it.
#[derive(Debug, Clone, PartialEq)]
struct Thing {
    type_: String,
    key: Option<String>,
    status: Option<String>,
    labels: Vec<String>,
    properties: Map<String, Value>,
    living: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Edge {
    properties: Map<String, Value>,
    weight: Option<f64>,
    living: bool,
    went_with: Option<ObjectId>,
}

/// The type and the ends of an edge.
type Place = (String, ObjectId, ObjectId);

#[derive(Debug, Default)]
struct Model {
    /// Every version of each object, oldest first.
    objects: BTreeMap<ObjectId, Vec<Thing>>,
    edges: BTreeMap<RelationshipId, (Place, Vec<Edge>)>,
}

impl Model {
    fn newest(&self, id: ObjectId) -> Option<&Thing> {
        self.objects.get(&id).and_then(|versions| versions.last())
    }

    fn lives(&self, id: ObjectId) -> bool {
        self.newest(id).is_some_and(|thing| thing.living)
    }

    fn holder(&self, type_: &str, key: Option<&str>) -> Option<ObjectId> {
        let key = key?;
        self.objects.iter().find_map(|(id, versions)| {
            let thing = versions.last()?;
            (thing.living && thing.type_ == type_ && thing.key.as_deref() == Some(key)).then_some(*id)
        })
    }

    fn edge_at(&self, place: &Place) -> Option<RelationshipId> {
        self.edges
            .iter()
            .find_map(|(id, (at, versions))| (at == place && versions.last()?.living).then_some(*id))
    }

    fn push(&mut self, id: ObjectId, next: Thing) {
        self.objects.get_mut(&id).unwrap().push(next);
    }

    fn delete(&mut self, id: ObjectId) {
        let gone = Thing { living: false, ..self.newest(id).unwrap().clone() };
        self.push(id, gone);
        for ((_, from, to), versions) in self.edges.values_mut() {
            let last = versions.last().unwrap().clone();
            if last.living && (*from == id || *to == id) {
                versions.push(Edge { living: false, went_with: Some(id), ..last });
            }
        }
    }

    fn restore(&mut self, id: ObjectId) {
        let back = Thing { living: true, ..self.newest(id).unwrap().clone() };
        self.push(id, back);
        let living: Vec<ObjectId> = self.objects.keys().copied().filter(|one| self.lives(*one)).collect();
        for ((_, from, to), versions) in self.edges.values_mut() {
            let last = versions.last().unwrap().clone();
            let touches = *from == id || *to == id;
            if touches
                && !last.living
                && last.went_with.is_some()
                && living.contains(from)
                && living.contains(to)
            {
                versions.push(Edge { living: true, went_with: None, ..last });
            }
        }
    }

    fn versions(&self) -> usize {
        self.objects.values().map(Vec::len).sum::<usize>()
            + self.edges.values().map(|(_, versions)| versions.len()).sum::<usize>()
    }
}

struct Story {
    graph: Graph,
    actor: Actor,
    dice: StdRng,
    model: Model,
    /// Histories that were read earlier. They must be prefixes of those that are read later.
    seen: BTreeMap<ObjectId, Vec<Object>>,
}

impl Story {
    async fn new(graph: Graph, seed: u64) -> Self {
        let actor = project(&graph, &format!("case-{seed}"), false).await;
        Self {
            graph,
            actor,
            dice: StdRng::seed_from_u64(seed),
            model: Model::default(),
            seen: BTreeMap::new(),
        }
    }

    async fn play(mut self) {
        for _ in 0..self.dice.random_range(5..25) {
            match self.dice.random_range(0..12) {
                0..=2 => self.create().await,
                3 | 4 => self.update().await,
                5 => self.upsert().await,
                6 => self.delete().await,
                7 => self.restore().await,
                8 | 9 => self.create_edge().await,
                10 => self.update_edge().await,
                _ => self.delete_edge().await,
            }
            if self.dice.random_range(0..6) == 0 {
                self.look_back().await;
            }
        }
        self.compare().await;
    }

    fn some_object(&mut self) -> Option<ObjectId> {
        let ids: Vec<ObjectId> = self.model.objects.keys().copied().collect();
        ids.choose(&mut self.dice).copied()
    }

    fn some_edge(&mut self) -> Option<RelationshipId> {
        let ids: Vec<RelationshipId> = self.model.edges.keys().copied().collect();
        ids.choose(&mut self.dice).copied()
    }

    fn word(&mut self, words: &[&str]) -> String {
        (*words.choose(&mut self.dice).unwrap()).to_owned()
    }

    fn type_(&mut self) -> String {
        self.word(&["Task", "Note"])
    }

    fn key(&mut self) -> Option<String> {
        self.dice.random_bool(0.6).then(|| self.word(&["k1", "k2", "k3"]))
    }

    fn status(&mut self) -> Option<String> {
        self.dice.random_bool(0.5).then(|| self.word(&["open", "done"]))
    }

    fn labels(&mut self) -> Vec<String> {
        ["blue", "red"].into_iter().filter(|_| self.dice.random_bool(0.4)).map(str::to_owned).collect()
    }

    fn properties(&mut self) -> Map<String, Value> {
        let values = [
            json!(1),
            json!(1.0),
            json!(2.5),
            json!("text"),
            json!([1, { "a": null }]),
            json!(true),
            Value::Null,
        ];
        ["title", "n", "x"]
            .into_iter()
            .filter(|_| self.dice.random_bool(0.5))
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .into_iter()
            .map(|name| (name, values.choose(&mut self.dice).unwrap().clone()))
            .collect()
    }

    fn new_object(&mut self) -> NewObject {
        NewObject {
            type_: self.type_(),
            key: self.key(),
            status: self.status(),
            labels: self.labels(),
            properties: self.properties(),
        }
    }

    async fn create(&mut self) {
        let new = self.new_object();
        let holder = self.model.holder(&new.type_, new.key.as_deref());
        match (self.graph.create_object(self.actor, new.clone()).await, holder) {
            (Ok(made), None) => {
                self.model.objects.insert(made.id, vec![thing(new)]);
            }
            (Err(Error::KeyTaken { id, .. }), Some(holder)) => assert_eq!(id, holder),
            (outcome, holder) => panic!("{outcome:?} while the holder is {holder:?}"),
        }
    }

    async fn upsert(&mut self) {
        let key = self.word(&["k1", "k2", "k3"]);
        let new = NewObject { key: Some(key), ..self.new_object() };
        let holder = self.model.holder(&new.type_, new.key.as_deref());
        let (object, what) = self.graph.upsert_object(self.actor, new.clone()).await.unwrap();
        match holder {
            None => {
                assert_eq!(what, UpsertOutcome::Created);
                self.model.objects.insert(object.id, vec![thing(new)]);
            }
            Some(holder) => {
                assert_eq!(object.id, holder);
                let before = self.model.newest(holder).unwrap().clone();
                let after = Thing {
                    status: new.status.or(before.status.clone()),
                    labels: if new.labels.is_empty() { before.labels.clone() } else { new.labels },
                    properties: merged(&before.properties, &new.properties),
                    ..before.clone()
                };
                assert_eq!(what == UpsertOutcome::Unchanged, same(&before, &after));
                if !same(&before, &after) {
                    self.model.push(holder, after);
                }
            }
        }
    }

    async fn update(&mut self) {
        let Some(id) = self.some_object() else { return };
        let versions = i64::try_from(self.model.objects[&id].len()).unwrap();
        let patch = ObjectPatch {
            type_: self.dice.random_bool(0.2).then(|| self.type_()),
            key: self.dice.random_bool(0.3).then(|| self.key()),
            status: self.dice.random_bool(0.3).then(|| self.status()),
            labels: self.dice.random_bool(0.3).then(|| self.labels()),
            properties: self.dice.random_bool(0.7).then(|| self.properties()),
            expected_version: self.dice.random_bool(0.3).then(|| self.dice.random_range(1..=versions)),
        };
        let before = self.model.newest(id).unwrap().clone();
        let outcome = self.graph.update_object(self.actor, id, patch.clone()).await;
        if !before.living {
            return assert!(matches!(outcome, Err(Error::NotFound { .. })), "{outcome:?}");
        }
        if patch.expected_version.is_some_and(|expected| expected != versions) {
            let current =
                |error| matches!(error, Error::VersionConflict { current, .. } if current == versions);
            return assert!(outcome.is_err_and(current));
        }
        let after = Thing {
            type_: patch.type_.unwrap_or(before.type_.clone()),
            key: patch.key.unwrap_or(before.key.clone()),
            status: patch.status.unwrap_or(before.status.clone()),
            labels: patch.labels.unwrap_or(before.labels.clone()),
            properties: merged(&before.properties, &patch.properties.unwrap_or_default()),
            living: true,
        };
        let holder = self.model.holder(&after.type_, after.key.as_deref()).filter(|holder| *holder != id);
        match (outcome, holder) {
            (Err(Error::KeyTaken { id, .. }), Some(holder)) => assert_eq!(id, holder),
            (Ok(object), None) if same(&before, &after) => assert_eq!(object.version, versions),
            (Ok(object), None) => {
                assert_eq!(object.version, versions + 1);
                self.model.push(id, after);
            }
            (outcome, holder) => panic!("{outcome:?} while the holder is {holder:?}"),
        }
    }

    async fn delete(&mut self) {
        let Some(id) = self.some_object() else { return };
        match (self.graph.delete_object(self.actor, id, None).await, self.model.lives(id)) {
            (Ok(_), true) => self.model.delete(id),
            (Err(Error::NotFound { .. }), false) => {}
            (outcome, living) => panic!("{outcome:?} while living is {living}"),
        }
    }

    async fn restore(&mut self) {
        let Some(id) = self.some_object() else { return };
        let newest = self.model.newest(id).unwrap().clone();
        let holder = self.model.holder(&newest.type_, newest.key.as_deref());
        match (self.graph.restore_object(self.actor, id).await, newest.living, holder) {
            (Ok(_), true, _) => {}
            (Ok(_), false, None) => self.model.restore(id),
            (Err(Error::KeyTaken { id, .. }), false, Some(holder)) => assert_eq!(id, holder),
            other => panic!("{other:?}"),
        }
    }

    async fn create_edge(&mut self) {
        let (Some(from), Some(to)) = (self.some_object(), self.some_object()) else { return };
        let type_ = self.word(&["blocks", "likes"]);
        let new = NewRelationship { properties: self.properties(), ..edge(&type_, from, to) };
        let place = (type_, from, to);
        let there = self.model.edge_at(&place);
        let living = self.model.lives(from) && self.model.lives(to);
        match (self.graph.create_relationship(self.actor, new.clone()).await, living, there) {
            (Ok((edge, true)), true, None) => {
                let properties = merged(&Map::new(), &new.properties);
                let first = Edge { properties, weight: None, living: true, went_with: None };
                self.model.edges.insert(edge.id, (place, vec![first]));
            }
            (Ok((edge, false)), true, Some(there)) => assert_eq!(edge.id, there),
            (Err(Error::Invalid(_)), false, _) => {}
            other => panic!("{other:?}"),
        }
    }

    async fn update_edge(&mut self) {
        let Some(id) = self.some_edge() else { return };
        let weight = self.dice.random_bool(0.5).then(|| Some(f64::from(self.dice.random_range(0..2))));
        let patch = RelationshipPatch { properties: Some(self.properties()), weight, expected_version: None };
        let outcome = self.graph.update_relationship(self.actor, id, patch.clone()).await;
        let versions = &mut self.model.edges.get_mut(&id).unwrap().1;
        let before = versions.last().unwrap().clone();
        if !before.living {
            return assert!(matches!(outcome, Err(Error::NotFound { .. })), "{outcome:?}");
        }
        let after = Edge {
            properties: merged(&before.properties, &patch.properties.unwrap()),
            weight: weight.unwrap_or(before.weight),
            ..before.clone()
        };
        if canonical(&before.properties) != canonical(&after.properties) || before.weight != after.weight {
            versions.push(after);
        }
        assert_eq!(outcome.unwrap().version, i64::try_from(versions.len()).unwrap());
    }

    async fn delete_edge(&mut self) {
        let Some(id) = self.some_edge() else { return };
        let outcome = self.graph.delete_relationship(self.actor, id, None).await;
        let versions = &mut self.model.edges.get_mut(&id).unwrap().1;
        let before = versions.last().unwrap().clone();
        assert_eq!(outcome.is_ok(), before.living);
        if before.living {
            versions.push(Edge { living: false, ..before });
        }
    }

    async fn look_back(&mut self) {
        if let Some(id) = self.some_object() {
            let history = self.history(id).await;
            self.seen.insert(id, history);
        }
    }

    /// The versions, oldest first.
    async fn history(&self, id: ObjectId) -> Vec<Object> {
        let (graph, project) = (&self.graph, self.actor.project);
        let mut history = all_pages(async |page| graph.object_history(project, id, page).await).await;
        history.reverse();
        history
    }

    async fn compare(mut self) {
        let (graph, project) = (self.graph.clone(), self.actor.project);
        let objects = std::mem::take(&mut self.model.objects);
        for (id, model) in &objects {
            let history = self.history(*id).await;
            let versions: Vec<i64> = history.iter().map(|object| object.version).collect();
            assert_eq!(versions, (1..=i64::try_from(model.len()).unwrap()).collect::<Vec<_>>());
            assert!(history.windows(2).all(|pair| pair[0].updated_at < pair[1].updated_at));
            assert!(history.iter().all(|one| one.created_at == history[0].updated_at));
            for (version, thing) in history.iter().zip(model) {
                assert!(same(&kept(version), thing), "{version:?}\n{thing:?}");
            }
            if let Some(seen) = self.seen.get(id) {
                assert_eq!(seen[..], history[..seen.len()], "history was rewritten");
            }
            match (graph.get_object(project, *id).await, model.last().unwrap().living) {
                (Ok(object), true) => assert_eq!(object, *history.last().unwrap()),
                (Err(Error::NotFound { .. }), false) => {}
                other => panic!("{other:?}"),
            }
        }
        self.model.objects = objects;
        self.compare_edges().await;

        let living: Vec<ObjectId> =
            self.model.objects.keys().copied().filter(|id| self.model.lives(*id)).collect();
        let mut listed: Vec<ObjectId> =
            all_pages(async |page| graph.list_objects(project, ObjectFilter::default(), page).await)
                .await
                .iter()
                .map(|object| object.id)
                .collect();
        listed.sort();
        assert_eq!(listed, living);
        assert_eq!(indexed(&graph, project).await, living);
        assert_eq!(change_kinds(&graph, project).await.len(), self.model.versions());
        assert_eq!(gaps(&graph, project).await, 0);
    }

    async fn compare_edges(&self) {
        let (graph, project) = (&self.graph, self.actor.project);
        let mut living = Vec::new();
        for (id, ((type_, from, to), model)) in &self.model.edges {
            let mut history = graph.relationship_history(project, *id, Page::first(100)).await.unwrap().items;
            history.reverse();
            assert_eq!(history.len(), model.len());
            for (at, (version, edge)) in history.iter().zip(model).enumerate() {
                assert_eq!(version.version, i64::try_from(at + 1).unwrap());
                assert_eq!((&version.type_, version.from, version.to), (type_, *from, *to));
                let kept = (version.weight, version.deleted_at.is_none(), version.deleted_with);
                assert_eq!(kept, (edge.weight, edge.living, edge.went_with));
                assert_eq!(canonical(&version.properties.to_map()), canonical(&edge.properties));
            }
            if model.last().unwrap().living {
                living.push(history.pop().unwrap());
            }
        }
        let mut listed: Vec<Relationship> = all_pages(async |page| {
            graph.list_relationships(project, RelationshipFilter::default(), page).await
        })
        .await;
        listed.sort_by_key(|edge| edge.id);
        assert_eq!(listed, living);
        assert!(living.iter().all(|edge| self.model.lives(edge.from) && self.model.lives(edge.to)));
    }
}

/// Returns the versions whose end is not the start of the next one.
async fn gaps(graph: &Graph, project: ProjectId) -> i64 {
    let of = |versions: &str, newest: &str, id: &str| {
        format!(
            "SELECT count(*) FROM {versions} AS v WHERE v.project_id = $1 AND NOT EXISTS (
                 SELECT 1 FROM {versions} AS n WHERE n.{id} = v.{id} AND n.version = v.version + 1 AND n.updated_at = v.valid_to
                 UNION ALL
                 SELECT 1 FROM {newest} AS n WHERE n.id = v.{id} AND n.version = v.version + 1 AND n.updated_at = v.valid_to)"
        )
    };
    let of_objects = of("graph_object_versions", "graph_objects", "object_id");
    let of_edges = of("graph_relationship_versions", "graph_relationships", "relationship_id");
    graph
        .db()
        .read(move |tx| {
            let mut gaps = 0;
            for sql in [of_objects, of_edges] {
                gaps += tx.query_opt(&sql, &[project.into()], |row| row.get::<i64>(0))?.unwrap_or_default();
            }
            Ok(gaps)
        })
        .await
        .unwrap_or_else(|error: emergent_store::Error| panic!("{error}"))
}

fn thing(new: NewObject) -> Thing {
    Thing {
        type_: new.type_,
        key: new.key,
        status: new.status,
        labels: new.labels,
        properties: merged(&Map::new(), &new.properties),
        living: true,
    }
}

fn kept(object: &Object) -> Thing {
    Thing {
        type_: object.type_.clone(),
        key: object.key.clone(),
        status: object.status.clone(),
        labels: object.labels.clone(),
        properties: object.properties.to_map(),
        living: object.deleted_at.is_none(),
    }
}

fn merged(before: &Map<String, Value>, changes: &Map<String, Value>) -> Map<String, Value> {
    let mut after = before.clone();
    after.extend(changes.clone());
    after.retain(|_, value| !value.is_null());
    after
}

/// `1` and `1.0` are the same number.
fn canonical(properties: &Map<String, Value>) -> String {
    emergent_domain::patch::canonical_json(&Value::Object(properties.clone()))
}

fn same(one: &Thing, other: &Thing) -> bool {
    let but_properties = |thing: &Thing| Thing { properties: Map::new(), ..thing.clone() };
    but_properties(one) == but_properties(other) && canonical(&one.properties) == canonical(&other.properties)
}

/// Runs several sequences concurrently in projects of one database. `SEED` repeats one of them.
async fn stories(db: TestDb, cases: u64, at_once: usize) {
    let fixed = std::env::var("SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let first = fixed.unwrap_or_else(|| rand::random::<u32>().into());
    let cases = if fixed.is_some() { 1 } else { cases };
    println!("seeds {first} to {}; play one again with SEED=…", first + cases - 1);
    // The clock does not advance, so every version must still get its own timestamp.
    let graph = Graph::new(db.db.clone(), fixed_clock(), None);
    stream::iter(first..first + cases)
        .map(|seed| {
            let graph = graph.clone();
            async move {
                let story = async { Story::new(graph, seed).await.play().await };
                if let Err(panic) = AssertUnwindSafe(story).catch_unwind().await {
                    eprintln!("that was SEED={seed}");
                    std::panic::resume_unwind(panic);
                }
            }
        })
        .buffer_unordered(at_once)
        .collect::<Vec<()>>()
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_story_is_kept_as_it_was_told_on_sqlite() {
    stories(TestDb::sqlite().await, 1_000, 64).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_story_is_kept_as_it_was_told_on_postgres() {
    stories(TestDb::postgres().await, 60, 12).await;
}
