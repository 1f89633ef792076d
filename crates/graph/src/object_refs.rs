//! Finds the objects that [`ObjectRef`]s name, now or at an earlier time.

use std::collections::HashSet;

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    invalid::{Invalid, Problem},
    object_ref::ObjectRef,
    query::TraverseQuery,
    time::Timestamp,
};
use emergent_store::{
    Tx,
    objects::{self, StateAt},
    traversal::Traversal,
};

use crate::{
    Graph,
    error::{Error, Result},
};

/// How a key is looked up.
type ByKey = fn(&mut Tx<'_>, ProjectId, &str, &str) -> emergent_store::Result<Option<ObjectId>>;

/// Returns the id of a live object. An id, alone or after a type, is returned without a check whether the object is
/// live, so the caller has to look it up in the project.
pub fn resolve_object(tx: &mut Tx<'_>, project: ProjectId, reference: &ObjectRef) -> Result<ObjectId> {
    find(tx, project, reference, objects::id_by_key)
}

/// Like [`resolve_object`], but finds a deleted object if no live one has the key.
pub fn resolve_any_object(tx: &mut Tx<'_>, project: ProjectId, reference: &ObjectRef) -> Result<ObjectId> {
    find(tx, project, reference, objects::latest_id_by_key)
}

/// Returns the id of the object that the reference named at a time: a key names the object that had it then. Fails with
/// [`Error::NotLiveAt`] if the object was not live then. `field` is where the request has the reference. It needs a
/// snapshot, because a concurrent update moves a version to the history.
pub fn resolve_object_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    field: &str,
    reference: &ObjectRef,
    as_of: Timestamp,
) -> Result<ObjectId> {
    let state = match reference {
        ObjectRef::Id(id) => objects::state_at(tx, project, *id, as_of)?,
        ObjectRef::Key { type_, key } => find_key_at(tx, project, type_, key, as_of)?,
    };
    let reason = match state {
        Some(StateAt { id, deleted_at: None, .. }) => return Ok(id),
        Some(StateAt { deleted_at: Some(at), .. }) => format!("the object `{reference}` was deleted at {at}"),
        None => format!("the object `{reference}` did not exist at {as_of}"),
    };
    Err(Error::NotLiveAt(Problem::new(field, reason)))
}

/// The object that had the key at a time, or had it when it was deleted. As in [`resolve_object`], an id may stand for the
/// key.
fn find_key_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    key: &str,
    as_of: Timestamp,
) -> Result<Option<StateAt>> {
    let by_key = objects::state_by_key_at(tx, project, type_, key, as_of)?
        .filter(|state| state.type_ == type_ && state.key.as_deref() == Some(key));
    let is_live = by_key.as_ref().is_some_and(|state| state.deleted_at.is_none());
    let by_id = match key.parse() {
        Ok(id) if !is_live => objects::state_at(tx, project, id, as_of)?,
        _ => None,
    };
    Ok(by_id.filter(|state| state.type_ == type_).or(by_key))
}

/// The objects that a key could mean at a time for [`resolve_object_at`], also deleted ones.
pub(crate) fn list_ids_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    key: &str,
    as_of: Timestamp,
) -> Result<Vec<ObjectId>> {
    let by_key = objects::state_by_key_at(tx, project, type_, key, as_of)?
        .filter(|state| state.type_ == type_ && state.key.as_deref() == Some(key));
    let mut found: Vec<ObjectId> = by_key.map(|state| state.id).into_iter().collect();
    if let Ok(id) = key.parse()
        && objects::state_at(tx, project, id, as_of)?.is_some_and(|state| state.type_ == type_)
    {
        found.push(id);
    }
    Ok(found)
}

/// The error if the object does not exist.
pub fn object_not_found(reference: &ObjectRef) -> Error {
    Error::NotFound { what: "object", id: reference.to_string() }
}

