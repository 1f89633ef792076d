//! What the transactions of a preview would have changed. They were rolled back, so a later one first writes the part
//! of it that its decisions depend on: who has which key, which objects and relationships exist, and their types. Only
//! the newest rows are written, as little of them as is read, and only those of the entities at hand.
//!
//! How many tasks a workflow has, and what blocks a task over several relationships, is read as it is in the database.

use std::collections::{BTreeSet, HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, RelationshipId},
    object::Object,
    relationship::Relationship,
    task_rights::is_workflow_edge,
    time::Timestamp,
};
use emergent_store::{
    Tx, objects as object_rows,
    relationships::{self as edge_rows, CascadeAction},
    revert as rows, revert_preview as preview_rows,
};
use uuid::Uuid;

use super::PlannedEdge;
use crate::{
    WriteContext,
    error::Result,
    revert::{PendingUndo, RevertReport, UndoAction, edges},
};

/// The type and the key of an object.
type Key = (String, String);
/// The start, the type and the end of a relationship.
type Ends = (ObjectId, String, ObjectId);

fn ends_of(edge: &Relationship) -> Ends {
    (edge.from, edge.type_.clone(), edge.to)
}

fn key_of(object: &Object) -> Option<Key> {
    object.key.clone().map(|key| (object.type_.clone(), key))
}

/// What remains of an object that would have been reverted.
struct ObjectState {
    type_: String,
    key: Option<String>,
    how: UndoAction,
}

impl ObjectState {
    fn is_live(&self) -> bool {
        self.how != UndoAction::Deleted
    }
}

/// A relationship that would have been deleted.
struct DeletedEdge {
    ends: Ends,
    deleted_with: Option<ObjectId>,
    at: Timestamp,
}

/// What one transaction would have changed.
#[derive(Default)]
pub(super) struct Effects {
    deleted_edges: Vec<(RelationshipId, DeletedEdge)>,
    restored_edges: Vec<(RelationshipId, Ends)>,
    /// The objects, with the keys that they have before.
    objects: Vec<(ObjectId, Option<Key>, ObjectState)>,
}

fn undone_ids(report: &RevertReport) -> HashSet<Uuid> {
    report.undone.iter().map(|one| one.id).collect()
}

impl Effects {
    pub(super) fn of_deleted_edges(
        ctx: &WriteContext,
        plans: &[PendingUndo<Relationship>],
        report: &RevertReport,
    ) -> Self {
        let undone = undone_ids(report);
        let deleted = plans.iter().filter(|plan| undone.contains(&plan.now.id.0));
        let deleted_edges = deleted.map(|PendingUndo { now, before, .. }| {
            let deleted_with = edges::deleted_with(before.as_ref());
            let at = ctx.timestamp_after(now.updated_at);
            (now.id, DeletedEdge { ends: ends_of(now), deleted_with, at })
        });
        Self { deleted_edges: deleted_edges.collect(), ..Self::default() }
    }

    pub(super) fn of_restored_edges(plans: &[PendingUndo<Relationship>], report: &RevertReport) -> Self {
        let undone = undone_ids(report);
        let is_restored = |plan: &&PendingUndo<Relationship>| {
            plan.undo == UndoAction::Restored && undone.contains(&plan.now.id.0)
        };
        let restored = plans.iter().filter(is_restored);
        let restored_edges = restored.map(|plan| (plan.now.id, ends_of(&plan.now))).collect();
        Self { restored_edges, ..Self::default() }
    }

    pub(super) fn of_objects(plans: &[PendingUndo<Object>], report: &RevertReport) -> Self {
        let undone = undone_ids(report);
        let mut objects = Vec::new();
        for PendingUndo { now, before, undo } in plans.iter().filter(|plan| undone.contains(&plan.now.id.0)) {
            let content = before.as_ref().unwrap_or(now);
            let state = ObjectState { type_: content.type_.clone(), key: content.key.clone(), how: *undo };
            let had = key_of(now).filter(|_| now.deleted_at.is_none());
            objects.push((now.id, had, state));
        }
        Self { objects, ..Self::default() }
    }
}

