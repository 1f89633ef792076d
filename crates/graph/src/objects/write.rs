//! Making and changing objects, inside a transaction.

use emergent_domain::{
    event::ChangeKind,
    ids::ObjectId,
    object::{Object, ObjectPatch},
    words::{IndexedText, indexed_text},
};
use emergent_store::{
    Tx,
    embedding_queue::{self, Kind},
    events::{self, NewEvent},
    objects::{self as rows, Locked, NewRow},
    search::write::{self as index, Entry, Index},
};

use super::{Draft, Upsert, Written};
use crate::{
    Error, Writer,
    error::Result,
    relationships,
    tasks::{self, Gate, joining},
};

pub fn create(tx: &mut Tx<'_>, writer: &Writer, draft: &Draft) -> Result<Object> {
    let joined = joining::own_workflow(tx, writer, std::slice::from_ref(draft))?;
    let draft = &joined[0];
    draft.check(writer)?;
    Gate::open(tx, writer, std::iter::once(draft))?.admit(draft)?;
    insert(tx, writer, &[draft])?.remove(0)
}

/// Each on its own: what is wrong with one does not keep the others out.
pub fn create_each(tx: &mut Tx<'_>, writer: &Writer, drafts: &[Draft]) -> Result<Vec<Result<Object>>> {
    let drafts = &*joining::own_workflow(tx, writer, drafts)?;
    let mut gate = Gate::open(tx, writer, drafts.iter())?;
    let mut check = |draft: &Draft| Ok(draft.check(writer)?).and_then(|()| gate.admit(draft));
    let checked: Vec<Result<()>> = drafts.iter().map(&mut check).collect();
    let good: Vec<&Draft> =
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
pub fn create_all(tx: &mut Tx<'_>, writer: &Writer, drafts: &[Draft]) -> Result<Vec<Object>> {
    let drafts = &*joining::own_workflow(tx, writer, drafts)?;
    let mut gate = Gate::open(tx, writer, drafts.iter())?;
    for (at, draft) in drafts.iter().enumerate() {
        draft.check(writer).map_err(|invalid| Error::from(invalid).at("objects", at))?;
        gate.admit(draft).map_err(|error| error.at("objects", at))?;
    }
    let made = insert(tx, writer, &drafts.iter().collect::<Vec<_>>())?;
    made.into_iter().enumerate().map(|(at, made)| made.map_err(|error| error.at("objects", at))).collect()
}

fn insert(tx: &mut Tx<'_>, writer: &Writer, drafts: &[&Draft]) -> Result<Vec<Result<Object>>> {
    let objects: Vec<Object> = drafts.iter().map(|draft| draft.object(writer)).collect();
    let new: Vec<NewRow<'_>> =
        objects.iter().zip(drafts).map(|(object, draft)| NewRow { object, text: &draft.text }).collect();
    let numbers = rows::insert_many(tx, writer.project.no, &new)?;

    let made = || objects.iter().zip(&numbers).filter_map(|(object, no)| no.map(|no| (object, no)));
    let told: Vec<NewEvent<'_>> =
        made().map(|(object, _)| event(ChangeKind::ObjectCreated, object)).collect();
    events::record(tx, writer.project.id, &told)?;
    let vectors = objects.iter().zip(&numbers).zip(drafts).filter(|(_, draft)| draft.has_vector);
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
    match rows::key_holder(tx, object.project, &type_, &key)? {
        Some(id) => Ok(Error::KeyTaken { type_, key, id }),
        // Whoever had it deleted it at this very moment.
        None => Err(tx.again("the key was given up meanwhile").into()),
    }
}

/// Makes the object, or changes the living one with its type and key.
pub fn upsert(tx: &mut Tx<'_>, writer: &Writer, upsert: &Upsert) -> Result<(Object, Written)> {
    let find = |tx: &mut Tx<'_>| rows::lock_by_key(tx, writer.project.id, upsert.draft.type_(), &upsert.key);
    if let Some(current) = find(tx)? {
        return apply(tx, writer, current, &upsert.patch);
    }
    match create(tx, writer, &upsert.draft) {
        Ok(object) => Ok((object, Written::Created)),
        // Someone else made it since we looked.
        Err(Error::KeyTaken { .. }) => match find(tx)? {
            Some(current) => apply(tx, writer, current, &upsert.patch),
            None => Err(tx.again("the key was given up meanwhile").into()),
        },
        Err(error) => Err(error),
    }
}

/// Whether a deleted object, restored and changed so, would be what the packs allow: asked before
/// anything is written, by whoever goes on after a refusal.
pub fn check_restored(tx: &mut Tx<'_>, writer: &Writer, id: ObjectId, patch: &ObjectPatch) -> Result<()> {
    let found = rows::lock(tx, writer.project.id, id)?.ok_or_else(|| Error::not_found("object", id))?;
    match patch.apply(&found.object) {
        Some(after) => {
            let draft = Draft::new(after)?;
            draft.check(writer)?;
            tasks::check_restored(writer, &found.object, &draft)
        }
        None => Ok(()),
    }
}

/// Changes a living object; when nothing would change, it is returned as it is.
pub fn update(tx: &mut Tx<'_>, writer: &Writer, id: ObjectId, patch: &ObjectPatch) -> Result<Object> {
    let current = lock_living(tx, writer, id, patch.expected_version)?;
    Ok(apply(tx, writer, current, patch)?.0)
}

fn apply(
    tx: &mut Tx<'_>,
    writer: &Writer,
    current: Locked,
    patch: &ObjectPatch,
) -> Result<(Object, Written)> {
    let Locked { no, object: before } = current;
    let properties = before.properties.to_map();
    let Some(after) = patch.apply_to(&before, &properties) else { return Ok((before, Written::Unchanged)) };
    let draft = Draft::new(after)?;
    draft.check(writer)?;
    let after = &draft.new;
    if after.type_ != before.type_ {
        relationships::check_edges_of(tx, writer, before.id, &after.type_)?;
    }
    if let Some(key) = &after.key
        && (after.type_ != before.type_ || before.key.as_ref() != Some(key))
        && let Some(id) = rows::key_holder(tx, before.project, &after.type_, key)?
    {
        return Err(Error::KeyTaken { type_: after.type_.clone(), key: key.clone(), id });
    }
    tasks::change(tx, writer, &before, &properties, &draft)?;

    let now = writer.after(before.updated_at);
    let next = Object {
        id: before.id,
        version: before.version + 1,
        created_at: before.created_at,
        updated_at: now,
        ..draft.object(writer)
    };
    rows::update(tx, no, &next)?;
    if draft.text != indexed_text(&before.type_, before.key.as_deref(), &before.labels, &properties) {
        index::replace(tx, Index::Objects, next.project, &Entry { no, text: &draft.text })?;
        enqueue(tx, writer, &[(no, next.version)])?;
    }
    events::record(tx, next.project, &[event(ChangeKind::ObjectUpdated, &next)])?;
    Ok((next, Written::Updated))
}

pub(super) fn lock_living(
    tx: &mut Tx<'_>,
    writer: &Writer,
    id: ObjectId,
    expected_version: Option<i64>,
) -> Result<Locked> {
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

pub(super) fn text_of(object: &Object) -> IndexedText {
    indexed_text(&object.type_, object.key.as_deref(), &object.labels, &object.properties.to_map())
}

pub(super) fn enqueue(tx: &mut Tx<'_>, writer: &Writer, rows: &[(i64, i64)]) -> Result<()> {
    if writer.embeds {
        embedding_queue::enqueue(tx, Kind::Object, writer.project.id, rows, writer.now)?;
    }
    Ok(())
}

pub(super) fn event(kind: ChangeKind, object: &Object) -> NewEvent<'_> {
    NewEvent {
        kind,
        entity: object.id.0,
        entity_type: &object.type_,
        version: object.version,
        at: object.updated_at,
        author: object.author,
    }
}
