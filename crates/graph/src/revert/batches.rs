//! Reverts in many transactions, for runs that wrote more than one transaction can revert.
//!
//! The order is that of a revert in one transaction: edges are deleted, then objects and documents; objects get
//! their content back and are restored, then edges. So the graph is consistent after each transaction. What is
//! reverted already needs nothing any more, so a revert that was interrupted is continued by doing all of it again.
//! A job in the first transaction does so when the request that started it does not get to the end.
//!
//! A preview makes the same transactions and rolls each of them back, see `preview`.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use emergent_domain::{
    author::Author,
    ids::{DocumentId, ObjectId, ProjectId, RelationshipId},
    json::JsonObject,
    object::Object,
    relationship::Relationship,
    time::Timestamp,
};
use emergent_store::{
    Tx, documents,
    jobs::{self, NewJob},
    relationships::CASCADE_BATCH,
    revert::{self as rows, WrittenVersions},
    sources,
};
use parking_lot::RwLock;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::{
    CHANGED_SINCE, Entity, EntityKind, PendingUndo, RevertReport, RunSet, UndoAction, UndoPlans,
    content_bytes, delete_documents, edges, edges_to_undo, objects, objects_to_undo, reason, version_before,
    with_common_timestamp, written_by,
};
use crate::{
    Actor, Error, Graph, WriteContext,
    error::Result,
    worker::{ClaimedJob, JobOutcome, Worker},
};

mod halves;
mod key_order;
mod overlay;
mod preview;
mod split;

use key_order::split_by_keys;
use overlay::{Effects, Overlay};
use split::split_by_size;

/// The queue of the jobs that continue reverts.
pub const REVERT_QUEUE: &str = "reverts";
/// How many entities are reverted in one transaction.
pub const MAX_AT_ONCE: usize = 200;
/// How many bytes of content a transaction reverts. One entity may exceed it.
pub const MAX_BATCH_BYTES: usize = 8 << 20;
/// A document may have many chunks.
const DOCUMENTS_AT_ONCE: usize = 10;
/// How many sources are deleted in one transaction, unless one entity has more.
const MAX_SOURCES_AT_ONCE: usize = 2_000;
/// How long the request that started a revert has it for itself.
const JOB_DELAY: Duration = Duration::from_secs(60);
const MAX_JOB_ATTEMPTS: i64 = 1_000;

/// What runs wrote.
#[derive(Debug, Clone, Default)]
pub struct WrittenEntities {
    pub(super) objects: Vec<WrittenVersions<ObjectId>>,
    pub(super) edges: Vec<WrittenVersions<RelationshipId>>,
    pub(super) documents: Vec<DocumentId>,
}

impl WrittenEntities {
    pub fn load(tx: &mut Tx<'_>, project: ProjectId, runs: &RunSet) -> Result<Self> {
        // Objects that the runs deleted with more edges than one transaction writes. These edges are restored with
        // their object, as when a person restores it, and are not reported one by one.
        let (mut hubs, mut documents) = (Vec::new(), Vec::new());
        for run in runs {
            hubs.extend(rows::list_hubs(tx, project, *run, CASCADE_BATCH)?);
            documents.extend(rows::documents(tx, project, *run)?);
        }
        Ok(Self {
            objects: written_by(runs, |run| rows::objects(tx, project, run))?,
            edges: written_by(runs, |run| rows::relationships(tx, project, run, runs, &hubs))?,
            documents,
        })
    }

    pub fn count(&self) -> usize {
        self.objects.len() + self.edges.len() + self.documents.len()
    }
}

/// Has a job continue a revert that is made in many transactions.
pub fn enqueue(tx: &mut Tx<'_>, ctx: &WriteContext, runs: &RunSet) -> Result<()> {
    let Some(first) = runs.first() else { return Ok(()) };
    let key = first.to_string();
    let payload = json!({ "runs": runs, "author": ctx.author });
    let payload: Map<String, Value> = serde_json::from_value(payload).unwrap_or_default();
    jobs::enqueue(
        tx,
        &NewJob {
            project: Some(ctx.project.id),
            key: Some(&key),
            payload: JsonObject::from_map(&payload),
            max_attempts: MAX_JOB_ATTEMPTS,
            run_at: ctx.now + JOB_DELAY,
            ..NewJob::new(REVERT_QUEUE, ctx.now)
        },
    )?;
    Ok(())
}

