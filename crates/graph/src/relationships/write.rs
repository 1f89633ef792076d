//! Creating, updating and deleting relationships inside a transaction.

use std::collections::HashMap;

use emergent_domain::{
    change::ChangeKind,
    ids::{ObjectId, RelationshipId},
    invalid::Invalid,
    json::JsonObject,
    object::check_properties,
    relationship::{Relationship, RelationshipPatch},
};
use emergent_store::{
    Tx,
    feed::{self, NewChange},
    objects::{self as object_rows, EndObject},
    relationships as rows,
};
use serde_json::{Map, Value};

use super::{RelationshipDraft, draft::EndObjects};
use crate::{
    Error, WriteContext,
    error::Result,
    tasks,
    withheld::{
        limits::{Stored, count_sent, refusal_of_size},
        may_read, refusal_of_change, refusal_of_ends, refusal_of_stored,
    },
};

/// Returns the edge, and whether it was created by this call.
pub fn create(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    draft: &RelationshipDraft,
) -> Result<(Relationship, bool)> {
    let ends = lock_ends(tx, ctx, std::slice::from_ref(draft))?;
    let mut edges = to_relationships(tx, ctx, std::slice::from_ref(draft), &ends)?;
    tasks::check_new_edges(tx, ctx, &mut edges)?;
    let edges = edges.into_iter().collect::<Result<Vec<_>, Invalid>>()?;
    Ok(insert(tx, ctx, edges)?.remove(0))
}

/// Converts the drafts to edges, each with its own validation error.
fn to_relationships(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &[RelationshipDraft],
    ends: &EndObjects,
) -> Result<Vec<Result<Relationship, Invalid>>> {
    let mut convert = |draft: &RelationshipDraft| {
        tx.check_deadline()?;
        let error = match draft.to_relationship(ctx, ends) {
            Ok(edge) => return Ok(Ok(edge)),
            Err(error) => error,
        };
        let refusal = match (ends.get(&draft.new.from), ends.get(&draft.new.to)) {
            (Some(from), Some(to)) => {
                refusal_of_ends(tx, ctx, draft.type_(), (&from.type_, &to.type_), error)
            }
            _ => error,
        };
        match refusal {
            Error::Invalid(invalid) => Ok(Err(invalid)),
            other => Err(other),
        }
    };
    drafts.iter().map(&mut convert).collect()
}

/// Creates each edge independently. An error in one does not affect the others.
pub fn create_each(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &[RelationshipDraft],
) -> Result<Vec<Result<(Relationship, bool)>>> {
    let ends = lock_ends(tx, ctx, drafts)?;
    create_between(tx, ctx, drafts, &ends)
}

/// Works like [`create_each`]. `ends` are objects that this transaction has locked or created, so only the other ends are
/// looked up and locked.
pub fn create_each_between(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &[RelationshipDraft],
    mut ends: HashMap<ObjectId, EndObject>,
) -> Result<Vec<Result<(Relationship, bool)>>> {
    notify_workflows(tx, ctx, drafts)?;
    let ids = drafts.iter().flat_map(|draft| [draft.new.from, draft.new.to]);
    let unknown: Vec<ObjectId> = ids.filter(|id| !ends.contains_key(id)).collect();
    ends.extend(object_rows::lock_live(tx, ctx.project.id, &unknown)?);
    create_between(tx, ctx, drafts, &ends)
}

/// Works like [`create_each`], for ends that the caller has locked.
pub(crate) fn create_between(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &[RelationshipDraft],
    ends: &EndObjects,
) -> Result<Vec<Result<(Relationship, bool)>>> {
    let mut checked = to_relationships(tx, ctx, drafts, ends)?;
    tasks::check_new_edges(tx, ctx, &mut checked)?;
    let mut good = Vec::with_capacity(drafts.len());
    let refused: Vec<Option<Invalid>> = checked
        .into_iter()
        .map(|checked| match checked {
            Ok(edge) => {
                good.push(edge);
                None
            }
            Err(invalid) => Some(invalid),
        })
        .collect();
    let mut created = insert(tx, ctx, good)?.into_iter();
    Ok(refused
        .into_iter()
        .filter_map(|refused| match refused {
            Some(invalid) => Some(Err(invalid.into())),
            None => created.next().map(Ok),
        })
        .collect())
}

/// Creates all edges or none. The first error carries its index, as in `relationships[3]`.
pub fn create_all(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &[RelationshipDraft],
) -> Result<Vec<(Relationship, bool)>> {
    let ends = lock_ends(tx, ctx, drafts)?;
    let mut edges = to_relationships(tx, ctx, drafts, &ends)?;
    tasks::check_new_edges(tx, ctx, &mut edges)?;
    let edges = crate::bulk::all_or_first_error(edges.into_iter(), "relationships")?;
    insert(tx, ctx, edges)
}

