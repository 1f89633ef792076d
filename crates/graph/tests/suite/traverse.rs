//! Traversal, compared with a naive model in memory.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use emergent_domain::{
    ids::{ObjectId, ProjectId, RelationshipId},
    query::{Direction, PathQuery, TraverseQuery},
    time::Timestamp,
};
use emergent_graph::{Actor, Error, Graph};
use emergent_testkit::{TestDb, both_engines, fixed_clock};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;

use crate::support;
use support::{Harness, edge, new, project};

fn from(start: ObjectId) -> TraverseQuery {
    TraverseQuery {
        start: vec![start],
        direction: Direction::Out,
        max_depth: 2,
        relationship_types: Vec::new(),
        object_types: Vec::new(),
        max_nodes: 100,
        max_edges: 100,
        as_of: None,
    }
}

fn path(from: ObjectId, to: ObjectId) -> PathQuery {
    PathQuery {
        from,
        to,
        direction: Direction::Out,
        relationship_types: Vec::new(),
        max_depth: 8,
        as_of: None,
    }
}

both_engines! {
    async fn a_walk_goes_as_deep_as_asked_and_shows_the_edges_between(db: TestDb) {
        let harness = Harness::new(&db).await;
        let mut ids = Vec::new();
        for name in ["a", "b", "c", "d"] {
            ids.push(harness.object(new("Thing", name, json!({}))).await);
        }
        for (from, to) in [(0, 1), (1, 2), (2, 3), (2, 1)] {
            harness.edge("to", ids[from], ids[to]).await;
        }
        let found = harness.graph.traverse(harness.project(), from(ids[0])).await.unwrap();
        let nodes: Vec<_> = found.nodes.iter().map(|node| (node.object.key.clone().unwrap(), node.depth)).collect();
        assert_eq!(nodes, [("a".to_owned(), 0), ("b".to_owned(), 1), ("c".to_owned(), 2)]);
        // The result contains the edge that leads back from the last level, which is not expanded.
        assert_eq!(found.edges.len(), 3);
        assert!(!found.truncated, "depth is no cap");
    }

    async fn edges_beyond_the_cap_are_not_even_read(db: TestDb) {
        let harness = Harness::new(&db).await;
        let (a, b) = (harness.object(new("Thing", "a", json!({}))).await, harness.object(new("Thing", "b", json!({}))).await);
        let mut edges = Vec::new();
        for n in 0..5 {
            edges.push(harness.edge(&format!("to{n}"), a, b).await.id);
        }
        edges.sort();
        let now = harness.graph.clock().now();
        // A type name with NUL cannot exist in the database.
        let last = edges[4];
        let spoil = "UPDATE graph_relationships SET created_at = 'infinity' WHERE id = $1";
        harness.graph.db().write(move |tx| tx.execute(spoil, &[last.into()])).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        for as_of in [None, Some(now)] {
            let query = |max_edges| TraverseQuery { max_edges, as_of, ..from(a) };
            let found = harness.graph.traverse(harness.project(), query(3)).await.unwrap();
            assert_eq!(found.edges.iter().map(|edge| edge.id).collect::<Vec<_>>(), edges[..3]);
            assert!(found.truncated);
            assert!(harness.graph.traverse(harness.project(), query(5)).await.is_err(), "the last edge is spoilt");
        }
    }

    async fn a_start_that_is_not_there_is_not_found(db: TestDb) {
        let harness = Harness::new(&db).await;
        let other = project(&harness.graph, "other", false).await;
        let elsewhere = harness.graph.create_object(other, new("Thing", "a", json!({}))).await.unwrap().id;
        let here = harness.object(new("Thing", "a", json!({}))).await;
        for wrong in [elsewhere, ObjectId::new()] {
            let mut query = from(here);
            query.start.push(wrong);
            let failed = harness.graph.traverse(harness.project(), query).await;
            assert!(matches!(failed, Err(Error::NotFound { id, .. }) if id == wrong.to_string()));
            for (from, to) in [(here, wrong), (wrong, here)] {
                let failed = harness.graph.shortest_path(harness.project(), path(from, to)).await;
                assert!(matches!(failed, Err(Error::NotFound { id, .. }) if id == wrong.to_string()));
            }
        }
    }

    async fn the_shortest_path_is_the_one_with_the_smallest_ids(db: TestDb) {
        let harness = Harness::new(&db).await;
        let mut ids = Vec::new();
        for _ in 0..7 {
            ids.push(harness.object(new("Thing", "", json!({}))).await);
        }
        ids.sort();
        // Three paths of the same length from 0 to 6, and a longer one.
        for (from, to) in [(0, 5), (5, 6), (0, 2), (2, 6), (0, 3), (3, 6), (0, 1), (1, 4), (4, 6)] {
            harness.edge("to", ids[from], ids[to]).await;
        }
        let found = harness.graph.shortest_path(harness.project(), path(ids[0], ids[6])).await.unwrap().unwrap();
        let way: Vec<_> = found.objects.iter().map(|object| object.id).collect();
        assert_eq!(way, [ids[0], ids[2], ids[6]]);
        let edges: Vec<_> = found.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        assert_eq!(edges, [(ids[0], ids[2]), (ids[2], ids[6])]);
        assert_eq!(harness.graph.shortest_path(harness.project(), path(ids[6], ids[0])).await.unwrap(), None);
        let here = harness.graph.shortest_path(harness.project(), path(ids[6], ids[6])).await.unwrap().unwrap();
        assert_eq!((here.objects.len(), here.edges.len()), (1, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn walks_agree_with_the_model_on_sqlite() {
    agree(TestDb::sqlite().await, 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn walks_agree_with_the_model_on_postgres() {
    agree(TestDb::postgres().await, 100).await;
}

/// Runs this many random graphs with random histories, and a few random queries on each.
async fn agree(db: TestDb, cases: u64) {
    let seed = std::env::var("TEST_SEED").map_or_else(|_| rand::rng().random(), |seed| seed.parse().unwrap());
    println!("TEST_SEED={seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let clock = fixed_clock();
    let graph = Graph::new(db.db.clone(), clock.clone(), None);
    for case in 0..cases {
        let actor = project(&graph, &format!("case-{case}"), false).await;
        let mut story = Story { graph: &graph, actor, moments: Vec::new(), dice: &mut dice };
        story.live(&clock).await;
        for _ in 0..3 {
            story.check_walk().await;
        }
        for _ in 0..2 {
            story.check_path().await;
        }
    }
}

/// The live objects and edges at one time.
#[derive(Clone, Default)]
struct Model {
    objects: BTreeMap<ObjectId, String>,
    edges: BTreeMap<RelationshipId, (String, ObjectId, ObjectId)>,
}

struct Story<'a> {
    graph: &'a Graph,
    actor: Actor,
    moments: Vec<(Timestamp, Model)>,
    dice: &'a mut StdRng,
}

impl Story<'_> {
    /// Creates a graph and changes it several times, recording each state.
    async fn live(&mut self, clock: &emergent_domain::time::Clock) {
        let mut ids = Vec::new();
        let size = self.dice.random_range(2..12);
        let objects = (0..size).map(|_| new(self.type_(), "", json!({}))).collect();
        for made in self.graph.bulk_create_objects(self.actor, objects, true).await.unwrap() {
            ids.push(made.unwrap().id);
        }
        let edges: Vec<_> = (0..self.dice.random_range(0..3 * size))
            .map(|_| edge(self.kind(), self.one(&ids), self.one(&ids)))
            .collect();
        self.graph.bulk_create_relationships(self.actor, edges, false).await.unwrap();
        self.remember(clock).await;
        for _ in 0..self.dice.random_range(0..5) {
            self.change(&ids).await;
            self.remember(clock).await;
        }
    }

    async fn change(&mut self, ids: &[ObjectId]) {
        let (one, other, kind, type_) = (self.one(ids), self.one(ids), self.kind(), self.type_());
        let edges: Vec<RelationshipId> = self.moments.last().unwrap().1.edges.keys().copied().collect();
        // A rejected write, for example of a deleted object, changes nothing.
        match self.dice.random_range(0..6) {
            0 => drop(self.graph.create_relationship(self.actor, edge(kind, one, other)).await),
            1 => drop(self.graph.delete_object(self.actor, one, None).await),
            2 => drop(self.graph.restore_object(self.actor, one).await),
            3 => {
                let patch = emergent_domain::object::ObjectPatch {
                    type_: Some(type_.to_owned()),
                    ..Default::default()
                };
                drop(self.graph.update_object(self.actor, one, patch).await);
            }
            4 => {
                if let Some(edge) = edges.choose(self.dice) {
                    self.graph.delete_relationship(self.actor, *edge, None).await.unwrap();
                }
            }
            _ => {
                if let Some(edge) = edges.choose(self.dice) {
                    let weight = Some(Some(self.dice.random()));
                    let patch =
                        emergent_domain::relationship::RelationshipPatch { weight, ..Default::default() };
                    self.graph.update_relationship(self.actor, *edge, patch).await.unwrap();
                }
            }
        }
    }

    /// Records the current state, and advances the clock.
    async fn remember(&mut self, clock: &emergent_domain::time::Clock) {
        let project = self.actor.project;
        let model = self.graph.db().read(move |tx| living(tx, project)).await.unwrap();
        // The clock advances enough for versions that had to be later than their predecessors.
        clock.advance(Duration::from_millis(1));
        self.moments.push((clock.now(), model));
        clock.advance(Duration::from_millis(1));
    }

    fn type_(&mut self) -> &'static str {
        ["Person", "Place", "Idea"].choose(self.dice).unwrap()
    }

    fn kind(&mut self) -> &'static str {
        ["knows", "near", "of"].choose(self.dice).unwrap()
    }

    fn one(&mut self, ids: &[ObjectId]) -> ObjectId {
        *ids.choose(self.dice).unwrap()
    }

    /// Chooses the current time or a recorded one, with the state at that time.
    fn moment(&mut self) -> (Option<Timestamp>, Model) {
        if self.dice.random_bool(0.5) {
            return (None, self.moments.last().unwrap().1.clone());
        }
        let (at, model) = self.moments.choose(self.dice).unwrap();
        (Some(*at), model.clone())
    }

    fn some(&mut self, names: &[&str]) -> Vec<String> {
        let count = if self.dice.random_bool(0.5) { 0 } else { self.dice.random_range(1..=names.len()) };
        names.choose_multiple(self.dice, count).map(|name| (*name).to_owned()).collect()
    }

    fn direction(&mut self) -> Direction {
        *[Direction::Out, Direction::In, Direction::Both].choose(self.dice).unwrap()
    }

    fn any_ids(&self) -> Vec<ObjectId> {
        self.moments.iter().flat_map(|(_, model)| model.objects.keys().copied()).collect()
    }

    async fn check_walk(&mut self) {
        let (as_of, model) = self.moment();
        let ids = self.any_ids();
        if ids.is_empty() {
            return;
        }
        let cap = |dice: &mut StdRng| if dice.random_bool(0.5) { 100 } else { dice.random_range(1..6) };
        let query = TraverseQuery {
            start: (0..self.dice.random_range(1..3)).map(|_| self.one(&ids)).collect(),
            direction: self.direction(),
            max_depth: self.dice.random_range(0..5),
            relationship_types: self.some(&["knows", "near", "of"]),
            object_types: self.some(&["Person", "Place", "Idea"]),
            max_nodes: cap(self.dice),
            max_edges: cap(self.dice),
            as_of,
        };
        let found = self.graph.traverse(self.actor.project, query.clone()).await;
        match (model.walk(&query), found) {
            (None, Err(Error::NotFound { .. })) => {}
            (Some((nodes, edges, truncated)), Ok(found)) => {
                let found_nodes: Vec<_> =
                    found.nodes.iter().map(|node| (node.depth, node.object.id)).collect();
                assert_eq!(found_nodes, nodes, "{query:?}");
                assert_eq!(found.edges.iter().map(|edge| edge.id).collect::<Vec<_>>(), edges, "{query:?}");
                assert_eq!(found.truncated, truncated, "{query:?}");
                for node in &found.nodes {
                    assert_eq!(node.object.type_, model.objects[&node.object.id]);
                }
            }
            (expected, found) => panic!("expected {expected:?}, got {found:?} for {query:?}"),
        }
    }

    async fn check_path(&mut self) {
        let (as_of, model) = self.moment();
        let ids = self.any_ids();
        if ids.is_empty() {
            return;
        }
        let query = PathQuery {
            from: self.one(&ids),
            to: self.one(&ids),
            direction: self.direction(),
            relationship_types: self.some(&["knows", "near", "of"]),
            max_depth: self.dice.random_range(0..6),
            as_of,
        };
        let found = self.graph.shortest_path(self.actor.project, query.clone()).await;
        match (model.path(&query), found) {
            (None, Err(Error::NotFound { .. })) => {}
            (Some(expected), Ok(found)) => {
                let ids = |found: emergent_domain::query::FoundPath| {
                    let objects: Vec<_> = found.objects.iter().map(|object| object.id).collect();
                    (objects, found.edges.iter().map(|edge| edge.id).collect::<Vec<_>>())
                };
                assert_eq!(found.map(ids), expected, "{query:?}");
            }
            (expected, found) => panic!("expected {expected:?}, got {found:?} for {query:?}"),
        }
    }
}

fn living(tx: &mut emergent_store::Tx<'_>, project: ProjectId) -> emergent_store::Result<Model> {
    let objects = "SELECT id, type FROM graph_objects WHERE project_id = $1 AND deleted_at IS NULL";
    let edges = "SELECT id, type, from_id, to_id FROM graph_relationships WHERE project_id = $1 AND deleted_at IS NULL";
    Ok(Model {
        objects: tx
            .query(objects, &[project.into()], |row| Ok((row.get(0)?, row.get(1)?)))?
            .into_iter()
            .collect(),
        edges: tx
            .query(edges, &[project.into()], |row| {
                Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?)))
            })?
            .into_iter()
            .collect(),
    })
}

