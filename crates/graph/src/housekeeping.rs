//! Periodic cleanup of data that would otherwise accumulate. Every server does it, because
//! repeating it is harmless.

use std::time::Duration;

use emergent_store::{
    Engine, Tx,
    jobs::{self, JobStatus},
    projects,
    search::vector_index::{self, MissingIndex},
    statistics,
};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::{Graph, cleanup, error::Result};

const INTERVAL: Duration = Duration::from_secs(10 * 60);
/// How often the sizes of tables are compared with their statistics. A table that is filled by an import or by many
/// workflows doubles within seconds while it is small.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(3);
/// How often is looked for an index of vectors to build. What is added meanwhile says how fast their table grows.
const VECTOR_INDEX_INTERVAL: Duration = Duration::from_secs(10);
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

/// Finds tables whose statistics are to be renewed.
type ListTables = fn(&mut Tx<'_>) -> emergent_store::Result<Vec<String>>;

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

    /// Renews the statistics of tables that have outgrown them, until `stop` is set. First makes those of tables that have
    /// none, because the database was restored; this is repeated until it succeeds. Only PostgreSQL needs it.
    pub async fn run_statistics(&self, mut stop: watch::Receiver<bool>) {
        let mut list: ListTables = statistics::list_unanalysed;
        while self.db().engine() == Engine::Postgres {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(STATISTICS_INTERVAL) => {}
            }
            match self.renew_statistics_of(list).await {
                Ok(()) => list = statistics::list_outgrown,
                Err(error) => {
                    warn!(error = %error, "could not renew the statistics of the database; the next attempt follows");
                }
            }
        }
    }

    /// Renews the statistics of the tables that a bulk load has filled, after its last transaction. What was loaded stays
    /// if this fails.
    pub(crate) async fn renew_statistics_after_load(&self) {
        if let Err(error) = self.renew_statistics_of(statistics::list_grown).await {
            warn!(error = %error, "could not renew the statistics of the database after a bulk load; statements may be slower until the next attempt");
        }
    }

    /// Renews the statistics of the tables that `list` finds, each in a transaction of its own. A table for which that fails
    /// does not keep the others from theirs; the first error is returned.
    async fn renew_statistics_of(&self, list: ListTables) -> Result<()> {
        let mut renewed = Ok(());
        for table in self.db().read(list).await? {
            renewed = renewed.and(self.db().write(move |tx| statistics::renew(tx, &table)).await);
        }
        Ok(renewed?)
    }

    /// Builds missing indexes of vectors until `stop` is set. Only PostgreSQL has such indexes.
    pub async fn run_vector_indexes(&self, mut stop: watch::Receiver<bool>) {
        let mut previous = Vec::new();
        while self.db().engine() == Engine::Postgres {
            let look = async {
                tokio::time::sleep(VECTOR_INDEX_INTERVAL).await;
                self.build_vector_indexes(&mut previous).await
            };
            // If the server stops during a build, the database goes on with it.
            let looked = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                looked = look => looked,
            };
            if let Err(error) = looked {
                warn!(error = %error, "could not look for missing indexes of vectors; the next attempt follows");
            }
        }
    }

    /// Builds the indexes of vectors that are due, given what the previous look found, and returns how many were built
    /// here. One that cannot be built does not keep the others from being built. It is logged, and tried again later.
    pub async fn build_vector_indexes(&self, previous: &mut Vec<MissingIndex>) -> Result<usize> {
        let missing = self.db().read(vector_index::list_missing).await?;
        let due: Vec<MissingIndex> = missing.iter().filter(|index| index.is_due(previous)).cloned().collect();
        *previous = missing;
        let mut built = 0;
        for index in due {
            match self.db().build_vector_index(&index).await {
                Ok(true) => {
                    info!(index = ?index, "built an index of vectors");
                    built += 1;
                }
                Ok(false) => {}
                Err(error) => {
                    warn!(index = ?index, error = %error, "could not build an index of vectors; until the next attempt searches are slower");
                }
            }
        }
        Ok(built)
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
