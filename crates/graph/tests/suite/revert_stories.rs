//! Random sequences in which a run writes concurrently with others and is then reverted. The
//! message of a failure contains the seed.

use crate::support;

use std::collections::{BTreeMap, HashSet};

use emergent_domain::{
    author::Author,
    cursor::Page,
    ids::{ObjectId, RelationshipId, RunId, ToolCallId},
    object::{Object, ObjectPatch},
    relationship::{Relationship, RelationshipPatch},
};
use emergent_graph::{Actor, Graph, revert::RevertReport};
use emergent_testkit::{TestDb, both_engines};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use support::*;

const STORIES: u64 = 12;

struct Story {
    harness: Harness,
    run: RunId,
    agent: Actor,
    objects: Vec<ObjectId>,
    edges: Vec<RelationshipId>,
    dice: StdRng,
}

impl Story {
    async fn new(db: &TestDb, seed: u64) -> Self {
        let graph = Graph::new(db.db.clone(), emergent_testkit::fixed_clock(), None);
        let actor = project(&graph, &format!("story-{seed}"), false).await;
        let run = RunId::new();
        let agent =
            Actor { author: Author::Run { run_id: run, tool_call_id: Some(ToolCallId::new()) }, ..actor };
        let dice = StdRng::seed_from_u64(seed);
        Self { harness: Harness { graph, actor }, run, agent, objects: Vec::new(), edges: Vec::new(), dice }
    }

    fn key(&mut self) -> Option<String> {
        ["a", "b", "c", "d"].get(self.dice.random_range(0..8)).map(|key| (*key).to_owned())
    }

    fn properties(&mut self) -> Value {
        json!({ "n": self.dice.random_range(0..4), "deep": { "m": self.dice.random_range(0..2) } })
    }

    /// Makes one random write. Writes that the graph rejects are ignored.
    async fn write(&mut self, by: Actor) {
        let graph = self.harness.graph.clone();
        let object = self.objects.choose(&mut self.dice).copied();
        let other = self.objects.choose(&mut self.dice).copied();
        let link = self.edges.choose(&mut self.dice).copied();
        match (self.dice.random_range(0..14), object, other, link) {
            (0..=2, ..) | (_, None, ..) => {
                let key = self.key().unwrap_or_default();
                let wanted = new("note", &key, self.properties());
                if let Ok(made) = graph.create_object(by, wanted).await {
                    self.objects.push(made.id);
                }
            }
            (3..=5, Some(id), ..) => {
                let mut patch =
                    ObjectPatch { properties: Some(map(self.properties())), ..ObjectPatch::default() };
                if self.dice.random_bool(0.5) {
                    patch.key = Some(self.key());
                }
                if self.dice.random_bool(0.3) {
                    patch.properties = Some(map(json!({ "n": null, "extra": [1] })));
                }
                let _ = graph.update_object(by, id, patch).await;
            }
            (6..=7, Some(id), ..) => drop(graph.delete_object(by, id, None).await),
            (8, Some(id), ..) => drop(graph.restore_object(by, id).await),
            (9..=11, Some(from), Some(to), _) => {
                if let Ok((made, true)) = graph.create_relationship(by, edge("about", from, to)).await {
                    self.edges.push(made.id);
                }
            }
            (12, _, _, Some(id)) => drop(graph.delete_relationship(by, id, None).await),
            (13, _, _, Some(id)) => {
                let weight = Some(Some(f64::from(self.dice.random_range(0..3)) / 4.0));
                let patch = RelationshipPatch { weight, ..RelationshipPatch::default() };
                let _ = graph.update_relationship(by, id, patch).await;
            }
            _ => {}
        }
    }

    async fn versions(&self) -> Versions {
        let (graph, project) = (&self.harness.graph, self.harness.project());
        let mut all = Versions::default();
        for id in &self.objects {
            let mut versions = graph.object_history(project, *id, Page::first(100)).await.unwrap().items;
            versions.reverse();
            all.objects.insert(*id, versions);
        }
        for id in &self.edges {
            let mut versions =
                graph.relationship_history(project, *id, Page::first(100)).await.unwrap().items;
            versions.reverse();
            all.edges.insert(*id, versions);
        }
        all
    }

    async fn revert(&self) -> RevertReport {
        self.harness.graph.revert_run(self.harness.actor, self.run).await.unwrap()
    }
}

/// Every version of all entities, oldest first.
#[derive(Default)]
struct Versions {
    objects: BTreeMap<ObjectId, Vec<Object>>,
    edges: BTreeMap<RelationshipId, Vec<Relationship>>,
}

/// The content of an object, or `None` if it is deleted.
fn says(object: &Object) -> Option<Value> {
    let Object { type_, key, status, labels, properties, .. } = object;
    object.deleted_at.is_none().then(|| json!([type_, key, status, labels, properties.to_map()]))
}

