//! The relationships' part of undoing a run.

use emergent_domain::{
    change::ChangeKind,
    relationship::{Relationship, RelationshipPatch},
};
use emergent_store::{Tx, events, objects as object_rows, relationships as rows, revert, sources};

use super::{
    CHANGED_SINCE, EntityKind, FOUND_BY_OTHERS, ObjectId, PendingUndo, RelationshipId, RevertReport, RunId,
    UndoAction, conflict_reason, objects::replacement_patch,
};
use crate::{WriteContext, error::Result, relationships, tasks};

/// The change that makes a living edge say what another version said; `None` when it does.
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

/// Deletes edges the run made or brought back. One that had gone with an object before has gone
/// with it again, and will come back with it; one that the run made will come back with none.
pub(super) fn delete(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    run: RunId,
    plans: &[PendingUndo<Relationship>],
    report: &mut RevertReport,
) -> Result<()> {
    for PendingUndo { now, before, .. } in planned(plans, UndoAction::Deleted) {
        if now.deleted_at.is_none() && sources::has_other_authors(tx, writer.project.id, now.id.0, run)? {
            report.add_conflict(EntityKind::Relationship, now.id.0, now.version, FOUND_BY_OTHERS);
            continue;
        }
        let at = writer.timestamp_after(now.updated_at);
        let next = Relationship {
            version: now.version + 1,
            updated_at: at,
            deleted_at: now.deleted_at.or(Some(at)),
            deleted_with: deleted_with(before.as_ref()),
            author: writer.author,
            reason: writer.reason.clone(),
            ..now.clone()
        };
        tasks::notify_workflows_of_edge(tx, writer, now)?;
        write(tx, &next, ChangeKind::RelationshipDeleted)?;
        report.add_reverted(EntityKind::Relationship, now.id.0, UndoAction::Deleted, next.version);
    }
    Ok(())
}

fn deleted_with(before: Option<&Relationship>) -> Option<ObjectId> {
    before.and_then(|before| before.deleted_with)
}

/// Whether an edge is what it was before the run. Of the dead, with whom they went: they come back
/// with it.
pub(super) fn is_same(now: &Relationship, before: Option<&Relationship>) -> bool {
    match (now.deleted_at, before) {
        (None, Some(before)) => differences(now, before).is_none(),
        (None, None) => false,
        (Some(_), before) => now.deleted_with == deleted_with(before),
    }
}

/// Edges that the run made, and others changed, and that came back with an object just now: what
/// others made of them is not lost.
pub(super) fn report_restored(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    asleep: &[RelationshipId],
    report: &mut RevertReport,
) -> Result<()> {
    for id in asleep {
        if let Some(edge) = lock(tx, writer, *id)?.filter(|edge| edge.deleted_at.is_none()) {
            report.add_conflict(EntityKind::Relationship, id.0, edge.version, CHANGED_SINCE);
        }
    }
    Ok(())
}

/// Brings back edges the run deleted. Many came back with their objects already.
pub(super) fn restore(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    plans: &[PendingUndo<Relationship>],
    report: &mut RevertReport,
) -> Result<()> {
    for PendingUndo { before, now, .. } in planned(plans, UndoAction::Restored) {
        let (Some(before), Some(current)) = (before, lock(tx, writer, now.id)?) else { continue };
        let restored = if current.deleted_at.is_none() {
            rewrite(tx, writer, &current, before)
        } else {
            match restore_obstacle(tx, writer, before)? {
                Some(reason) => {
                    report.add_conflict(EntityKind::Relationship, now.id.0, current.version, reason);
                    continue;
                }
                None => restore_tombstone(tx, writer, current, before),
            }
        };
        match restored {
            Ok(next) => {
                report.add_reverted(EntityKind::Relationship, now.id.0, UndoAction::Restored, next.version)
            }
            Err(error) => {
                let reason = conflict_reason(error)?;
                report.add_conflict(EntityKind::Relationship, now.id.0, now.version, reason);
            }
        }
    }
    Ok(())
}

/// Makes changed edges say what they said before.
pub(super) fn roll_back(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    plans: &[PendingUndo<Relationship>],
    report: &mut RevertReport,
) -> Result<()> {
    for PendingUndo { before, now, .. } in planned(plans, UndoAction::RolledBack) {
        let Some(before) = before else { continue };
        match rewrite(tx, writer, now, before) {
            Ok(next) => {
                report.add_reverted(EntityKind::Relationship, now.id.0, UndoAction::RolledBack, next.version)
            }
            Err(error) => {
                let reason = conflict_reason(error)?;
                report.add_conflict(EntityKind::Relationship, now.id.0, now.version, reason);
            }
        }
    }
    Ok(())
}

fn lock(tx: &mut Tx<'_>, writer: &WriteContext, id: RelationshipId) -> Result<Option<Relationship>> {
    Ok(revert::lock_relationship(tx, writer.project.id, id)?)
}

fn rewrite(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    now: &Relationship,
    before: &Relationship,
) -> Result<Relationship> {
    match differences(now, before) {
        Some(patch) => relationships::update(tx, writer, now.id, &patch),
        None => Ok(now.clone()),
    }
}

/// What keeps an edge from living again.
fn restore_obstacle(tx: &mut Tx<'_>, writer: &WriteContext, edge: &Relationship) -> Result<Option<String>> {
    let living = object_rows::lock_live(tx, writer.project.id, &[edge.from, edge.to])?;
    if let Some(end) = [edge.from, edge.to].iter().find(|end| !living.contains_key(end)) {
        return Ok(Some(format!("the object `{end}` at one of its ends is gone")));
    }
    let twin = rows::find(tx, edge.from, &edge.type_, edge.to)?;
    Ok(twin.map(|twin| format!("the relationship `{}` is in its place", twin.id)))
}

fn restore_tombstone(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    dead: Relationship,
    before: &Relationship,
) -> Result<Relationship> {
    let ends = object_rows::find_live(tx, writer.project.id, &[before.from, before.to])?;
    if differences(&dead, before).is_some()
        && let (Some(from), Some(to)) = (ends.get(&before.from), ends.get(&before.to))
    {
        let properties = before.properties.to_map();
        let strict = writer.project.strict;
        writer.packs.check_relationship(&before.type_, &from.type_, &to.type_, &properties, strict)?;
    }
    tasks::notify_workflows_of_edge(tx, writer, &dead)?;
    tasks::check_restored_edge(tx, writer, &dead)?;
    // Never before its ends, or the past would show an edge that leads nowhere.
    let ends_at = ends.values().map(|end| end.updated_at).max();
    let next = Relationship {
        version: dead.version + 1,
        updated_at: writer.timestamp_after(dead.updated_at).max(ends_at.unwrap_or(writer.now)),
        deleted_at: None,
        deleted_with: None,
        properties: before.properties.clone(),
        weight: before.weight,
        author: writer.author,
        reason: writer.reason.clone(),
        ..dead
    };
    write(tx, &next, ChangeKind::RelationshipRestored)?;
    Ok(next)
}

fn write(tx: &mut Tx<'_>, next: &Relationship, kind: ChangeKind) -> Result<()> {
    rows::update(tx, next)?;
    let told = events::NewChange {
        kind,
        entity: next.id.0,
        entity_type: &next.type_,
        version: next.version,
        at: next.updated_at,
        author: next.author,
    };
    Ok(events::append(tx, next.project, &[told])?)
}
