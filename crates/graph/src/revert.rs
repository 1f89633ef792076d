//! Undoing what one run wrote: a new version of everything it touched, that says what was said
//! before. What someone else wrote to meanwhile is reported and stays.
//!
//! The order keeps the graph whole at every moment: edges go before the objects they join, objects
//! come back before the edges between them.

use emergent_domain::{
    author::Author,
    ids::{ObjectId, RelationshipId, RunId},
    object::Object,
    relationship::Relationship,
};
use emergent_store::{
    Tx, objects as object_rows,
    revert::{self as rows, WrittenVersions},
    sources,
};
use uuid::Uuid;

use crate::{Actor, Error, Graph, WriteContext, documents, error::Result};

mod edges;
mod objects;

/// What came of undoing a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevertReport {
    pub undone: Vec<RevertedEntity>,
    /// What stays as it is, and why.
    pub conflicts: Vec<RevertConflict>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevertedEntity {
    pub kind: EntityKind,
    pub id: Uuid,
    pub how: UndoAction,
    /// The version that this made.
    pub version: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevertConflict {
    pub kind: EntityKind,
    pub id: Uuid,
    pub reason: String,
    pub current_version: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntityKind {
    Object,
    Relationship,
    Document,
}

impl EntityKind {
    pub fn as_str(self) -> &'static str {
        match self {
            EntityKind::Object => "object",
            EntityKind::Relationship => "relationship",
            EntityKind::Document => "document",
        }
    }
}

/// What was done to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UndoAction {
    /// The run had made it, or brought it back.
    Deleted,
    /// The run had changed it.
    RolledBack,
    /// The run had deleted it.
    Restored,
}

impl UndoAction {
    pub fn as_str(self) -> &'static str {
        match self {
            UndoAction::Deleted => "deleted",
            UndoAction::RolledBack => "put_back",
            UndoAction::Restored => "restored",
        }
    }
}

impl RevertReport {
    fn add_reverted(&mut self, what: EntityKind, id: Uuid, how: UndoAction, version: i64) {
        self.undone.push(RevertedEntity { kind: what, id, how, version });
    }

    fn add_conflict(&mut self, what: EntityKind, id: Uuid, current_version: i64, reason: impl Into<String>) {
        self.conflicts.push(RevertConflict { kind: what, id, reason: reason.into(), current_version });
    }
}

impl Graph {
    /// Undoes what a run wrote in the actor's project. A second time finds everything undone.
    pub async fn revert_run(&self, actor: Actor, run: RunId) -> Result<RevertReport> {
        self.write(actor, move |tx, writer| revert(tx, writer, run)).await
    }
}

/// Undoes what a run wrote, as new versions by the writer. The caller knows that it writes no more.
pub fn revert(tx: &mut Tx<'_>, writer: &WriteContext, run: RunId) -> Result<RevertReport> {
    let mut report = RevertReport::default();
    let objects = objects_to_undo(tx, writer, run, &mut report)?;
    let (edges, asleep) = edges_to_undo(tx, writer, run, &mut report)?;
    let writer = &with_common_timestamp(writer, &objects, &edges);
    edges::delete(tx, writer, run, &edges, &mut report)?;
    objects::delete(tx, writer, run, &objects, &mut report)?;
    for id in rows::documents(tx, writer.project.id, run)? {
        documents::delete(tx, writer, id)?;
        report.add_reverted(EntityKind::Document, id.0, UndoAction::Deleted, 2);
    }
    objects::roll_back(tx, writer, &objects, &mut report)?;
    objects::restore(tx, writer, &objects, &mut report)?;
    edges::report_restored(tx, writer, &asleep, &mut report)?;
    edges::restore(tx, writer, &edges, &mut report)?;
    edges::roll_back(tx, writer, &edges, &mut report)?;
    // What could not be undone still says what the run wrote, and keeps the passages that say so.
    let kept = report.conflicts.iter().map(|conflict| conflict.id).collect();
    sources::delete_for_run(tx, writer.project.id, run, &kept)?;
    Ok(report)
}

/// Everything is undone at one moment, later than all of it was written: else the past would show
/// edges of objects that are gone already, or not back yet.
fn with_common_timestamp(
    writer: &WriteContext,
    objects: &[PendingUndo<Object>],
    edges: &[PendingUndo<Relationship>],
) -> WriteContext {
    let objects = objects.iter().map(|plan| plan.now.updated_at);
    let edges = edges.iter().map(|plan| plan.now.updated_at);
    match objects.chain(edges).max() {
        Some(last) => WriteContext { now: writer.timestamp_after(last), ..writer.clone() },
        None => writer.clone(),
    }
}

/// Something to undo: what it is, what it was before the run first wrote it, and so what to do.
struct PendingUndo<T> {
    now: T,
    before: Option<T>,
    undo: UndoAction,
}

