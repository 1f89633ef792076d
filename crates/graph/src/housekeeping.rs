//! Periodic cleanup of data that would otherwise accumulate. Every server does it, because
//! repeating it is harmless.

use std::time::Duration;

use emergent_store::{
    Tx,
    jobs::{self, JobStatus},
    projects,
};
use tokio::sync::watch;
use tracing::warn;

use crate::{Graph, cleanup, error::Result};

const INTERVAL: Duration = Duration::from_secs(10 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a finished job can still be inspected.
pub const DONE_JOB_RETENTION: Duration = DAY;
/// How long a dead job can still be revived.
pub const DEAD_JOB_RETENTION: Duration = Duration::from_secs(90 * DAY.as_secs());
/// How many jobs one transaction deletes.
const JOB_BATCH: usize = 500;
/// After how many passes what projects do not keep is deleted: every hour.
const PASSES_PER_CLEANUP: u64 = 6;
/// The window is much longer than the interval between two passes, so that differing clocks of
/// several servers do not matter.
const RECENTLY_DELETED: Duration = DAY;

impl Graph {
    /// Cleans up periodically until `stop` is set.
    pub async fn run_housekeeping(&self, mut stop: watch::Receiver<bool>) {
        for pass in 0u64.. {
            let pruned = self.prune().await;
            // One does not wait for the other: what cannot be pruned must not keep everything else for ever.
            let started = match pass.is_multiple_of(PASSES_PER_CLEANUP) {
                true => self.start_cleanup().await,
                false => Ok(()),
            };
            for error in [pruned, started].into_iter().filter_map(Result::err) {
                warn!(error = %error, "the cleanup failed; the next attempt is in {} minutes", INTERVAL.as_secs() / 60);
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    /// Has one of the servers delete what is not kept any longer.
    async fn start_cleanup(&self) -> Result<()> {
        let now = self.clock().now();
        Ok(self.db().write(move |tx| cleanup::enqueue_expired(tx, now)).await?)
    }

    /// Deletes old finished jobs, removes documents that were not ingested to their end, and clears the caches
    /// of deleted projects.
    pub async fn prune(&self) -> Result<()> {
        let now = self.clock().now();
        for (status, retention) in
            [(JobStatus::Done, DONE_JOB_RETENTION), (JobStatus::Dead, DEAD_JOB_RETENTION)]
        {
            let prune = move |tx: &mut Tx<'_>| jobs::prune(tx, status, now - retention, JOB_BATCH);
            while self.db().write(prune).await? >= JOB_BATCH {}
        }
        let purged = self.purge_hidden_documents().await;
        // Another server may have deleted the project, or a concurrent search may have filled the
        // cache again.
        for project in self.db().read(move |tx| projects::deleted_since(tx, now - RECENTLY_DELETED)).await? {
            self.db().vectors().remove_project(project);
        }
        purged
    }
}
