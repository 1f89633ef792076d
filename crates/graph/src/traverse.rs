//! Graph traversal: breadth-first from a set of objects, and the shortest path between two objects.
//! Both read a single snapshot and are deterministic.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    invalid::Invalid,
    object::Object,
    query::{Direction, FoundPath, Node, PathQuery, Subgraph, TraverseQuery, check_types},
    relationship::Relationship,
};
use emergent_store::{
    Tx,
    traversal::{ByteRoom, EdgeDirection, EdgeRef, Hop, Traversal},
};

use crate::{
    Graph,
    error::{Error, Result},
};

/// The maximum size of the objects and edges of a result.
const MAX_BYTES: usize = 16 << 20;
/// The maximum number of edges that a traversal, or a search for a path, looks at.
const MAX_HOPS: usize = 500_000;

impl Graph {
    /// Returns the neighbourhood of a set of objects. Returns `NotFound` if one of them does not
    /// exist.
    pub async fn traverse(&self, project: ProjectId, query: TraverseQuery) -> Result<Subgraph> {
        query.check()?;
        self.db().snapshot(move |tx| traverse(tx, project, &query)).await
    }

    /// Returns the shortest path, or `None` if there is none with at most `max_depth` edges.
    /// Returns `NotFound` if one of the ends does not exist.
    pub async fn shortest_path(&self, project: ProjectId, query: PathQuery) -> Result<Option<FoundPath>> {
        if query.max_depth > TraverseQuery::MAX_DEPTH {
            return Err(Invalid::new("maxDepth", format!("must be 0 to {}", TraverseQuery::MAX_DEPTH)).into());
        }
        if query.relationship_types.len() > 100 {
            return Err(Invalid::new("relationshipTypes", "must be 0 to 100").into());
        }
        check_types("relationshipTypes", &query.relationship_types)?;
        self.db().snapshot(move |tx| shortest_path(tx, project, &query)).await
    }
}

fn traverse(tx: &mut Tx<'_>, project: ProjectId, query: &TraverseQuery) -> Result<Subgraph> {
    let traversal = Traversal { project, relationship_types: &query.relationship_types, as_of: query.as_of };
    let mut state = TraversalState {
        traversal,
        query,
        nodes: Vec::new(),
        visited: HashSet::new(),
        hops: Vec::new(),
        room: ByteRoom::new(MAX_BYTES),
        truncated: false,
    };
    state.start(tx)?;
    let mut expanded = 0;
    for depth in 1..=query.max_depth {
        let level: Vec<ObjectId> = state.nodes[expanded..].iter().map(|node| node.object.id).collect();
        if level.is_empty() || state.truncated {
            break;
        }
        expanded = state.nodes.len();
        state.expand(tx, &level, depth)?;
    }
    let last: Vec<ObjectId> = state.nodes[expanded..].iter().map(|node| node.object.id).collect();
    state.finish(tx, &last)
}

/// The state of a traversal in progress.
struct TraversalState<'a> {
    traversal: Traversal<'a>,
    query: &'a TraverseQuery,
    nodes: Vec<Node>,
    /// All ids that were visited, whether they are returned or not.
    visited: HashSet<ObjectId>,
    /// All edges of the nodes that were expanded.
    hops: Vec<Hop>,
    room: ByteRoom,
    truncated: bool,
}

