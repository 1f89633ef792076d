//! Creating and updating objects inside a transaction.

use emergent_domain::{
    change::ChangeKind,
    ids::ObjectId,
    indexed_text::{IndexedText, indexed_text},
    object::{Object, ObjectPatch},
};
use emergent_store::{
    Tx,
    embedding_queue::{self, RowKind},
    feed::{self, NewChange},
    objects::{self as rows, LockedObject, NewRow},
    search::write::{self as index, Entry, SearchIndex},
};

use super::{ObjectDraft, Upsert, UpsertOutcome};
use crate::{
    Error, WriteContext,
    error::Result,
    relationships,
    tasks::{self, NewTaskCheck, membership},
    withheld::{
        limits::{Stored, check_fits, count_sent, refusal_of_size},
        may_read, refusal_of_change,
    },
};

pub fn create(tx: &mut Tx<'_>, ctx: &WriteContext, draft: &ObjectDraft) -> Result<Object> {
    let joined = membership::assign_run_workflow(tx, ctx, std::slice::from_ref(draft))?;
    let draft = &joined[0];
    draft.check(ctx)?;
    NewTaskCheck::load(tx, ctx, std::iter::once(draft))?.check(draft)?;
    insert(tx, ctx, &[draft])?.remove(0)
}

/// Creates each object independently. An error in one does not affect the others.
pub fn create_each(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &[ObjectDraft],
) -> Result<Vec<Result<Object>>> {
    let drafts = &*membership::assign_run_workflow(tx, ctx, drafts)?;
    let mut task_check = NewTaskCheck::load(tx, ctx, drafts.iter())?;
    let mut checked: Vec<Result<()>> = Vec::with_capacity(drafts.len());
    for draft in drafts {
        tx.check_deadline()?;
        checked.push(match draft.check(ctx).and_then(|()| task_check.check(draft)) {
            // This concerns the transaction and not only the object.
            Err(error @ Error::NotValidated(_)) => return Err(error),
            checked => checked,
        });
    }
    let good: Vec<&ObjectDraft> =
        drafts.iter().zip(&checked).filter(|(_, checked)| checked.is_ok()).map(|(draft, _)| draft).collect();
    let mut created = insert(tx, ctx, &good)?.into_iter();
    Ok(checked
        .into_iter()
        .map(|checked| match checked {
            Ok(()) => created.next().unwrap_or(Err(Error::Store(emergent_store::Error::Closed))),
            Err(error) => Err(error),
        })
        .collect())
}

/// Creates all objects or none. The first error carries its index, as in `objects[3]`.
pub fn create_all(tx: &mut Tx<'_>, ctx: &WriteContext, drafts: &[ObjectDraft]) -> Result<Vec<Object>> {
    let drafts = &*membership::assign_run_workflow(tx, ctx, drafts)?;
    let mut task_check = NewTaskCheck::load(tx, ctx, drafts.iter())?;
    for (index, draft) in drafts.iter().enumerate() {
        tx.check_deadline()?;
        draft.check(ctx).map_err(|error| error.at_index("objects", index))?;
        task_check.check(draft).map_err(|error| error.at_index("objects", index))?;
    }
    let results = insert(tx, ctx, &drafts.iter().collect::<Vec<_>>())?;
    results
        .into_iter()
        .enumerate()
        .map(|(index, result)| result.map_err(|error| error.at_index("objects", index)))
        .collect()
}

fn insert(tx: &mut Tx<'_>, ctx: &WriteContext, drafts: &[&ObjectDraft]) -> Result<Vec<Result<Object>>> {
    let objects: Vec<Object> = drafts.iter().map(|draft| draft.to_object(ctx)).collect();
    let new: Vec<NewRow<'_>> =
        objects.iter().zip(drafts).map(|(object, draft)| NewRow { object, text: &draft.text }).collect();
    let numbers = rows::insert_many(tx, ctx.project.no, &new)?;

    let created = || objects.iter().zip(&numbers).filter_map(|(object, no)| no.map(|no| (object, no)));
    let changes: Vec<NewChange<'_>> =
        created().map(|(object, _)| new_change(ChangeKind::ObjectCreated, object)).collect();
    feed::append(tx, ctx.project.id, &changes)?;
    let vectors = objects.iter().zip(&numbers).zip(drafts).filter(|(_, draft)| draft.embed);
    let queued: Vec<(i64, i64)> =
        vectors.filter_map(|((object, no), _)| Some(((*no)?, object.version))).collect();
    enqueue(tx, ctx, &queued)?;

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
        // The object that had the key was deleted at the same moment.
        None => Err(tx.retry_error("the key was released concurrently").into()),
    }
}

/// Creates the object, or updates the live object with the same type and key.
pub fn upsert(tx: &mut Tx<'_>, ctx: &WriteContext, upsert: &Upsert) -> Result<(Object, UpsertOutcome)> {
    let find = |tx: &mut Tx<'_>| rows::lock_by_key(tx, ctx.project.id, upsert.draft.type_(), &upsert.key);
    if let Some(current) = find(tx)? {
        return apply_patch(tx, ctx, current, &upsert.patch);
    }
    match create(tx, ctx, &upsert.draft) {
        Ok(object) => Ok((object, UpsertOutcome::Created)),
        // A concurrent writer created the object after the lookup.
        Err(Error::KeyTaken { .. }) => match find(tx)? {
            Some(current) => apply_patch(tx, ctx, current, &upsert.patch),
            None => Err(tx.retry_error("the key was released concurrently").into()),
        },
        Err(error) => Err(error),
    }
}

