//! Reverting runs: every object and relationship that they wrote gets a new version with its
//! content before them. Entities that others have changed in the meantime are reported as
//! conflicts, and remain unchanged.
//!
//! The order keeps the graph consistent at every moment: edges are deleted before the objects they
//! connect, and objects are restored before the edges between them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use emergent_domain::{
    author::Author,
    document::Document,
    ids::{DocumentId, ObjectId, RelationshipId, RunId},
    json::JsonObject,
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

mod batches;
mod edges;
mod later_authors;
mod objects;

use later_authors::LaterAuthors;

pub use batches::{MAX_AT_ONCE, MAX_BATCH_BYTES, REVERT_QUEUE, WrittenEntities, enqueue};

/// How many of the reverted entities the report of a revert in many transactions lists. A run can write millions.
const MAX_LISTED_UNDONE: usize = 10_000;
/// How many conflicts it lists. Their reasons may be long.
const MAX_LISTED_CONFLICTS: usize = 1_000;

/// The result of reverting a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevertReport {
    pub undone: Vec<RevertedEntity>,
    /// How many more were reverted than are listed.
    pub unlisted_undone: usize,
    /// The entities that were not reverted, with the reasons.
    pub conflicts: Vec<RevertConflict>,
    /// How many more were not reverted than are listed.
    pub unlisted_conflicts: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevertedEntity {
    pub kind: EntityKind,
    pub id: Uuid,
    /// `Type/key` of an object, the type of a relationship; `None` for a document.
    pub name: Option<String>,
    pub how: UndoAction,
    /// The version that the revert created.
    pub version: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevertConflict {
    pub kind: EntityKind,
    pub id: Uuid,
    /// As in [`RevertedEntity`].
    pub name: Option<String>,
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

/// How an entity was reverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UndoAction {
    /// The run had created or restored the entity.
    Deleted,
    /// The run had changed the entity.
    RolledBack,
    /// The run had deleted the entity.
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
    fn add_reverted(&mut self, Entity { kind, id, name }: Entity, how: UndoAction, version: i64) {
        self.undone.push(RevertedEntity { kind, id, name, how, version });
    }

    fn add_conflict(
        &mut self,
        Entity { kind, id, name }: Entity,
        current_version: i64,
        reason: impl Into<String>,
    ) {
        self.conflicts.push(RevertConflict { kind, id, name, reason: reason.into(), current_version });
    }

    /// Adds what one of many transactions did. What does not fit into the lists is counted.
    fn append(&mut self, other: RevertReport) {
        self.unlisted_undone += extend_up_to(&mut self.undone, other.undone, MAX_LISTED_UNDONE);
        self.unlisted_conflicts += extend_up_to(&mut self.conflicts, other.conflicts, MAX_LISTED_CONFLICTS);
    }
}

/// Adds items until the list has `max`. Returns how many were left out.
fn extend_up_to<T>(list: &mut Vec<T>, items: Vec<T>, max: usize) -> usize {
    let added = max.saturating_sub(list.len()).min(items.len());
    let left_out = items.len() - added;
    list.extend(items.into_iter().take(added));
    left_out
}

/// What an entry of a report is about.
struct Entity {
    kind: EntityKind,
    id: Uuid,
    name: Option<String>,
}

impl Entity {
    fn object(object: &Object) -> Self {
        let key = object.key.clone().unwrap_or_else(|| object.id.to_string());
        let name = Some(format!("{}/{key}", object.type_));
        Self { kind: EntityKind::Object, id: object.id.0, name }
    }

    fn edge(edge: &Relationship) -> Self {
        Self { kind: EntityKind::Relationship, id: edge.id.0, name: Some(edge.type_.clone()) }
    }

    fn document(document: &Document) -> Self {
        Self { kind: EntityKind::Document, id: document.id.0, name: Some(document.title.clone()) }
    }
}

impl Graph {
    /// Reverts everything that a run wrote in the project of the actor. Reverting twice has no
    /// further effect.
    pub async fn revert_run(&self, actor: Actor, run: RunId) -> Result<RevertReport> {
        let work = move |tx: &mut Tx<'_>, ctx: &WriteContext| -> Result<RevertReport> {
            let report = revert(tx, ctx, &RunSet::from([run]), usize::MAX)?;
            Ok(report.unwrap_or_default())
        };
        self.write(actor, work).await
    }
}

