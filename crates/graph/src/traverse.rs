//! Walking the graph: breadth first from some objects, and the shortest way between two. Both see
//! one moment, and give the same answer for the same graph.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    invalid::Invalid,
    object::Object,
    query::{Direction, FoundPath, Node, PathQuery, Subgraph, TraverseQuery, check_types},
    relationship::Relationship,
};
use emergent_store::{
    Tx,
    traversal::{EdgeDirection, EdgeRef, Hop, Traversal},
};

use crate::{
    Graph,
    error::{Error, Result},
};

impl Graph {
    /// What is around some objects. `NotFound` when one of them is not there.
    pub async fn traverse(&self, project: ProjectId, query: TraverseQuery) -> Result<Subgraph> {
        query.check()?;
        self.db().snapshot(move |tx| traverse(tx, project, &query)).await
    }

    /// The shortest path, `None` when there is none of at most `max_depth` edges. `NotFound` when
    /// one of the ends is not there.
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
    let walk = Traversal { project, relationship_types: &query.relationship_types, as_of: query.as_of };
    let mut found = TraversalState {
        traversal: walk,
        query,
        nodes: Vec::new(),
        visited: HashSet::new(),
        hops: Vec::new(),
        truncated: false,
    };
    found.start(tx)?;
    let mut expanded = 0;
    for depth in 1..=query.max_depth {
        let level: Vec<ObjectId> = found.nodes[expanded..].iter().map(|node| node.object.id).collect();
        if level.is_empty() || found.truncated {
            break;
        }
        expanded = found.nodes.len();
        found.expand(tx, &level, depth)?;
    }
    let last: Vec<ObjectId> = found.nodes[expanded..].iter().map(|node| node.object.id).collect();
    found.finish(tx, &last)
}

/// What a traversal has so far.
struct TraversalState<'a> {
    traversal: Traversal<'a>,
    query: &'a TraverseQuery,
    nodes: Vec<Node>,
    /// Ids that were looked at, returned or not.
    visited: HashSet<ObjectId>,
    /// Every edge at a node that was walked from.
    hops: Vec<Hop>,
    truncated: bool,
}

impl TraversalState<'_> {
    fn start(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        let mut start = self.query.start.clone();
        start.sort_unstable();
        start.dedup();
        let objects = self.traversal.objects(tx, &start, &[])?;
        let missing = start.iter().find(|id| objects.binary_search_by_key(id, |object| &object.id).is_err());
        if let Some(missing) = missing {
            return Err(Error::not_found("object", missing));
        }
        self.visited.extend(&start);
        self.add_nodes(objects, 0);
        Ok(())
    }

    /// Goes one level further from the nodes of the last one.
    fn expand(&mut self, tx: &mut Tx<'_>, level: &[ObjectId], depth: usize) -> Result<()> {
        let mut next = Vec::new();
        for along in edge_directions(self.query.direction) {
            let (known, steps) = (&mut self.visited, &mut self.hops);
            self.traversal.hops(tx, level, *along, |step| {
                steps.push(step);
                let other = other_end(&step, *along);
                if known.insert(other) {
                    next.push(other);
                }
            })?;
        }
        // In order of id, so that a cap keeps the smallest and can stop where it is full.
        next.sort_unstable();
        for some in next.chunks(512) {
            if self.nodes.len() < self.query.max_nodes {
                let objects = self.traversal.objects(tx, some, &self.query.object_types)?;
                self.add_nodes(objects, depth);
            } else if !self.traversal.live_ids(tx, some, &self.query.object_types)?.is_empty() {
                self.truncated = true;
            }
            if self.truncated {
                break;
            }
        }
        Ok(())
    }

    /// Adds objects, which come by id, as far as there is room.
    fn add_nodes(&mut self, objects: Vec<Object>, depth: usize) {
        let room = self.query.max_nodes - self.nodes.len();
        self.truncated |= objects.len() > room;
        self.nodes.extend(objects.into_iter().take(room).map(|object| Node { object, depth }));
    }

    /// Loads the edges between the nodes. Those at a node that was walked from are known by now;
    /// `last` are the nodes that were not.
    fn finish(mut self, tx: &mut Tx<'_>, last: &[ObjectId]) -> Result<Subgraph> {
        let steps = &mut self.hops;
        let along = match self.query.direction {
            Direction::Out | Direction::Both => EdgeDirection::Out,
            Direction::In => EdgeDirection::In,
        };
        self.traversal.hops(tx, last, along, |step| steps.push(step))?;
        let nodes: HashSet<ObjectId> = self.nodes.iter().map(|node| node.object.id).collect();
        let between = |step: &&Hop| nodes.contains(&step.from) && nodes.contains(&step.to);
        let mut between: Vec<EdgeRef> = self.hops.iter().filter(between).map(|step| step.edge).collect();
        // Walked both ways, an edge was met from both its ends.
        between.sort_unstable();
        between.dedup();
        // One more than there is room for tells that there are more.
        let smallest = self.traversal.smallest_edges(tx, between, self.query.max_edges + 1)?;
        let mut edges = self.traversal.edges(tx, &smallest)?;
        self.truncated |= edges.len() > self.query.max_edges;
        edges.truncate(self.query.max_edges);
        Ok(Subgraph { nodes: self.nodes, edges, truncated: self.truncated })
    }
}

