//! How many runs wait, roughly: counted now and then rather than at every admission.

use std::sync::atomic::{AtomicI64, Ordering};

use emergent_store::{Tx, runs};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::{Error, Executor, Result};

const COUNT_TTL: Duration = Duration::from_secs(1);
/// With less room than this, those who fire triggers wait for one another: servers that fire at once
/// would each see the same room, and fill it.
const LOCK_BELOW: usize = 1_000;

#[derive(Default)]
pub(crate) struct QueueGauge {
    counted_at: Mutex<Option<Instant>>,
    waiting: AtomicI64,
}

impl Executor {
    /// Refuses more work from outside when too much waits already.
    pub(crate) async fn check_queue_capacity(&self) -> Result<()> {
        let most = self.settings().max_queued;
        let queue = self.queue();
        let stale = {
            let mut counted = queue.counted_at.lock();
            let stale = counted.is_none_or(|at| at.elapsed() > COUNT_TTL);
            if stale {
                *counted = Some(Instant::now());
            }
            stale
        };
        if stale {
            let count = self.db().read(move |tx| runs::count_queued(tx, most.saturating_add(1))).await?;
            queue.waiting.store(count, Ordering::Relaxed);
        }
        let waiting = queue.waiting.fetch_add(1, Ordering::Relaxed);
        if waiting >= i64::try_from(most).unwrap_or(i64::MAX) {
            return Err(Error::Overloaded { limit: "max_queued", waiting });
        }
        Ok(())
    }
}

impl QueueGauge {
    /// Runs were queued that nobody asked about: triggers count for themselves.
    pub(crate) fn add(&self, by: usize) {
        self.waiting.fetch_add(i64::try_from(by).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}

/// How many more runs may wait, counted in the transaction that is about to queue them.
pub(crate) fn free_queue_capacity(tx: &mut Tx<'_>, most: usize) -> Result<usize> {
    let room = count_free(tx, most)?;
    if room >= LOCK_BELOW {
        return Ok(room);
    }
    tx.advisory_lock("triggers:room")?;
    count_free(tx, most)
}

fn count_free(tx: &mut Tx<'_>, most: usize) -> Result<usize> {
    let waiting = usize::try_from(runs::count_queued(tx, most)?).unwrap_or(0);
    Ok(most.saturating_sub(waiting))
}
