//! Relationships: edges between living objects, each change a version.

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{ProjectId, RelationshipId},
    invalid::Invalid,
    object::check_type,
    relationship::{NewRelationship, Relationship, RelationshipPatch},
};
use emergent_store::relationships as rows;

pub use emergent_store::relationships::RelationshipFilter;

use crate::{Actor, Error, Graph, error::Result};

mod draft;
mod write;

pub use draft::RelationshipDraft;
pub(crate) use write::{check_edge_types, create_between, notify_workflows};
pub use write::{create, create_all, create_each, delete, update};

pub(crate) fn check_types(types: &[String]) -> Result<(), Invalid> {
    if types.len() > 100 {
        return Err(Invalid::new("types", "must be at most 100 types"));
    }
    types.iter().try_for_each(|type_| check_type(type_))
}

impl Graph {
    /// The edge, and whether it was made now: a living one of the same type and ends is returned
    /// as it is.
    pub async fn create_relationship(
        &self,
        actor: Actor,
        new: NewRelationship,
    ) -> Result<(Relationship, bool)> {
        let draft = RelationshipDraft::new(new)?;
        self.write(actor, move |tx, writer| create(tx, writer, &draft)).await
    }

    /// Atomic: the first error is everybody's. Otherwise each has an outcome of its own, in order.
    pub async fn bulk_create_relationships(
        &self,
        actor: Actor,
        new: Vec<NewRelationship>,
        atomic: bool,
    ) -> Result<Vec<Result<Relationship, Error>>> {
        let drafts = new.into_iter().map(RelationshipDraft::new);
        if atomic {
            let drafts = crate::bulk::all_or_first_error(drafts, "relationships")?;
            let made = self.write(actor, move |tx, writer| create_all(tx, writer, &drafts)).await?;
            return Ok(made.into_iter().map(|(edge, _)| Ok(edge)).collect());
        }
        let (drafts, outcomes) = crate::bulk::split_valid(drafts);
        let made = self.write(actor, move |tx, writer| create_each(tx, writer, &drafts)).await?;
        Ok(outcomes.merge_results(made.into_iter().map(|made| made.map(|(edge, _)| edge)).collect()))
    }

    /// A living relationship.
    pub async fn get_relationship(&self, project: ProjectId, id: RelationshipId) -> Result<Relationship> {
        let found = self.db().read(move |tx| rows::get(tx, project, id)).await?;
        found.ok_or_else(|| Error::not_found("relationship", id))
    }

    /// Living relationships, newest first.
    pub async fn list_relationships(
        &self,
        project: ProjectId,
        filter: RelationshipFilter,
        page: Page,
    ) -> Result<ResultPage<Relationship>> {
        check_types(&filter.types)?;
        Ok(self.db().read(move |tx| rows::list(tx, project, &filter, &page)).await?)
    }

    /// When nothing would change, the relationship is returned as it is.
    pub async fn update_relationship(
        &self,
        actor: Actor,
        id: RelationshipId,
        patch: RelationshipPatch,
    ) -> Result<Relationship> {
        let patch = patch.check()?;
        self.write(actor, move |tx, writer| update(tx, writer, id, &patch)).await
    }

    /// Returns the tombstone.
    pub async fn delete_relationship(
        &self,
        actor: Actor,
        id: RelationshipId,
        expected_version: Option<i64>,
    ) -> Result<Relationship> {
        self.write(actor, move |tx, writer| delete(tx, writer, id, expected_version)).await
    }

    /// Every version, newest first, tombstones too, and of deleted relationships as well.
    pub async fn relationship_history(
        &self,
        project: ProjectId,
        id: RelationshipId,
        page: Page,
    ) -> Result<ResultPage<Relationship>> {
        let found = self.db().snapshot(move |tx| rows::history(tx, project, id, &page)).await?;
        if found.items.is_empty() && page.after.is_none() {
            return Err(Error::not_found("relationship", id));
        }
        Ok(found)
    }
}
