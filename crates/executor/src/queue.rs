//! How many runs wait, roughly: counted now and then rather than at every admission.

use std::sync::atomic::{AtomicI64, Ordering};

use emergent_store::runs;
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::{Error, Executor, Result};

const FRESH: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Queue {
    counted: Mutex<Option<Instant>>,
    waiting: AtomicI64,
}

impl Executor {
    /// Refuses more work from outside when too much waits already.
    pub(crate) async fn refuse_when_full(&self) -> Result<()> {
        let most = self.settings().max_queued;
        let queue = self.queue();
        let stale = {
            let mut counted = queue.counted.lock();
            let stale = counted.is_none_or(|at| at.elapsed() > FRESH);
            if stale {
                *counted = Some(Instant::now());
            }
            stale
        };
        if stale {
            let count = self.db().read(move |tx| runs::queued(tx, most.saturating_add(1))).await?;
            queue.waiting.store(count, Ordering::Relaxed);
        }
        let waiting = queue.waiting.fetch_add(1, Ordering::Relaxed);
        if waiting >= i64::try_from(most).unwrap_or(i64::MAX) {
            return Err(Error::Overloaded { limit: "max_queued", waiting });
        }
        Ok(())
    }
}