/// Works like [`create_all`], for edges among objects that this transaction has created, whose `ends` the caller knows. Nobody
/// else can have an edge at one of them, so they are not locked, and only the drafts themselves could form a
/// cycle of tasks: the caller has checked that they do not. If another object is an end of one of the
/// drafts, everything is checked.
pub fn create_all_between_new(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &[RelationshipDraft],
    ends: &HashMap<ObjectId, EndObject>,
) -> Result<Vec<(Relationship, bool)>> {
    if !are_between(drafts, ends) {
        return create_all(tx, ctx, drafts);
    }
    let edges = check_between_new(tx, ctx, drafts, ends)?;
    insert(tx, ctx, edges)
}

/// Checks what [`create_all_between_new`] checks, and writes none of these edges: for a transaction that is rolled back.
pub fn check_all_between_new(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &[RelationshipDraft],
    ends: &HashMap<ObjectId, EndObject>,
) -> Result<()> {
    match are_between(drafts, ends) {
        true => check_between_new(tx, ctx, drafts, ends).map(drop),
        false => create_all(tx, ctx, drafts).map(drop),
    }
}

fn are_between(drafts: &[RelationshipDraft], ends: &HashMap<ObjectId, EndObject>) -> bool {
    drafts.iter().all(|draft| ends.contains_key(&draft.new.from) && ends.contains_key(&draft.new.to))
}

fn check_between_new(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &[RelationshipDraft],
    ends: &HashMap<ObjectId, EndObject>,
) -> Result<Vec<Relationship>> {
    notify_workflows(tx, ctx, drafts)?;
    let mut edges = to_relationships(tx, ctx, drafts, ends)?;
    tasks::check_authority_of_edges(tx, ctx, &mut edges)?;
    crate::bulk::all_or_first_error(edges.into_iter(), "relationships")
}

/// Notifies the workflows whose tasks the new edges connect. This happens before the tasks are
/// locked.
pub(crate) fn notify_workflows(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &[RelationshipDraft],
) -> Result<()> {
    let edges = drafts.iter().map(|draft| (draft.type_(), draft.new.from, draft.new.to));
    tasks::notify_workflows_of_edges(tx, ctx, edges)
}

fn lock_ends(tx: &mut Tx<'_>, ctx: &WriteContext, drafts: &[RelationshipDraft]) -> Result<EndObjects> {
    notify_workflows(tx, ctx, drafts)?;
    let ids: Vec<ObjectId> = drafts.iter().flat_map(|draft| [draft.new.from, draft.new.to]).collect();
    Ok(object_rows::lock_live(tx, ctx.project.id, &ids)?)
}

fn insert(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    edges: Vec<Relationship>,
) -> Result<Vec<(Relationship, bool)>> {
    let inserted = rows::insert_many(tx, ctx.project.no, &edges)?;
    let changes: Vec<NewChange<'_>> = edges
        .iter()
        .zip(&inserted)
        .filter(|(_, is_new)| **is_new)
        .map(|(edge, _)| new_change(ChangeKind::RelationshipCreated, edge))
        .collect();
    feed::append(tx, ctx.project.id, &changes)?;
    let mut outcomes = Vec::with_capacity(edges.len());
    for (edge, is_new) in edges.into_iter().zip(inserted) {
        outcomes.push(if is_new {
            (edge, true)
        } else {
            match rows::find(tx, edge.from, &edge.type_, edge.to)? {
                Some(existing) => (existing, false),
                None => return Err(tx.retry_error("the edge was deleted concurrently").into()),
            }
        });
    }
    Ok(outcomes)
}

/// Updates a live edge. If nothing would change, returns it without writing a version.
pub fn update(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: RelationshipId,
    patch: &RelationshipPatch,
) -> Result<Relationship> {
    let before = lock_live(tx, ctx, id, patch.expected_version)?;
    let stored = Stored { properties: &before.properties.to_map(), labels: &[] };
    count_sent(tx, ctx, (id.0, stored), patch.properties.as_ref())?;
    let (properties, weight) = match patch.apply(&before) {
        Some(after) => after,
        None if may_read(tx, ctx)? => return Ok(before),
        // Whoever may not read gets the answer that a change would get.
        None => {
            check_pack(tx, ctx, &before, patch, &before.properties.to_map())?;
            tasks::check_edge(tx, ctx, &before)?;
            return Ok(before);
        }
    };
    check_properties(&properties).map_err(|error| refusal_of_size(tx, ctx, error))?;
    check_pack(tx, ctx, &before, patch, &properties)?;
    tasks::before_edge_change(tx, ctx, &before)?;
    let next = Relationship {
        properties: JsonObject::from_map(&properties),
        weight,
        version: before.version + 1,
        updated_at: ctx.timestamp_after(before.updated_at),
        author: ctx.author,
        reason: ctx.reason.clone(),
        ..before
    };
    rows::update(tx, &next)?;
    feed::append(tx, next.project, &[new_change(ChangeKind::RelationshipUpdated, &next)])?;
    Ok(next)
}

