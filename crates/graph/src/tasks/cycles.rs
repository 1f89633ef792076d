//! Prevents dependency cycles between tasks.

use std::collections::HashSet;

use emergent_domain::{
    dependency_cycles::{find_closing_edges, name_cycle, named_ends},
    ids::ObjectId,
    invalid::Invalid,
    relationship::Relationship,
    task::{self, BLOCKS_TYPE},
};
use emergent_store::{
    Tx,
    relationships::CascadeEdge,
    tasks::{self as rows, MAX_FOLLOWED_BLOCKS},
};

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
    match find_cycles(tx, ctx, &new)?.into_iter().next() {
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

/// Leaves out those of the edges that would close a cycle of tasks, or may close one because too many edges lead on from
/// them to find out. They stay deleted, and can be restored by themselves later.
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
    if ahead.is_cut {
        return Err(Error::Conflict { message: format!("it cannot be a task: it {}", too_many_edges()) });
    }
    match task::find_cycle(&ahead.edges) {
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

/// Returns which of the new edges would close a cycle with the existing edges and the new ones before them, each with the
/// reason. If more edges lead on from the tasks than are followed, these are all new edges: nobody knows what they close.
fn find_cycles(tx: &mut Tx<'_>, ctx: &WriteContext, new: &[(usize, Edge)]) -> Result<Vec<(usize, String)>> {
    if new.is_empty() {
        return Ok(Vec::new());
    }
    lock_blocks(tx, ctx)?;
    let blocked: Vec<ObjectId> = new.iter().map(|(_, (_, to))| *to).collect();
    let existing = rows::reachable_blocks(tx, &blocked)?;
    if existing.is_cut {
        return Ok(new.iter().map(|(index, _)| (*index, too_many_edges())).collect());
    }
    let edges: Vec<Edge> = new.iter().map(|(_, edge)| *edge).collect();
    let found = find_closing_edges(&existing.edges, &edges, || tx.check_deadline())?;
    let mut closing = Vec::with_capacity(found.shown.len() + found.others.len());
    for (at, cycle) in &found.shown {
        closing.push((new[*at].0, describe_cycle(tx, ctx, cycle)?));
    }
    let count = found.shown.len();
    closing.extend(found.others.iter().map(|at| {
        let reason = format!(
            "would create a dependency cycle together with other new edges: {count} before it close one; leave those out"
        );
        (new[*at].0, reason)
    }));
    Ok(closing)
}

/// Why edges are refused whose consequences take too long to find out.
fn too_many_edges() -> String {
    format!(
        "may create a dependency cycle: more than {MAX_FOLLOWED_BLOCKS} `blocks` edges lead on from its tasks, which is \
         the limit; remove some of them first"
    )
}

/// Describes a cycle by the names of its tasks.
fn describe_cycle(tx: &mut Tx<'_>, ctx: &WriteContext, cycle: &[ObjectId]) -> Result<String> {
    let (first, last) = named_ends(cycle);
    let named: Vec<ObjectId> = first.iter().chain(last).copied().collect();
    let tasks = rows::task_names(tx, ctx.project.id, &named)?;
    let name = |id: &ObjectId| tasks.get(id).map_or_else(|| id.to_string(), |task| task.name.clone());
    Ok(format!("would create a dependency cycle: {}; remove one of these edges", name_cycle(cycle, name)))
}
