//! The objects' part of undoing a run.

use std::collections::HashSet;

use emergent_domain::{
    object::{Object, ObjectPatch},
    patch,
};
use emergent_store::{Tx, objects as rows, objects::Locked, relationships as edge_rows, sources};
use serde_json::{Map, Value};

use super::{FOUND, Kind, ObjectId, Plan, Reverted, RunId, Undo, refusal};
use crate::{Error, Writer, error::Result, objects, tasks};

/// The change that makes a living object say what another version said; `None` when it does.
fn differences(now: &Object, before: &Object) -> Option<ObjectPatch> {
    let patch = ObjectPatch {
        type_: Some(before.type_.clone()),
        key: Some(before.key.clone()),
        status: Some(before.status.clone()),
        labels: Some(before.labels.clone()),
        properties: Some(replacing(&now.properties.to_map(), before.properties.to_map())),
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
pub(super) fn replacing(now: &Map<String, Value>, mut before: Map<String, Value>) -> Map<String, Value> {
    for property in now.keys() {
        before.entry(property).or_insert(Value::Null);
    }
    before
}

fn planned(plans: &[Plan<Object>], undo: Undo) -> impl Iterator<Item = &Plan<Object>> {
    plans.iter().filter(move |plan| plan.undo == undo)
}

/// Deletes what the run made. The run's own edges are gone by now: whatever still hangs on an
/// object is someone else's, and would go with it.
pub(super) fn delete(
    tx: &mut Tx<'_>,
    writer: &Writer,
    run: RunId,
    plans: &[Plan<Object>],
    report: &mut Reverted,
) -> Result<()> {
    for Plan { now, .. } in planned(plans, Undo::Deleted) {
        if let Some(edge) = edge_rows::lock_living_of(tx, now.id)?.first() {
            let reason = format!("someone else joined it to others, as in the relationship `{}`", edge.id);
            report.refuse(Kind::Object, now.id.0, now.version, reason);
            continue;
        }
        if sources::has_others(tx, writer.project.id, now.id.0, run)? {
            report.refuse(Kind::Object, now.id.0, now.version, FOUND);
            continue;
        }
        let gone = objects::delete(tx, writer, now.id, None)?;
        report.done(Kind::Object, now.id.0, Undo::Deleted, gone.version);
    }
    Ok(())
}

/// Makes changed objects say what they said before. One may wait for a key that another of them
/// still has; when they wait in a circle, one lets go of its key first.
pub(super) fn put_back(
    tx: &mut Tx<'_>,
    writer: &Writer,
    plans: &[Plan<Object>],
    report: &mut Reverted,
) -> Result<()> {
    let mut waiting: Vec<(&Object, ObjectPatch)> = planned(plans, Undo::PutBack)
        .filter_map(|plan| Some((&plan.now, differences(&plan.now, plan.before.as_ref()?)?)))
        .collect();
    while !waiting.is_empty() {
        let ids: HashSet<ObjectId> = waiting.iter().map(|(now, _)| now.id).collect();
        let before = waiting.len();
        let mut still = Vec::new();
        let mut in_the_way = None;
        for (now, patch) in waiting {
            match objects::update(tx, writer, now.id, &patch) {
                Ok(next) => report.done(Kind::Object, now.id.0, Undo::PutBack, next.version),
                Err(Error::KeyTaken { id, .. }) if ids.contains(&id) => {
                    in_the_way = Some(id);
                    still.push((now, patch));
                }
                Err(error) => {
                    let reason = refusal(error)?;
                    report.refuse(Kind::Object, now.id.0, now.version, reason);
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
    writer: &Writer,
    plans: &[Plan<Object>],
    report: &mut Reverted,
) -> Result<()> {
    for Plan { now, before, .. } in planned(plans, Undo::Restored) {
        let Some(before) = before else { continue };
        let Some(Locked { no, object }) = rows::lock(tx, writer.project.id, now.id)? else { continue };
        let dead = Object {
            type_: before.type_.clone(),
            key: before.key.clone(),
            status: before.status.clone(),
            labels: before.labels.clone(),
            properties: before.properties.clone(),
            ..object
        };
        let restored = check(writer, now, before)
            .and_then(|()| objects::bring_back(tx, writer, Locked { no, object: dead }));
        match restored {
            Ok(next) => report.done(Kind::Object, now.id.0, Undo::Restored, next.version),
            Err(error) => {
                let reason = refusal(error)?;
                report.refuse(Kind::Object, now.id.0, now.version, reason);
            }
        }
    }
    Ok(())
}

/// What comes back as it went is not looked at again, as in every restoring.
fn check(writer: &Writer, now: &Object, before: &Object) -> Result<()> {
    let properties = before.properties.to_map();
    let same = now.type_ == before.type_
        && patch::canonical(&Value::Object(now.properties.to_map()))
            == patch::canonical(&Value::Object(properties.clone()));
    if !same {
        writer.packs.check_object(&before.type_, &properties, writer.project.strict)?;
    }
    tasks::check_reverted(writer, now, before)
}