/// Checks the properties of an edge after an update against the packs.
fn check_pack(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    before: &Relationship,
    patch: &RelationshipPatch,
    properties: &Map<String, Value>,
) -> Result<()> {
    if !ctx.project.strict && !ctx.packs.describes_relationship(&before.type_) {
        return Ok(());
    }
    let ends = object_rows::find_live(tx, ctx.project.id, &[before.from, before.to])?;
    let (Some(from), Some(to)) = (ends.get(&before.from), ends.get(&before.to)) else { return Ok(()) };
    let Err(error) = ctx.check_relationship(&before.type_, (&from.type_, &to.type_), properties) else {
        return Ok(());
    };
    let error = refusal_of_ends(tx, ctx, &before.type_, (&from.type_, &to.type_), error);
    let (stored, sent) = (before.properties.to_map(), patch.properties.as_ref());
    Err(refusal_of_change(tx, ctx, &stored, sent, error))
}

/// Deletes a live edge. Returns the tombstone.
pub fn delete(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: RelationshipId,
    expected_version: Option<i64>,
) -> Result<Relationship> {
    let before = lock_live(tx, ctx, id, expected_version)?;
    tasks::before_edge_change(tx, ctx, &before)?;
    let now = ctx.timestamp_after(before.updated_at);
    let next = Relationship {
        version: before.version + 1,
        updated_at: now,
        deleted_at: Some(now),
        author: ctx.author,
        reason: ctx.reason.clone(),
        ..before
    };
    rows::update(tx, &next)?;
    feed::append(tx, next.project, &[new_change(ChangeKind::RelationshipDeleted, &next)])?;
    Ok(next)
}

/// Validates that the edges of an object are still allowed if the object changes its type.
pub(crate) fn check_edge_types(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    object: ObjectId,
    new_type: &str,
) -> Result<()> {
    let described: Vec<&str> = ctx.packs.relationship_types().collect();
    let mut after = (!described.is_empty()).then_some(i64::MIN);
    while let Some(no) = after {
        let batch = rows::list_live_after(tx, object, &described, no)?;
        check_ends(tx, ctx, object, new_type, &batch)?;
        after = batch.last().map(|(last, _)| *last);
    }
    Ok(())
}

/// Validates edges of an object as if the object had another type.
fn check_ends(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    object: ObjectId,
    new_type: &str,
    edges: &[(i64, Relationship)],
) -> Result<()> {
    let ids: Vec<ObjectId> = edges.iter().flat_map(|(_, edge)| [edge.from, edge.to]).collect();
    let ends = object_rows::find_live(tx, ctx.project.id, &ids)?;
    let type_of = |id: ObjectId| match ends.get(&id) {
        _ if id == object => new_type,
        Some(end) => end.type_.as_str(),
        None => "",
    };
    for (_, edge) in edges {
        let (from, to) = (type_of(edge.from), type_of(edge.to));
        let properties = edge.properties.to_map();
        if let Err(error) = ctx.check_relationship(&edge.type_, (from, to), &properties) {
            let refusal = format!("the object has an edge that the type `{new_type}` does not allow");
            let error = match error {
                Error::Invalid(invalid) => {
                    let reason = format!("{refusal}: {}", invalid.problems[0].reason);
                    Error::Invalid(Invalid::new("type", reason))
                }
                other => other,
            };
            return Err(refusal_of_stored(tx, ctx, error, || Invalid::new("type", refusal)));
        }
    }
    Ok(())
}

fn lock_live(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: RelationshipId,
    expected_version: Option<i64>,
) -> Result<Relationship> {
    let edge = rows::lock(tx, ctx.project.id, id)?.ok_or_else(|| Error::not_found("relationship", id))?;
    match expected_version {
        Some(expected) if expected != edge.version => Err(Error::VersionConflict {
            what: "relationship",
            id: id.to_string(),
            expected,
            current: edge.version,
        }),
        _ => Ok(edge),
    }
}

pub(super) fn new_change(kind: ChangeKind, edge: &Relationship) -> NewChange<'_> {
    NewChange {
        kind,
        entity: edge.id.0,
        entity_type: &edge.type_,
        version: edge.version,
        at: edge.updated_at,
        author: edge.author,
    }
}
