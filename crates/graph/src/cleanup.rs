//! Deletes what is over, as jobs: what a deleted project still does is ended, its rows are removed some time
//! later, and each project loses what it does not keep any longer. One server works on a job at a time, and
//! every transaction deletes a bounded number of rows, so that others can write in between.

use std::{collections::HashMap, sync::Arc, time::Duration};

use emergent_domain::{
    ids::{ProjectId, RunId},
    project::Project,
    time::Timestamp,
};
use emergent_net::errors::error_chain;
use emergent_store::{
    Tx, browser_sessions, idempotency,
    jobs::{self, NewJob},
    login_codes, project_events,
    projects::{self, DeletedProject},
    purge,
    retention::{self, EventExpiry, RunCursor},
};
use tokio::sync::watch;
use tracing::{info, warn};
use uuid::Uuid;

use crate::{
    Graph,
    error::Result,
    worker::{ClaimedJob, JobOutcome, Worker},
};

/// The queue of these jobs.
pub const QUEUE: &str = purge::QUEUE;
/// The key of the job that deletes what is not kept any longer.
const EXPIRED_KEY: &str = "expired";
/// How many rows one transaction deletes.
const BATCH: usize = 500;
/// How many trees of runs are looked up at once.
const RUN_PAGE: usize = 100;
/// A transaction that began before a project was deleted may still start something in it, such as a workflow.
/// Every transaction has ended after this time.
const STRAGGLERS: Duration = Duration::from_secs(120);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the statuses in the event streams of projects are kept.
const STATUS_EVENT_DAYS: u32 = 7;

/// How long the rows of a deleted project are kept, and those of deleted conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupSettings {
    pub deleted_project_retention: Duration,
}

impl Default for CleanupSettings {
    fn default() -> Self {
        Self { deleted_project_retention: Duration::from_secs(30 * DAY.as_secs()) }
    }
}

/// Ends what a project does that this transaction has deleted. One job ends what is left after this transaction,
/// and a later one what was started at the same moment.
pub(crate) fn end_project(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp) -> Result<()> {
    purge::end_access(tx, project, now)?;
    purge::cancel_work(tx, project, now, BATCH)?;
    for (name, run_at) in [("end", now), ("end-again", now + STRAGGLERS)] {
        let key = format!("{name}:{project}");
        let job = NewJob { project: Some(project), key: Some(&key), run_at, ..NewJob::new(QUEUE, now) };
        jobs::enqueue(tx, &job)?;
    }
    Ok(())
}

/// Enqueues the job that deletes what is not kept any longer, unless one is active.
pub(crate) fn enqueue_expired(tx: &mut Tx<'_>, now: Timestamp) -> Result<(), emergent_store::Error> {
    jobs::enqueue(tx, &NewJob { key: Some(EXPIRED_KEY), ..NewJob::new(QUEUE, now) })?;
    Ok(())
}

impl Graph {
    /// Works on these jobs until `stop` is set.
    pub async fn run_cleanup(&self, settings: CleanupSettings, stop: watch::Receiver<bool>) {
        let graph = self.clone();
        // A deleted project is ended while a long job is under way.
        let worker = Worker { concurrency: 2, ..Worker::new(QUEUE) };
        worker
            .run(self.db().clone(), self.clock().clone(), stop, move |claimed: ClaimedJob| {
                let graph = graph.clone();
                async move {
                    match claimed.job.project {
                        Some(project) => graph.end_work(project).await?,
                        None => graph.delete_expired(settings).await?,
                    }
                    Ok::<_, crate::Error>(JobOutcome::Done)
                }
            })
            .await;
    }