/// Validates a deleted object as it would be after restoring and patching it. Callers use this
/// before they write anything, if they continue after an error.
pub fn check_restored(tx: &mut Tx<'_>, ctx: &WriteContext, id: ObjectId, patch: &ObjectPatch) -> Result<()> {
    let locked = rows::lock(tx, ctx.project.id, id)?.ok_or_else(|| Error::not_found("object", id))?;
    let before = locked.object.properties.to_map();
    let stored = Stored { properties: &before, labels: &locked.object.labels };
    check_fits(tx, ctx, (id.0, stored), patch.properties.as_ref())?;
    let after = match patch.apply_to(&locked.object, &before) {
        Some(after) => after,
        None if may_read(tx, ctx)? => return Ok(()),
        None => patch.after(&locked.object, &before),
    };
    let draft = ObjectDraft::of_stored(after).map_err(|error| refusal_of_size(tx, ctx, error))?;
    if let Err(error) = draft.check(ctx) {
        return Err(refusal_of_change(tx, ctx, &before, patch.properties.as_ref(), error));
    }
    tasks::check_restored(tx, ctx, &locked.object, &draft)
}

/// Updates a live object. If nothing would change, returns it without writing a version.
pub fn update(tx: &mut Tx<'_>, ctx: &WriteContext, id: ObjectId, patch: &ObjectPatch) -> Result<Object> {
    let current = lock_live(tx, ctx, id, patch.expected_version)?;
    Ok(apply_patch(tx, ctx, current, patch)?.0)
}

fn apply_patch(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    current: LockedObject,
    patch: &ObjectPatch,
) -> Result<(Object, UpsertOutcome)> {
    let LockedObject { no, object: before } = current;
    let properties = before.properties.to_map();
    let stored = Stored { properties: &properties, labels: &before.labels };
    count_sent(tx, ctx, (before.id.0, stored), patch.properties.as_ref())?;
    let (after, is_changed) = match patch.apply_to(&before, &properties) {
        Some(after) => (after, true),
        None if may_read(tx, ctx)? => return Ok((before, UpsertOutcome::Unchanged)),
        // Whoever may not read gets the answer that a change would get: otherwise the answer to a guess would tell whether
        // it is what is stored.
        None => (patch.after(&before, &properties), false),
    };
    let draft = ObjectDraft::of_stored(after).map_err(|error| refusal_of_size(tx, ctx, error))?;
    let after = &draft.new;
    if (after.type_ != before.type_ || !ctx.skips_packs(&before.type_))
        && let Err(error) = draft.check(ctx)
    {
        return Err(refusal_of_change(tx, ctx, &properties, patch.properties.as_ref(), error));
    }
    if after.type_ != before.type_ {
        relationships::check_edge_types(tx, ctx, before.id, &after.type_)?;
    }
    if let Some(key) = &after.key
        && (after.type_ != before.type_ || before.key.as_ref() != Some(key))
        && let Some(id) = rows::id_by_key(tx, before.project, &after.type_, key)?
    {
        return Err(Error::KeyTaken { type_: after.type_.clone(), key: key.clone(), id });
    }
    tasks::check_update(tx, ctx, (&before, &properties), patch, &draft)?;
    if !is_changed {
        return Ok((before, UpsertOutcome::Unchanged));
    }
    tasks::before_update(tx, ctx, (&before, &properties), &draft)?;

    let now = ctx.timestamp_after(before.updated_at);
    let next = Object {
        id: before.id,
        version: before.version + 1,
        created_at: before.created_at,
        updated_at: now,
        ..draft.to_object(ctx)
    };
    rows::update(tx, no, &next)?;
    if draft.text != indexed_text(&before.type_, before.key.as_deref(), &before.labels, &properties) {
        index::replace(tx, SearchIndex::Objects, next.project, &Entry { no, text: &draft.text })?;
        enqueue(tx, ctx, &[(no, next.version)])?;
    }
    feed::append(tx, next.project, &[new_change(ChangeKind::ObjectUpdated, &next)])?;
    Ok((next, UpsertOutcome::Updated))
}

pub(super) fn lock_live(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: ObjectId,
    expected_version: Option<i64>,
) -> Result<LockedObject> {
    let locked = rows::lock(tx, ctx.project.id, id)?.filter(|locked| locked.object.deleted_at.is_none());
    let locked = locked.ok_or_else(|| Error::not_found("object", id))?;
    match expected_version {
        Some(expected) if expected != locked.object.version => Err(Error::VersionConflict {
            what: "object",
            id: id.to_string(),
            expected,
            current: locked.object.version,
        }),
        _ => Ok(locked),
    }
}

pub(crate) fn object_indexed_text(object: &Object) -> IndexedText {
    indexed_text(&object.type_, object.key.as_deref(), &object.labels, &object.properties.to_map())
}

pub(super) fn enqueue(tx: &mut Tx<'_>, ctx: &WriteContext, rows: &[(i64, i64)]) -> Result<()> {
    if ctx.embed {
        embedding_queue::enqueue(tx, RowKind::Object, ctx.project.id, rows, ctx.now)?;
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
