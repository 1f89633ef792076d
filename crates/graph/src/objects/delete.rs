//! Deleting and restoring objects together with their edges.

use std::collections::HashSet;

use emergent_domain::{
    change::ChangeKind, ids::ObjectId, object::Object, relationship::Relationship, time::Timestamp,
};
use emergent_store::{
    Tx,
    embedding_queue::{self, RowKind},
    feed::{self, NewChange},
    objects::{self as rows, LockedObject},
    relationships::{self as edge_rows, CascadeAction},
    search::{
        embeddings,
        write::{self as index, Entry, SearchIndex},
    },
};

use super::write::{enqueue, lock_live, new_change, object_indexed_text};
use crate::{Error, WriteContext, error::Result, tasks};

/// Deletes a live object and its edges. Returns the tombstone.
pub fn delete(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: ObjectId,
    expected_version: Option<i64>,
) -> Result<Object> {
    let LockedObject { no, object: before } = lock_live(tx, ctx, id, expected_version)?;
    let edges = edge_rows::lock_live_of(tx, id)?;
    tasks::after_delete(tx, ctx, &before, &edges)?;
    let now = ctx.timestamp_after(latest_update(&before, &edges));
    let next = Object {
        version: before.version + 1,
        updated_at: now,
        deleted_at: Some(now),
        author: ctx.author,
        reason: ctx.reason.clone(),
        ..before
    };
    rows::update(tx, no, &next)?;
    index::remove(tx, SearchIndex::Objects, no)?;
    embedding_queue::remove(tx, RowKind::Object, no)?;
    embeddings::remove(tx, SearchIndex::Objects, next.project, &[no])?;
    let changes = (ChangeKind::ObjectDeleted, ChangeKind::RelationshipDeleted);
    cascade(tx, ctx, &next, &edges, CascadeAction::DeleteWith(id), changes)?;
    Ok(next)
}

/// Restores a deleted object, and those of its edges that were deleted with one of their ends and
/// now have both ends again. A live object is returned unchanged.
pub fn restore(tx: &mut Tx<'_>, ctx: &WriteContext, id: ObjectId) -> Result<Object> {
    let locked = rows::lock(tx, ctx.project.id, id)?.ok_or_else(|| Error::not_found("object", id))?;
    if locked.object.deleted_at.is_none() {
        return Ok(locked.object);
    }
    restore_tombstone(tx, ctx, locked)
}

/// Restores a locked tombstone together with its edges. A caller that changed the content of the
/// tombstone must have validated it.
pub(crate) fn restore_tombstone(tx: &mut Tx<'_>, ctx: &WriteContext, dead: LockedObject) -> Result<Object> {
    let LockedObject { no, object: before } = dead;
    if let Some(key) = &before.key
        && let Some(id) = rows::id_by_key(tx, before.project, &before.type_, key)?
    {
        return Err(Error::KeyTaken { type_: before.type_, key: key.clone(), id });
    }
    let edges = edges_to_restore(tx, &before)?;
    tasks::before_restore(tx, ctx, &before, &edges)?;
    let text = object_indexed_text(&before);
    let now = ctx.timestamp_after(latest_update(&before, &edges));
    let next = Object {
        version: before.version + 1,
        updated_at: now,
        deleted_at: None,
        author: ctx.author,
        reason: ctx.reason.clone(),
        ..before
    };
    rows::update(tx, no, &next)?;
    index::insert(tx, SearchIndex::Objects, next.project, &[Entry { no, text: &text }])?;
    enqueue(tx, ctx, &[(no, next.version)])?;
    let changes = (ChangeKind::ObjectRestored, ChangeKind::RelationshipRestored);
    cascade(tx, ctx, &next, &edges, CascadeAction::Restore, changes)?;
    Ok(next)
}

fn edges_to_restore(tx: &mut Tx<'_>, object: &Object) -> Result<Vec<Relationship>> {
    let mut edges = edge_rows::lock_deleted_with(tx, object.id)?;
    let others: Vec<ObjectId> =
        edges.iter().flat_map(|edge| [edge.from, edge.to]).filter(|end| *end != object.id).collect();
    let living = rows::lock_live(tx, object.project, &others)?;
    let lives = |end: ObjectId| end == object.id || living.contains_key(&end);
    // A deleted object has no live edges, so only the restored edges can conflict with one another.
    // Of several edges with the same type and ends, the last one is restored.
    let mut seen = HashSet::new();
    edges.retain(|edge| {
        lives(edge.from) && lives(edge.to) && seen.insert((edge.type_.clone(), edge.from, edge.to))
    });
    edges.sort_unstable_by_key(|edge| edge.id);
    Ok(edges)
}

/// Returns the latest update time of the object and its edges.
fn latest_update(object: &Object, edges: &[Relationship]) -> Timestamp {
    edges.iter().map(|edge| edge.updated_at).fold(object.updated_at, Ord::max)
}

/// Writes the cascade of an object's change to its edges, and appends all changes to the feed.
fn cascade(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    object: &Object,
    edges: &[Relationship],
    fate: CascadeAction,
    (of_object, of_edge): (ChangeKind, ChangeKind),
) -> Result<()> {
    let ids: Vec<_> = edges.iter().map(|edge| edge.id).collect();
    edge_rows::apply_cascade(tx, &ids, fate, object.updated_at, ctx.author)?;
    let mut changes = vec![new_change(of_object, object)];
    changes.extend(edges.iter().map(|edge| NewChange {
        kind: of_edge,
        entity: edge.id.0,
        entity_type: &edge.type_,
        version: edge.version + 1,
        at: object.updated_at,
        author: ctx.author,
    }));
    Ok(feed::append(tx, object.project, &changes)?)
}
