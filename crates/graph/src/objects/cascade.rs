//! The edges of a deleted or restored object. The transaction of the object writes the first batch of them. If
//! there are more, a job in that transaction writes the rest, one batch per transaction, so that an object with any
//! number of edges can be deleted and restored within the limits of a transaction.
//!
//! The job follows the object: while the object is deleted, it deletes the remaining edges, which no reader shows
//! since the deletion; while the object is live, it restores edges. It takes the author and the time from the
//! versions of the object. It can therefore be stopped at any moment and continued by another server, and an object
//! that is restored before all its edges were deleted keeps the others as they are.

use std::{collections::HashSet, time::Duration};

use emergent_domain::{
    author::Author,
    change::ChangeKind,
    ids::{ObjectId, ProjectId},
    json::JsonObject,
    object::Object,
    task::BLOCKS_TYPE,
    time::Timestamp,
};
use emergent_store::{
    Tx,
    feed::{self, NewChange},
    jobs::{self, NewJob},
    objects::{self as rows, LockedObject},
    relationships::{
        self as edge_rows, CASCADE_BATCH, CascadeAction, CascadeEdge, DeletedEdges, RestoreCursor,
    },
    revert,
};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::{
    Actor, Error, Graph, WriteContext,
    error::Result,
    tasks,
    worker::{ClaimedJob, JobOutcome, Worker},
};

/// The queue of the jobs that delete and restore edges.
pub const EDGE_QUEUE: &str = "edges";
/// A job that fails waits up to five minutes before the next attempt, so it is tried for days.
const MAX_ATTEMPTS: i64 = 1_000;
const OBJECT_FIELD: &str = "object";

/// Has a job delete or restore the remaining edges of an object. One active job per object is enough, because it
/// completes only when nothing is left.
pub(super) fn enqueue(tx: &mut Tx<'_>, ctx: &WriteContext, object: ObjectId) -> Result<()> {
    let key = object.to_string();
    let payload = Map::from_iter([(OBJECT_FIELD.to_owned(), Value::String(key.clone()))]);
    jobs::enqueue(
        tx,
        &NewJob {
            project: Some(ctx.project.id),
            key: Some(&key),
            payload: JsonObject::from_map(&payload),
            max_attempts: MAX_ATTEMPTS,
            // Due at once, also where the time of the write is ahead of the clock, as that of a revert is.
            run_at: Timestamp::from_micros(0),
            ..NewJob::new(EDGE_QUEUE, ctx.now)
        },
    )?;
    Ok(())
}

/// Deletes a batch of the edges of a tombstone, as its author. Returns whether there are more.
pub(super) fn delete_batch(tx: &mut Tx<'_>, tombstone: &Object) -> Result<bool> {
    let edges = edge_rows::lock_live_batch(tx, tombstone.id, CASCADE_BATCH)?;
    if edges.is_empty() {
        return Ok(false);
    }
    let action = CascadeAction::DeleteWith(tombstone.id);
    write_batch(tx, tombstone, &edges, action, tombstone.updated_at, tombstone.author)?;
    Ok(edge_rows::has_live(tx, tombstone.id)?)
}

/// Restores the first edges of an object that has just been restored. Returns whether there may be more.
pub(super) fn restore_first(tx: &mut Tx<'_>, ctx: &WriteContext, object: &Object) -> Result<bool> {
    let restore = RestoreBatch { ctx, object, author: ctx.author, now: object.updated_at };
    let mut left = CASCADE_BATCH;
    // Dependencies between tasks come first: `tasks::before_restore` has checked them in this transaction.
    for type_ in [Some(BLOCKS_TYPE), None] {
        let mut cursor = Some(RestoreCursor::START);
        while let Some(after) = cursor {
            if left == 0 {
                return Ok(true);
            }
            let select = DeletedEdges { object: object.id, type_, after, limit: left };
            let (edges, next) = edge_rows::lock_deleted_batch(tx, select)?;
            left -= edges.len();
            restore.write(tx, edges)?;
            cursor = next;
        }
    }
    Ok(false)
}

/// Restores edges of a live object.
struct RestoreBatch<'a> {
    ctx: &'a WriteContext,
    object: &'a Object,
    author: Author,
    now: Timestamp,
}

impl RestoreBatch<'_> {
    /// Restores those of the locked edges that can be restored.
    fn write(&self, tx: &mut Tx<'_>, mut edges: Vec<CascadeEdge>) -> Result<()> {
        let others: Vec<ObjectId> =
            edges.iter().flat_map(|edge| [edge.from, edge.to]).filter(|end| *end != self.object.id).collect();
        let live = rows::lock_live(tx, self.ctx.project.id, &others)?;
        let is_live = |end: ObjectId| end == self.object.id || live.contains_key(&end);
        // Of several edges with the same type and ends, the last one is restored.
        edges.sort_unstable_by_key(|edge| (std::cmp::Reverse(edge.updated_at), edge.id));
        let mut seen = HashSet::new();
        edges.retain(|edge| {
            is_live(edge.from) && is_live(edge.to) && seen.insert((edge.type_.clone(), edge.from, edge.to))
        });
        edges.sort_unstable_by_key(|edge| edge.id);
        // An edge is never older than its ends. Otherwise a query of the past would show an edge without one of
        // its ends.
        let now = live.values().map(|end| end.updated_at).fold(self.now, Ord::max);
        write_batch(tx, self.object, &edges, CascadeAction::Restore, now, self.author)
    }
}

