//! Objects: created, updated, deleted and brought back, each change a version.

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{ObjectId, ProjectId},
    object::{NewObject, Object, ObjectPatch},
    query::{Direction, ObjectFilter},
    relationship::Relationship,
};
use emergent_store::{objects as rows, relationships as edge_rows};

use crate::{Actor, Error, Graph, error::Result, relationships};

mod delete;
mod draft;
mod write;

pub(crate) use delete::restore_tombstone;
pub use delete::{delete, restore};
pub use draft::{ObjectDraft, Upsert};
pub use write::{check_restored, create, create_all, create_each, update, upsert};

/// What an upsert did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpsertOutcome {
    Created,
    Updated,
    Unchanged,
}

impl Graph {
    pub async fn create_object(&self, actor: Actor, new: NewObject) -> Result<Object> {
        let draft = ObjectDraft::new(new)?;
        self.write(actor, move |tx, writer| create(tx, writer, &draft)).await
    }

    /// Atomic: the first error is everybody's. Otherwise each has an outcome of its own, in order.
    pub async fn bulk_create_objects(
        &self,
        actor: Actor,
        new: Vec<NewObject>,
        atomic: bool,
    ) -> Result<Vec<Result<Object, Error>>> {
        let drafts = new.into_iter().map(ObjectDraft::new);
        if atomic {
            let drafts = crate::bulk::all_or_first_error(drafts, "objects")?;
            let made = self.write(actor, move |tx, writer| create_all(tx, writer, &drafts)).await?;
            return Ok(made.into_iter().map(Ok).collect());
        }
        let (drafts, outcomes) = crate::bulk::split_valid(drafts);
        let made = self.write(actor, move |tx, writer| create_each(tx, writer, &drafts)).await?;
        Ok(outcomes.merge_results(made))
    }

    pub async fn upsert_object(&self, actor: Actor, new: NewObject) -> Result<(Object, UpsertOutcome)> {
        let wanted = Upsert::new(new)?;
        self.write(actor, move |tx, writer| upsert(tx, writer, &wanted)).await
    }

    /// A living object.
    pub async fn get_object(&self, project: ProjectId, id: ObjectId) -> Result<Object> {
        let found = self.db().read(move |tx| rows::get(tx, project, id)).await?;
        found.ok_or_else(|| Error::not_found("object", id))
    }

    /// Living objects, newest first.
    pub async fn list_objects(
        &self,
        project: ProjectId,
        filter: ObjectFilter,
        page: Page,
    ) -> Result<ResultPage<Object>> {
        filter.check()?;
        Ok(self.db().read(move |tx| rows::list(tx, project, &filter, &page)).await?)
    }

    /// When nothing would change, the object is returned as it is.
    pub async fn update_object(&self, actor: Actor, id: ObjectId, patch: ObjectPatch) -> Result<Object> {
        let patch = patch.check()?;
        self.write(actor, move |tx, writer| update(tx, writer, id, &patch)).await
    }

    /// Takes the object's edges along; returns the tombstone.
    pub async fn delete_object(
        &self,
        actor: Actor,
        id: ObjectId,
        expected_version: Option<i64>,
    ) -> Result<Object> {
        self.write(actor, move |tx, writer| delete(tx, writer, id, expected_version)).await
    }

    /// Brings the object back with the edges that went with it.
    pub async fn restore_object(&self, actor: Actor, id: ObjectId) -> Result<Object> {
        self.write(actor, move |tx, writer| restore(tx, writer, id)).await
    }

    /// Every version, newest first, tombstones too, and of deleted objects as well.
    pub async fn object_history(
        &self,
        project: ProjectId,
        id: ObjectId,
        page: Page,
    ) -> Result<ResultPage<Object>> {
        // One moment for both tables: a version on its way to the history is in exactly one.
        let found = self.db().snapshot(move |tx| rows::history(tx, project, id, &page)).await?;
        if found.items.is_empty() && page.after.is_none() {
            return Err(Error::not_found("object", id));
        }
        Ok(found)
    }

    /// The living edges of a living object, newest first.
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
}