impl TraversalState<'_> {
    fn start(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        let mut start = self.query.start.clone();
        start.sort_unstable();
        start.dedup();
        let mut live = self.traversal.live_ids(tx, &start, &[])?;
        live.sort_unstable();
        if let Some(missing) = start.iter().find(|id| live.binary_search(id).is_err()) {
            return Err(Error::not_found("object", missing));
        }
        let objects = self.traversal.objects(tx, &start, &[], &mut self.room)?;
        self.visited.extend(&start);
        self.add_nodes(objects, 0);
        Ok(())
    }

    /// Expands the nodes of the last level by one more level.
    fn expand(&mut self, tx: &mut Tx<'_>, level: &[ObjectId], depth: usize) -> Result<()> {
        let mut next = Vec::new();
        for along in edge_directions(self.query.direction) {
            let (visited, hops) = (&mut self.visited, &mut self.hops);
            let flow = self.traversal.hops(tx, level, *along, |hop| {
                hops.push(hop);
                let neighbour = other_end(&hop, *along);
                if visited.insert(neighbour) {
                    next.push(neighbour);
                }
                continue_up_to(MAX_HOPS, hops.len())
            })?;
            self.truncated |= flow.is_break();
        }
        // The ids are sorted, so that a limit keeps the smallest ones and the expansion can stop
        // there.
        next.sort_unstable();
        for batch in next.chunks(512) {
            if self.nodes.len() < self.query.max_nodes {
                let objects = self.traversal.objects(tx, batch, &self.query.object_types, &mut self.room)?;
                self.add_nodes(objects, depth);
            } else if !self.traversal.live_ids(tx, batch, &self.query.object_types)?.is_empty() {
                self.truncated = true;
            }
            if self.truncated {
                break;
            }
        }
        Ok(())
    }

    /// Adds objects, which are sorted by id, up to the limit.
    fn add_nodes(&mut self, objects: Vec<Object>, depth: usize) {
        let room = self.query.max_nodes - self.nodes.len();
        self.truncated |= objects.len() > room || self.room.is_full();
        self.nodes.extend(objects.into_iter().take(room).map(|object| Node { object, depth }));
    }

    /// Loads the edges between the nodes. The edges of expanded nodes have already been collected;
    /// `last` holds the nodes that were not expanded.
    fn finish(mut self, tx: &mut Tx<'_>, last: &[ObjectId]) -> Result<Subgraph> {
        let steps = &mut self.hops;
        let along = match self.query.direction {
            Direction::Out | Direction::Both => EdgeDirection::Out,
            Direction::In => EdgeDirection::In,
        };
        let flow = self.traversal.hops(tx, last, along, |step| {
            steps.push(step);
            continue_up_to(2 * MAX_HOPS, steps.len())
        })?;
        self.truncated |= flow.is_break();
        let nodes: HashSet<ObjectId> = self.nodes.iter().map(|node| node.object.id).collect();
        let between = |step: &&Hop| nodes.contains(&step.from) && nodes.contains(&step.to);
        let mut between: Vec<EdgeRef> = self.hops.iter().filter(between).map(|step| step.edge).collect();
        // If both directions are traversed, an edge is found from both of its ends.
        between.sort_unstable();
        between.dedup();
        // One edge more than the limit shows that the result is truncated.
        let smallest = self.traversal.smallest_edges(tx, between, self.query.max_edges + 1)?;
        let mut edges = self.traversal.edges(tx, &smallest, &mut self.room)?;
        self.truncated |= edges.len() > self.query.max_edges || self.room.is_full();
        edges.truncate(self.query.max_edges);
        Ok(Subgraph { nodes: self.nodes, edges, truncated: self.truncated })
    }
}

/// Continues until `count` has reached the maximum.
fn continue_up_to(max: usize, count: usize) -> ControlFlow<()> {
    if count < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

fn edge_directions(direction: Direction) -> &'static [EdgeDirection] {
    match direction {
        Direction::Out => &[EdgeDirection::Out],
        Direction::In => &[EdgeDirection::In],
        Direction::Both => &[EdgeDirection::Out, EdgeDirection::In],
    }
}

fn other_end(hop: &Hop, along: EdgeDirection) -> ObjectId {
    match along {
        EdgeDirection::Out => hop.to,
        EdgeDirection::In => hop.from,
    }
}

/// Searches from both ends, one level at a time, always from the end with the smaller frontier.
fn shortest_path(tx: &mut Tx<'_>, project: ProjectId, query: &PathQuery) -> Result<Option<FoundPath>> {
    let traversal = Traversal { project, relationship_types: &query.relationship_types, as_of: query.as_of };
    for end in [query.from, query.to] {
        if traversal.live_ids(tx, &[end], &[])?.is_empty() {
            return Err(Error::not_found("object", end));
        }
    }
    let back = match query.direction {
        Direction::Out => Direction::In,
        Direction::In => Direction::Out,
        Direction::Both => Direction::Both,
    };
    let mut ahead = Frontier::new(query.from, query.direction, ExpandOrder::Discovery);
    let mut behind = Frontier::new(query.to, back, ExpandOrder::Id);
    for _ in 0..=query.max_depth {
        // The level is in discovery order, so the first match has the smallest ids before it.
        if let Some(meeting) = ahead.level.iter().find(|id| behind.next.contains_key(id)) {
            let mut path = ahead.path_to(*meeting);
            path.reverse();
            path.extend(behind.path_to(*meeting).into_iter().skip(1));
            return load_path(tx, &traversal, &path, query.direction).map(Some);
        }
        if ahead.depth + behind.depth == query.max_depth || ahead.level.is_empty() || behind.level.is_empty()
        {
            break;
        }
        if ahead.level.len() <= behind.level.len() {
            ahead.expand(tx, &traversal)?
        } else {
            behind.expand(tx, &traversal)?
        }
    }
    Ok(None)
}