/// What is to be done about something a run wrote.
#[derive(Debug, PartialEq, Eq)]
enum UndoDecision {
    /// It is what it was before, whoever saw to that.
    None,
    Undo(UndoAction),
    Conflict,
}

/// The little that decides; the rest of a row is only carried.
struct RevertState {
    version: i64,
    by_run: bool,
    is_live: bool,
    was_live: bool,
    /// Is the same as before; meant for two living or two dead.
    same: bool,
}

fn decide<Id>(written: &WrittenVersions<Id>, state: &RevertState) -> UndoDecision {
    // Someone else wrote on top of the run's work, or in the midst of it: going back to before it
    // would lose that, too.
    let run_alone = state.by_run && state.version - written.first + 1 == written.count;
    match (state.is_live, state.was_live) {
        (true, true) | (false, false) if state.same => UndoDecision::None,
        // Dead either way: nothing of anybody's is lost.
        (false, false) if !run_alone => UndoDecision::None,
        _ if !run_alone => UndoDecision::Conflict,
        (_, false) => UndoDecision::Undo(UndoAction::Deleted),
        (true, true) => UndoDecision::Undo(UndoAction::RolledBack),
        (false, true) => UndoDecision::Undo(UndoAction::Restored),
    }
}

const CHANGED_SINCE: &str = "was changed since by someone else";
const FOUND_BY_OTHERS: &str = "was found in a document by someone else as well";

/// Whether it is a call's work: what was written about a run is not.
fn is_written_by(author: Author, run: RunId) -> bool {
    matches!(author, Author::Run { run_id, tool_call_id: Some(_) } if run_id == run)
}

fn objects_to_undo(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    run: RunId,
    report: &mut RevertReport,
) -> Result<Vec<PendingUndo<Object>>> {
    let mut plans = Vec::new();
    for written in rows::objects(tx, writer.project.id, run)? {
        let Some(found) = object_rows::lock(tx, writer.project.id, written.id)? else { continue };
        let now = found.object;
        let before = version_before(&written, |version| rows::object_version(tx, written.id, version))?;
        let state = RevertState {
            version: now.version,
            by_run: is_written_by(now.author, run),
            is_live: now.deleted_at.is_none(),
            was_live: before.as_ref().is_some_and(|before| before.deleted_at.is_none()),
            same: objects::is_same(&now, before.as_ref()),
        };
        match decide(&written, &state) {
            UndoDecision::None => {}
            UndoDecision::Undo(undo) => plans.push(PendingUndo { now, before, undo }),
            UndoDecision::Conflict => {
                report.add_conflict(EntityKind::Object, now.id.0, now.version, CHANGED_SINCE)
            }
        }
    }
    Ok(plans)
}

/// What to do about edges, and those that are dead by someone else's doing as well: they may still
/// come back with an object.
fn edges_to_undo(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    run: RunId,
    report: &mut RevertReport,
) -> Result<(Vec<PendingUndo<Relationship>>, Vec<RelationshipId>)> {
    let mut plans = Vec::new();
    let mut asleep = Vec::new();
    for written in rows::relationships(tx, writer.project.id, run)? {
        let Some(now) = rows::lock_relationship(tx, writer.project.id, written.id)? else { continue };
        let before = version_before(&written, |version| rows::relationship_version(tx, written.id, version))?;
        let state = RevertState {
            version: now.version,
            by_run: is_written_by(now.author, run),
            is_live: now.deleted_at.is_none(),
            was_live: before.as_ref().is_some_and(|before| before.deleted_at.is_none()),
            same: edges::is_same(&now, before.as_ref()),
        };
        match decide(&written, &state) {
            UndoDecision::None if !state.same => asleep.push(now.id),
            UndoDecision::None => {}
            UndoDecision::Undo(undo) => plans.push(PendingUndo { now, before, undo }),
            UndoDecision::Conflict => {
                report.add_conflict(EntityKind::Relationship, now.id.0, now.version, CHANGED_SINCE)
            }
        }
    }
    Ok((plans, asleep))
}

/// The version before the run's first; `None` when the run made it.
fn version_before<Id, T>(
    written: &WrittenVersions<Id>,
    mut version: impl FnMut(i64) -> emergent_store::Result<Option<T>>,
) -> Result<Option<T>> {
    if written.first <= 1 { Ok(None) } else { Ok(version(written.first - 1)?) }
}

/// Why something could not be undone, when that is no failure: the rules of today, or someone
/// else's claims, stand against it.
fn conflict_reason(error: Error) -> Result<String> {
    match error {
        Error::Invalid(invalid) => Ok(format!("what it was before is not allowed any more: {invalid}")),
        Error::KeyTaken { .. } | Error::Conflict { .. } => Ok(error.to_string()),
        other => Err(other),
    }
}
