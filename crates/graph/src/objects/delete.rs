//! Deleting objects and bringing them back, with their edges.

use std::collections::HashSet;

use emergent_domain::{
    event::ChangeKind, ids::ObjectId, object::Object, relationship::Relationship, time::Timestamp,
};
use emergent_store::{
    Tx,
    embedding_queue::{self, Kind},
    events::{self, NewEvent},
    objects::{self as rows, Locked},
    relationships::{self as edge_rows, Fate},
    search::{
        embeddings,
        write::{self as index, Entry, Index},
    },
};

use super::write::{enqueue, event, lock_living, text_of};
use crate::{Error, Writer, error::Result, tasks};

/// Deletes a living object and its edges; returns the tombstone.
pub fn delete(
    tx: &mut Tx<'_>,
    writer: &Writer,
    id: ObjectId,
    expected_version: Option<i64>,
) -> Result<Object> {
    let Locked { no, object: before } = lock_living(tx, writer, id, expected_version)?;
    let edges = edge_rows::lock_living_of(tx, id)?;
    tasks::gone(tx, writer, &before, &edges)?;
    let now = writer.after(latest(&before, &edges));
    let next = Object {
        version: before.version + 1,
        updated_at: now,
        deleted_at: Some(now),
        author: writer.author,
        reason: writer.reason.clone(),
        ..before
    };
    rows::update(tx, no, &next)?;
    index::remove(tx, Index::Objects, no)?;
    embedding_queue::remove(tx, Kind::Object, no)?;
    embeddings::remove(tx, Index::Objects, next.project, &[no])?;
    let changes = (ChangeKind::ObjectDeleted, ChangeKind::RelationshipDeleted);
    follow(tx, writer, &next, &edges, Fate::GoWith(id), changes)?;
    Ok(next)
}

/// Brings a deleted object back, and those of its edges that went with an end and have both ends
/// now. One that lives is returned as it is.
pub fn restore(tx: &mut Tx<'_>, writer: &Writer, id: ObjectId) -> Result<Object> {
    let found = rows::lock(tx, writer.project.id, id)?.ok_or_else(|| Error::not_found("object", id))?;
    if found.object.deleted_at.is_none() {
        return Ok(found.object);
    }
    bring_back(tx, writer, found)
}

/// Makes a held tombstone the living object it describes, with its edges. Whoever put something
/// else into it than it died with has checked that.
pub(crate) fn bring_back(tx: &mut Tx<'_>, writer: &Writer, dead: Locked) -> Result<Object> {
    let Locked { no, object: before } = dead;
    if let Some(key) = &before.key
        && let Some(id) = rows::key_holder(tx, before.project, &before.type_, key)?
    {
        return Err(Error::KeyTaken { type_: before.type_, key: key.clone(), id });
    }
    let edges = edges_to_restore(tx, &before)?;
    tasks::coming(tx, writer, &before, &edges)?;
    let text = text_of(&before);
    let now = writer.after(latest(&before, &edges));
    let next = Object {
        version: before.version + 1,
        updated_at: now,
        deleted_at: None,
        author: writer.author,
        reason: writer.reason.clone(),
        ..before
    };
    rows::update(tx, no, &next)?;
    index::insert(tx, Index::Objects, next.project, &[Entry { no, text: &text }])?;
    enqueue(tx, writer, &[(no, next.version)])?;
    let changes = (ChangeKind::ObjectRestored, ChangeKind::RelationshipRestored);
    follow(tx, writer, &next, &edges, Fate::ComeBack, changes)?;
    Ok(next)
}

fn edges_to_restore(tx: &mut Tx<'_>, object: &Object) -> Result<Vec<Relationship>> {
    let mut edges = edge_rows::lock_taken_along(tx, object.id)?;
    let others: Vec<ObjectId> =
        edges.iter().flat_map(|edge| [edge.from, edge.to]).filter(|end| *end != object.id).collect();
    let living = rows::hold_living(tx, object.project, &others)?;
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
fn latest(object: &Object, edges: &[Relationship]) -> Timestamp {
    edges.iter().map(|edge| edge.updated_at).fold(object.updated_at, Ord::max)
}

/// Writes the edges' part of what happened to an object, and tells all of it.
fn follow(
    tx: &mut Tx<'_>,
    writer: &Writer,
    object: &Object,
    edges: &[Relationship],
    fate: Fate,
    (of_object, of_edge): (ChangeKind, ChangeKind),
) -> Result<()> {
    let ids: Vec<_> = edges.iter().map(|edge| edge.id).collect();
    edge_rows::follow(tx, &ids, fate, object.updated_at, writer.author)?;
    let mut told = vec![event(of_object, object)];
    told.extend(edges.iter().map(|edge| NewEvent {
        kind: of_edge,
        entity: edge.id.0,
        entity_type: &edge.type_,
        version: edge.version + 1,
        at: object.updated_at,
        author: writer.author,
    }));
    Ok(events::record(tx, object.project, &told)?)
}