    /// Ends everything that a deleted project does at this moment. Does nothing for a live project.
    pub async fn end_work(&self, project: ProjectId) -> Result<()> {
        let now = self.clock().now();
        let end_access = move |tx: &mut Tx<'_>| {
            let is_deleted = projects::get(tx, project)?.is_none();
            if is_deleted {
                purge::end_access(tx, project, now)?;
            }
            Ok::<_, crate::Error>(is_deleted)
        };
        if !self.db().write(end_access).await? {
            return Ok(());
        }
        while !self.db().write(move |tx| purge::cancel_work(tx, project, now, BATCH)).await? {}
        Ok(())
    }

    /// Removes the rows of projects that were deleted long enough ago, and what the live ones do not keep. A
    /// project that fails does not keep the others from their turn; the first error is returned at the end.
    pub async fn delete_expired(&self, settings: CleanupSettings) -> Result<()> {
        let now = self.clock().now();
        let before = now - settings.deleted_project_retention;
        let mut failures = Failures::default();
        let (mut expiries, mut purged) = (HashMap::new(), Vec::new());
        for project in self.db().read(move |tx| projects::list_to_purge(tx, before)).await? {
            if failures.record(project.id, self.purge_rows(project).await).is_some() {
                expiries.insert(project.id, EventExpiry { before: now + DAY, up_to: None });
                purged.push(project.id);
            }
        }
        self.delete_conversations(None, before).await?;
        for project in self.db().read(projects::list_with_retention).await? {
            let deleted = self.delete_expired_of(&project).await;
            if let Some(Some(expiry)) = failures.record(project.id, deleted) {
                expiries.insert(project.id, expiry);
            }
        }
        self.delete_events(expiries).await?;
        let before = now - DAY.saturating_mul(STATUS_EVENT_DAYS);
        while self.db().write(move |tx| project_events::delete_before(tx, before, BATCH)).await? >= BATCH {}
        self.delete_expired_logins(now).await?;
        for project in purged {
            self.db().write(move |tx| projects::mark_purged(tx, project, now)).await?;
            info!(project.id = %project, "removed the rows of a deleted project");
        }
        failures.first.map_or(Ok(()), Err)
    }

    /// Deletes the sessions of browsers, login codes and idempotency keys whose time is up.
    async fn delete_expired_logins(&self, now: Timestamp) -> Result<()> {
        let delete_some = move |tx: &mut Tx<'_>| {
            let sessions = browser_sessions::delete_expired(tx, now, BATCH)?;
            let codes = login_codes::delete_expired(tx, now, BATCH)?;
            let keys = idempotency::delete_expired(tx, now, BATCH)?;
            Ok::<_, emergent_store::Error>(sessions.max(codes).max(keys))
        };
        while self.db().write(delete_some).await? >= BATCH as u64 {}
        Ok(())
    }

    /// Removes all rows of a deleted project, except its changes in the feed.
    async fn purge_rows(&self, project: DeletedProject) -> Result<()> {
        self.end_work(project.id).await?;
        for step in purge::Step::ALL {
            while !self.db().write(move |tx| purge::delete_rows(tx, project, step, BATCH)).await? {}
        }
        Ok(())
    }

    /// Deletes the runs and firings that a project does not keep any longer, and returns which changes of its
    /// feed it does not keep either.
    async fn delete_expired_of(&self, project: &Project) -> Result<Option<EventExpiry>> {
        let (id, now) = (project.id, self.clock().now());
        let before = |days: i64| now - DAY.saturating_mul(u32::try_from(days).unwrap_or(u32::MAX));
        if let Some(days) = project.retention.runs_days {
            // A run is deleted after the runs that resumed it, so there may be more each time.
            while self.delete_runs(id, before(days)).await? > 0 {}
            self.delete_conversations(Some(id), before(days)).await?;
        }
        if let Some(days) = project.retention.firings_days {
            let before = before(days);
            let delete = move |tx: &mut Tx<'_>| retention::delete_firings(tx, id, before, BATCH);
            while self.db().write(delete).await? >= BATCH {}
        }
        let Some(days) = project.retention.events_days else { return Ok(None) };
        let up_to = self.db().read(move |tx| retention::get_trigger_position(tx, id)).await?;
        Ok(Some(EventExpiry { before: before(days), up_to }))
    }

    /// Removes the conversations of one project or of all that were deleted before a time.
    async fn delete_conversations(&self, project: Option<ProjectId>, before: Timestamp) -> Result<()> {
        let delete = move |tx: &mut Tx<'_>| retention::delete_conversations(tx, project, before, BATCH);
        while !self.db().write(delete).await? {}
        Ok(())
    }

    /// Deletes runs that ended before a time, and returns how many trees of runs there were.
    async fn delete_runs(&self, project: ProjectId, before: Timestamp) -> Result<usize> {
        let (mut after, mut deleted): (RunCursor, usize) =
            ((Timestamp::from_micros(0), RunId(Uuid::nil())), 0);
        loop {
            let read =
                move |tx: &mut Tx<'_>| retention::list_expired_runs(tx, project, before, after, RUN_PAGE);
            let roots = self.db().read(read).await?;
            let Some(last) = roots.last() else { break };
            after = *last;
            for (_, root) in roots {
                let lock = move |tx: &mut Tx<'_>| retention::lock_expired_tree(tx, project, root, before);
                let Some(tree) = self.db().write(lock).await? else { continue };
                // Children come first: whoever sees a run in between also sees its parent.
                for runs in tree.chunks(RUN_PAGE) {
                    let runs = runs.to_vec();
                    let delete = move |tx: &mut Tx<'_>| retention::delete_runs(tx, project, &runs, BATCH);
                    while !self.db().write(delete.clone()).await? {}
                }
                deleted += 1;
            }
        }
        if deleted > 0 {
            info!(project.id = %project, "deleted {deleted} runs that are not kept any longer");
        }
        Ok(deleted)
    }

    /// Deletes the changes from the feed that these projects do not keep.
    async fn delete_events(&self, expiries: HashMap<ProjectId, EventExpiry>) -> Result<()> {
        let expiries = Arc::new(expiries);
        let mut after = 0;
        loop {
            let read = {
                let expiries = Arc::clone(&expiries);
                move |tx: &mut Tx<'_>| retention::find_expired_events(tx, &expiries, after)
            };
            let Some(window) = self.db().read(read).await? else { return Ok(()) };
            after = window.end;
            for (project, seqs) in window.expired {
                for seqs in seqs.chunks(BATCH) {
                    let seqs = seqs.to_vec();
                    self.db().write(move |tx| retention::delete_events(tx, project, &seqs)).await?;
                }
            }
        }
    }
}

/// The errors of a cleanup that went on with other projects.
#[derive(Default)]
struct Failures {
    first: Option<crate::Error>,
}

impl Failures {
    /// Returns what the cleanup of a project returned; `None` if it failed.
    fn record<T>(&mut self, project: ProjectId, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                warn!(project.id = %project, error = %error_chain(&error), "the cleanup of a project failed");
                self.first.get_or_insert(error);
                None
            }
        }
    }
}
