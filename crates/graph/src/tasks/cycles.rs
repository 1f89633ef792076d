//! Prevents dependency cycles between tasks.

use std::collections::{HashMap, HashSet, VecDeque};

use emergent_domain::{
    ids::ObjectId,
    invalid::Invalid,
    relationship::Relationship,
    task::{self, BLOCKS_TYPE},
};
use emergent_store::{Tx, relationships::CascadeEdge, tasks as rows};

use crate::{Error, WriteContext, error::Result};

/// Rejects those of the new edges that would close a cycle.
pub(super) fn reject_cycles(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    edges: &mut [Result<Relationship, Invalid>],
) -> Result<()> {
    let blocks = |index: usize| edges[index].as_ref().ok().filter(|edge| edge.type_ == BLOCKS_TYPE);
    let mut new: Vec<(usize, Edge)> = (0..edges.len())
        .filter_map(|index| blocks(index).map(|edge| (index, (edge.from, edge.to))))
        .collect();
    retain_task_edges(tx, ctx, &mut new)?;
    for (index, cycle) in find_cycles(tx, ctx, &new)? {
        edges[index] = Err(Invalid::new("toId", cycle));
    }
    Ok(())
}

/// Checks that edges between tasks can be restored together.
pub(super) fn check_restored_edges(tx: &mut Tx<'_>, ctx: &WriteContext, edges: Vec<Edge>) -> Result<()> {
    let new: Vec<(usize, Edge)> = edges.into_iter().map(|edge| (0, edge)).collect();
    match find_cycles(tx, ctx, &new)?.pop() {
        Some((_, cycle)) => Err(Error::Conflict { message: format!("it cannot be restored: it {cycle}") }),
        None => Ok(()),
    }
}

/// Checks that an edge between live objects can be restored.
pub(crate) fn check_restored_edge(tx: &mut Tx<'_>, ctx: &WriteContext, edge: &Relationship) -> Result<()> {
    if edge.type_ != BLOCKS_TYPE {
        return Ok(());
    }
    let mut new = vec![(0, (edge.from, edge.to))];
    retain_task_edges(tx, ctx, &mut new)?;
    check_restored_edges(tx, ctx, new.into_iter().map(|(_, edge)| edge).collect())
}

/// Leaves out those of the edges that would close a cycle of tasks.
pub(super) fn retain_without_cycles(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    edges: &mut Vec<CascadeEdge>,
) -> Result<()> {
    let mut new: Vec<(usize, Edge)> = (0..edges.len())
        .filter(|index| edges[*index].type_ == BLOCKS_TYPE)
        .map(|index| (index, (edges[index].from, edges[index].to)))
        .collect();
    retain_task_edges(tx, ctx, &mut new)?;
    let closing: HashSet<usize> = find_cycles(tx, ctx, &new)?.into_iter().map(|(index, _)| index).collect();
    let mut index = 0;
    edges.retain(|_| {
        index += 1;
        !closing.contains(&(index - 1))
    });
    Ok(())
}

/// Checks an object that becomes a task: its existing edges were not checked before, and could form
/// a cycle.
pub(super) fn check_new_task(tx: &mut Tx<'_>, ctx: &WriteContext, id: ObjectId) -> Result<()> {
    lock_blocks(tx, ctx)?;
    let ahead = rows::reachable_blocks(tx, &[id])?;
    match task::find_cycle(&ahead) {
        Some(way) => {
            let cycle = describe_cycle(tx, ctx, &way)?;
            Err(Error::Conflict { message: format!("it cannot be a task: it {cycle}") })
        }
        None => Ok(()),
    }
}

/// An edge as (blocker, blocked).
pub(super) type Edge = (ObjectId, ObjectId);

fn retain_task_edges(tx: &mut Tx<'_>, ctx: &WriteContext, edges: &mut Vec<(usize, Edge)>) -> Result<()> {
    if edges.is_empty() {
        return Ok(());
    }
    let ids: Vec<ObjectId> = edges.iter().flat_map(|(_, (from, to))| [*from, *to]).collect();
    let tasks = rows::task_names(tx, ctx.project.id, &ids)?;
    edges.retain(|(_, (from, to))| tasks.contains_key(from) && tasks.contains_key(to));
    Ok(())
}

/// Locks the `blocks` edges of the project until the end of the transaction. Otherwise two
/// transactions that do not see each other's edges could close a cycle together.
fn lock_blocks(tx: &mut Tx<'_>, ctx: &WriteContext) -> Result<()> {
    Ok(tx.advisory_lock(&format!("blocks:{}", ctx.project.id))?)
}

/// Returns which of the new edges would close a cycle with the existing edges and the new ones
/// before them, with a description of the cycle.
fn find_cycles(tx: &mut Tx<'_>, ctx: &WriteContext, new: &[(usize, Edge)]) -> Result<Vec<(usize, String)>> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    lock_blocks(tx, ctx)?;
    let blocked: Vec<ObjectId> = new.iter().map(|(_, (_, to))| *to).collect();
    let mut edges = rows::reachable_blocks(tx, &blocked)?;
    let existing = edges.len();
    edges.extend(new.iter().map(|(_, edge)| *edge));
    if task::find_cycle(&edges).is_none() {
        return Ok(Vec::new());
    }
    // At least one edge closes a cycle. Finding out which requires checking them one by one, which
    // is slower.
    edges.truncate(existing);
    let mut after: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for (from, to) in edges {
        after.entry(from).or_default().push(to);
    }
    let mut closing = Vec::new();
    for (index, (from, to)) in new {
        match shortest_path(&after, *to, *from) {
            Some(mut cycle) => {
                cycle.insert(0, *from);
                closing.push((*index, describe_cycle(tx, ctx, &cycle)?));
            }
            None => after.entry(*from).or_default().push(*to),
        }
    }
    Ok(closing)
}

/// Returns a shortest path between two nodes, including both.
fn shortest_path(
    after: &HashMap<ObjectId, Vec<ObjectId>>,
    from: ObjectId,
    to: ObjectId,
) -> Option<Vec<ObjectId>> {
    let mut came_from = HashMap::from([(from, from)]);
    let mut waiting = VecDeque::from([from]);
    while let Some(node) = waiting.pop_front() {
        if node == to {
            let mut path = vec![to];
            let mut node = to;
            while node != from {
                node = came_from[&node];
                path.push(node);
            }
            path.reverse();
            return Some(path);
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

/// Describes a cycle by the names of its tasks.
fn describe_cycle(tx: &mut Tx<'_>, ctx: &WriteContext, cycle: &[ObjectId]) -> Result<String> {
    let tasks = rows::task_names(tx, ctx.project.id, cycle)?;
    let name = |id: &ObjectId| tasks.get(id).map_or_else(|| id.to_string(), |task| task.name.clone());
    let names: Vec<String> = cycle.iter().map(name).collect();
    Ok(format!("would create a dependency cycle: {}; remove one of these edges", names.join(" → ")))
}
