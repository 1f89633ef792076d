//! The objects' part of undoing a run.

use std::collections::HashSet;

use emergent_domain::{
    object::{Object, ObjectPatch},
    patch,
};
use emergent_store::{Tx, objects as rows, objects::LockedObject, relationships as edge_rows, sources};
use serde_json::{Map, Value};

use super::{
    EntityKind, FOUND_BY_OTHERS, ObjectId, PendingUndo, RevertReport, RunId, UndoAction, conflict_reason,
};
use crate::{Error, WriteContext, error::Result, objects, tasks};

/// The change that makes a living object say what another version said; `None` when it does.
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

/// Whether an object is what it was before the run; the dead are alike.
pub(super) fn is_same(now: &Object, before: Option<&Object>) -> bool {
    match (now.deleted_at, before) {
        (None, Some(before)) => differences(now, before).is_none(),
        (None, None) => false,
        (Some(_), _) => true,
    }
}

/// As a change that takes away what was not there.
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

/// Deletes what the run made. The run's own edges are gone by now: whatever still hangs on an
/// object is someone else's, and would go with it.
pub(super) fn delete(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    run: RunId,
    plans: &[PendingUndo<Object>],
    report: &mut RevertReport,
) -> Result<()> {
    for PendingUndo { now, .. } in planned(plans, UndoAction::Deleted) {
        if let Some(edge) = edge_rows::lock_live_of(tx, now.id)?.first() {
            let reason = format!("someone else joined it to others, as in the relationship `{}`", edge.id);
            report.add_conflict(EntityKind::Object, now.id.0, now.version, reason);
            continue;
        }
        if sources::has_other_authors(tx, writer.project.id, now.id.0, run)? {
            report.add_conflict(EntityKind::Object, now.id.0, now.version, FOUND_BY_OTHERS);
            continue;
        }
        let gone = objects::delete(tx, writer, now.id, None)?;
        report.add_reverted(EntityKind::Object, now.id.0, UndoAction::Deleted, gone.version);
    }
    Ok(())
}

/// Makes changed objects say what they said before. One may wait for a key that another of them
/// still has; when they wait in a circle, one lets go of its key first.
pub(super) fn roll_back(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    plans: &[PendingUndo<Object>],
    report: &mut RevertReport,
) -> Result<()> {
    let mut waiting: Vec<(&Object, ObjectPatch)> = planned(plans, UndoAction::RolledBack)
        .filter_map(|plan| Some((&plan.now, differences(&plan.now, plan.before.as_ref()?)?)))
        .collect();
    while !waiting.is_empty() {
        let ids: HashSet<ObjectId> = waiting.iter().map(|(now, _)| now.id).collect();
        let before = waiting.len();
        let mut still = Vec::new();
        let mut in_the_way = None;
        for (now, patch) in waiting {
            match objects::update(tx, writer, now.id, &patch) {
                Ok(next) => {
                    report.add_reverted(EntityKind::Object, now.id.0, UndoAction::RolledBack, next.version)
                }
                Err(Error::KeyTaken { id, .. }) if ids.contains(&id) => {
                    in_the_way = Some(id);
                    still.push((now, patch));
                }
                Err(error) => {
                    let reason = conflict_reason(error)?;
                    report.add_conflict(EntityKind::Object, now.id.0, now.version, reason);
                }
            }
        }
        if still.len() == before
            && let Some(holder) = in_the_way
        {
            let free = ObjectPatch { key: Some(None), ..ObjectPatch::default() };
            objects::update(tx, writer, holder, &free)?;
        }
        waiting = still;
    }
    Ok(())
}

/// Brings back what the run deleted, as it was before the run changed it, with its edges.
pub(super) fn restore(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    plans: &[PendingUndo<Object>],
    report: &mut RevertReport,
) -> Result<()> {
    for PendingUndo { now, before, .. } in planned(plans, UndoAction::Restored) {
        let Some(before) = before else { continue };
        let Some(LockedObject { no, object }) = rows::lock(tx, writer.project.id, now.id)? else { continue };
        let dead = Object {
            type_: before.type_.clone(),
            key: before.key.clone(),
            status: before.status.clone(),
            labels: before.labels.clone(),
            properties: before.properties.clone(),
            ..object
        };
        let restored = check(writer, now, before)
            .and_then(|()| objects::restore_tombstone(tx, writer, LockedObject { no, object: dead }));
        match restored {
            Ok(next) => report.add_reverted(EntityKind::Object, now.id.0, UndoAction::Restored, next.version),
            Err(error) => {
                let reason = conflict_reason(error)?;
                report.add_conflict(EntityKind::Object, now.id.0, now.version, reason);
            }
        }
    }
    Ok(())
}

/// What comes back as it went is not looked at again, as in every restoring.
fn check(writer: &WriteContext, now: &Object, before: &Object) -> Result<()> {
    let properties = before.properties.to_map();
    let same = now.type_ == before.type_
        && patch::canonical_json(&Value::Object(now.properties.to_map()))
            == patch::canonical_json(&Value::Object(properties.clone()));
    if !same {
        writer.packs.check_object(&before.type_, &properties, writer.project.strict)?;
    }
    tasks::check_reverted(writer, now, before)
}
