//! Making, changing and deleting relationships, inside a transaction.

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
    events::{self, NewChange},
    objects as object_rows, relationships as rows,
};

use super::{RelationshipDraft, draft::EndObjects};
use crate::{Error, WriteContext, error::Result, tasks};

/// The edge, and whether it was made now.
pub fn create(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    draft: &RelationshipDraft,
) -> Result<(Relationship, bool)> {
    let ends = lock_ends(tx, writer, std::slice::from_ref(draft))?;
    let mut edge = [draft.to_relationship(writer, &ends)];
    tasks::reject_cycles(tx, writer, &mut edge)?;
    let [edge] = edge;
    Ok(insert(tx, writer, vec![edge?])?.remove(0))
}

/// Each on its own: what is wrong with one does not keep the others out.
pub fn create_each(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    drafts: &[RelationshipDraft],
) -> Result<Vec<Result<(Relationship, bool)>>> {
    let ends = lock_ends(tx, writer, drafts)?;
    create_between(tx, writer, drafts, &ends)
}

/// Like [`create_each`], between ends that the caller holds.
pub(crate) fn create_between(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    drafts: &[RelationshipDraft],
    ends: &EndObjects,
) -> Result<Vec<Result<(Relationship, bool)>>> {
    let mut checked: Vec<Result<Relationship, Invalid>> =
        drafts.iter().map(|draft| draft.to_relationship(writer, ends)).collect();
    tasks::reject_cycles(tx, writer, &mut checked)?;
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
    let mut made = insert(tx, writer, good)?.into_iter();
    Ok(refused
        .into_iter()
        .filter_map(|refused| match refused {
            Some(invalid) => Some(Err(invalid.into())),
            None => made.next().map(Ok),
        })
        .collect())
}

/// All or none: the first that is wrong is the error, as `relationships[3]`.
pub fn create_all(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    drafts: &[RelationshipDraft],
) -> Result<Vec<(Relationship, bool)>> {
    let ends = lock_ends(tx, writer, drafts)?;
    let mut edges: Vec<Result<Relationship, Invalid>> =
        drafts.iter().map(|draft| draft.to_relationship(writer, &ends)).collect();
    tasks::reject_cycles(tx, writer, &mut edges)?;
    let edges = crate::bulk::all_or_first_error(edges.into_iter(), "relationships")?;
    insert(tx, writer, edges)
}

/// Tells workflows of the edges that are to come between their tasks, before those are held.
pub(crate) fn notify_workflows(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    drafts: &[RelationshipDraft],
) -> Result<()> {
    let edges = drafts.iter().map(|draft| (draft.type_(), draft.new.from, draft.new.to));
    tasks::notify_workflows_of_edges(tx, writer, edges)
}

fn lock_ends(tx: &mut Tx<'_>, writer: &WriteContext, drafts: &[RelationshipDraft]) -> Result<EndObjects> {
    notify_workflows(tx, writer, drafts)?;
    let ids: Vec<ObjectId> = drafts.iter().flat_map(|draft| [draft.new.from, draft.new.to]).collect();
    Ok(object_rows::lock_live(tx, writer.project.id, &ids)?)
}

fn insert(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    edges: Vec<Relationship>,
) -> Result<Vec<(Relationship, bool)>> {
    let made = rows::insert_many(tx, writer.project.no, &edges)?;
    let told: Vec<NewChange<'_>> = edges
        .iter()
        .zip(&made)
        .filter(|(_, made)| **made)
        .map(|(edge, _)| new_change(ChangeKind::RelationshipCreated, edge))
        .collect();
    events::append(tx, writer.project.id, &told)?;
    let mut outcomes = Vec::with_capacity(edges.len());
    for (edge, made) in edges.into_iter().zip(made) {
        outcomes.push(if made {
            (edge, true)
        } else {
            match rows::find(tx, edge.from, &edge.type_, edge.to)? {
                Some(there) => (there, false),
                None => return Err(tx.retry_error("the edge was deleted meanwhile").into()),
            }
        });
    }
    Ok(outcomes)
}

