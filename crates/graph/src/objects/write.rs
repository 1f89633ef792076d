//! Making and changing objects, inside a transaction.

use emergent_domain::{
    change::ChangeKind,
    ids::ObjectId,
    indexed_text::{IndexedText, indexed_text},
    object::{Object, ObjectPatch},
};
use emergent_store::{
    Tx,
    embedding_queue::{self, RowKind},
    events::{self, NewChange},
    objects::{self as rows, LockedObject, NewRow},
    search::write::{self as index, Entry, SearchIndex},
};

use super::{ObjectDraft, Upsert, UpsertOutcome};
use crate::{
    Error, WriteContext,
    error::Result,
    relationships,
    tasks::{self, NewTaskCheck, membership},
};

pub fn create(tx: &mut Tx<'_>, writer: &WriteContext, draft: &ObjectDraft) -> Result<Object> {
    let joined = membership::assign_run_workflow(tx, writer, std::slice::from_ref(draft))?;
    let draft = &joined[0];
    draft.check(writer)?;
    NewTaskCheck::load(tx, writer, std::iter::once(draft))?.check(draft)?;
    insert(tx, writer, &[draft])?.remove(0)
}

/// Each on its own: what is wrong with one does not keep the others out.
pub fn create_each(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    drafts: &[ObjectDraft],
) -> Result<Vec<Result<Object>>> {
    let drafts = &*membership::assign_run_workflow(tx, writer, drafts)?;
    let mut gate = NewTaskCheck::load(tx, writer, drafts.iter())?;
    let mut check = |draft: &ObjectDraft| Ok(draft.check(writer)?).and_then(|()| gate.check(draft));
    let checked: Vec<Result<()>> = drafts.iter().map(&mut check).collect();
    let good: Vec<&ObjectDraft> =
        drafts.iter().zip(&checked).filter(|(_, checked)| checked.is_ok()).map(|(draft, _)| draft).collect();
    let mut made = insert(tx, writer, &good)?.into_iter();
    Ok(checked
        .into_iter()
        .map(|checked| match checked {
            Ok(()) => made.next().unwrap_or(Err(Error::Store(emergent_store::Error::Closed))),
            Err(error) => Err(error),
        })
        .collect())
}

/// All or none: the first that is wrong is the error, as `objects[3]`.
pub fn create_all(tx: &mut Tx<'_>, writer: &WriteContext, drafts: &[ObjectDraft]) -> Result<Vec<Object>> {
    let drafts = &*membership::assign_run_workflow(tx, writer, drafts)?;
    let mut gate = NewTaskCheck::load(tx, writer, drafts.iter())?;
    for (at, draft) in drafts.iter().enumerate() {
        draft.check(writer).map_err(|invalid| Error::from(invalid).at_index("objects", at))?;
        gate.check(draft).map_err(|error| error.at_index("objects", at))?;
    }
    let made = insert(tx, writer, &drafts.iter().collect::<Vec<_>>())?;
    made.into_iter()
        .enumerate()
        .map(|(at, made)| made.map_err(|error| error.at_index("objects", at)))
        .collect()
}

fn insert(tx: &mut Tx<'_>, writer: &WriteContext, drafts: &[&ObjectDraft]) -> Result<Vec<Result<Object>>> {
    let objects: Vec<Object> = drafts.iter().map(|draft| draft.to_object(writer)).collect();
    let new: Vec<NewRow<'_>> =
        objects.iter().zip(drafts).map(|(object, draft)| NewRow { object, text: &draft.text }).collect();
    let numbers = rows::insert_many(tx, writer.project.no, &new)?;

    let made = || objects.iter().zip(&numbers).filter_map(|(object, no)| no.map(|no| (object, no)));
    let told: Vec<NewChange<'_>> =
        made().map(|(object, _)| new_change(ChangeKind::ObjectCreated, object)).collect();
    events::append(tx, writer.project.id, &told)?;
    let vectors = objects.iter().zip(&numbers).zip(drafts).filter(|(_, draft)| draft.embed);
    let queued: Vec<(i64, i64)> =
        vectors.filter_map(|((object, no), _)| Some(((*no)?, object.version))).collect();
    enqueue(tx, writer, &queued)?;

    let mut outcomes = Vec::with_capacity(objects.len());
    for (object, no) in objects.into_iter().zip(numbers) {
        outcomes.push(match no {
            Some(_) => Ok(object),
            None => Err(key_taken(tx, object)?),
        });
    }
    Ok(outcomes)
}

fn key_taken(tx: &mut Tx<'_>, object: Object) -> Result<Error> {
    let (type_, key) = (object.type_, object.key.unwrap_or_default());
    match rows::id_by_key(tx, object.project, &type_, &key)? {
        Some(id) => Ok(Error::KeyTaken { type_, key, id }),
        // Whoever had it deleted it at this very moment.
        None => Err(tx.retry_error("the key was given up meanwhile").into()),
    }
}

