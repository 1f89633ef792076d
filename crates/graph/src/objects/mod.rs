//! Objects: creating, updating, deleting and restoring. Every change creates a version.

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{ObjectId, ProjectId},
    object::{NewObject, Object, ObjectPatch},
    object_ref::ObjectRef,
    query::{Direction, ObjectFilter},
    relationship::Relationship,
    time::Timestamp,
};
use emergent_store::{objects as rows, relationships as edge_rows};

use crate::{Actor, Error, Graph, error::Result, object_refs::resolve_object_at, relationships};

mod cascade;
mod delete;
mod draft;
mod write;

pub use cascade::EDGE_QUEUE;
use delete::restore_named;
pub(crate) use delete::restore_tombstone;
pub use delete::{delete, restore};
pub use draft::{ObjectDraft, Upsert};
pub(crate) use write::object_indexed_text;
pub use write::{check_restored, create, create_all, create_each, update, upsert};

/// Whether an upsert created, updated or left the object unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpsertOutcome {
    Created,
    Updated,
    Unchanged,
}

impl Graph {
    pub async fn create_object(&self, actor: Actor, new: NewObject) -> Result<Object> {
        let drafts = self.validate_drafts(actor.project, vec![ObjectDraft::new(new)?]).await?;
        self.write(actor, move |tx, ctx| create(tx, ctx, &drafts[0])).await
    }

    /// If `atomic` is set, the first error fails the whole list. Otherwise each object has its own
    /// result, in the order of the list.
    pub async fn bulk_create_objects(
        &self,
        actor: Actor,
        new: Vec<NewObject>,
        atomic: bool,
    ) -> Result<Vec<Result<Object, Error>>> {
        let drafts = new.into_iter().map(ObjectDraft::new);
        if atomic {
            let drafts = crate::bulk::all_or_first_error(drafts, "objects")?;
            let drafts = self.validate_drafts(actor.project, drafts).await?;
            let created = self.write(actor, move |tx, ctx| create_all(tx, ctx, &drafts)).await?;
            return Ok(created.into_iter().map(Ok).collect());
        }
        let (drafts, outcomes) = crate::bulk::split_valid(drafts);
        let drafts = self.validate_drafts(actor.project, drafts).await?;
        let created = self.write(actor, move |tx, ctx| create_each(tx, ctx, &drafts)).await?;
        Ok(outcomes.merge_results(created))
    }

    pub async fn upsert_object(&self, actor: Actor, new: NewObject) -> Result<(Object, UpsertOutcome)> {
        let request = Upsert::new(new)?;
        self.write(actor, move |tx, ctx| upsert(tx, ctx, &request)).await
    }

    /// Returns a live object.
    pub async fn get_object(&self, project: ProjectId, id: ObjectId) -> Result<Object> {
        let object = self.db().read(move |tx| rows::get(tx, project, id)).await?;
        object.ok_or_else(|| Error::not_found("object", id))
    }

    /// Lists live objects, newest first.
    pub async fn list_objects(
        &self,
        project: ProjectId,
        filter: ObjectFilter,
        page: Page,
    ) -> Result<ResultPage<Object>> {
        filter.check()?;
        Ok(self.db().read(move |tx| rows::list(tx, project, &filter, &page)).await?)
    }

    /// Lists deleted objects, as they were when they were deleted. Each can be restored.
    pub async fn list_deleted_objects(
        &self,
        project: ProjectId,
        filter: ObjectFilter,
        page: Page,
    ) -> Result<ResultPage<Object>> {
        filter.check()?;
        Ok(self.db().read(move |tx| rows::list_deleted(tx, project, &filter, &page)).await?)
    }

    /// Lists the objects that were live at a time, as they were then, newest first. The filter applies to what they
    /// were.
    pub async fn list_objects_at(
        &self,
        project: ProjectId,
        filter: ObjectFilter,
        as_of: Timestamp,
        page: Page,
    ) -> Result<ResultPage<Object>> {
        filter.check()?;
        Ok(self.db().snapshot(move |tx| rows::list_at(tx, project, &filter, as_of, &page)).await?)
    }

    /// Updates an object. If nothing would change, returns it without writing a version.
    pub async fn update_object(&self, actor: Actor, id: ObjectId, patch: ObjectPatch) -> Result<Object> {
        let patch = patch.check()?;
        self.write(actor, move |tx, ctx| update(tx, ctx, id, &patch)).await
    }

    /// Deletes an object and its edges. Returns the tombstone.
    pub async fn delete_object(
        &self,
        actor: Actor,
        id: ObjectId,
        expected_version: Option<i64>,
    ) -> Result<Object> {
        self.write(actor, move |tx, ctx| delete(tx, ctx, id, expected_version)).await
    }

    /// Restores an object, and the edges that were deleted with it. If there are very many, a job restores the
    /// rest.
    pub async fn restore_object(&self, actor: Actor, id: ObjectId) -> Result<Object> {
        self.write(actor, move |tx, ctx| restore(tx, ctx, id)).await
    }

    /// Restores the object that a reference names. A key names a deleted object; if a live one has the key now, the error
    /// says which. Without a deleted object, the live one is returned unchanged.
    pub async fn restore_named_object(&self, actor: Actor, reference: ObjectRef) -> Result<Object> {
        self.write(actor, move |tx, ctx| restore_named(tx, ctx, &reference)).await
    }

    /// Lists all versions including tombstones, newest first. Also works for deleted objects.
    pub async fn object_history(
        &self,
        project: ProjectId,
        id: ObjectId,
        page: Page,
    ) -> Result<ResultPage<Object>> {
        // A snapshot covers both tables, because a concurrent update moves a version to the history
        // table.
        let versions = self.db().snapshot(move |tx| rows::history(tx, project, id, &page)).await?;
        if versions.items.is_empty() && page.after.is_none() {
            return Err(Error::not_found("object", id));
        }
        Ok(versions)
    }

    /// Lists the live edges of a live object, newest first.
    pub async fn object_edges(
        &self,
        project: ProjectId,
        id: ObjectId,
        direction: Direction,
        types: Vec<String>,
        page: Page,
    ) -> Result<ResultPage<Relationship>> {
        relationships::check_types(&types)?;
        self.db()
            .read(move |tx| {
                if !rows::find_live(tx, project, &[id])?.contains_key(&id) {
                    return Err(Error::not_found("object", id));
                }
                Ok(edge_rows::list_for_object(tx, project, id, direction, &types, &page)?)
            })
            .await
    }

    /// Lists the edges of an object that were live at a time, as they were then, newest first. A key names the object that
    /// had it then. Fails with [`Error::NotLiveAt`] if the object was not live then.
    pub async fn object_edges_at(
        &self,
        project: ProjectId,
        reference: ObjectRef,
        (direction, types): (Direction, Vec<String>),
        as_of: Timestamp,
        page: Page,
    ) -> Result<ResultPage<Relationship>> {
        relationships::check_types(&types)?;
        self.db()
            .snapshot(move |tx| {
                let id = resolve_object_at(tx, project, "id", &reference, as_of)?;
                Ok(edge_rows::list_for_object_at(tx, project, (id, direction), &types, as_of, &page)?)
            })
            .await
    }
}