/// Changes a living edge; when nothing would change, it is returned as it is.
pub fn update(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    id: RelationshipId,
    patch: &RelationshipPatch,
) -> Result<Relationship> {
    let before = lock_live(tx, writer, id, patch.expected_version)?;
    let Some((properties, weight)) = patch.apply(&before) else { return Ok(before) };
    check_properties(&properties)?;
    let packs = &writer.packs;
    if writer.project.strict || packs.describes_relationship(&before.type_) {
        let ends = object_rows::find_live(tx, writer.project.id, &[before.from, before.to])?;
        if let (Some(from), Some(to)) = (ends.get(&before.from), ends.get(&before.to)) {
            packs.check_relationship(
                &before.type_,
                &from.type_,
                &to.type_,
                &properties,
                writer.project.strict,
            )?;
        }
    }
    tasks::notify_workflows_of_edge(tx, writer, &before)?;
    let next = Relationship {
        properties: JsonObject::from_map(&properties),
        weight,
        version: before.version + 1,
        updated_at: writer.timestamp_after(before.updated_at),
        author: writer.author,
        reason: writer.reason.clone(),
        ..before
    };
    rows::update(tx, &next)?;
    events::append(tx, next.project, &[new_change(ChangeKind::RelationshipUpdated, &next)])?;
    Ok(next)
}

/// Deletes a living edge; returns the tombstone.
pub fn delete(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    id: RelationshipId,
    expected_version: Option<i64>,
) -> Result<Relationship> {
    let before = lock_live(tx, writer, id, expected_version)?;
    tasks::notify_workflows_of_edge(tx, writer, &before)?;
    let now = writer.timestamp_after(before.updated_at);
    let next = Relationship {
        version: before.version + 1,
        updated_at: now,
        deleted_at: Some(now),
        author: writer.author,
        reason: writer.reason.clone(),
        ..before
    };
    rows::update(tx, &next)?;
    events::append(tx, next.project, &[new_change(ChangeKind::RelationshipDeleted, &next)])?;
    Ok(next)
}

/// Whether the edges of an object would still be allowed if it were of another type.
pub(crate) fn check_edge_types(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    object: ObjectId,
    new_type: &str,
) -> Result<()> {
    if writer.packs.relationship_types().next().is_none() {
        return Ok(());
    }
    let edges = rows::lock_live_of(tx, object)?;
    let ids: Vec<ObjectId> = edges.iter().flat_map(|edge| [edge.from, edge.to]).collect();
    let ends = object_rows::find_live(tx, writer.project.id, &ids)?;
    let type_of = |id: ObjectId| match ends.get(&id) {
        _ if id == object => new_type,
        Some(end) => end.type_.as_str(),
        None => "",
    };
    for edge in edges.iter().filter(|edge| writer.packs.describes_relationship(&edge.type_)) {
        let (from, to) = (type_of(edge.from), type_of(edge.to));
        let properties = edge.properties.to_map();
        writer.packs.check_relationship(&edge.type_, from, to, &properties, writer.project.strict).map_err(
            |invalid| {
                let why = &invalid.problems[0].reason;
                Invalid::new("type", format!("the object has an edge that `{new_type}` cannot have: {why}"))
            },
        )?;
    }
    Ok(())
}

fn lock_live(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    id: RelationshipId,
    expected_version: Option<i64>,
) -> Result<Relationship> {
    let found = rows::lock(tx, writer.project.id, id)?.ok_or_else(|| Error::not_found("relationship", id))?;
    match expected_version {
        Some(expected) if expected != found.version => Err(Error::VersionConflict {
            what: "relationship",
            id: id.to_string(),
            expected,
            current: found.version,
        }),
        _ => Ok(found),
    }
}

fn new_change(kind: ChangeKind, edge: &Relationship) -> NewChange<'_> {
    NewChange {
        kind,
        entity: edge.id.0,
        entity_type: &edge.type_,
        version: edge.version,
        at: edge.updated_at,
        author: edge.author,
    }
}