/// The order in which a level is expanded. The first object that reaches another one becomes its
/// predecessor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpandOrder {
    /// By the ids on the path to it. This is correct for the first half of a path, which is
    /// compared from its start.
    Discovery,
    /// By its own id. This is correct for the second half, where an object chooses its successor.
    Id,
}

/// The search from one end.
struct Frontier {
    direction: Direction,
    order: ExpandOrder,
    depth: usize,
    /// The objects at the current depth.
    level: Vec<ObjectId>,
    /// For every reached object, its predecessor on the path from this end. The end maps to itself.
    next: HashMap<ObjectId, ObjectId>,
}

impl Frontier {
    fn new(end: ObjectId, direction: Direction, order: ExpandOrder) -> Self {
        Self { direction, order, depth: 0, level: vec![end], next: HashMap::from([(end, end)]) }
    }

    fn expand(&mut self, tx: &mut Tx<'_>, traversal: &Traversal<'_>) -> Result<()> {
        let positions: HashMap<ObjectId, usize> = self.level.iter().copied().zip(0..).collect();
        let mut reached: Vec<(usize, ObjectId, ObjectId)> = Vec::new();
        for along in edge_directions(self.direction) {
            let flow = traversal.hops(tx, &self.level, *along, |hop| {
                let (current, neighbour) = match along {
                    EdgeDirection::Out => (hop.from, hop.to),
                    EdgeDirection::In => (hop.to, hop.from),
                };
                if !self.next.contains_key(&neighbour) {
                    reached.push((positions[&current], neighbour, current));
                }
                continue_up_to(MAX_HOPS, self.next.len() + reached.len())
            })?;
            if flow.is_break() {
                let reason =
                    format!("leads to more than {MAX_HOPS} edges; lower it, or name relationshipTypes");
                return Err(Invalid::new("maxDepth", reason).into());
            }
        }
        // A deleted object may still have edges for a while.
        let ids: Vec<ObjectId> = reached.iter().map(|(_, neighbour, _)| *neighbour).collect();
        let live: HashSet<ObjectId> = traversal.live_ids(tx, &ids, &[])?.into_iter().collect();
        reached.retain(|(_, neighbour, _)| live.contains(neighbour));
        // The candidates are sorted by the position of their predecessor in this level, then by id.
        reached.sort_unstable();
        self.level.clear();
        for (_, neighbour, current) in reached {
            match self.next.entry(neighbour) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(current);
                    self.level.push(neighbour);
                }
                std::collections::hash_map::Entry::Occupied(_) => {}
            }
        }
        if self.order == ExpandOrder::Id {
            self.level.sort_unstable();
        }
        self.depth += 1;
        Ok(())
    }

    /// Returns the objects from `id` back to this end.
    fn path_to(&self, mut id: ObjectId) -> Vec<ObjectId> {
        let mut way = vec![id];
        while let Some(next) = self.next.get(&id).filter(|next| **next != id) {
            way.push(*next);
            id = *next;
        }
        way
    }
}

/// Loads the objects of a path, and between consecutive objects the edge with the smallest id.
fn load_path(
    tx: &mut Tx<'_>,
    traversal: &Traversal<'_>,
    path: &[ObjectId],
    direction: Direction,
) -> Result<FoundPath> {
    let mut sorted = path.to_vec();
    sorted.sort_unstable();
    // Every object of a path is returned; there are at most `MAX_DEPTH` + 1.
    let mut room = ByteRoom::new(usize::MAX);
    let mut objects: HashMap<ObjectId, Object> = traversal
        .objects(tx, &sorted, &[], &mut room)?
        .into_iter()
        .map(|object| (object.id, object))
        .collect();
    let joins = |from: ObjectId, to: ObjectId, pair: &[ObjectId]| {
        let (out, back) = ((from, to) == (pair[0], pair[1]), (from, to) == (pair[1], pair[0]));
        match direction {
            Direction::Out => out,
            Direction::In => back,
            Direction::Both => out || back,
        }
    };
    let on_path = |hop: &Hop| path.windows(2).any(|pair| joins(hop.from, hop.to, pair));
    let mut refs: Vec<EdgeRef> = Vec::new();
    let _ = traversal.hops(tx, path, EdgeDirection::Out, |hop| {
        refs.extend(on_path(&hop).then_some(hop.edge));
        ControlFlow::Continue(())
    })?;
    let all: Vec<Relationship> = traversal.edges(tx, &refs, &mut ByteRoom::new(MAX_BYTES))?;
    let smallest = |pair: &[ObjectId]| all.iter().find(|edge| joins(edge.from, edge.to, pair)).cloned();
    Ok(FoundPath {
        edges: path.windows(2).filter_map(smallest).collect(),
        objects: path.iter().filter_map(|id| objects.remove(id)).collect(),
    })
}
