//! What nobody asks for and would pile up otherwise. Each server does it: twice is as good as once.

use std::time::Duration;

use emergent_store::{
    jobs::{self, JobStatus},
    projects, triggers,
};
use tokio::sync::watch;
use tracing::warn;

use crate::{Graph, error::Result};

const INTERVAL: Duration = Duration::from_secs(10 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a finished job can still be looked at.
pub const DONE_JOB_RETENTION: Duration = DAY;
/// How long somebody has to revive a dead job.
pub const DEAD_JOB_RETENTION: Duration = Duration::from_secs(90 * DAY.as_secs());
/// How long one can see what a trigger's firing came to.
pub const FIRING_RETENTION: Duration = Duration::from_secs(30 * DAY.as_secs());
/// Far more than lies between two passes, whatever the clocks of several servers say.
const RECENTLY_DELETED: Duration = DAY;

impl Graph {
    /// Tidies up now and then until told to stop.
    pub async fn run_housekeeping(&self, mut stop: watch::Receiver<bool>) {
        loop {
            if let Err(error) = self.prune().await {
                warn!(error = %error, "could not tidy up, trying again in {} minutes", INTERVAL.as_secs() / 60);
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    /// Forgets jobs that ended and firings that were settled long ago, and what memory still holds of deleted projects.
    pub async fn prune(&self) -> Result<()> {
        let now = self.clock().now();
        self.db()
            .write(move |tx| {
                jobs::prune(tx, JobStatus::Done, now - DONE_JOB_RETENTION)?;
                jobs::prune(tx, JobStatus::Dead, now - DEAD_JOB_RETENTION)?;
                triggers::firings::prune(tx, now - FIRING_RETENTION)
            })
            .await?;
        // Another server deleted them, or a search that was under way has loaded them again.
        for project in self.db().read(move |tx| projects::deleted_since(tx, now - RECENTLY_DELETED)).await? {
            self.db().vectors().remove_project(project);
        }
        Ok(())
    }
}
