//! [`ObjectRef`], how an input names an object: by its id, or as `Type/key`.

use std::fmt;

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    object_ref,
};
use emergent_graph::{Error, Result, object_refs};
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

    /// Like [`ObjectRef::resolve`], but finds a deleted object if no live one has the key.
    pub fn resolve_any(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<ObjectId> {
        object_refs::resolve_any_object(tx, project, &self.0)
    }

    /// The error if the object does not exist.
    pub fn not_found(&self) -> Error {
        object_refs::object_not_found(&self.0)
    }

    /// Like [`ObjectRef::resolve`], in a read transaction of its own.
    pub async fn resolve_in_read(&self, context: &ToolContext) -> Result<ObjectId> {
        context.graph.resolve_object(context.project, self.0.clone()).await
    }
}

/// Resolves several references in one read, in their order.
pub async fn resolve_all(context: &ToolContext, refs: Vec<ObjectRef>) -> Result<Vec<ObjectId>> {
    let refs = refs.into_iter().map(|reference| reference.0).collect();
    context.graph.resolve_objects(context.project, refs).await?.into_iter().collect()
}