/// One of the transactions of a revert, in their order.
#[derive(Clone)]
enum Batch {
    DeleteEdges(Vec<WrittenVersions<RelationshipId>>),
    DeleteObjects(Vec<WrittenVersions<ObjectId>>),
    DeleteDocuments(Vec<DocumentId>),
    /// The ids are those of objects that later transactions roll back.
    RollBackObjects(Vec<WrittenVersions<ObjectId>>, Arc<RwLock<HashSet<ObjectId>>>),
    /// Objects that exchange their keys, so one transaction rolls back all of them.
    ExchangeKeys(Vec<WrittenVersions<ObjectId>>),
    RestoreObjects(Vec<WrittenVersions<ObjectId>>),
    RestoreEdges(Vec<PlannedEdge>),
}

/// An edge that is restored or gets its content back after the objects.
#[derive(Debug, Clone, Copy)]
struct PlannedEdge {
    written: WrittenVersions<RelationshipId>,
    /// `None` for an edge that is only reported if it was restored with an object.
    undo: Option<PlannedUndo>,
}

/// What a later transaction does with an entity.
#[derive(Debug, Clone, Copy)]
struct PlannedUndo {
    action: UndoAction,
    /// The bytes of its content.
    bytes: usize,
}

impl PlannedUndo {
    fn of_object(plan: &PendingUndo<Object>) -> Self {
        let before = plan.before.as_ref().map(|before| &before.properties);
        Self { action: plan.undo, bytes: content_bytes(&plan.now.properties, before) }
    }

    fn of_edge(plan: &PendingUndo<Relationship>) -> Self {
        let before = plan.before.as_ref().map(|before| &before.properties);
        Self { action: plan.undo, bytes: content_bytes(&plan.now.properties, before) }
    }
}

/// What a transaction did, and what it found for later ones.
#[derive(Default)]
struct BatchOutcome {
    report: RevertReport,
    /// How many of the entities it was given it has examined. The others are for the next transaction.
    examined: usize,
    edges: HashMap<RelationshipId, PlannedUndo>,
    dormant: Vec<RelationshipId>,
    objects: HashMap<ObjectId, PlannedUndo>,
    /// The objects that wait for a key, with the objects that have it.
    postponed: HashMap<ObjectId, ObjectId>,
    /// The time of its writes. Later transactions do not write earlier versions.
    at: Option<Timestamp>,
    /// What it would have changed, if it is that of a preview.
    effects: Effects,
}

impl Graph {
    /// Reverts what runs wrote, in transactions of at most `at_once` entities. The caller has checked that the runs
    /// write no more, and has enqueued a job with [`enqueue`].
    pub async fn revert_in_batches(
        &self,
        actor: Actor,
        runs: RunSet,
        at_once: usize,
    ) -> Result<RevertReport> {
        let (project, wanted) = (actor.project, runs.clone());
        let written = self.db().read(move |tx| WrittenEntities::load(tx, project, &wanted)).await?;
        let mut revert = BatchedRevert::new(self, actor, runs, at_once);
        revert.run_all(written).await?;
        Ok(revert.report)
    }

    /// Continues reverts that were interrupted, until `stop` is set.
    pub async fn run_reverts(&self, stop: watch::Receiver<bool>) {
        let graph = self.clone();
        Worker::new(REVERT_QUEUE)
            .run(self.db().clone(), self.clock().clone(), stop, move |claimed: ClaimedJob| {
                let graph = graph.clone();
                async move { graph.continue_revert(claimed).await }
            })
            .await;
    }

    async fn continue_revert(&self, claimed: ClaimedJob) -> Result<JobOutcome> {
        let payload = claimed.job.payload.to_map();
        let field = |name: &str| payload.get(name).cloned().unwrap_or_default();
        let runs: Option<RunSet> = serde_json::from_value(field("runs")).ok();
        let author: Option<Author> = serde_json::from_value(field("author")).ok();
        let (Some(project), Some(runs), Some(author)) = (claimed.job.project, runs, author) else {
            return Ok(JobOutcome::Done);
        };
        match self.revert_in_batches(Actor { project, author }, runs, MAX_AT_ONCE).await {
            // The project was deleted.
            Ok(_) | Err(Error::NotFound { .. }) => Ok(JobOutcome::Done),
            Err(error) => Err(error),
        }
    }
}

struct BatchedRevert<'a> {
    graph: &'a Graph,
    actor: Actor,
    runs: RunSet,
    at_once: usize,
    report: RevertReport,
    /// The entities with a conflict, also those that the report does not list.
    conflicting: HashSet<(EntityKind, Uuid)>,
    at: Option<Timestamp>,
    /// What the transactions so far would have changed, if this is a preview: they were rolled back.
    overlay: Option<Arc<RwLock<Overlay>>>,
}

