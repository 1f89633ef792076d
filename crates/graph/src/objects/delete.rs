//! Deleting and restoring objects together with their edges. Those edges that do not fit into the transaction
//! follow in a job, see `cascade`.

use emergent_domain::{change::ChangeKind, ids::ObjectId, object::Object, object_ref::ObjectRef};
use emergent_store::{
    Tx,
    embedding_queue::{self, RowKind},
    feed,
    objects::{self as rows, LockedObject},
    relationships as edge_rows,
    search::{
        embeddings,
        write::{self as index, Entry, SearchIndex},
    },
};

use super::{
    cascade,
    write::{enqueue, lock_live, new_change, object_indexed_text},
};
use crate::{Error, WriteContext, error::Result, object_refs::resolve_any_object, tasks};

/// Deletes a live object and its edges. Returns the tombstone. From the commit on, nobody sees an edge of the
/// object.
pub fn delete(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: ObjectId,
    expected_version: Option<i64>,
) -> Result<Object> {
    let LockedObject { no, object: before } = lock_live(tx, ctx, id, expected_version)?;
    tasks::before_delete(tx, ctx, &before)?;
    // Edges get the time of the object, so that a query of the past never shows one without its end.
    let last_edge = edge_rows::latest_live_update(tx, id)?.unwrap_or(before.updated_at);
    let now = ctx.timestamp_after(before.updated_at.max(last_edge));
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
    feed::append(tx, next.project, &[new_change(ChangeKind::ObjectDeleted, &next)])?;
    if cascade::delete_batch(tx, &next)? {
        cascade::enqueue(tx, ctx, id)?;
    }
    Ok(next)
}

/// Restores a deleted object, and those of its edges that were deleted with one of their ends and
/// now have both ends again. If there are very many, some return later. A live object is returned unchanged.
pub fn restore(tx: &mut Tx<'_>, ctx: &WriteContext, id: ObjectId) -> Result<Object> {
    let locked = rows::lock(tx, ctx.project.id, id)?.ok_or_else(|| Error::not_found("object", id))?;
    if locked.object.deleted_at.is_none() {
        return Ok(locked.object);
    }
    restore_tombstone(tx, ctx, locked)
}

/// Like [`restore`], for the object that a reference names.
pub(super) fn restore_named(tx: &mut Tx<'_>, ctx: &WriteContext, reference: &ObjectRef) -> Result<Object> {
    if let ObjectRef::Key { type_, key } = reference
        && let Some(live) = rows::id_by_key(tx, ctx.project.id, type_, key)?
        && let Some(deleted) = rows::deleted_id_by_key(tx, ctx.project.id, type_, key)?
    {
        return Err(Error::KeyReused { type_: type_.clone(), key: key.clone(), live, deleted });
    }
    let id = resolve_any_object(tx, ctx.project.id, reference)?;
    restore(tx, ctx, id)
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
    tasks::before_restore(tx, ctx, &before)?;
    let text = object_indexed_text(&before);
    let now = ctx.timestamp_after(before.updated_at);
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
    feed::append(tx, next.project, &[new_change(ChangeKind::ObjectRestored, &next)])?;
    if cascade::restore_first(tx, ctx, &next)? {
        cascade::enqueue(tx, ctx, next.id)?;
    }
    Ok(next)
}