type Walked = (Vec<(usize, ObjectId)>, Vec<RelationshipId>, bool);

impl Model {
    fn allowed(list: &[String], type_: &str) -> bool {
        list.is_empty() || list.iter().any(|one| one == type_)
    }

    /// Returns the neighbours of an object.
    fn neighbours(&self, at: ObjectId, direction: Direction, types: &[String]) -> BTreeSet<ObjectId> {
        let mut found = BTreeSet::new();
        for (type_, from, to) in self.edges.values().filter(|edge| Self::allowed(types, &edge.0)) {
            let _ = type_;
            if *from == at && direction != Direction::In {
                found.insert(*to);
            }
            if *to == at && direction != Direction::Out {
                found.insert(*from);
            }
        }
        found
    }

    fn walk(&self, query: &TraverseQuery) -> Option<Walked> {
        let start: BTreeSet<ObjectId> = query.start.iter().copied().collect();
        if start.iter().any(|id| !self.objects.contains_key(id)) {
            return None;
        }
        let mut nodes: Vec<(usize, ObjectId)> = Vec::new();
        let mut known = start.clone();
        let mut level = start;
        let mut truncated = false;
        for depth in 0..=query.max_depth {
            let room = query.max_nodes - nodes.len();
            truncated |= level.len() > room;
            let kept: Vec<ObjectId> = level.into_iter().take(room).collect();
            nodes.extend(kept.iter().map(|id| (depth, *id)));
            if truncated {
                break;
            }
            level = kept
                .iter()
                .flat_map(|id| self.neighbours(*id, query.direction, &query.relationship_types))
                .filter(|id| !known.contains(id) && Self::allowed(&query.object_types, &self.objects[id]))
                .collect();
            known.extend(&level);
        }
        let returned: BTreeSet<ObjectId> = nodes.iter().map(|(_, id)| *id).collect();
        let mut edges: Vec<RelationshipId> = self
            .edges
            .iter()
            .filter(|(_, (type_, from, to))| {
                Self::allowed(&query.relationship_types, type_)
                    && returned.contains(from)
                    && returned.contains(to)
            })
            .map(|(id, _)| *id)
            .collect();
        truncated |= edges.len() > query.max_edges;
        edges.truncate(query.max_edges);
        Some((nodes, edges, truncated))
    }