impl<'a> BatchedRevert<'a> {
    fn new(graph: &'a Graph, actor: Actor, runs: RunSet, at_once: usize) -> Self {
        let report = RevertReport::default();
        Self { graph, actor, runs, at_once, report, conflicting: HashSet::new(), at: None, overlay: None }
    }
}

impl BatchedRevert<'_> {
    async fn run_all(&mut self, written: WrittenEntities) -> Result<()> {
        let (mut edges, mut dormant) = (HashMap::new(), BTreeSet::new());
        let mut rest = written.edges.as_slice();
        while !rest.is_empty() {
            let outcome = self.run(Batch::DeleteEdges(self.first_of(rest))).await?;
            rest = &rest[outcome.examined.max(1)..];
            edges.extend(outcome.edges);
            dormant.extend(outcome.dormant);
        }
        let mut planned = HashMap::new();
        let mut rest = written.objects.as_slice();
        while !rest.is_empty() {
            let outcome = self.run(Batch::DeleteObjects(self.first_of(rest))).await?;
            rest = &rest[outcome.examined.max(1)..];
            planned.extend(outcome.objects);
        }
        for chunk in written.documents.chunks(DOCUMENTS_AT_ONCE) {
            self.run(Batch::DeleteDocuments(chunk.to_vec())).await?;
        }
        let select = |action: UndoAction| -> Vec<_> {
            let is_planned = |one: &&WrittenVersions<ObjectId>| {
                planned.get(&one.id).is_some_and(|undo: &PlannedUndo| undo.action == action)
            };
            written.objects.iter().filter(is_planned).copied().collect()
        };
        let bytes_of = |id: ObjectId| planned.get(&id).map_or(0, |undo| undo.bytes);
        self.roll_back(select(UndoAction::RolledBack), bytes_of).await?;
        let restored = select(UndoAction::Restored);
        for chunk in split_by_size(&restored, self.at_once, MAX_BATCH_BYTES, |one| bytes_of(one.id)) {
            self.run(Batch::RestoreObjects(chunk)).await?;
        }
        let later: Vec<PlannedEdge> = written
            .edges
            .iter()
            .map(|written| PlannedEdge { written: *written, undo: edges.get(&written.id).copied() })
            .filter(|edge| edge.undo.is_some() || dormant.contains(&edge.written.id))
            .collect();
        let bytes_of = |edge: &PlannedEdge| edge.undo.map_or(0, |undo| undo.bytes);
        for chunk in split_by_size(&later, self.at_once, MAX_BATCH_BYTES, bytes_of) {
            self.run(Batch::RestoreEdges(chunk)).await?;
        }
        if self.overlay.is_some() {
            return Ok(());
        }
        self.delete_sources().await
    }

    /// The entities that the next transaction is given.
    fn first_of<Id: Copy>(&self, rest: &[WrittenVersions<Id>]) -> Vec<WrittenVersions<Id>> {
        rest.iter().take(self.at_once).copied().collect()
    }

    /// Deletes the sources of what was reverted. An interruption leaves those that are found when it is continued.
    async fn delete_sources(&self) -> Result<()> {
        let conflicting: HashSet<Uuid> = self.conflicting.iter().map(|(_, id)| *id).collect();
        let project = self.actor.project;
        for run in self.runs.iter().copied() {
            let list = move |tx: &mut Tx<'_>| sources::list_for_run(tx, project, run);
            let mut entities = self.graph.db().read(list).await?;
            entities.retain(|(entity, _)| !conflicting.contains(entity));
            let count = |(_, sources): &(Uuid, i64)| usize::try_from(*sources).unwrap_or(usize::MAX);
            for batch in split_by_size(&entities, self.at_once, MAX_SOURCES_AT_ONCE, count) {
                let ids: Vec<Uuid> = batch.into_iter().map(|(entity, _)| entity).collect();
                let delete = move |tx: &mut Tx<'_>, ctx: &WriteContext| -> Result<()> {
                    Ok(sources::delete_for_run(tx, ctx.project.id, run, &ids)?)
                };
                self.graph.write(self.actor, delete).await?;
            }
        }
        Ok(())
    }

    /// Gives objects their content back. One that needs the key of an object of a later transaction comes last.
    async fn roll_back(
        &mut self,
        objects: Vec<WrittenVersions<ObjectId>>,
        bytes_of: impl Fn(ObjectId) -> usize,
    ) -> Result<()> {
        // All transactions share the set: a copy for each would take time in proportion to the square of its size.
        let later: Arc<RwLock<HashSet<ObjectId>>> =
            Arc::new(RwLock::new(objects.iter().map(|one| one.id).collect()));
        let mut holders = HashMap::new();
        for chunk in split_by_size(&objects, self.at_once, MAX_BATCH_BYTES, |one| bytes_of(one.id)) {
            let batch = Batch::RollBackObjects(chunk, Arc::clone(&later));
            holders.extend(self.run(batch).await?.postponed);
        }
        let postponed: Vec<_> = objects.into_iter().filter(|one| holders.contains_key(&one.id)).collect();
        for chunk in split_by_keys(&postponed, &holders, self.at_once, MAX_BATCH_BYTES, bytes_of) {
            self.run(Batch::ExchangeKeys(chunk)).await?;
        }
        Ok(())
    }

    /// Makes one transaction, or smaller ones if it takes longer than a transaction may: how much fits into that time
    /// depends on the machine and on what else it does.
    async fn run(&mut self, batch: Batch) -> Result<BatchOutcome> {
        match self.run_once(batch.clone()).await {
            Err(error) if halves::is_too_slow(&error) => {
                let Some((first, second)) = batch.into_halves() else { return Err(error) };
                let mut outcome = Box::pin(self.run(first)).await?;
                if let Some(second) = second {
                    outcome.append(Box::pin(self.run(second)).await?);
                }
                Ok(outcome)
            }
            outcome => outcome,
        }
    }

    /// Makes one transaction, and adds what it did to the report.
    async fn run_once(&mut self, batch: Batch) -> Result<BatchOutcome> {
        let later = batch.begin();
        let mut outcome = match self.overlay.clone() {
            Some(overlay) => self.try_batch(batch, overlay).await?,
            None => {
                let (runs, at) = (self.runs.clone(), self.at);
                let work =
                    move |tx: &mut Tx<'_>, ctx: &WriteContext| run_batch(tx, ctx, &runs, &batch, at, None);
                self.graph.write(self.actor, work).await?
            }
        };
        if let Some(later) = later {
            later.write().extend(outcome.postponed.keys());
        }
        self.at = self.at.max(outcome.at);
        let mut report = std::mem::take(&mut outcome.report);
        report.conflicts.retain(|conflict| self.conflicting.insert((conflict.kind, conflict.id)));
        self.report.append(report);
        Ok(outcome)
    }
}