/// What all transactions so far would have changed.
#[derive(Default)]
pub(super) struct Overlay {
    deleted_edges: HashMap<RelationshipId, DeletedEdge>,
    deleted_by_object: HashMap<ObjectId, Vec<RelationshipId>>,
    deleted_by_ends: HashMap<Ends, Vec<RelationshipId>>,
    restored_by_ends: HashMap<Ends, Vec<RelationshipId>>,
    objects: HashMap<ObjectId, ObjectState>,
    /// The objects that have or had these keys.
    by_key: HashMap<Key, Vec<ObjectId>>,
}

impl Overlay {
    pub(super) fn add(&mut self, effects: Effects) {
        for (id, edge) in effects.deleted_edges {
            for end in BTreeSet::from([edge.ends.0, edge.ends.2]) {
                self.deleted_by_object.entry(end).or_default().push(id);
            }
            self.deleted_by_ends.entry(edge.ends.clone()).or_default().push(id);
            self.deleted_edges.insert(id, edge);
        }
        for (id, ends) in effects.restored_edges {
            self.restored_by_ends.entry(ends).or_default().push(id);
        }
        for (id, had, state) in effects.objects {
            let has = state.key.clone().map(|key| (state.type_.clone(), key)).filter(|_| state.is_live());
            for key in had.into_iter().chain(has) {
                self.by_key.entry(key).or_default().push(id);
            }
            self.objects.insert(id, state);
        }
    }

    /// One of the live edges of an object that would not have been deleted.
    pub(super) fn find_remaining_edge(
        &self,
        tx: &mut Tx<'_>,
        object: ObjectId,
    ) -> Result<Option<RelationshipId>> {
        let deleted = self.deleted_by_object.get(&object).map_or(0, Vec::len);
        // Of one more than would have been deleted, one remains. An edge from an object to itself may be listed twice.
        let live = edge_rows::list_live_of(tx, object, 2 * deleted + 1)?;
        Ok(live.into_iter().find(|id| !self.deleted_edges.contains_key(id)))
    }

    /// Deletes those edges of objects that say what tasks wait for.
    pub(super) fn stage_workflow_edges(&self, tx: &mut Tx<'_>, plans: &[PendingUndo<Object>]) -> Result<()> {
        for plan in plans {
            self.delete_edges_of(tx, plan.now.id, is_workflow_edge)?;
        }
        Ok(())
    }

    /// Writes what matters to objects that get their content back: keys, and the relationships and the types at their
    /// ends if the type of an object changes.
    pub(super) fn stage_for_roll_back(
        &self,
        tx: &mut Tx<'_>,
        ctx: &WriteContext,
        plans: &[PendingUndo<Object>],
    ) -> Result<()> {
        self.stage_workflow_edges(tx, plans)?;
        let described: HashSet<&str> = ctx.packs.relationship_types().collect();
        for PendingUndo { now, before, .. } in plans {
            let changes_type = before.as_ref().is_some_and(|before| before.type_ != now.type_);
            if changes_type && !described.is_empty() {
                self.delete_edges_of(tx, now.id, |type_| described.contains(type_))?;
                for id in self.changed_neighbours(tx, now.id)? {
                    self.write_object(tx, ctx, id, None)?;
                }
            }
        }
        self.stage_keys(tx, ctx, plans)
    }

    /// Gives the keys that these objects will need to those who would have them.
    pub(super) fn stage_keys(
        &self,
        tx: &mut Tx<'_>,
        ctx: &WriteContext,
        plans: &[PendingUndo<Object>],
    ) -> Result<()> {
        let wanted: HashSet<Key> = plans.iter().filter_map(|plan| key_of(plan.before.as_ref()?)).collect();
        let holders: BTreeSet<ObjectId> =
            wanted.iter().filter_map(|key| self.by_key.get(key)).flatten().copied().collect();
        // First all of them lose their keys, because each is unique.
        for id in &holders {
            self.write_object(tx, ctx, *id, None)?;
        }
        for id in &holders {
            let Some(state) = self.objects.get(id).filter(|state| state.is_live()) else { continue };
            let key = state.key.clone().map(|key| (state.type_.clone(), key));
            if let Some((_, key)) = key.filter(|key| wanted.contains(key)) {
                self.write_object(tx, ctx, *id, Some(&key))?;
            }
        }
        Ok(())
    }

