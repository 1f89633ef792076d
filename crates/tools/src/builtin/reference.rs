//! [`ObjectRef`], how an input names an object: by its id, or as `Type/key`.

use std::{fmt, sync::Arc};

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    object_ref,
    time::Timestamp,
};
use emergent_graph::{
    Error, Result, WriteContext,
    judged_names::{self, JudgedNames},
    object_refs,
};
use emergent_store::Tx;
use serde::Deserialize;

use crate::ToolContext;

/// The reference of the domain, as a type of this crate: the schemas of inputs need one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ObjectRef(pub object_ref::ObjectRef);

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ObjectRef {
    /// The id of a live object. An id is returned without a check, so the caller has to look it up in the
    /// project.
    pub fn resolve(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<ObjectId> {
        object_refs::resolve_object(tx, project, &self.0)
    }

    /// Like [`ObjectRef::resolve`], in the change of a call. Fails if the key was given to another object since it was decided
    /// that the call may be made.
    pub fn resolve_for(&self, tx: &mut Tx<'_>, writer: &WriteContext) -> Result<ObjectId> {
        writer.resolve_object(tx, &self.0)
    }

    /// Like [`ObjectRef::resolve_for`], but finds a deleted object if no live one has the key.
    pub fn resolve_any_for(&self, tx: &mut Tx<'_>, writer: &WriteContext) -> Result<ObjectId> {
        writer.resolve_any_object(tx, &self.0)
    }

    /// Like [`ObjectRef::resolve`], but finds a deleted object if no live one has the key.
    pub fn resolve_any(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<ObjectId> {
        object_refs::resolve_any_object(tx, project, &self.0)
    }

    /// The id of the object that this named at a time: a key names the object that had it then. Fails if the object was
    /// not live then. It needs a snapshot.
    pub fn resolve_at(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        field: &str,
        as_of: Timestamp,
    ) -> Result<ObjectId> {
        object_refs::resolve_object_at(tx, project, field, &self.0, as_of)
    }

    /// The error if the object does not exist.
    pub fn not_found(&self) -> Error {
        object_refs::object_not_found(&self.0)
    }

    /// Like [`ObjectRef::resolve`], in a read transaction of its own. Fails if the key was given to another object since it
    /// was decided that the call may be made.
    pub async fn resolve_in_read(&self, context: &ToolContext) -> Result<ObjectId> {
        let id = context.graph.resolve_object(context.project, self.0.clone()).await?;
        check_found(context, [(self, id)]).await?;
        Ok(id)
    }

    /// Like [`ObjectRef::resolve_in_read`], now or at a time.
    pub async fn resolve_in_read_at(
        &self,
        context: &ToolContext,
        field: &'static str,
        as_of: Option<Timestamp>,
    ) -> Result<ObjectId> {
        match as_of {
            Some(as_of) => {
                let id =
                    context.graph.resolve_object_at(context.project, field, self.0.clone(), as_of).await?;
                check_found(context, [(self, id)]).await?;
                Ok(id)
            }
            None => self.resolve_in_read(context).await,
        }
    }
}

/// Resolves the objects from which a traversal starts in one read, in their order, now or at a time.
pub async fn resolve_start(
    context: &ToolContext,
    refs: Vec<ObjectRef>,
    as_of: Option<Timestamp>,
) -> Result<Vec<ObjectId>> {
    let (graph, project) = (&context.graph, context.project);
    let references = refs.iter().map(|reference| reference.0.clone()).collect();
    let ids: Vec<ObjectId> = match as_of {
        Some(as_of) => graph.resolve_objects_at(project, "startIds", references, as_of).await?,
        None => graph.resolve_objects(project, references).await?.into_iter().collect::<Result<_>>()?,
    };
    check_found(context, refs.iter().zip(ids.iter().copied())).await?;
    Ok(ids)
}

/// Like [`check_found`], for one object, in the transaction of the read.
pub fn check_read(
    tx: &mut Tx<'_>,
    project: ProjectId,
    judged: &[JudgedNames],
    named: &ObjectRef,
    id: ObjectId,
) -> Result<()> {
    match named.0 {
        object_ref::ObjectRef::Id(_) => Ok(()),
        object_ref::ObjectRef::Key { .. } => {
            judged_names::check_key(tx, project, judged, &named.to_string(), id)
        }
    }
}

/// Fails if a read has found another object by a key than what was decided about when it was decided that the call may be
/// made. An id never names another object.
pub async fn check_found(
    context: &ToolContext,
    found: impl IntoIterator<Item = (&ObjectRef, ObjectId)>,
) -> Result<()> {
    if context.judged.is_empty() {
        return Ok(());
    }
    let is_key = |reference: &ObjectRef| matches!(reference.0, object_ref::ObjectRef::Key { .. });
    let found = found.into_iter().filter(|(reference, _)| is_key(reference));
    let found: Vec<(String, ObjectId)> = found.map(|(reference, id)| (reference.to_string(), id)).collect();
    context.graph.check_judged(context.project, Arc::clone(&context.judged), found).await
}