    /// Returns `None` if an end is missing, and `Some(None)` if there is no path.
    #[expect(clippy::option_option, reason = "two different ways to have no path")]
    fn path(&self, query: &PathQuery) -> Option<Option<(Vec<ObjectId>, Vec<RelationshipId>)>> {
        if !self.objects.contains_key(&query.from) || !self.objects.contains_key(&query.to) {
            return None;
        }
        // Computes the distance of all objects to the end, then always follows the smallest id that
        // is one step nearer.
        let back = match query.direction {
            Direction::Out => Direction::In,
            Direction::In => Direction::Out,
            Direction::Both => Direction::Both,
        };
        let mut far = BTreeMap::from([(query.to, 0)]);
        let mut queue = VecDeque::from([query.to]);
        while let Some(at) = queue.pop_front() {
            for next in self.neighbours(at, back, &query.relationship_types) {
                if !far.contains_key(&next) {
                    far.insert(next, far[&at] + 1);
                    queue.push_back(next);
                }
            }
        }
        if far.get(&query.from).is_none_or(|length| *length > query.max_depth) {
            return Some(None);
        }
        let (mut objects, mut edges, mut at) = (vec![query.from], Vec::new(), query.from);
        while at != query.to {
            let nearer = |id: &ObjectId| far.get(id) == Some(&(far[&at] - 1));
            let next = self
                .neighbours(at, query.direction, &query.relationship_types)
                .into_iter()
                .find(nearer)
                .unwrap();
            let joins = |(type_, from, to): &(String, ObjectId, ObjectId)| {
                let out = *from == at && *to == next && query.direction != Direction::In;
                let back = *to == at && *from == next && query.direction != Direction::Out;
                Self::allowed(&query.relationship_types, type_) && (out || back)
            };
            edges.push(*self.edges.iter().find(|(_, edge)| joins(edge)).unwrap().0);
            objects.push(next);
            at = next;
        }
        Some(Some((objects, edges)))
    }
}
