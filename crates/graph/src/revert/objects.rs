//! Reverts the objects that a run wrote.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use emergent_domain::{
    object::{Object, ObjectPatch},
    patch,
};
use emergent_store::{
    Tx, objects as rows, objects::LockedObject, relationships as edge_rows, revert, sources,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    Entity, FOUND_BY_OTHERS, LaterAuthors, ObjectId, PendingUndo, RelationshipId, RevertReport, RunSet,
    UndoAction, conflict_reason,
};
use crate::{Error, WriteContext, error::Result, objects, tasks};

/// Returns the patch that restores the content of another version, or `None` if nothing differs.
fn differences(now: &Object, before: &Object) -> Option<ObjectPatch> {
    let patch = ObjectPatch {
        type_: Some(before.type_.clone()),
        key: Some(before.key.clone()),
        status: Some(before.status.clone()),
        labels: Some(before.labels.clone()),
        properties: Some(replacement_patch(&now.properties.to_map(), before.properties.to_map())),
        expected_version: None,
    };
    patch.apply(now).map(|_| patch)
}

/// Returns whether an object equals its version before the run. Two deleted versions count as
/// equal.
pub(super) fn is_same(now: &Object, before: Option<&Object>) -> bool {
    match (now.deleted_at, before) {
        (None, Some(before)) => differences(now, before).is_none(),
        (None, None) => false,
        (Some(_), _) => true,
    }
}

/// Returns a patch that sets the previous properties and removes those that did not exist before.
pub(super) fn replacement_patch(
    now: &Map<String, Value>,
    mut before: Map<String, Value>,
) -> Map<String, Value> {
    for property in now.keys() {
        before.entry(property).or_insert(Value::Null);
    }
    before
}

fn planned(plans: &[PendingUndo<Object>], undo: UndoAction) -> impl Iterator<Item = &PendingUndo<Object>> {
    plans.iter().filter(move |plan| plan.undo == undo)
}

/// Deletes the objects that the run created. The edges of the run have been deleted before, so any
/// remaining edge belongs to someone else and would be deleted with the object.
pub(super) fn delete(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    plans: &[PendingUndo<Object>],
    report: &mut RevertReport,
) -> Result<()> {
    let find_edge = |tx: &mut Tx<'_>, id: ObjectId| -> Result<Option<RelationshipId>> {
        Ok(edge_rows::find_live_of(tx, id)?)
    };
    delete_each(tx, ctx, runs, plans, report, find_edge, |tx, now| {
        Ok(objects::delete(tx, ctx, now.id, None)?.version)
    })
}