/// Writes the next version of edges, and appends the changes to the feed.
fn write_batch(
    tx: &mut Tx<'_>,
    object: &Object,
    edges: &[CascadeEdge],
    action: CascadeAction,
    now: Timestamp,
    author: Author,
) -> Result<()> {
    let kind = match action {
        CascadeAction::DeleteWith(_) => ChangeKind::RelationshipDeleted,
        CascadeAction::Restore => ChangeKind::RelationshipRestored,
    };
    // An edge may have been changed after the object, by a transaction that had begun before.
    let after_edges = edges.iter().map(|edge| edge.updated_at + Duration::from_micros(1));
    let now = after_edges.fold(now, Ord::max);
    let ids: Vec<_> = edges.iter().map(|edge| edge.id).collect();
    edge_rows::apply_cascade(tx, &ids, action, now, author)?;
    let change = |edge: &CascadeEdge| (edge.id.0, edge.version + 1);
    let changes: Vec<NewChange<'_>> = edges
        .iter()
        .map(|edge| {
            let (entity, version) = change(edge);
            NewChange { kind, entity, entity_type: &edge.type_, version, at: now, author }
        })
        .collect();
    Ok(feed::append(tx, object.project, &changes)?)
}

/// What a transaction of a job has done.
enum JobStep {
    /// There is more to do. The cursor is valid for this version of the object.
    More(i64, RestoreCursor),
    Completed,
}

impl Graph {
    /// Deletes and restores the remaining edges of objects until `stop` is set.
    pub async fn run_cascades(&self, stop: watch::Receiver<bool>) {
        let graph = self.clone();
        Worker::new(EDGE_QUEUE)
            .run(self.db().clone(), self.clock().clone(), stop, move |claimed: ClaimedJob| {
                let graph = graph.clone();
                async move { graph.follow_object(claimed).await }
            })
            .await;
    }

    async fn follow_object(&self, claimed: ClaimedJob) -> Result<JobOutcome> {
        let (Some(project), Some(object)) = (claimed.job.project, job_object(&claimed)) else {
            return Ok(JobOutcome::Done);
        };
        let mut position = None;
        loop {
            let (graph, claimed) = (self.clone(), claimed.clone());
            let step = self.db().write(move |tx| graph.follow_step(tx, &claimed, project, object, position));
            match step.await? {
                JobStep::More(version, cursor) => position = Some((version, cursor)),
                JobStep::Completed => return Ok(JobOutcome::Completed),
            }
        }
    }

    fn follow_step(
        &self,
        tx: &mut Tx<'_>,
        claimed: &ClaimedJob,
        project: ProjectId,
        object: ObjectId,
        position: Option<(i64, RestoreCursor)>,
    ) -> Result<JobStep> {
        // The object is locked before the job, in the order of a deletion, which enqueues the job last.
        let locked = rows::lock(tx, project, object)?;
        if !jobs::lock_owned(tx, claimed.job.id, &claimed.owner)? {
            return Ok(JobStep::Completed);
        }
        let next = match locked {
            None => None,
            Some(LockedObject { object, .. }) if object.deleted_at.is_some() => {
                delete_batch(tx, &object)?.then_some((object.version, RestoreCursor::START))
            }
            Some(LockedObject { object, .. }) => {
                // An object that was deleted and restored meanwhile has edges before the cursor again.
                let cursor = position.filter(|(version, _)| *version == object.version);
                let after = cursor.map_or(RestoreCursor::START, |(_, cursor)| cursor);
                self.restore_batch(tx, &object, after)?.map(|cursor| (object.version, cursor))
            }
        };
        if let Some((version, cursor)) = next {
            return Ok(JobStep::More(version, cursor));
        }
        jobs::complete(tx, claimed.job.id, &claimed.owner, self.clock().now())?;
        Ok(JobStep::Completed)
    }

    /// Restores a batch of edges, as the author who restored the object. Returns where the next one begins.
    fn restore_batch(
        &self,
        tx: &mut Tx<'_>,
        object: &Object,
        after: RestoreCursor,
    ) -> Result<Option<RestoreCursor>> {
        let Some(version) = revert::find_restoring_version(tx, object.id)? else { return Ok(None) };
        let restored =
            if version == object.version { None } else { revert::object_version(tx, object.id, version)? };
        let author = restored.map_or(object.author, |restored| restored.author);
        let ctx = match self.write_context(tx, Actor { project: object.project, author }) {
            // The project was deleted.
            Err(Error::NotFound { .. }) => return Ok(None),
            ctx => ctx?,
        };
        let select = DeletedEdges { object: object.id, type_: None, after, limit: CASCADE_BATCH };
        let (mut edges, next) = edge_rows::lock_deleted_batch(tx, select)?;
        tasks::retain_without_cycles(tx, &ctx, &mut edges)?;
        let now = ctx.now.max(object.updated_at);
        RestoreBatch { ctx: &ctx, object, author, now }.write(tx, edges)?;
        Ok(next)
    }
}

fn job_object(claimed: &ClaimedJob) -> Option<ObjectId> {
    claimed.job.payload.to_map().get(OBJECT_FIELD)?.as_str()?.parse().ok()
}