fn edge_directions(direction: Direction) -> &'static [EdgeDirection] {
    match direction {
        Direction::Out => &[EdgeDirection::Out],
        Direction::In => &[EdgeDirection::In],
        Direction::Both => &[EdgeDirection::Out, EdgeDirection::In],
    }
}

fn other_end(step: &Hop, along: EdgeDirection) -> ObjectId {
    match along {
        EdgeDirection::Out => step.to,
        EdgeDirection::In => step.from,
    }
}

/// Searches from both ends, a level at a time from whichever has fewer objects to go on from.
fn shortest_path(tx: &mut Tx<'_>, project: ProjectId, query: &PathQuery) -> Result<Option<FoundPath>> {
    let walk = Traversal { project, relationship_types: &query.relationship_types, as_of: query.as_of };
    for end in [query.from, query.to] {
        if walk.live_ids(tx, &[end], &[])?.is_empty() {
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
        // In the order in which they were reached, so the first has the smallest ids before it.
        if let Some(meeting) = ahead.level.iter().find(|id| behind.next.contains_key(id)) {
            let mut path = ahead.path_to(*meeting);
            path.reverse();
            path.extend(behind.path_to(*meeting).into_iter().skip(1));
            return load_path(tx, &walk, &path, query.direction).map(Some);
        }
        if ahead.depth + behind.depth == query.max_depth || ahead.level.is_empty() || behind.level.is_empty()
        {
            break;
        }
        if ahead.level.len() <= behind.level.len() {
            ahead.expand(tx, &walk)?
        } else {
            behind.expand(tx, &walk)?
        }
    }
    Ok(None)
}

/// In which order a level is gone on from; the first to reach an object is the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpandOrder {
    /// By the ids on the way to it: right for the first half of a path, which is compared from its
    /// beginning.
    Discovery,
    /// By its own id: right for the second half, where an object chooses the one after it.
    Id,
}

/// One end's part of the search.
struct Frontier {
    direction: Direction,
    order: ExpandOrder,
    depth: usize,
    /// The objects at this depth.
    level: Vec<ObjectId>,
    /// For every object reached, the one before it on the way from this end; the end has itself.
    next: HashMap<ObjectId, ObjectId>,
}

impl Frontier {
    fn new(end: ObjectId, direction: Direction, order: ExpandOrder) -> Self {
        Self { direction, order, depth: 0, level: vec![end], next: HashMap::from([(end, end)]) }
    }

    fn expand(&mut self, tx: &mut Tx<'_>, walk: &Traversal<'_>) -> Result<()> {
        let places: HashMap<ObjectId, usize> = self.level.iter().copied().zip(0..).collect();
        let mut reached: Vec<(usize, ObjectId, ObjectId)> = Vec::new();
        for along in edge_directions(self.direction) {
            walk.hops(tx, &self.level, *along, |step| {
                let (here, there) = match along {
                    EdgeDirection::Out => (step.from, step.to),
                    EdgeDirection::In => (step.to, step.from),
                };
                if !self.next.contains_key(&there) {
                    reached.push((places[&here], there, here));
                }
            })?;
        }
        if walk.as_of.is_some() {
            let ids: Vec<ObjectId> = reached.iter().map(|(_, there, _)| *there).collect();
            let living: HashSet<ObjectId> = walk.live_ids(tx, &ids, &[])?.into_iter().collect();
            reached.retain(|(_, there, _)| living.contains(there));
        }
        // By place in this level, then by id.
        reached.sort_unstable();
        self.level.clear();
        for (_, there, here) in reached {
            match self.next.entry(there) {
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(here);
                    self.level.push(there);
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

    /// The objects from one back to this end.
    fn path_to(&self, mut id: ObjectId) -> Vec<ObjectId> {
        let mut way = vec![id];
        while let Some(next) = self.next.get(&id).filter(|next| **next != id) {
            way.push(*next);
            id = *next;
        }
        way
    }
}

/// The objects of a path, and between each two the edge with the smallest id.
fn load_path(
    tx: &mut Tx<'_>,
    walk: &Traversal<'_>,
    path: &[ObjectId],
    direction: Direction,
) -> Result<FoundPath> {
    let mut objects: HashMap<ObjectId, Object> =
        walk.objects(tx, path, &[])?.into_iter().map(|object| (object.id, object)).collect();
    let mut steps = Vec::new();
    walk.hops(tx, path, EdgeDirection::Out, |step| steps.push(step))?;
    let joins = |from: ObjectId, to: ObjectId, pair: &[ObjectId]| {
        let (out, back) = ((from, to) == (pair[0], pair[1]), (from, to) == (pair[1], pair[0]));
        match direction {
            Direction::Out => out,
            Direction::In => back,
            Direction::Both => out || back,
        }
    };
    let on_path = |step: &Hop| path.windows(2).any(|pair| joins(step.from, step.to, pair));
    let refs: Vec<EdgeRef> = steps.iter().filter(|step| on_path(step)).map(|step| step.edge).collect();
    let all: Vec<Relationship> = walk.edges(tx, &refs)?;
    let smallest = |pair: &[ObjectId]| all.iter().find(|edge| joins(edge.from, edge.to, pair)).cloned();
    Ok(FoundPath {
        edges: path.windows(2).filter_map(smallest).collect(),
        objects: path.iter().filter_map(|id| objects.remove(id)).collect(),
    })
}