/// The runs that are reverted together.
pub type RunSet = BTreeSet<RunId>;

/// Reverts runs with new versions by the author of the context. The caller ensures that the runs
/// do not write any more. Returns `None`, without having written anything, if the objects or the relationships have
/// more than `max_bytes`.
pub fn revert(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    max_bytes: usize,
) -> Result<Option<RevertReport>> {
    let mut report = RevertReport::default();
    let written = WrittenEntities::load(tx, ctx.project.id, runs)?;
    let objects = objects_to_undo(tx, ctx, runs, &written.objects, max_bytes, &mut report)?;
    if objects.examined < written.objects.len() {
        return Ok(None);
    }
    let edges = edges_to_undo(tx, ctx, runs, &written.edges, max_bytes, &mut report)?;
    if edges.examined < written.edges.len() {
        return Ok(None);
    }
    let (objects, edges, dormant) = (objects.plans, edges.plans, edges.dormant);
    // Reverting writes what was stored before, so it makes no link that nobody was allowed to make.
    let ctx = WriteContext { reason: Some(reason(runs)), writes_stored_content: true, ..ctx.with_links() };
    let ctx = &with_common_timestamp(&ctx, &objects, &edges);
    edges::delete(tx, ctx, runs, &edges, &mut report)?;
    objects::delete(tx, ctx, runs, &objects, &mut report)?;
    delete_documents(tx, ctx, &written.documents, &mut report)?;
    objects::roll_back(tx, ctx, &objects, &HashSet::new(), &mut report)?;
    objects::restore(tx, ctx, &objects, &mut report)?;
    edges::report_restored(tx, ctx, &dormant, &mut report)?;
    edges::restore(tx, ctx, &edges, &mut report)?;
    edges::roll_back(tx, ctx, &edges, &mut report)?;
    let conflicting = report.conflicts.iter().map(|conflict| conflict.id).collect();
    delete_sources(tx, ctx, runs, &conflicting)?;
    Ok(Some(report))
}

/// The reason that is stored with the versions of a revert, so that their history says which run was reverted.
fn reason(runs: &RunSet) -> String {
    // Ids are ordered by time, so the first is that of the run that started the others.
    match runs.first() {
        Some(first) if runs.len() == 1 => reason_alone(*first),
        Some(first) => reason_with_tree(*first),
        None => "no run was reverted".to_owned(),
    }
}

fn reason_alone(run: RunId) -> String {
    format!("run {run} was reverted")
}

fn reason_with_tree(run: RunId) -> String {
    format!("run {run} was reverted with the runs that it started")
}

/// The reasons of the versions with which a run is reverted: alone, or with one of the runs above it.
pub fn reasons_of(run: RunId, above: impl IntoIterator<Item = RunId>) -> Vec<String> {
    let with_others = above.into_iter().chain([run]).map(reason_with_tree);
    [reason_alone(run)].into_iter().chain(with_others).collect()
}