/// Runs one transaction. With an overlay, it is one of a preview: what the transactions before it would have changed
/// and what matters here is written first, and the caller rolls everything back.
fn run_batch(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    runs: &RunSet,
    batch: &Batch,
    not_before: Option<Timestamp>,
    overlay: Option<&Overlay>,
) -> Result<BatchOutcome> {
    let mut outcome = BatchOutcome::default();
    let now = not_before.map_or(ctx.now, |time| ctx.now.max(time));
    // Reverting writes what was stored before, so it makes no link that nobody was allowed to make.
    let ctx =
        &WriteContext { now, reason: Some(reason(runs)), writes_stored_content: true, ..ctx.with_links() };
    let report = &mut outcome.report;
    match batch {
        Batch::DeleteEdges(written) => {
            let UndoPlans { plans, dormant, examined } =
                edges_to_undo(tx, ctx, runs, written, MAX_BATCH_BYTES, report)?;
            let ctx = &with_common_timestamp(ctx, &[], &plans);
            match overlay {
                None => edges::delete(tx, ctx, runs, &plans, report)?,
                Some(_) => {
                    edges::preview_deletions(tx, ctx, runs, &plans, report)?;
                    outcome.effects = Effects::of_deleted_edges(ctx, &plans, report);
                }
            }
            outcome.at = Some(ctx.now);
            let later = plans.iter().filter(|plan| plan.undo != UndoAction::Deleted);
            outcome.edges = later.map(|plan| (plan.now.id, PlannedUndo::of_edge(plan))).collect();
            outcome.dormant = dormant;
            outcome.examined = examined;
        }
        Batch::DeleteObjects(written) => {
            let UndoPlans { plans, examined, .. } =
                objects_to_undo(tx, ctx, runs, written, MAX_BATCH_BYTES, report)?;
            let ctx = &with_common_timestamp(ctx, &plans, &[]);
            match overlay {
                None => objects::delete(tx, ctx, runs, &plans, report)?,
                Some(overlay) => {
                    overlay.stage_workflow_edges(tx, &plans)?;
                    let find_edge = |tx: &mut Tx<'_>, id: ObjectId| overlay.find_remaining_edge(tx, id);
                    objects::preview_deletions(tx, ctx, runs, &plans, report, find_edge)?;
                    outcome.effects = Effects::of_objects(&plans, report);
                }
            }
            outcome.at = Some(ctx.now);
            let later = plans.iter().filter(|plan| plan.undo != UndoAction::Deleted);
            outcome.objects = later.map(|plan| (plan.now.id, PlannedUndo::of_object(plan))).collect();
            outcome.examined = examined;
        }
        Batch::DeleteDocuments(written) => match overlay {
            None => delete_documents(tx, ctx, written, report)?,
            // Nothing prevents it, and it may be much to write.
            Some(_) => preview_document_deletions(tx, ctx.project.id, written, report)?,
        },
        Batch::RollBackObjects(written, _) | Batch::ExchangeKeys(written) => {
            let plans = objects_to_undo(tx, ctx, runs, written, usize::MAX, report)?.plans;
            let ctx = &with_common_timestamp(ctx, &plans, &[]);
            if let Some(overlay) = overlay {
                overlay.stage_for_roll_back(tx, ctx, &plans)?;
            }
            let (none, later) = (HashSet::new(), batch.later());
            let later = later.as_deref().unwrap_or(&none);
            outcome.postponed = objects::roll_back(tx, ctx, &plans, later, report)?;
            if overlay.is_some() {
                outcome.effects = Effects::of_objects(&plans, report);
            }
            outcome.at = Some(ctx.now);
        }
        Batch::RestoreObjects(written) => {
            let plans = objects_to_undo(tx, ctx, runs, written, usize::MAX, report)?.plans;
            let ctx = &with_common_timestamp(ctx, &plans, &[]);
            if let Some(overlay) = overlay {
                overlay.stage_keys(tx, ctx, &plans)?;
            }
            objects::restore(tx, ctx, &plans, report)?;
            if overlay.is_some() {
                outcome.effects = Effects::of_objects(&plans, report);
            }
            outcome.at = Some(ctx.now);
        }
        Batch::RestoreEdges(planned) => {
            if let Some(overlay) = overlay {
                overlay.stage_for_edges(tx, ctx, planned)?;
            }
            let plans = edges_to_restore(tx, ctx, planned, report)?;
            let ctx = &with_common_timestamp(ctx, &[], &plans);
            let dormant = planned.iter().filter(|edge| edge.undo.is_none()).map(|edge| edge.written.id);
            edges::report_restored(tx, ctx, &dormant.collect::<Vec<_>>(), report)?;
            edges::restore(tx, ctx, &plans, report)?;
            edges::roll_back(tx, ctx, &plans, report)?;
            if overlay.is_some() {
                outcome.effects = Effects::of_restored_edges(&plans, report);
            }
            outcome.at = Some(ctx.now);
        }
    }
    Ok(outcome)
}

