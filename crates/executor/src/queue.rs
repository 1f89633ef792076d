//! The approximate length of the run queue. It is counted at most once per second instead of at each
//! admission.

use std::sync::atomic::{AtomicI64, Ordering};

use emergent_store::{Tx, runs};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::{Error, Executor, Result};

/// How long a count of the queue is used.
const COUNT_TTL: Duration = Duration::from_secs(1);
/// Below this free capacity, servers take a lock before they queue triggered runs. Otherwise two
/// servers would see the same free capacity, and both would fill it.
const LOCK_BELOW: usize = 1_000;

/// The last count of the queue, plus the runs that this process queued since.
#[derive(Default)]
pub(crate) struct QueueGauge {
    counted_at: Mutex<Option<Instant>>,
    waiting: AtomicI64,
}

impl Executor {
    /// Refuses requests from outside if the queue is full.
    pub(crate) async fn check_queue_capacity(&self) -> Result<()> {
        let max_queued = self.settings().max_queued;
        let queue = self.queue();
        let stale = {
            let mut counted_at = queue.counted_at.lock();
            let stale = counted_at.is_none_or(|at| at.elapsed() > COUNT_TTL);
            if stale {
                *counted_at = Some(Instant::now());
            }
            stale
        };
        if stale {
            let count =
                self.db().read(move |tx| runs::count_queued(tx, max_queued.saturating_add(1))).await?;
            queue.waiting.store(count, Ordering::Relaxed);
        }
        let waiting = queue.waiting.fetch_add(1, Ordering::Relaxed);
        if waiting >= i64::try_from(max_queued).unwrap_or(i64::MAX) {
            return Err(Error::Overloaded { limit: "max_queued", waiting });
        }
        Ok(())
    }
}

impl QueueGauge {
    /// Adds runs that triggers queued, which count the free capacity themselves.
    pub(crate) fn add(&self, by: usize) {
        self.waiting.fetch_add(i64::try_from(by).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}

/// Returns how many more runs may be queued, counted in the transaction that is about to queue them.
pub(crate) fn free_queue_capacity(tx: &mut Tx<'_>, max_queued: usize) -> Result<usize> {
    let free = count_free(tx, max_queued)?;
    if free >= LOCK_BELOW {
        return Ok(free);
    }
    tx.advisory_lock("triggers:room")?;
    count_free(tx, max_queued)
}

fn count_free(tx: &mut Tx<'_>, max_queued: usize) -> Result<usize> {
    let waiting = usize::try_from(runs::count_queued(tx, max_queued)?).unwrap_or(0);
    Ok(max_queued.saturating_sub(waiting))
}
