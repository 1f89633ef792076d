//! Tasks never wait for one another in a circle.

use std::collections::{HashMap, VecDeque};

use emergent_domain::{
    ids::ObjectId,
    invalid::Invalid,
    relationship::Relationship,
    task::{self, BLOCKS_TYPE},
};
use emergent_store::{Tx, tasks as rows};

use crate::{Error, WriteContext, error::Result};

/// Refuses those of these new edges that would close a circle.
pub(crate) fn reject_cycles(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    edges: &mut [Result<Relationship, Invalid>],
) -> Result<()> {
    let blocks = |at: usize| edges[at].as_ref().ok().filter(|edge| edge.type_ == BLOCKS_TYPE);
    let mut new: Vec<(usize, Edge)> =
        (0..edges.len()).filter_map(|at| blocks(at).map(|edge| (at, (edge.from, edge.to)))).collect();
    retain_task_edges(tx, writer, &mut new)?;
    for (at, circle) in find_cycles(tx, writer, &new)? {
        edges[at] = Err(Invalid::new("toId", circle));
    }
    Ok(())
}

/// Whether edges between tasks can come back, all at once.
pub(super) fn check_restored_edges<'e>(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    edges: impl Iterator<Item = &'e Relationship>,
) -> Result<()> {
    let new: Vec<(usize, Edge)> =
        edges.filter(|edge| edge.type_ == BLOCKS_TYPE).map(|edge| (0, (edge.from, edge.to))).collect();
    match find_cycles(tx, writer, &new)?.pop() {
        Some((_, circle)) => Err(Error::Conflict { message: format!("it cannot come back: it {circle}") }),
        None => Ok(()),
    }
}

/// Whether an edge between living objects can come back.
pub(crate) fn check_restored_edge(tx: &mut Tx<'_>, writer: &WriteContext, edge: &Relationship) -> Result<()> {
    if edge.type_ != BLOCKS_TYPE {
        return Ok(());
    }
    let mut new = vec![(0, (edge.from, edge.to))];
    retain_task_edges(tx, writer, &mut new)?;
    let edges: &[&Relationship] = if new.is_empty() { &[] } else { &[edge] };
    check_restored_edges(tx, writer, edges.iter().copied())
}

/// Whether what becomes a task brings edges along that nobody looked at, and that go round.
pub(super) fn check_new_task(tx: &mut Tx<'_>, writer: &WriteContext, id: ObjectId) -> Result<()> {
    lock_blocks(tx, writer)?;
    let ahead = rows::reachable_blocks(tx, &[id])?;
    match task::find_cycle(&ahead) {
        Some(way) => {
            let circle = describe_cycle(tx, writer, &way)?;
            Err(Error::Conflict { message: format!("it cannot be a task: it {circle}") })
        }
        None => Ok(()),
    }
}

/// (blocker, blocked)
type Edge = (ObjectId, ObjectId);

fn retain_task_edges(tx: &mut Tx<'_>, writer: &WriteContext, edges: &mut Vec<(usize, Edge)>) -> Result<()> {
    if edges.is_empty() {
        return Ok(());
    }
    let ids: Vec<ObjectId> = edges.iter().flat_map(|(_, (from, to))| [*from, *to]).collect();
    let tasks = rows::task_names(tx, writer.project.id, &ids)?;
    edges.retain(|(_, (from, to))| tasks.contains_key(from) && tasks.contains_key(to));
    Ok(())
}

/// Nobody else adds a `blocks` edge in this project until the transaction ends: two who see nothing
/// of each other would close a circle together.
fn lock_blocks(tx: &mut Tx<'_>, writer: &WriteContext) -> Result<()> {
    Ok(tx.advisory_lock(&format!("blocks:{}", writer.project.id))?)
}

/// Which of these would close a circle with those that are there and those before it, and how.
fn find_cycles(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    new: &[(usize, Edge)],
) -> Result<Vec<(usize, String)>> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    lock_blocks(tx, writer)?;
    let blocked: Vec<ObjectId> = new.iter().map(|(_, (_, to))| *to).collect();
    let mut edges = rows::reachable_blocks(tx, &blocked)?;
    let there = edges.len();
    edges.extend(new.iter().map(|(_, edge)| *edge));
    if task::find_cycle(&edges).is_none() {
        return Ok(Vec::new());
    }
    // Some do: found one by one, which takes longer.
    edges.truncate(there);
    let mut after: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for (from, to) in edges {
        after.entry(from).or_default().push(to);
    }
    let mut closing = Vec::new();
    for (at, (from, to)) in new {
        match shortest_path(&after, *to, *from) {
            Some(mut round) => {
                round.insert(0, *from);
                closing.push((*at, describe_cycle(tx, writer, &round)?));
            }
            None => after.entry(*from).or_default().push(*to),
        }
    }
    Ok(closing)
}

/// A shortest way from one to another, both included.
fn shortest_path(
    after: &HashMap<ObjectId, Vec<ObjectId>>,
    from: ObjectId,
    to: ObjectId,
) -> Option<Vec<ObjectId>> {
    let mut came_from = HashMap::from([(from, from)]);
    let mut waiting = VecDeque::from([from]);
    while let Some(node) = waiting.pop_front() {
        if node == to {
            let mut way = vec![to];
            let mut node = to;
            while node != from {
                node = came_from[&node];
                way.push(node);
            }
            way.reverse();
            return Some(way);
        }
        for next in after.get(&node).into_iter().flatten() {
            came_from.entry(*next).or_insert_with(|| {
                waiting.push_back(*next);
                node
            });
        }
    }
    None
}

/// How a circle is told: by what people call the tasks.
fn describe_cycle(tx: &mut Tx<'_>, writer: &WriteContext, round: &[ObjectId]) -> Result<String> {
    let called = rows::task_names(tx, writer.project.id, round)?;
    let name = |id: &ObjectId| called.get(id).map_or_else(|| id.to_string(), |task| task.name.clone());
    let names: Vec<String> = round.iter().map(name).collect();
    Ok(format!("would let tasks wait for one another in a circle: {}", names.join(" → ")))
}
