//! Reverts the relationships that a run wrote.

use emergent_domain::{
    change::ChangeKind,
    relationship::{Relationship, RelationshipPatch},
};
use emergent_store::{Tx, revert, sources};
use uuid::Uuid;

use super::{
    CHANGED_SINCE, Entity, FOUND_BY_OTHERS, ObjectId, PendingUndo, RelationshipId, RevertReport, RunSet,
    UndoAction, conflict_reason, objects::replacement_patch,
};
use crate::{WriteContext, error::Result, relationships, tasks};

/// Returns the patch that restores the content of another version, or `None` if nothing differs.
fn differences(now: &Relationship, before: &Relationship) -> Option<RelationshipPatch> {
    let patch = RelationshipPatch {
        properties: Some(replacement_patch(&now.properties.to_map(), before.properties.to_map())),
        weight: Some(before.weight),
        expected_version: None,
    };
    patch.apply(now).map(|_| patch)
}

fn planned(
    plans: &[PendingUndo<Relationship>],
    undo: UndoAction,
) -> impl Iterator<Item = &PendingUndo<Relationship>> {
    plans.iter().filter(move |plan| plan.undo == undo)
}

/// Deletes edges that the run created or restored. An edge that had been deleted together with an
/// object before the run is marked so again, and will be restored with that object. An edge that
/// the run created will not be restored with any object.
pub(super) fn delete(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    plans: &[PendingUndo<Relationship>],
    report: &mut RevertReport,
) -> Result<()> {
    delete_each(tx, ctx, runs, plans, report, |tx, next| {
        relationships::write_version(tx, next, ChangeKind::RelationshipDeleted)
    })
}

/// Reports what [`delete`] would do, and writes no version.
pub(super) fn preview_deletions(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    plans: &[PendingUndo<Relationship>],
    report: &mut RevertReport,
) -> Result<()> {
    delete_each(tx, ctx, runs, plans, report, |_, _| Ok(()))
}

fn delete_each(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    plans: &[PendingUndo<Relationship>],
    report: &mut RevertReport,
    write: impl Fn(&mut Tx<'_>, &Relationship) -> Result<()>,
) -> Result<()> {
    let live = planned(plans, UndoAction::Deleted).filter(|plan| plan.now.deleted_at.is_none());
    let live: Vec<Uuid> = live.map(|plan| plan.now.id.0).collect();
    let found_by_others = sources::with_other_authors(tx, ctx.project.id, &live, runs)?;
    for PendingUndo { now, before, .. } in planned(plans, UndoAction::Deleted) {
        if found_by_others.contains(&now.id.0) {
            report.add_conflict(Entity::edge(now), now.version, FOUND_BY_OTHERS);
            continue;
        }
        let timestamp = ctx.timestamp_after(now.updated_at);
        let next = Relationship {
            version: now.version + 1,
            updated_at: timestamp,
            deleted_at: now.deleted_at.or(Some(timestamp)),
            deleted_with: deleted_with(before.as_ref()),
            author: ctx.author,
            reason: ctx.reason.clone(),
            ..now.clone()
        };
        if let Err(error) = tasks::before_edge_change(tx, ctx, now) {
            let reason = conflict_reason(error)?;
            report.add_conflict(Entity::edge(now), now.version, reason);
            continue;
        }
        write(tx, &next)?;
        report.add_reverted(Entity::edge(now), UndoAction::Deleted, next.version);
    }
    Ok(())
}

pub(super) fn deleted_with(before: Option<&Relationship>) -> Option<ObjectId> {
    before.and_then(|before| before.deleted_with)
}

/// Returns whether an edge equals its version before the run. A deleted edge must have been deleted
/// with the same object, because it is restored with that object.
pub(super) fn is_same(now: &Relationship, before: Option<&Relationship>) -> bool {
    match (now.deleted_at, before) {
        (None, Some(before)) => differences(now, before).is_none(),
        (None, None) => false,
        (Some(_), before) => now.deleted_with == deleted_with(before),
    }
}

/// Reports edges that the run created, that others changed, and that have just been restored
/// together with an object. The changes of others are kept.
pub(super) fn report_restored(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    dormant: &[RelationshipId],
    report: &mut RevertReport,
) -> Result<()> {
    for id in dormant {
        if let Some(edge) = lock(tx, ctx, *id)?.filter(|edge| edge.deleted_at.is_none()) {
            report.add_conflict(Entity::edge(&edge), edge.version, CHANGED_SINCE);
        }
    }
    Ok(())
}

/// Restores edges that the run deleted. Many have already been restored with their objects.
pub(super) fn restore(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    plans: &[PendingUndo<Relationship>],
    report: &mut RevertReport,
) -> Result<()> {
    for PendingUndo { before, now, .. } in planned(plans, UndoAction::Restored) {
        let (Some(before), Some(current)) = (before, lock(tx, ctx, now.id)?) else { continue };
        let restored = if current.deleted_at.is_none() {
            rewrite(tx, ctx, &current, before)
        } else {
            match relationships::restore_obstacle(tx, ctx, before)? {
                Some(reason) => {
                    report.add_conflict(Entity::edge(now), current.version, reason);
                    continue;
                }
                None => restore_content(tx, ctx, current, before),
            }
        };
        match restored {
            Ok(next) => report.add_reverted(Entity::edge(now), UndoAction::Restored, next.version),
            Err(error) => {
                let reason = conflict_reason(error)?;
                report.add_conflict(Entity::edge(now), now.version, reason);
            }
        }
    }
    Ok(())
}

/// Restores the previous content of changed edges.
pub(super) fn roll_back(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    plans: &[PendingUndo<Relationship>],
    report: &mut RevertReport,
) -> Result<()> {
    for PendingUndo { before, now, .. } in planned(plans, UndoAction::RolledBack) {
        let Some(before) = before else { continue };
        match rewrite(tx, ctx, now, before) {
            Ok(next) => report.add_reverted(Entity::edge(now), UndoAction::RolledBack, next.version),
            Err(error) => {
                let reason = conflict_reason(error)?;
                report.add_conflict(Entity::edge(now), now.version, reason);
            }
        }
    }
    Ok(())
}

fn lock(tx: &mut Tx<'_>, ctx: &WriteContext, id: RelationshipId) -> Result<Option<Relationship>> {
    Ok(revert::lock_relationship(tx, ctx.project.id, id)?)
}

fn rewrite(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    now: &Relationship,
    before: &Relationship,
) -> Result<Relationship> {
    match differences(now, before) {
        Some(patch) => relationships::update(tx, ctx, now.id, &patch),
        None => Ok(now.clone()),
    }
}

/// Restores a tombstone with the content of another version, which is validated if it differs.
fn restore_content(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    tombstone: Relationship,
    before: &Relationship,
) -> Result<Relationship> {
    if differences(&tombstone, before).is_some() {
        relationships::check_between_live_ends(tx, ctx, before)?;
    }
    relationships::restore_tombstone(tx, ctx, tombstone, before)
}
