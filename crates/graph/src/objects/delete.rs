//! Deleting objects and bringing them back, with their edges.

use std::collections::HashSet;

use emergent_domain::{
    change::ChangeKind, ids::ObjectId, object::Object, relationship::Relationship, time::Timestamp,
};
use emergent_store::{
    Tx,
    embedding_queue::{self, RowKind},
    events::{self, NewChange},
    objects::{self as rows, LockedObject},
    relationships::{self as edge_rows, CascadeAction},
    search::{
        embeddings,
        write::{self as index, Entry, SearchIndex},
    },
};

use super::write::{enqueue, lock_live, new_change, object_indexed_text};
use crate::{Error, WriteContext, error::Result, tasks};

/// Deletes a living object and its edges; returns the tombstone.
pub fn delete(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    id: ObjectId,
    expected_version: Option<i64>,
) -> Result<Object> {
    let LockedObject { no, object: before } = lock_live(tx, writer, id, expected_version)?;
    let edges = edge_rows::lock_live_of(tx, id)?;
    tasks::after_delete(tx, writer, &before, &edges)?;
    let now = writer.timestamp_after(latest_update(&before, &edges));
    let next = Object {
        version: before.version + 1,
        updated_at: now,
        deleted_at: Some(now),
        author: writer.author,
        reason: writer.reason.clone(),
        ..before
    };
    rows::update(tx, no, &next)?;
    index::remove(tx, SearchIndex::Objects, no)?;
    embedding_queue::remove(tx, RowKind::Object, no)?;
    embeddings::remove(tx, SearchIndex::Objects, next.project, &[no])?;
    let changes = (ChangeKind::ObjectDeleted, ChangeKind::RelationshipDeleted);
    cascade(tx, writer, &next, &edges, CascadeAction::DeleteWith(id), changes)?;
    Ok(next)
}

/// Brings a deleted object back, and those of its edges that went with an end and have both ends
/// now. One that lives is returned as it is.
pub fn restore(tx: &mut Tx<'_>, writer: &WriteContext, id: ObjectId) -> Result<Object> {
    let found = rows::lock(tx, writer.project.id, id)?.ok_or_else(|| Error::not_found("object", id))?;
    if found.object.deleted_at.is_none() {
        return Ok(found.object);
    }
    restore_tombstone(tx, writer, found)
}

/// Makes a held tombstone the living object it describes, with its edges. Whoever put something
/// else into it than it died with has checked that.
pub(crate) fn restore_tombstone(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    dead: LockedObject,
) -> Result<Object> {
    let LockedObject { no, object: before } = dead;
    if let Some(key) = &before.key
        && let Some(id) = rows::id_by_key(tx, before.project, &before.type_, key)?
    {
        return Err(Error::KeyTaken { type_: before.type_, key: key.clone(), id });
    }
    let edges = edges_to_restore(tx, &before)?;
    tasks::before_restore(tx, writer, &before, &edges)?;
    let text = object_indexed_text(&before);
    let now = writer.timestamp_after(latest_update(&before, &edges));
    let next = Object {
        version: before.version + 1,
        updated_at: now,
        deleted_at: None,
        author: writer.author,
        reason: writer.reason.clone(),
        ..before
    };
    rows::update(tx, no, &next)?;
    index::insert(tx, SearchIndex::Objects, next.project, &[Entry { no, text: &text }])?;
    enqueue(tx, writer, &[(no, next.version)])?;
    let changes = (ChangeKind::ObjectRestored, ChangeKind::RelationshipRestored);
    cascade(tx, writer, &next, &edges, CascadeAction::Restore, changes)?;
    Ok(next)
}

fn edges_to_restore(tx: &mut Tx<'_>, object: &Object) -> Result<Vec<Relationship>> {
    let mut edges = edge_rows::lock_deleted_with(tx, object.id)?;
    let others: Vec<ObjectId> =
        edges.iter().flat_map(|edge| [edge.from, edge.to]).filter(|end| *end != object.id).collect();
    let living = rows::lock_live(tx, object.project, &others)?;
    let lives = |end: ObjectId| end == object.id || living.contains_key(&end);
    // A dead object has no living edges, so only those that come back could stand in one
    // another's place; of equal ones the last stays.
    let mut places = HashSet::new();
    edges.retain(|edge| {
        lives(edge.from) && lives(edge.to) && places.insert((edge.type_.clone(), edge.from, edge.to))
    });
    edges.sort_unstable_by_key(|edge| edge.id);
    Ok(edges)
}

/// The last moment at which any of them was written.
fn latest_update(object: &Object, edges: &[Relationship]) -> Timestamp {
    edges.iter().map(|edge| edge.updated_at).fold(object.updated_at, Ord::max)
}

/// Writes the edges' part of what happened to an object, and tells all of it.
fn cascade(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    object: &Object,
    edges: &[Relationship],
    fate: CascadeAction,
    (of_object, of_edge): (ChangeKind, ChangeKind),
) -> Result<()> {
    let ids: Vec<_> = edges.iter().map(|edge| edge.id).collect();
    edge_rows::apply_cascade(tx, &ids, fate, object.updated_at, writer.author)?;
    let mut told = vec![new_change(of_object, object)];
    told.extend(edges.iter().map(|edge| NewChange {
        kind: of_edge,
        entity: edge.id.0,
        entity_type: &edge.type_,
        version: edge.version + 1,
        at: object.updated_at,
        author: writer.author,
    }));
    Ok(events::append(tx, object.project, &told)?)
}
