//! Where it was said: the passages that objects and relationships were found in.

use std::collections::HashMap;

use emergent_domain::{
    ids::{ChunkId, ObjectId, ProjectId, RelationshipId},
    invalid::Invalid,
    merge::Source,
    object::Object,
    relationship::Relationship,
};
use emergent_store::{
    Tx,
    sources::{self as rows, SourceOwner},
};
use uuid::Uuid;

use crate::{Error, Graph, WriteContext, error::Result};

/// As many passages are shown of one thing, the newest.
pub const MAX_SOURCES: usize = 50;

/// The passages of some objects or relationships, by their ids; what has none is not in it.
pub type SourcesById = HashMap<Uuid, Vec<Source>>;

/// The passage a caller names as its source: a chunk of a living document of the project.
pub fn find(tx: &mut Tx<'_>, project: ProjectId, chunk: ChunkId) -> Result<Source> {
    let found = rows::find_chunk(tx, project, chunk)?;
    Ok(found.ok_or_else(|| Invalid::new("source.chunkId", "no chunk with this id in this project"))?)
}

/// Notes where an object was found; false when that was known.
pub fn add_to_object(tx: &mut Tx<'_>, writer: &WriteContext, id: ObjectId, source: &Source) -> Result<bool> {
    Ok(rows::add(tx, writer.project.id, (SourceOwner::Object, id.0), source, writer.now, writer.author)?)
}

/// Notes where a relationship was found; false when that was known.
pub fn add_to_relationship(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    id: RelationshipId,
    source: &Source,
) -> Result<bool> {
    Ok(rows::add(
        tx,
        writer.project.id,
        (SourceOwner::Relationship, id.0),
        source,
        writer.now,
        writer.author,
    )?)
}

/// The newest passages of one thing; asked for only where there are any.
fn list_sources(tx: &mut Tx<'_>, project: ProjectId, entity: Uuid, found: bool) -> Result<Vec<Source>> {
    let mut said =
        if found { rows::list_for(tx, project, &[entity], MAX_SOURCES)? } else { SourcesById::new() };
    Ok(said.remove(&entity).unwrap_or_default())
}

impl Graph {
    /// A living object with the newest passages it was found in.
    pub async fn object_with_sources(
        &self,
        project: ProjectId,
        id: ObjectId,
    ) -> Result<(Object, Vec<Source>)> {
        let read = move |tx: &mut Tx<'_>| {
            let Some((object, found)) = rows::get_object_with_flag(tx, project, id)? else {
                return Err(Error::not_found("object", id));
            };
            Ok((object, list_sources(tx, project, id.0, found)?))
        };
        self.db().read(read).await
    }

    /// A living relationship with the newest passages it was found in.
    pub async fn relationship_with_sources(
        &self,
        project: ProjectId,
        id: RelationshipId,
    ) -> Result<(Relationship, Vec<Source>)> {
        let read = move |tx: &mut Tx<'_>| {
            let Some((edge, found)) = rows::get_relationship_with_flag(tx, project, id)? else {
                return Err(Error::not_found("relationship", id));
            };
            Ok((edge, list_sources(tx, project, id.0, found)?))
        };
        self.db().read(read).await
    }

    /// The newest passages of some objects or relationships.
    pub async fn list_sources(&self, project: ProjectId, entities: Vec<Uuid>) -> Result<SourcesById> {
        Ok(self.db().read(move |tx| rows::list_for(tx, project, &entities, MAX_SOURCES)).await?)
    }
}
