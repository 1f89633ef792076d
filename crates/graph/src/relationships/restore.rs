//! Restoring deleted relationships inside a transaction.

use emergent_domain::{
    change::ChangeKind, ids::RelationshipId, invalid::Invalid, relationship::Relationship,
};
use emergent_store::{Tx, feed, objects as object_rows, relationships as rows, revert};

use super::write::new_change;
use crate::{Error, WriteContext, error::Result, tasks, withheld::refusal_of_stored};

/// Restores a deleted edge with its last content. A live edge is returned unchanged.
pub fn restore(tx: &mut Tx<'_>, ctx: &WriteContext, id: RelationshipId) -> Result<Relationship> {
    let found = revert::lock_relationship(tx, ctx.project.id, id)?;
    let edge = found.ok_or_else(|| Error::not_found("relationship", id))?;
    if edge.deleted_at.is_none() {
        return Ok(edge);
    }
    if let Some(reason) = restore_obstacle(tx, ctx, &edge)? {
        let message = format!("the relationship `{id}` cannot be restored: {reason}");
        return Err(Error::Conflict { message });
    }
    // The packs or the types of its ends may have changed since it was deleted.
    if let Err(error) = check_between_live_ends(tx, ctx, &edge) {
        let shown = || Invalid::new("", "its content no longer conforms to the packs of the project");
        return Err(refusal_of_stored(tx, ctx, error, shown));
    }
    let content = edge.clone();
    restore_tombstone(tx, ctx, edge, &content)
}

/// Returns the reason why an edge cannot be restored, if there is one.
pub(crate) fn restore_obstacle(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    edge: &Relationship,
) -> Result<Option<String>> {
    let live_ends = object_rows::lock_live(tx, ctx.project.id, &[edge.from, edge.to])?;
    if let Some(end) = [edge.from, edge.to].iter().find(|end| !live_ends.contains_key(end)) {
        return Ok(Some(format!("the object `{end}` at one of its ends no longer exists")));
    }
    let duplicate = rows::find(tx, edge.from, &edge.type_, edge.to)?;
    Ok(duplicate.map(|duplicate| format!("the relationship `{}` already connects its ends", duplicate.id)))
}

/// Validates an edge against the packs, if both its ends are live.
pub(crate) fn check_between_live_ends(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    edge: &Relationship,
) -> Result<()> {
    let ends = object_rows::find_live(tx, ctx.project.id, &[edge.from, edge.to])?;
    match (ends.get(&edge.from), ends.get(&edge.to)) {
        (Some(from), Some(to)) => {
            ctx.check_relationship(&edge.type_, (&from.type_, &to.type_), &edge.properties.to_map())
        }
        _ => Ok(()),
    }
}

/// Restores a locked tombstone with the content of `content`, which the caller has validated. Both ends are live and
/// locked.
pub(crate) fn restore_tombstone(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    tombstone: Relationship,
    content: &Relationship,
) -> Result<Relationship> {
    let ends = object_rows::find_live(tx, ctx.project.id, &[tombstone.from, tombstone.to])?;
    tasks::before_edge_change(tx, ctx, &tombstone)?;
    tasks::check_restored_edge(tx, ctx, &tombstone)?;
    // An edge is never older than its ends. Otherwise a query of the past would show an edge
    // without one of its ends.
    let ends_at = ends.values().map(|end| end.updated_at).max();
    let next = Relationship {
        version: tombstone.version + 1,
        updated_at: ctx.timestamp_after(tombstone.updated_at).max(ends_at.unwrap_or(ctx.now)),
        deleted_at: None,
        deleted_with: None,
        properties: content.properties.clone(),
        weight: content.weight,
        author: ctx.author,
        reason: ctx.reason.clone(),
        ..tombstone
    };
    write_version(tx, &next, ChangeKind::RelationshipRestored)?;
    Ok(next)
}

/// Writes the next version of an edge, and its change.
pub(crate) fn write_version(tx: &mut Tx<'_>, next: &Relationship, kind: ChangeKind) -> Result<()> {
    rows::update(tx, next)?;
    Ok(feed::append(tx, next.project, &[new_change(kind, next)])?)
}
