//! Relationships: edges between live objects. Every change creates a version.

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{ProjectId, RelationshipId},
    invalid::Invalid,
    object::check_type,
    relationship::{NewRelationship, Relationship, RelationshipPatch},
    time::Timestamp,
};
use emergent_store::relationships as rows;

pub use emergent_store::relationships::RelationshipFilter;

use crate::{Actor, Error, Graph, error::Result};

mod draft;
mod restore;
mod write;

pub use draft::RelationshipDraft;
pub use restore::restore;
pub(crate) use restore::{check_between_live_ends, restore_obstacle, restore_tombstone, write_version};
pub use write::{
    check_all_between_new, create, create_all, create_all_between_new, create_each, create_each_between,
    delete, update,
};
pub(crate) use write::{check_edge_types, create_between, notify_workflows};

pub(crate) fn check_types(types: &[String]) -> Result<(), Invalid> {
    if types.len() > 100 {
        return Err(Invalid::new("types", "must be at most 100 types"));
    }
    types.iter().try_for_each(|type_| check_type(type_))
}

impl Graph {
    /// Creates an edge. If a live edge with the same type and ends exists, returns it unchanged and
    /// `false`.
    pub async fn create_relationship(
        &self,
        actor: Actor,
        new: NewRelationship,
    ) -> Result<(Relationship, bool)> {
        let draft = RelationshipDraft::new(new)?;
        self.write(actor, move |tx, ctx| create(tx, ctx, &draft)).await
    }

    /// If `atomic` is set, the first error fails the whole list. Otherwise each edge has its own
    /// result, in the order of the list.
    pub async fn bulk_create_relationships(
        &self,
        actor: Actor,
        new: Vec<NewRelationship>,
        atomic: bool,
    ) -> Result<Vec<Result<Relationship, Error>>> {
        let drafts = new.into_iter().map(RelationshipDraft::new);
        if atomic {
            let drafts = crate::bulk::all_or_first_error(drafts, "relationships")?;
            let created = self.write(actor, move |tx, ctx| create_all(tx, ctx, &drafts)).await?;
            return Ok(created.into_iter().map(|(edge, _)| Ok(edge)).collect());
        }
        let (drafts, outcomes) = crate::bulk::split_valid(drafts);
        let created = self.write(actor, move |tx, ctx| create_each(tx, ctx, &drafts)).await?;
        Ok(outcomes.merge_results(created.into_iter().map(|result| result.map(|(edge, _)| edge)).collect()))
    }

    /// Returns a live relationship.
    pub async fn get_relationship(&self, project: ProjectId, id: RelationshipId) -> Result<Relationship> {
        let edge = self.db().read(move |tx| rows::get(tx, project, id)).await?;
        edge.ok_or_else(|| Error::not_found("relationship", id))
    }

    /// Lists live relationships, newest first.
    pub async fn list_relationships(
        &self,
        project: ProjectId,
        filter: RelationshipFilter,
        page: Page,
    ) -> Result<ResultPage<Relationship>> {
        check_types(&filter.types)?;
        Ok(self.db().read(move |tx| rows::list(tx, project, &filter, &page)).await?)
    }

    /// Lists deleted relationships, as they were when they were deleted, without those that were deleted with one of
    /// their ends.
    pub async fn list_deleted_relationships(
        &self,
        project: ProjectId,
        filter: RelationshipFilter,
        page: Page,
    ) -> Result<ResultPage<Relationship>> {
        check_types(&filter.types)?;
        Ok(self.db().read(move |tx| rows::list_deleted(tx, project, &filter, &page)).await?)
    }

    /// Lists the relationships that were live at a time, as they were then, newest first.
    pub async fn list_relationships_at(
        &self,
        project: ProjectId,
        filter: RelationshipFilter,
        as_of: Timestamp,
        page: Page,
    ) -> Result<ResultPage<Relationship>> {
        check_types(&filter.types)?;
        Ok(self.db().snapshot(move |tx| rows::list_at(tx, project, &filter, as_of, &page)).await?)
    }

    /// Updates a relationship. If nothing would change, returns it without writing a version.
    pub async fn update_relationship(
        &self,
        actor: Actor,
        id: RelationshipId,
        patch: RelationshipPatch,
    ) -> Result<Relationship> {
        let patch = patch.check()?;
        self.write(actor, move |tx, ctx| update(tx, ctx, id, &patch)).await
    }

    /// Deletes a relationship. Returns the tombstone.
    pub async fn delete_relationship(
        &self,
        actor: Actor,
        id: RelationshipId,
        expected_version: Option<i64>,
    ) -> Result<Relationship> {
        self.write(actor, move |tx, ctx| delete(tx, ctx, id, expected_version)).await
    }

    /// Restores a deleted relationship. Fails if one of its ends is deleted, or if another relationship of its type
    /// connects them meanwhile.
    pub async fn restore_relationship(&self, actor: Actor, id: RelationshipId) -> Result<Relationship> {
        self.write(actor, move |tx, ctx| restore(tx, ctx, id)).await
    }

    /// Lists all versions including tombstones, newest first. Also works for deleted relationships.
    pub async fn relationship_history(
        &self,
        project: ProjectId,
        id: RelationshipId,
        page: Page,
    ) -> Result<ResultPage<Relationship>> {
        let versions = self.db().snapshot(move |tx| rows::history(tx, project, id, &page)).await?;
        if versions.items.is_empty() && page.after.is_none() {
            return Err(Error::not_found("relationship", id));
        }
        Ok(versions)
    }
}
