//! Writes the edges of a batch.

use std::collections::HashMap;

use emergent_domain::{ids::ObjectId, relationship::Relationship};
use emergent_store::{
    Engine, Tx,
    objects::{self as rows, EndObject},
    transfer as bulk,
};

use super::{
    super::line::{EdgeLine, EndRef, LineError},
    BatchError, BatchOutcome, IdMap, derived_id, group_by_type, line_error,
};
use crate::{WriteContext, relationships, withheld::may_read};

/// The live objects that the edges of a batch connect. They are locked until the transaction ends.
pub(super) struct EdgeEnds {
    by_ref: HashMap<EndRef, ObjectId>,
    rows: HashMap<ObjectId, EndObject>,
}

impl EdgeEnds {
    pub(super) fn lock(
        tx: &mut Tx<'_>,
        ctx: &WriteContext,
        lines: &[(u64, EdgeLine)],
        renamed: &IdMap,
        renamed_now: &[(ObjectId, ObjectId)],
    ) -> Result<Self, BatchError> {
        let project = ctx.project.id;
        let mut ends = Self { by_ref: HashMap::new(), rows: HashMap::new() };
        let refs = || lines.iter().flat_map(|(_, line)| [&line.from, &line.to]);
        let keyed = refs().filter_map(|end| match end {
            EndRef::Key { type_, key } => Some((type_.as_str(), key.as_str())),
            EndRef::Id(_) => None,
        });
        for (type_, keys) in group_by_type(keyed) {
            for (key, end) in bulk::lock_by_keys(tx, project, type_, &keys)? {
                ends.by_ref.insert(EndRef::Key { type_: type_.to_owned(), key }, end.id);
                ends.rows.insert(end.id, EndObject { type_: type_.to_owned(), updated_at: end.updated_at });
            }
        }
        let renamed_now: IdMap = renamed_now.iter().copied().collect();
        let candidates: HashMap<ObjectId, Vec<ObjectId>> = refs()
            .filter_map(|end| match end {
                EndRef::Id(id) => Some(*id),
                EndRef::Key { .. } => None,
            })
            .map(|id| {
                let renamed_id = renamed_now.get(&id).or_else(|| renamed.get(&id)).copied();
                (id, renamed_id.into_iter().chain([id, derived_id(project, id)]).collect())
            })
            .collect();
        let candidate_ids: Vec<ObjectId> = candidates.values().flatten().copied().collect();
        let live = rows::lock_live(tx, project, &candidate_ids)?;
        for (id, ids) in candidates {
            if let Some(live_id) = ids.into_iter().find(|id| live.contains_key(id)) {
                ends.by_ref.insert(EndRef::Id(id), live_id);
            }
        }
        ends.rows.extend(live);
        Ok(ends)
    }

    fn find(&self, number: u64, field: &str, end: &EndRef) -> Result<ObjectId, LineError> {
        self.by_ref.get(end).copied().ok_or_else(|| LineError {
            line: number,
            field: Some(field.to_owned()),
            message: format!("there is no {end} in this project"),
        })
    }
}

pub(super) fn write_edges(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    lines: &[(u64, EdgeLine)],
    ends: &EdgeEnds,
    outcome: &mut BatchOutcome,
) -> Result<(), BatchError> {
    let mut resolved = Vec::with_capacity(lines.len());
    for (number, line) in lines {
        match (ends.find(*number, "from", &line.from), ends.find(*number, "to", &line.to)) {
            (Ok(from), Ok(to)) => resolved.push((*number, line, from, to)),
            (Err(error), _) | (_, Err(error)) => outcome.errors.push(error),
        }
    }
    let existing = match tx.engine() {
        // On SQLite a lookup costs as much as an insert.
        Engine::Sqlite => HashMap::new(),
        // On PostgreSQL each failed insert costs a round trip.
        Engine::Postgres => {
            let places: Vec<_> =
                resolved.iter().map(|(_, line, from, to)| (*from, line.draft.type_(), *to)).collect();
            bulk::edges_between(tx, &places)?
        }
    };
    let mut new = Vec::new();
    let mut drafts = Vec::new();
    let mut changes: Vec<(u64, &EdgeLine, Relationship)> = Vec::new();
    for (number, line, from, to) in resolved {
        match existing.get(&(from, line.draft.type_().to_owned(), to)) {
            Some(edge) => changes.push((number, line, edge.clone())),
            None => {
                new.push((number, line));
                drafts.push(line.draft.with_ends(from, to));
            }
        }
    }
    relationships::notify_workflows(tx, ctx, &drafts)?;
    for ((number, line), result) in
        new.into_iter().zip(relationships::create_between(tx, ctx, &drafts, &ends.rows)?)
    {
        match result {
            Ok((_, true)) => outcome.relationships.created += 1,
            Ok((edge, false)) => changes.push((number, line, edge)),
            Err(error) => outcome.errors.push(line_error(number, error)?),
        }
    }
    // Whoever may not read gets the answer that a change would get, which only the update finds out.
    let may_read = may_read(tx, ctx)?;
    for (number, line, edge) in changes {
        if may_read && line.patch.apply(&edge).is_none() {
            outcome.relationships.unchanged += 1;
            continue;
        }
        match relationships::update(tx, ctx, edge.id, &line.patch) {
            Ok(after) if after.version == edge.version => outcome.relationships.unchanged += 1,
            Ok(_) => outcome.relationships.updated += 1,
            Err(error) => outcome.errors.push(line_error(number, error)?),
        }
    }
    Ok(())
}
