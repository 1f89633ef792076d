//! Tasks never wait for one another in a circle.

use std::collections::{HashMap, VecDeque};

use emergent_domain::{
    ids::ObjectId,
    invalid::Invalid,
    relationship::Relationship,
    task::{self, BLOCKS},
};
use emergent_store::{Tx, tasks as rows};

use crate::{Error, Writer, error::Result};

/// Refuses those of these new edges that would close a circle.
pub(crate) fn refuse_circles(
    tx: &mut Tx<'_>,
    writer: &Writer,
    edges: &mut [Result<Relationship, Invalid>],
) -> Result<()> {
    let blocks = |at: usize| edges[at].as_ref().ok().filter(|edge| edge.type_ == BLOCKS);
    let mut new: Vec<(usize, Edge)> =
        (0..edges.len()).filter_map(|at| blocks(at).map(|edge| (at, (edge.from, edge.to)))).collect();
    keep_tasks(tx, writer, &mut new)?;
    for (at, circle) in closing(tx, writer, &new)? {
        edges[at] = Err(Invalid::one("toId", circle));
    }
    Ok(())
}

/// Whether edges between tasks can come back, all at once.
pub(super) fn check_coming<'e>(
    tx: &mut Tx<'_>,
    writer: &Writer,
    edges: impl Iterator<Item = &'e Relationship>,
) -> Result<()> {
    let new: Vec<(usize, Edge)> =
        edges.filter(|edge| edge.type_ == BLOCKS).map(|edge| (0, (edge.from, edge.to))).collect();
    match closing(tx, writer, &new)?.pop() {
        Some((_, circle)) => Err(Error::Conflict { message: format!("it cannot come back: it {circle}") }),
        None => Ok(()),
    }
}

/// Whether an edge between living objects can come back.
pub(crate) fn check_coming_edge(tx: &mut Tx<'_>, writer: &Writer, edge: &Relationship) -> Result<()> {
    if edge.type_ != BLOCKS {
        return Ok(());
    }
    let mut new = vec![(0, (edge.from, edge.to))];
    keep_tasks(tx, writer, &mut new)?;
    let edges: &[&Relationship] = if new.is_empty() { &[] } else { &[edge] };
    check_coming(tx, writer, edges.iter().copied())
}

/// Whether what becomes a task brings edges along that nobody looked at, and that go round.
pub(super) fn check_newcomer(tx: &mut Tx<'_>, writer: &Writer, id: ObjectId) -> Result<()> {
    lock(tx, writer)?;
    let ahead = rows::ahead(tx, &[id])?;
    match task::cycle(&ahead) {
        Some(way) => {
            let circle = told(tx, writer, &way)?;
            Err(Error::Conflict { message: format!("it cannot be a task: it {circle}") })
        }
        None => Ok(()),
    }
}

/// (blocker, blocked)
type Edge = (ObjectId, ObjectId);

fn keep_tasks(tx: &mut Tx<'_>, writer: &Writer, edges: &mut Vec<(usize, Edge)>) -> Result<()> {
    if edges.is_empty() {
        return Ok(());
    }
    let ids: Vec<ObjectId> = edges.iter().flat_map(|(_, (from, to))| [*from, *to]).collect();
    let tasks = rows::called(tx, writer.project.id, &ids)?;
    edges.retain(|(_, (from, to))| tasks.contains_key(from) && tasks.contains_key(to));
    Ok(())
}

/// Nobody else adds a `blocks` edge in this project until the transaction ends: two who see nothing
/// of each other would close a circle together.
fn lock(tx: &mut Tx<'_>, writer: &Writer) -> Result<()> {
    Ok(tx.lock(&format!("blocks:{}", writer.project.id))?)
}

/// Which of these would close a circle with those that are there and those before it, and how.
fn closing(tx: &mut Tx<'_>, writer: &Writer, new: &[(usize, Edge)]) -> Result<Vec<(usize, String)>> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    lock(tx, writer)?;
    let blocked: Vec<ObjectId> = new.iter().map(|(_, (_, to))| *to).collect();
    let mut edges = rows::ahead(tx, &blocked)?;
    let there = edges.len();
    edges.extend(new.iter().map(|(_, edge)| *edge));
    if task::cycle(&edges).is_none() {
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
        match way(&after, *to, *from) {
            Some(mut round) => {
                round.insert(0, *from);
                closing.push((*at, told(tx, writer, &round)?));
            }
            None => after.entry(*from).or_default().push(*to),
        }
    }
    Ok(closing)
}

/// A shortest way from one to another, both included.
fn way(after: &HashMap<ObjectId, Vec<ObjectId>>, from: ObjectId, to: ObjectId) -> Option<Vec<ObjectId>> {
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
fn told(tx: &mut Tx<'_>, writer: &Writer, round: &[ObjectId]) -> Result<String> {
    let called = rows::called(tx, writer.project.id, round)?;
    let name = |id: &ObjectId| called.get(id).map_or_else(|| id.to_string(), |task| task.name.clone());
    let names: Vec<String> = round.iter().map(name).collect();
    Ok(format!("would let tasks wait for one another in a circle: {}", names.join(" → ")))
}