fn find(tx: &mut Tx<'_>, project: ProjectId, reference: &ObjectRef, by_key: ByKey) -> Result<ObjectId> {
    match reference {
        ObjectRef::Id(id) => Ok(*id),
        ObjectRef::Key { type_, key } => match by_key(tx, project, type_, key)? {
            Some(id) => Ok(id),
            // Lists name an object without a key as `Type/id`. As with an id alone, the caller looks it up.
            None => match key.parse() {
                Ok(id) if objects::has_type(tx, project, id, type_)? => Ok(id),
                _ => Err(object_not_found(reference)),
            },
        },
    }
}

impl Graph {
    /// Like [`resolve_object`], in a read transaction of its own.
    pub async fn resolve_object(&self, project: ProjectId, reference: ObjectRef) -> Result<ObjectId> {
        match reference {
            ObjectRef::Id(id) => Ok(id),
            reference => self.db().read(move |tx| resolve_object(tx, project, &reference)).await,
        }
    }

    /// Like [`resolve_any_object`], in a read transaction of its own.
    pub async fn resolve_any_object(&self, project: ProjectId, reference: ObjectRef) -> Result<ObjectId> {
        match reference {
            ObjectRef::Id(id) => Ok(id),
            reference => self.db().read(move |tx| resolve_any_object(tx, project, &reference)).await,
        }
    }

    /// Like [`resolve_object_at`], in a snapshot of its own.
    pub async fn resolve_object_at(
        &self,
        project: ProjectId,
        field: &'static str,
        reference: ObjectRef,
        as_of: Timestamp,
    ) -> Result<ObjectId> {
        self.db().snapshot(move |tx| resolve_object_at(tx, project, field, &reference, as_of)).await
    }

    /// Like [`resolve_object_at`], for the list of objects from which a traversal starts, in a snapshot of its own. The
    /// error is that of the first object that was not live, with its index: `startIds[3]`.
    pub async fn resolve_objects_at(
        &self,
        project: ProjectId,
        list: &'static str,
        references: Vec<ObjectRef>,
        as_of: Timestamp,
    ) -> Result<Vec<ObjectId>> {
        let max = TraverseQuery::MAX_START;
        if references.len() > max {
            return Err(Invalid::new(list, format!("must be 1 to {max}")).into());
        }
        let read = move |tx: &mut Tx<'_>| {
            let id = |reference: &ObjectRef| match reference {
                ObjectRef::Id(id) => Some(*id),
                ObjectRef::Key { .. } => None,
            };
            let ids: Vec<ObjectId> = references.iter().filter_map(id).collect();
            let then = Traversal { project, relationship_types: &[], as_of: Some(as_of) };
            // One statement for all ids; only what is not live needs one of its own, for its error.
            let live: HashSet<ObjectId> = then.live_ids(tx, &ids, &[])?.into_iter().collect();
            let mut resolved = Vec::with_capacity(references.len());
            for (index, reference) in references.iter().enumerate() {
                resolved.push(match id(reference).filter(|id| live.contains(id)) {
                    Some(id) => id,
                    None => resolve_object_at(tx, project, &format!("{list}[{index}]"), reference, as_of)?,
                });
            }
            Ok::<_, Error>(resolved)
        };
        self.db().snapshot(read).await
    }

    /// Resolves several references in one read: a result for each, in their order. Only keys are looked up.
    pub async fn resolve_objects(
        &self,
        project: ProjectId,
        references: Vec<ObjectRef>,
    ) -> Result<Vec<Result<ObjectId>>> {
        let known = |reference: &ObjectRef| match reference {
            ObjectRef::Id(id) => Some(Ok(*id)),
            ObjectRef::Key { .. } => None,
        };
        if let Some(ids) = references.iter().map(known).collect() {
            return Ok(ids);
        }
        let read = move |tx: &mut Tx<'_>| {
            let mut ids = Vec::with_capacity(references.len());
            for reference in &references {
                match resolve_object(tx, project, reference) {
                    Err(error) if !matches!(error, Error::NotFound { .. }) => return Err(error),
                    found => ids.push(found),
                }
            }
            Ok(ids)
        };
        self.db().read(read).await
    }
}
