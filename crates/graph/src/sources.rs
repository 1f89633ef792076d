//! Sources: the chunks that objects and relationships were extracted from.

use std::collections::HashMap;

use emergent_domain::{
    ids::{ChunkId, ObjectId, ProjectId, RelationshipId},
    invalid::Invalid,
    merge::Source,
    object::Object,
    object_ref::ObjectRef,
    relationship::Relationship,
    time::Timestamp,
};
use emergent_store::{
    Tx, relationships as edge_rows,
    sources::{self as rows, SourceOwner},
    traversal::{ByteRoom, Traversal},
};
use uuid::Uuid;

use crate::{Error, Graph, WriteContext, error::Result, object_refs::resolve_object_at};

/// The maximum number of sources returned for one entity, newest first.
pub const MAX_SOURCES: usize = 50;

/// The sources of objects or relationships, by entity id. Entities without sources are not
/// included.
pub type SourcesById = HashMap<Uuid, Vec<Source>>;

/// Finds the source that a caller names: a chunk of a live document of the project.
pub fn find(tx: &mut Tx<'_>, project: ProjectId, chunk: ChunkId) -> Result<Source> {
    let source = rows::find_chunk(tx, project, chunk)?;
    Ok(source.ok_or_else(|| Invalid::new("source.chunkId", "no chunk with this id in this project"))?)
}

/// Records a source that is known since `at`. Returns false if it was already recorded.
pub(crate) fn add_at(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    entity: (SourceOwner, Uuid),
    source: &Source,
    at: Timestamp,
) -> Result<bool> {
    Ok(rows::add(tx, ctx.project.id, entity, source, at, ctx.author)?)
}

/// Records a source of an object. Returns false if it was already recorded.
pub fn add_to_object(tx: &mut Tx<'_>, ctx: &WriteContext, id: ObjectId, source: &Source) -> Result<bool> {
    add_at(tx, ctx, (SourceOwner::Object, id.0), source, ctx.now)
}

/// Records a source of a relationship. Returns false if it was already recorded.
pub fn add_to_relationship(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    id: RelationshipId,
    source: &Source,
) -> Result<bool> {
    add_at(tx, ctx, (SourceOwner::Relationship, id.0), source, ctx.now)
}

/// Returns the newest sources of an entity. `has_sources` avoids the query if there are none.
fn list_sources(tx: &mut Tx<'_>, project: ProjectId, entity: Uuid, has_sources: bool) -> Result<Vec<Source>> {
    let mut sources =
        if has_sources { rows::list_for(tx, project, &[entity], MAX_SOURCES)? } else { SourcesById::new() };
    Ok(sources.remove(&entity).unwrap_or_default())
}

impl Graph {
    /// Returns a live object with its newest sources.
    pub async fn object_with_sources(
        &self,
        project: ProjectId,
        id: ObjectId,
    ) -> Result<(Object, Vec<Source>)> {
        let read = move |tx: &mut Tx<'_>| {
            let Some((object, has_sources)) = rows::get_object_with_flag(tx, project, id)? else {
                return Err(Error::not_found("object", id));
            };
            Ok((object, list_sources(tx, project, id.0, has_sources)?))
        };
        self.db().read(read).await
    }

    /// Returns an object as it was at a time, with the newest of the sources that were known then. A key names the object
    /// that had it then. Fails with [`Error::NotLiveAt`] if the object was not live then.
    pub async fn object_at_with_sources(
        &self,
        project: ProjectId,
        reference: ObjectRef,
        as_of: Timestamp,
    ) -> Result<(Object, Vec<Source>)> {
        let read = move |tx: &mut Tx<'_>| {
            let id = resolve_object_at(tx, project, "id", &reference, as_of)?;
            let then = Traversal { project, relationship_types: &[], as_of: Some(as_of) };
            let object = then.objects(tx, &[id], &[], &mut ByteRoom::new(usize::MAX))?.pop();
            let object = object.ok_or_else(|| Error::not_found("object", id))?;
            let mut sources = rows::list_known_at(tx, project, &[id.0], MAX_SOURCES, as_of)?;
            Ok::<_, Error>((object, sources.remove(&id.0).unwrap_or_default()))
        };
        self.db().snapshot(read).await
    }

    /// Returns a live relationship with its newest sources.
    pub async fn relationship_with_sources(
        &self,
        project: ProjectId,
        id: RelationshipId,
    ) -> Result<(Relationship, Vec<Source>)> {
        let read = move |tx: &mut Tx<'_>| {
            let Some((edge, has_sources)) = rows::get_relationship_with_flag(tx, project, id)? else {
                return Err(Error::not_found("relationship", id));
            };
            Ok((edge, list_sources(tx, project, id.0, has_sources)?))
        };
        self.db().read(read).await
    }

    /// Returns a relationship as it was at a time, with the newest of the sources that were known then. One that did
    /// not exist then, or had ended, is not found.
    pub async fn relationship_at_with_sources(
        &self,
        project: ProjectId,
        id: RelationshipId,
        as_of: Timestamp,
    ) -> Result<(Relationship, Vec<Source>)> {
        let read = move |tx: &mut Tx<'_>| {
            let edge = edge_rows::get_at(tx, project, id, as_of)?;
            let edge = edge.ok_or_else(|| Error::not_found("relationship", id))?;
            let mut sources = rows::list_known_at(tx, project, &[id.0], MAX_SOURCES, as_of)?;
            Ok::<_, Error>((edge, sources.remove(&id.0).unwrap_or_default()))
        };
        self.db().snapshot(read).await
    }

    /// Returns the newest sources of several objects or relationships.
    pub async fn list_sources(&self, project: ProjectId, entities: Vec<Uuid>) -> Result<SourcesById> {
        Ok(self.db().read(move |tx| rows::list_for(tx, project, &entities, MAX_SOURCES)).await?)
    }
}
