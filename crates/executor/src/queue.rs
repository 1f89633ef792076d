//! How many runs wait, roughly: counted now and then rather than at every admission.

use std::sync::atomic::{AtomicI64, Ordering};

use emergent_store::{Tx, runs};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::{Error, Executor, Result};

const FRESH: Duration = Duration::from_secs(1);
/// With less room than this, those who fire triggers wait for one another: servers that fire at once
/// would each see the same room, and fill it.
const CLOSE: usize = 1_000;

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

impl Queue {
    /// Runs were queued that nobody asked about: triggers count for themselves.
    pub(crate) fn grew(&self, by: usize) {
        self.waiting.fetch_add(i64::try_from(by).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}

/// How many more runs may wait, counted in the transaction that is about to queue them.
pub(crate) fn room(tx: &mut Tx<'_>, most: usize) -> Result<usize> {
    let room = free(tx, most)?;
    if room >= CLOSE {
        return Ok(room);
    }
    tx.lock("triggers:room")?;
    free(tx, most)
}

fn free(tx: &mut Tx<'_>, most: usize) -> Result<usize> {
    let waiting = usize::try_from(runs::queued(tx, most)?).unwrap_or(0);
    Ok(most.saturating_sub(waiting))
}