    /// Writes what matters to edges that are restored or get their content back: their ends, other edges between
    /// them, and whether they have been restored together with one of their ends.
    pub(super) fn stage_for_edges(
        &self,
        tx: &mut Tx<'_>,
        ctx: &WriteContext,
        planned: &[PlannedEdge],
    ) -> Result<()> {
        let mut all_ends = BTreeSet::new();
        for edge in planned {
            if let Some(edge) = rows::lock_relationship(tx, ctx.project.id, edge.written.id)? {
                all_ends.insert(ends_of(&edge));
            }
        }
        let objects: BTreeSet<ObjectId> = all_ends.iter().flat_map(|(from, _, to)| [*from, *to]).collect();
        for id in objects {
            self.write_object(tx, ctx, id, None)?;
        }
        for ends in &all_ends {
            for id in self.deleted_by_ends.get(ends).into_iter().flatten() {
                self.delete_edge(tx, *id)?;
            }
            self.restore_with_ends(tx, ctx, ends)?;
            for id in self.restored_by_ends.get(ends).into_iter().flatten() {
                if edge_rows::find(tx, ends.0, &ends.1, ends.2)?.is_none() {
                    edge_rows::apply_cascade(tx, &[*id], CascadeAction::Restore, ctx.now, ctx.author)?;
                }
            }
        }
        Ok(())
    }

    /// Restores the edge with these ends that restoring one of them would have restored: of several, the last one.
    fn restore_with_ends(&self, tx: &mut Tx<'_>, ctx: &WriteContext, ends: &Ends) -> Result<()> {
        let (from, type_, to) = ends;
        let is_restored =
            |id: &ObjectId| self.objects.get(id).is_some_and(|state| state.how == UndoAction::Restored);
        if !is_restored(from) && !is_restored(to) {
            return Ok(());
        }
        let live = object_rows::find_live(tx, ctx.project.id, &[*from, *to])?;
        let are_live = live.contains_key(from) && live.contains_key(to);
        if !are_live || edge_rows::find(tx, *from, type_, *to)?.is_some() {
            return Ok(());
        }
        let last = preview_rows::find_last_deleted_with_ends(tx, *from, type_, *to)?;
        if let Some(id) = last {
            edge_rows::apply_cascade(tx, &[id], CascadeAction::Restore, ctx.now, ctx.author)?;
        }
        Ok(())
    }

    /// The objects at the other ends of an object's edges that would have been changed.
    fn changed_neighbours(&self, tx: &mut Tx<'_>, object: ObjectId) -> Result<BTreeSet<ObjectId>> {
        let neighbours = preview_rows::list_neighbours(tx, object)?;
        Ok(neighbours.into_iter().filter(|id| self.objects.contains_key(id)).collect())
    }

    fn delete_edges_of(
        &self,
        tx: &mut Tx<'_>,
        object: ObjectId,
        selects: impl Fn(&str) -> bool,
    ) -> Result<()> {
        for id in self.deleted_by_object.get(&object).into_iter().flatten() {
            if self.deleted_edges.get(id).is_some_and(|edge| selects(&edge.ends.1)) {
                self.delete_edge(tx, *id)?;
            }
        }
        Ok(())
    }

    fn delete_edge(&self, tx: &mut Tx<'_>, id: RelationshipId) -> Result<()> {
        let Some(edge) = self.deleted_edges.get(&id) else { return Ok(()) };
        Ok(preview_rows::delete_relationship(tx, id, edge.deleted_with, edge.at)?)
    }

    /// Writes the state that an object would have, with this key.
    fn write_object(
        &self,
        tx: &mut Tx<'_>,
        ctx: &WriteContext,
        id: ObjectId,
        key: Option<&str>,
    ) -> Result<()> {
        let Some(state) = self.objects.get(&id) else { return Ok(()) };
        let deleted_at = (!state.is_live()).then_some(ctx.now);
        Ok(preview_rows::write_object(tx, id, &state.type_, key, deleted_at)?)
    }
}