fn edge_says(edge: &Relationship) -> Option<Value> {
    edge.deleted_at
        .is_none()
        .then(|| json!([edge.from, edge.type_, edge.to, edge.weight, edge.properties.to_map()]))
}

impl Versions {
    /// Returns all live entities with their content.
    fn living(&self) -> BTreeMap<uuid::Uuid, Value> {
        let objects = self.objects.iter().filter_map(|(id, all)| Some((id.0, says(all.last()?)?)));
        let edges = self.edges.iter().filter_map(|(id, all)| Some((id.0, edge_says(all.last()?)?)));
        objects.chain(edges).collect()
    }

    /// Checks that no edge has a deleted end, and that no two edges are equal.
    fn check(&self) {
        let mut places = HashSet::new();
        for edge in self.edges.values().filter_map(|all| all.last()).filter(|edge| edge.deleted_at.is_none())
        {
            for end in [edge.from, edge.to] {
                assert!(self.objects[&end].last().unwrap().deleted_at.is_none(), "an edge leads nowhere");
            }
            assert!(places.insert((edge.from, edge.to)), "two edges in one place");
        }
    }
}

/// How the run changed an entity, according to the authors of its versions.
enum Touch<'a, T> {
    Never,
    /// Nobody else wrote after the first write of the run. Holds the version before it.
    Alone(Option<&'a T>),
    /// Others wrote after the first write of the run.
    NotAlone,
}

fn touch<T>(versions: &[T], is_runs: impl Fn(&T) -> bool) -> Touch<'_, T> {
    match versions.iter().position(&is_runs) {
        None => Touch::Never,
        Some(first) if versions[first..].iter().all(is_runs) => {
            Touch::Alone(first.checked_sub(1).map(|before| &versions[before]))
        }
        Some(_) => Touch::NotAlone,
    }
}

both_engines! {
    async fn a_run_that_wrote_alone_leaves_no_trace(db: TestDb) {
        for seed in 0..STORIES {
            println!("seed {seed}");
            let mut story = Story::new(&db, seed).await;
            for _ in 0..25 {
                story.write(story.harness.actor).await;
            }
            let before = story.versions().await.living();
            for _ in 0..40 {
                story.write(story.agent).await;
            }
            let report = story.revert().await;
            assert_eq!(report.conflicts, [], "seed {seed}");
            let after = story.versions().await;
            assert_eq!(after.living(), before, "seed {seed}");
            after.check();
            let living: Vec<ObjectId> =
                story.objects.iter().copied().filter(|id| before.contains_key(&id.0)).collect();
            let mut found = indexed(&story.harness.graph, story.harness.project()).await;
            found.retain(|id| story.objects.contains(id));
            assert_eq!(found, { let mut ids = living; ids.sort(); ids }, "seed {seed}: the text index");
        }
    }

    async fn what_nobody_touched_since_is_as_before_and_the_rest_is_as_it_was_left(db: TestDb) {
        for seed in 0..STORIES {
            println!("seed {seed}");
            let mut story = Story::new(&db, 1_000 + seed).await;
            for _ in 0..60 {
                let by = if story.dice.random_bool(0.4) { story.agent } else { story.harness.actor };
                story.write(by).await;
            }
            let before = story.versions().await;
            let report = story.revert().await;
            let refused: HashSet<uuid::Uuid> = report.conflicts.iter().map(|conflict| conflict.id).collect();
            let after = story.versions().await;
            after.check();
            let is_runs = |author: Author| author == story.agent.author;

            for (id, versions) in &before.objects {
                let left = versions.last().unwrap();
                let now = after.objects[id].last().unwrap();
                match touch(versions, |object| is_runs(object.author)) {
                    Touch::Alone(was) if !refused.contains(&id.0) => {
                        assert_eq!(says(now), was.and_then(says), "seed {seed}: {id} as before");
                    }
                    _ => assert_eq!(says(now), says(left), "seed {seed}: {id} as it was left"),
                }
            }
            for (id, versions) in &before.edges {
                let left = versions.last().unwrap();
                let now = after.edges[id].last().unwrap();
                match touch(versions, |edge| is_runs(edge.author)) {
                    Touch::Alone(was) if !refused.contains(&id.0) => {
                        assert_eq!(edge_says(now), was.and_then(edge_says), "seed {seed}: {id} as before");
                    }
                    // Otherwise the edge was restored with an end that the run had deleted.
                    _ if left.deleted_with.is_some() => {}
                    _ => assert_eq!(edge_says(now), edge_says(left), "seed {seed}: {id} as it was left"),
                }
            }

            let told = story.harness.change_kinds().await.len();
            let again = story.revert().await;
            assert_eq!(again.undone, [], "seed {seed}: a second time");
            assert_eq!(again.conflicts.len(), report.conflicts.len(), "seed {seed}: a second time");
            assert_eq!(story.harness.change_kinds().await.len(), told, "seed {seed}: a second time");
        }
    }
}