/// Reports what [`delete`] would do, and writes no version. `find_edge` finds an edge of an object that remains when
/// the edges of the run are deleted.
pub(super) fn preview_deletions(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    plans: &[PendingUndo<Object>],
    report: &mut RevertReport,
    find_edge: impl Fn(&mut Tx<'_>, ObjectId) -> Result<Option<RelationshipId>>,
) -> Result<()> {
    delete_each(tx, ctx, runs, plans, report, find_edge, |tx, now| {
        tasks::before_delete(tx, ctx, now)?;
        Ok(now.version + 1)
    })
}

/// Deletes objects with `delete`, which returns the version of the tombstone.
fn delete_each(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    plans: &[PendingUndo<Object>],
    report: &mut RevertReport,
    find_edge: impl Fn(&mut Tx<'_>, ObjectId) -> Result<Option<RelationshipId>>,
    delete: impl Fn(&mut Tx<'_>, &Object) -> Result<i64>,
) -> Result<()> {
    // One statement for all objects: nearly all have neither edges nor sources of others, and a statement for each of
    // them would take most of the time of a large revert.
    let ids: Vec<ObjectId> = planned(plans, UndoAction::Deleted).map(|plan| plan.now.id).collect();
    let with_edges = edge_rows::with_edges(tx, &ids)?;
    let entities: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let found_by_others = sources::with_other_authors(tx, ctx.project.id, &entities, runs)?;
    let mut later_authors = LaterAuthors::new(runs);
    for PendingUndo { now, .. } in planned(plans, UndoAction::Deleted) {
        let edge = if with_edges.contains(&now.id) { find_edge(tx, now.id)? } else { None };
        if let Some(edge) = edge {
            let author = revert::lock_relationship(tx, ctx.project.id, edge)?.map(|edge| edge.author);
            let who = later_authors.describe_author(tx, author)?;
            let reason = format!(
                "{who} has connected it to other objects, for example with the relationship `{edge}`"
            );
            report.add_conflict(Entity::object(now), now.version, reason);
            continue;
        }
        if found_by_others.contains(&now.id.0) {
            report.add_conflict(Entity::object(now), now.version, FOUND_BY_OTHERS);
            continue;
        }
        match delete(tx, now) {
            Ok(version) => report.add_reverted(Entity::object(now), UndoAction::Deleted, version),
            Err(error) => {
                let reason = conflict_reason(error)?;
                report.add_conflict(Entity::object(now), now.version, reason);
            }
        }
    }
    Ok(())
}

/// Restores the previous content of changed objects. An object may need a key that another of them
/// still has, and then follows that one, so that each is tried a few times however their keys depend on each other. If
/// they block one another in a cycle, one of them releases its key first. Returns those that need the key of one of the
/// objects `later`, which another transaction reverts, each with the object that has its key.
pub(super) fn roll_back(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    plans: &[PendingUndo<Object>],
    later: &HashSet<ObjectId>,
    report: &mut RevertReport,
) -> Result<HashMap<ObjectId, ObjectId>> {
    let mut postponed = HashMap::new();
    let mut waiting: VecDeque<&PendingUndo<Object>> = planned(plans, UndoAction::RolledBack).collect();
    let mut undecided: HashSet<ObjectId> = waiting.iter().map(|plan| plan.now.id).collect();
    // Those that wait for a key, by the object that has it.
    let mut blocked: BTreeMap<ObjectId, Vec<&PendingUndo<Object>>> = BTreeMap::new();
    loop {
        while let Some(plan) = waiting.pop_front() {
            let now = &plan.now;
            // The patch is made for each attempt: those of many large objects at once take much memory.
            if let Some(patch) = plan.before.as_ref().and_then(|before| differences(now, before)) {
                match objects::update(tx, ctx, now.id, &patch) {
                    Ok(next) => {
                        report.add_reverted(Entity::object(now), UndoAction::RolledBack, next.version);
                    }
                    Err(Error::KeyTaken { id, .. }) if undecided.contains(&id) => {
                        blocked.entry(id).or_default().push(plan);
                        continue;
                    }
                    Err(Error::KeyTaken { id, .. }) if later.contains(&id) || postponed.contains_key(&id) => {
                        postponed.insert(now.id, id);
                    }
                    Err(error) => {
                        let reason = conflict_reason(error)?;
                        report.add_conflict(Entity::object(now), now.version, reason);
                    }
                }
            }
            undecided.remove(&now.id);
            waiting.extend(blocked.remove(&now.id).unwrap_or_default());
        }
        let Some((holder, followers)) = blocked.pop_first() else { return Ok(postponed) };
        let without_key = ObjectPatch { key: Some(None), ..ObjectPatch::default() };
        objects::update(tx, ctx, holder, &without_key)?;
        waiting.extend(followers);
    }
}

/// Restores the objects that the run deleted, with their content before the run and their edges.
pub(super) fn restore(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    plans: &[PendingUndo<Object>],
    report: &mut RevertReport,
) -> Result<()> {
    for PendingUndo { now, before, .. } in planned(plans, UndoAction::Restored) {
        let Some(before) = before else { continue };
        let Some(LockedObject { no, object }) = rows::lock(tx, ctx.project.id, now.id)? else { continue };
        let tombstone = Object {
            type_: before.type_.clone(),
            key: before.key.clone(),
            status: before.status.clone(),
            labels: before.labels.clone(),
            properties: before.properties.clone(),
            ..object
        };
        let restored = check(tx, ctx, now, before)
            .and_then(|()| objects::restore_tombstone(tx, ctx, LockedObject { no, object: tombstone }));
        match restored {
            Ok(next) => report.add_reverted(Entity::object(now), UndoAction::Restored, next.version),
            Err(error) => {
                let reason = conflict_reason(error)?;
                report.add_conflict(Entity::object(now), now.version, reason);
            }
        }
    }
    Ok(())
}

/// Validates an object before it is restored. As in every restore, unchanged content is not
/// validated again.
fn check(tx: &mut Tx<'_>, ctx: &WriteContext, now: &Object, before: &Object) -> Result<()> {
    let properties = before.properties.to_map();
    let same = now.type_ == before.type_
        && patch::canonical_json(&Value::Object(now.properties.to_map()))
            == patch::canonical_json(&Value::Object(properties.clone()));
    if !same {
        ctx.check_object(&before.type_, &properties)?;
    }
    tasks::check_reverted(tx, ctx, now, before)
}