fn delete_documents(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    written: &[DocumentId],
    report: &mut RevertReport,
) -> Result<()> {
    for id in written {
        match documents::delete(tx, ctx, *id) {
            Ok(document) => report.add_reverted(Entity::document(&document), UndoAction::Deleted, 2),
            // Somebody deleted it since the list was read, so it needs nothing any more.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Deletes the sources of what the runs wrote. An entity with a conflict still has the content that the run wrote,
/// so it keeps the sources of that content.
fn delete_sources(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    conflicting: &HashSet<Uuid>,
) -> Result<()> {
    for run in runs {
        let entities = sources::list_for_run(tx, ctx.project.id, *run)?;
        let reverted = entities.into_iter().map(|(entity, _)| entity).filter(|id| !conflicting.contains(id));
        sources::delete_for_run(tx, ctx.project.id, *run, &reverted.collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Uses one timestamp for the whole revert, later than every write that it reverts. Otherwise a
/// query of the past would show edges of objects that are already deleted, or not restored yet.
fn with_common_timestamp(
    ctx: &WriteContext,
    objects: &[PendingUndo<Object>],
    edges: &[PendingUndo<Relationship>],
) -> WriteContext {
    let objects = objects.iter().map(|plan| plan.now.updated_at);
    let edges = edges.iter().map(|plan| plan.now.updated_at);
    match objects.chain(edges).max() {
        Some(last) => WriteContext { now: ctx.timestamp_after(last), ..ctx.clone() },
        None => ctx.clone(),
    }
}

/// An entity to revert: its current version, its version before the run, and the action.
struct PendingUndo<T> {
    now: T,
    before: Option<T>,
    undo: UndoAction,
}

/// What is to be reverted of the first entities of a list, as many as fit into one transaction.
struct UndoPlans<T> {
    plans: Vec<PendingUndo<T>>,
    /// The edges that are deleted now, that others have changed too, and that may be restored together with an object.
    dormant: Vec<RelationshipId>,
    /// How many entities of the list these are.
    examined: usize,
}

/// The decision about an entity that a run wrote.
#[derive(Debug, PartialEq, Eq)]
enum UndoDecision {
    /// The entity already has its previous content.
    None,
    Undo(UndoAction),
    Conflict,
}

/// The facts on which the decision depends.
struct RevertState {
    version: i64,
    by_run: bool,
    is_live: bool,
    was_live: bool,
    /// The current content equals the previous one. Only meaningful if both versions are live or
    /// both are deleted.
    same: bool,
}

fn decide<Id>(written: &WrittenVersions<Id>, state: &RevertState) -> UndoDecision {
    // Another author wrote after the run or between its writes. Reverting would lose that change.
    let run_alone = state.by_run && state.version - written.first + 1 == written.count;
    match (state.is_live, state.was_live) {
        (true, true) | (false, false) if state.same => UndoDecision::None,
        // The entity is deleted before and after, so no change of another author is lost.
        (false, false) if !run_alone => UndoDecision::None,
        _ if !run_alone => UndoDecision::Conflict,
        (_, false) => UndoDecision::Undo(UndoAction::Deleted),
        (true, true) => UndoDecision::Undo(UndoAction::RolledBack),
        (false, true) => UndoDecision::Undo(UndoAction::Restored),
    }
}

const CHANGED_SINCE: &str = "has been changed by someone else since";
const FOUND_BY_OTHERS: &str = "was also extracted from a document by someone else";

/// Returns whether a tool call of one of the runs wrote the version. Versions that the server wrote about
/// a run do not count.
fn is_written_by(author: Author, runs: &RunSet) -> bool {
    matches!(author, Author::Run { run_id, tool_call_id: Some(_) } if runs.contains(&run_id))
}

/// Returns the objects to revert. The last one that is examined may exceed `max_bytes`, so that at least one is.
fn objects_to_undo(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    written: &[WrittenVersions<ObjectId>],
    max_bytes: usize,
    report: &mut RevertReport,
) -> Result<UndoPlans<Object>> {
    let (mut pending, mut examined, mut bytes) = (Vec::new(), 0, 0);
    let mut later_authors = LaterAuthors::new(runs);
    for written in written {
        if bytes >= max_bytes {
            break;
        }
        examined += 1;
        let Some(locked) = object_rows::lock(tx, ctx.project.id, written.id)? else { continue };
        let now = locked.object;
        let before = version_before(written, |version| rows::object_version(tx, written.id, version))?;
        bytes += content_bytes(&now.properties, before.as_ref().map(|before| &before.properties));
        let state = RevertState {
            version: now.version,
            by_run: is_written_by(now.author, runs),
            is_live: now.deleted_at.is_none(),
            was_live: before.as_ref().is_some_and(|before| before.deleted_at.is_none()),
            same: objects::is_same(&now, before.as_ref()),
        };
        match decide(written, &state) {
            UndoDecision::None => {}
            UndoDecision::Undo(undo) => pending.push(PendingUndo { now, before, undo }),
            UndoDecision::Conflict => {
                let authors = rows::object_authors_since(tx, written.id, written.first)?;
                let reason = later_authors.describe_change(tx, authors)?;
                report.add_conflict(Entity::object(&now), now.version, reason);
            }
        }
    }
    Ok(UndoPlans { plans: pending, dormant: Vec::new(), examined })
}

/// Returns the edges to revert, as [`objects_to_undo`] does.
fn edges_to_undo(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    written: &[WrittenVersions<RelationshipId>],
    max_bytes: usize,
    report: &mut RevertReport,
) -> Result<UndoPlans<Relationship>> {
    let (mut pending, mut dormant, mut examined, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
    let mut later_authors = LaterAuthors::new(runs);
    for written in written {
        if bytes >= max_bytes {
            break;
        }
        examined += 1;
        let Some(now) = rows::lock_relationship(tx, ctx.project.id, written.id)? else { continue };
        let before = version_before(written, |version| rows::relationship_version(tx, written.id, version))?;
        bytes += content_bytes(&now.properties, before.as_ref().map(|before| &before.properties));
        let state = RevertState {
            version: now.version,
            by_run: is_written_by(now.author, runs),
            is_live: now.deleted_at.is_none(),
            was_live: before.as_ref().is_some_and(|before| before.deleted_at.is_none()),
            same: edges::is_same(&now, before.as_ref()),
        };
        match decide(written, &state) {
            UndoDecision::None if !state.same => dormant.push(now.id),
            UndoDecision::None => {}
            UndoDecision::Undo(undo) => pending.push(PendingUndo { now, before, undo }),
            UndoDecision::Conflict => {
                let authors = rows::relationship_authors_since(tx, written.id, written.first)?;
                let reason = later_authors.describe_change(tx, authors)?;
                report.add_conflict(Entity::edge(&now), now.version, reason);
            }
        }
    }
    Ok(UndoPlans { plans: pending, dormant, examined })
}

/// The bytes of the two versions that a revert has in memory and writes. Their properties are nearly all of them.
fn content_bytes(now: &JsonObject, before: Option<&JsonObject>) -> usize {
    now.as_str().len() + before.map_or(0, |before| before.as_str().len())
}

/// What each of the runs wrote, joined by entity.
fn written_by<Id: Ord + Copy>(
    runs: &RunSet,
    mut written: impl FnMut(RunId) -> emergent_store::Result<Vec<WrittenVersions<Id>>>,
) -> Result<Vec<WrittenVersions<Id>>> {
    let mut by_entity: BTreeMap<Id, WrittenVersions<Id>> = BTreeMap::new();
    for run in runs {
        for versions in written(*run)? {
            by_entity
                .entry(versions.id)
                .and_modify(|joined| {
                    joined.first = joined.first.min(versions.first);
                    joined.count += versions.count;
                })
                .or_insert(versions);
        }
    }
    Ok(by_entity.into_values().collect())
}

/// Returns the version before the first write of the run, or `None` if the run created the entity.
fn version_before<Id, T>(
    written: &WrittenVersions<Id>,
    mut version: impl FnMut(i64) -> emergent_store::Result<Option<T>>,
) -> Result<Option<T>> {
    if written.first <= 1 { Ok(None) } else { Ok(version(written.first - 1)?) }
}

/// Returns the reason of a conflict: current rules or the data of others prevent the revert. Other
/// errors are returned as errors.
fn conflict_reason(error: Error) -> Result<String> {
    match error {
        Error::Invalid(invalid) => Ok(format!("its previous content is no longer valid: {invalid}")),
        Error::KeyTaken { .. } | Error::Conflict { .. } | Error::MissingScope { .. } => Ok(error.to_string()),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_lists_the_first_entities_and_counts_the_others() {
        let batch = |from: usize| {
            let mut report = RevertReport::default();
            for n in from..from + 800 {
                let entity =
                    || Entity { kind: EntityKind::Object, id: Uuid::from_u128(n as u128), name: None };
                report.add_reverted(entity(), UndoAction::Deleted, 2);
                report.add_conflict(entity(), 1, CHANGED_SINCE);
            }
            report
        };
        let mut report = RevertReport::default();
        for number in 0..20 {
            report.append(batch(800 * number));
        }
        assert_eq!((report.undone.len(), report.unlisted_undone), (MAX_LISTED_UNDONE, 6_000));
        assert_eq!((report.conflicts.len(), report.unlisted_conflicts), (MAX_LISTED_CONFLICTS, 15_000));
        let listed: Vec<u128> = report.conflicts.iter().map(|conflict| conflict.id.as_u128()).collect();
        assert_eq!(listed, (0..1_000).collect::<Vec<u128>>(), "the first ones, each once");
    }
}
