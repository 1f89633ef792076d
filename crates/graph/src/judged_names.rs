//! The objects that the input of a tool call named by keys when it was decided that the call may be made.
//!
//! A rule, or a person who approves a call, decides about the objects that the call may name at that moment. The call is
//! made in a later transaction, and in between somebody else may give a key to another object. A change therefore looks
//! at what each key means where it resolves it, and a read at what it has found, and the call is refused if that is none
//! of what was decided about. What is named without a key, such as a task by its key in a workflow or an entity by its
//! name, is not compared.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    approval::NamedObject,
    ids::{ObjectId, ProjectId},
    object_ref::ObjectRef,
    time::Timestamp,
};
use emergent_store::{Tx, objects};

use crate::{
    Error, Graph, WriteContext,
    error::Result,
    object_refs::{resolve_any_object, resolve_object},
};

/// What the keys in the input of a call meant when it was decided that the call may be made.
#[derive(Debug, Clone)]
pub struct JudgedNames {
    /// The objects that each text may name, by how it is written in the input. What named nothing is left out.
    pub objects: HashMap<String, Vec<NamedObject>>,
    /// When they were looked up.
    pub at: Timestamp,
}

impl JudgedNames {
    /// Whether a key means something that was decided about. `None`: it named nothing then, or only something deleted, so
    /// it may name what was created since.
    fn allow_known(&self, text: &str, id: ObjectId) -> Option<bool> {
        let judged = self.objects.get(text).map(Vec::as_slice).unwrap_or_default();
        if judged.iter().any(|object| object.id == id) {
            return Some(true);
        }
        judged.iter().any(|object| !object.is_deleted).then_some(false)
    }

    fn allow(&self, tx: &mut Tx<'_>, project: ProjectId, text: &str, id: ObjectId) -> Result<bool> {
        match self.allow_known(text, id) {
            Some(is_allowed) => Ok(is_allowed),
            None => {
                let found = objects::list_keys(tx, project, &[id])?;
                Ok(found.iter().all(|object| object.created_at > self.at))
            }
        }
    }
}

/// Fails if an object is none of those that its key could mean when it was decided that the call may be made. `text` is
/// how the input of the call names it.
pub fn check_key(
    tx: &mut Tx<'_>,
    project: ProjectId,
    judged: &[JudgedNames],
    text: &str,
    id: ObjectId,
) -> Result<()> {
    for judged in judged {
        if !judged.allow(tx, project, text, id)? {
            return Err(Error::Conflict {
                message: format!(
                    "`{text}` was given to another object while this call was decided about, so the call was not made: \
                     make it again if it is still needed"
                ),
            });
        }
    }
    Ok(())
}

impl Graph {
    /// Fails if a read has found another object than a key named when it was decided that the call may be made. Each object
    /// is there with how the input names it.
    pub async fn check_judged(
        &self,
        project: ProjectId,
        judged: Arc<[JudgedNames]>,
        found: Vec<(String, ObjectId)>,
    ) -> Result<()> {
        let is_known = |(text, id): &(String, ObjectId)| {
            judged.iter().all(|judged| judged.allow_known(text, *id) == Some(true))
        };
        if found.iter().all(is_known) {
            return Ok(());
        }
        let check = move |tx: &mut Tx<'_>| {
            found.iter().try_for_each(|(text, id)| check_key(tx, project, &judged, text, *id))
        };
        self.db().read(check).await
    }
}

impl WriteContext {
    /// Returns the id of a live object, as [`resolve_object`] does, and fails if it is not the one that was decided about.
    pub fn resolve_object(&self, tx: &mut Tx<'_>, reference: &ObjectRef) -> Result<ObjectId> {
        let id = resolve_object(tx, self.project.id, reference)?;
        self.check_reference(tx, reference, id)
    }

    /// Like [`WriteContext::resolve_object`], but finds a deleted object if no live one has the key.
    pub fn resolve_any_object(&self, tx: &mut Tx<'_>, reference: &ObjectRef) -> Result<ObjectId> {
        let id = resolve_any_object(tx, self.project.id, reference)?;
        self.check_reference(tx, reference, id)
    }

    fn check_reference(&self, tx: &mut Tx<'_>, reference: &ObjectRef, id: ObjectId) -> Result<ObjectId> {
        match reference {
            // An id never names another object.
            ObjectRef::Id(_) => Ok(id),
            ObjectRef::Key { .. } => self.check_key(tx, &reference.to_string(), id),
        }
    }

    /// Like [`check_key`], in the change of a call. Returns the object.
    pub fn check_key(&self, tx: &mut Tx<'_>, text: &str, id: ObjectId) -> Result<ObjectId> {
        check_key(tx, self.project.id, &self.judged, text, id)?;
        Ok(id)
    }
}