/// Reports the documents that would be deleted, without writing anything.
fn preview_document_deletions(
    tx: &mut Tx<'_>,
    project: ProjectId,
    written: &[DocumentId],
    report: &mut RevertReport,
) -> Result<()> {
    for id in written {
        // One that was deleted meanwhile needs nothing any more.
        if let Some(document) = documents::get(tx, project, *id)? {
            report.add_reverted(Entity::document(&document), UndoAction::Deleted, 2);
        }
    }
    Ok(())
}

/// The edges that are restored or get their content back. Many have been restored with their objects since they
/// were planned, so they are not the newest versions of the runs any more. An edge that somebody else has changed
/// since is a conflict.
fn edges_to_restore(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    planned: &[PlannedEdge],
    report: &mut RevertReport,
) -> Result<Vec<PendingUndo<Relationship>>> {
    let mut plans = Vec::new();
    for PlannedEdge { written, undo } in planned {
        let Some(undo) = *undo else { continue };
        let Some(now) = rows::lock_relationship(tx, ctx.project.id, written.id)? else { continue };
        let changed = now.version >= written.first + written.count;
        if changed && now.author != ctx.author {
            report.add_conflict(Entity::edge(&now), now.version, CHANGED_SINCE);
            continue;
        }
        let before = version_before(written, |version| rows::relationship_version(tx, written.id, version))?;
        plans.push(PendingUndo { now, before, undo: undo.action });
    }
    Ok(plans)
}