/// Makes the object, or changes the living one with its type and key.
pub fn upsert(tx: &mut Tx<'_>, writer: &WriteContext, upsert: &Upsert) -> Result<(Object, UpsertOutcome)> {
    let find = |tx: &mut Tx<'_>| rows::lock_by_key(tx, writer.project.id, upsert.draft.type_(), &upsert.key);
    if let Some(current) = find(tx)? {
        return apply_patch(tx, writer, current, &upsert.patch);
    }
    match create(tx, writer, &upsert.draft) {
        Ok(object) => Ok((object, UpsertOutcome::Created)),
        // Someone else made it since we looked.
        Err(Error::KeyTaken { .. }) => match find(tx)? {
            Some(current) => apply_patch(tx, writer, current, &upsert.patch),
            None => Err(tx.retry_error("the key was given up meanwhile").into()),
        },
        Err(error) => Err(error),
    }
}

/// Whether a deleted object, restored and changed so, would be what the packs allow: asked before
/// anything is written, by whoever goes on after a refusal.
pub fn check_restored(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    id: ObjectId,
    patch: &ObjectPatch,
) -> Result<()> {
    let found = rows::lock(tx, writer.project.id, id)?.ok_or_else(|| Error::not_found("object", id))?;
    match patch.apply(&found.object) {
        Some(after) => {
            let draft = ObjectDraft::new(after)?;
            draft.check(writer)?;
            tasks::check_restored(writer, &found.object, &draft)
        }
        None => Ok(()),
    }
}

/// Changes a living object; when nothing would change, it is returned as it is.
pub fn update(tx: &mut Tx<'_>, writer: &WriteContext, id: ObjectId, patch: &ObjectPatch) -> Result<Object> {
    let current = lock_live(tx, writer, id, patch.expected_version)?;
    Ok(apply_patch(tx, writer, current, patch)?.0)
}

fn apply_patch(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    current: LockedObject,
    patch: &ObjectPatch,
) -> Result<(Object, UpsertOutcome)> {
    let LockedObject { no, object: before } = current;
    let properties = before.properties.to_map();
    let Some(after) = patch.apply_to(&before, &properties) else {
        return Ok((before, UpsertOutcome::Unchanged));
    };
    let draft = ObjectDraft::new(after)?;
    draft.check(writer)?;
    let after = &draft.new;
    if after.type_ != before.type_ {
        relationships::check_edge_types(tx, writer, before.id, &after.type_)?;
    }
    if let Some(key) = &after.key
        && (after.type_ != before.type_ || before.key.as_ref() != Some(key))
        && let Some(id) = rows::id_by_key(tx, before.project, &after.type_, key)?
    {
        return Err(Error::KeyTaken { type_: after.type_.clone(), key: key.clone(), id });
    }
    tasks::before_update(tx, writer, &before, &properties, &draft)?;

    let now = writer.timestamp_after(before.updated_at);
    let next = Object {
        id: before.id,
        version: before.version + 1,
        created_at: before.created_at,
        updated_at: now,
        ..draft.to_object(writer)
    };
    rows::update(tx, no, &next)?;
    if draft.text != indexed_text(&before.type_, before.key.as_deref(), &before.labels, &properties) {
        index::replace(tx, SearchIndex::Objects, next.project, &Entry { no, text: &draft.text })?;
        enqueue(tx, writer, &[(no, next.version)])?;
    }
    events::append(tx, next.project, &[new_change(ChangeKind::ObjectUpdated, &next)])?;
    Ok((next, UpsertOutcome::Updated))
}

pub(super) fn lock_live(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    id: ObjectId,
    expected_version: Option<i64>,
) -> Result<LockedObject> {
    let found = rows::lock(tx, writer.project.id, id)?.filter(|found| found.object.deleted_at.is_none());
    let found = found.ok_or_else(|| Error::not_found("object", id))?;
    match expected_version {
        Some(expected) if expected != found.object.version => Err(Error::VersionConflict {
            what: "object",
            id: id.to_string(),
            expected,
            current: found.object.version,
        }),
        _ => Ok(found),
    }
}

pub(super) fn object_indexed_text(object: &Object) -> IndexedText {
    indexed_text(&object.type_, object.key.as_deref(), &object.labels, &object.properties.to_map())
}

pub(super) fn enqueue(tx: &mut Tx<'_>, writer: &WriteContext, rows: &[(i64, i64)]) -> Result<()> {
    if writer.embed {
        embedding_queue::enqueue(tx, RowKind::Object, writer.project.id, rows, writer.now)?;
    }
    Ok(())
}

pub(super) fn new_change(kind: ChangeKind, object: &Object) -> NewChange<'_> {
    NewChange {
        kind,
        entity: object.id.0,
        entity_type: &object.type_,
        version: object.version,
        at: object.updated_at,
        author: object.author,
    }
}
