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
    revert::{self as rows, Written},
    sources,
};
use uuid::Uuid;

use crate::{Actor, Error, Graph, Writer, documents, error::Result};

mod edges;
mod things;

/// What came of undoing a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reverted {
    pub undone: Vec<Undone>,
    /// What stays as it is, and why.
    pub conflicts: Vec<RevertConflict>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undone {
    pub what: Kind,
    pub id: Uuid,
    pub how: Undo,
    /// The version that this made.
    pub version: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevertConflict {
    pub what: Kind,
    pub id: Uuid,
    pub reason: String,
    pub current_version: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Object,
    Relationship,
    Document,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Object => "object",
            Kind::Relationship => "relationship",
            Kind::Document => "document",
        }
    }
}

/// What was done to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Undo {
    /// The run had made it, or brought it back.
    Deleted,
    /// The run had changed it.
    PutBack,
    /// The run had deleted it.
    Restored,
}

impl Undo {
    pub fn as_str(self) -> &'static str {
        match self {
            Undo::Deleted => "deleted",
            Undo::PutBack => "put_back",
            Undo::Restored => "restored",
        }
    }
}

impl Reverted {
    fn done(&mut self, what: Kind, id: Uuid, how: Undo, version: i64) {
        self.undone.push(Undone { what, id, how, version });
    }

    fn refuse(&mut self, what: Kind, id: Uuid, current_version: i64, reason: impl Into<String>) {
        self.conflicts.push(RevertConflict { what, id, reason: reason.into(), current_version });
    }
}

impl Graph {
    /// Undoes what a run wrote in the actor's project. A second time finds everything undone.
    pub async fn revert_run(&self, actor: Actor, run: RunId) -> Result<Reverted> {
        self.write(actor, move |tx, writer| revert(tx, writer, run)).await
    }
}

/// Undoes what a run wrote, as new versions by the writer. The caller knows that it writes no more.
pub fn revert(tx: &mut Tx<'_>, writer: &Writer, run: RunId) -> Result<Reverted> {
    let mut report = Reverted::default();
    let objects = objects_of(tx, writer, run, &mut report)?;
    let (edges, asleep) = edges_of(tx, writer, run, &mut report)?;
    let writer = &at_one_moment(writer, &objects, &edges);
    edges::delete(tx, writer, run, &edges, &mut report)?;
    things::delete(tx, writer, run, &objects, &mut report)?;
    for id in rows::documents(tx, writer.project.id, run)? {
        documents::delete(tx, writer, id)?;
        report.done(Kind::Document, id.0, Undo::Deleted, 2);
    }
    things::put_back(tx, writer, &objects, &mut report)?;
    things::restore(tx, writer, &objects, &mut report)?;
    edges::report_woken(tx, writer, &asleep, &mut report)?;
    edges::restore(tx, writer, &edges, &mut report)?;
    edges::put_back(tx, writer, &edges, &mut report)?;
    // What could not be undone still says what the run wrote, and keeps the passages that say so.
    let kept = report.conflicts.iter().map(|conflict| conflict.id).collect();
    sources::forget_run(tx, writer.project.id, run, &kept)?;
    Ok(report)
}

/// Everything is undone at one moment, later than all of it was written: else the past would show
/// edges of objects that are gone already, or not back yet.
fn at_one_moment(writer: &Writer, objects: &[Plan<Object>], edges: &[Plan<Relationship>]) -> Writer {
    let objects = objects.iter().map(|plan| plan.now.updated_at);
    let edges = edges.iter().map(|plan| plan.now.updated_at);
    match objects.chain(edges).max() {
        Some(last) => Writer { now: writer.after(last), ..writer.clone() },
        None => writer.clone(),
    }
}

/// Something to undo: what it is, what it was before the run first wrote it, and so what to do.
struct Plan<T> {
    now: T,
    before: Option<T>,
    undo: Undo,
}

/// What is to be done about something a run wrote.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// It is what it was before, whoever saw to that.
    Nothing,
    Undo(Undo),
    Conflict,
}

/// The little that decides; the rest of a row is only carried.
struct State {
    version: i64,
    by_run: bool,
    lives: bool,
    lived: bool,
    /// Is the same as before; meant for two living or two dead.
    same: bool,
}

