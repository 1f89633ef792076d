//! Finds the objects that [`ObjectRef`]s name.

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    object_ref::ObjectRef,
};
use emergent_store::{Tx, objects};

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