fn decide<Id>(written: &Written<Id>, state: &State) -> Decision {
    // Someone else wrote on top of the run's work, or in the midst of it: going back to before it
    // would lose that, too.
    let run_alone = state.by_run && state.version - written.first + 1 == written.count;
    match (state.lives, state.lived) {
        (true, true) | (false, false) if state.same => Decision::Nothing,
        // Dead either way: nothing of anybody's is lost.
        (false, false) if !run_alone => Decision::Nothing,
        _ if !run_alone => Decision::Conflict,
        (_, false) => Decision::Undo(Undo::Deleted),
        (true, true) => Decision::Undo(Undo::PutBack),
        (false, true) => Decision::Undo(Undo::Restored),
    }
}

const SINCE: &str = "was changed since by someone else";
const FOUND: &str = "was found in a document by someone else as well";

/// Whether it is a call's work: what was written about a run is not.
fn is_by(author: Author, run: RunId) -> bool {
    matches!(author, Author::Run { run_id, tool_call_id: Some(_) } if run_id == run)
}

fn objects_of(
    tx: &mut Tx<'_>,
    writer: &Writer,
    run: RunId,
    report: &mut Reverted,
) -> Result<Vec<Plan<Object>>> {
    let mut plans = Vec::new();
    for written in rows::objects(tx, writer.project.id, run)? {
        let Some(found) = object_rows::lock(tx, writer.project.id, written.id)? else { continue };
        let now = found.object;
        let before = before(&written, |version| rows::object_version(tx, written.id, version))?;
        let state = State {
            version: now.version,
            by_run: is_by(now.author, run),
            lives: now.deleted_at.is_none(),
            lived: before.as_ref().is_some_and(|before| before.deleted_at.is_none()),
            same: things::is_same(&now, before.as_ref()),
        };
        match decide(&written, &state) {
            Decision::Nothing => {}
            Decision::Undo(undo) => plans.push(Plan { now, before, undo }),
            Decision::Conflict => report.refuse(Kind::Object, now.id.0, now.version, SINCE),
        }
    }
    Ok(plans)
}

/// What to do about edges, and those that are dead by someone else's doing as well: they may still
/// come back with an object.
fn edges_of(
    tx: &mut Tx<'_>,
    writer: &Writer,
    run: RunId,
    report: &mut Reverted,
) -> Result<(Vec<Plan<Relationship>>, Vec<RelationshipId>)> {
    let mut plans = Vec::new();
    let mut asleep = Vec::new();
    for written in rows::relationships(tx, writer.project.id, run)? {
        let Some(now) = rows::lock_relationship(tx, writer.project.id, written.id)? else { continue };
        let before = before(&written, |version| rows::relationship_version(tx, written.id, version))?;
        let state = State {
            version: now.version,
            by_run: is_by(now.author, run),
            lives: now.deleted_at.is_none(),
            lived: before.as_ref().is_some_and(|before| before.deleted_at.is_none()),
            same: edges::is_same(&now, before.as_ref()),
        };
        match decide(&written, &state) {
            Decision::Nothing if !state.same => asleep.push(now.id),
            Decision::Nothing => {}
            Decision::Undo(undo) => plans.push(Plan { now, before, undo }),
            Decision::Conflict => report.refuse(Kind::Relationship, now.id.0, now.version, SINCE),
        }
    }
    Ok((plans, asleep))
}

/// The version before the run's first; `None` when the run made it.
fn before<Id, T>(
    written: &Written<Id>,
    mut version: impl FnMut(i64) -> emergent_store::Result<Option<T>>,
) -> Result<Option<T>> {
    if written.first <= 1 { Ok(None) } else { Ok(version(written.first - 1)?) }
}

/// Why something could not be undone, when that is no failure: the rules of today, or someone
/// else's claims, stand against it.
fn refusal(error: Error) -> Result<String> {
    match error {
        Error::Invalid(invalid) => Ok(format!("what it was before is not allowed any more: {invalid}")),
        Error::KeyTaken { .. } | Error::Conflict { .. } => Ok(error.to_string()),
        other => Err(other),
    }
}
