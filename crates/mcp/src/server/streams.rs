//! Counts the open subscriptions of each caller, since each of them uses resources while it is open.
//! The streams of sessions are not counted, because a session has only one.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use futures_util::{StreamExt, stream::BoxStream};
use parking_lot::Mutex;

use super::{Fault, listen::ChangeNotice};

/// The maximum number of open subscriptions of one caller.
const MAX_PER_CALLER: usize = 20;

type Counts<C> = Arc<Mutex<HashMap<C, usize>>>;

/// The number of open subscriptions by caller.
pub(super) struct StreamCounts<C>(Counts<C>);

impl<C> Default for StreamCounts<C> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<C: Clone + Eq + Hash + Send + 'static> StreamCounts<C> {
    /// Counts one more subscription of this caller until the returned value is dropped.
    pub fn open(&self, caller: &C) -> Result<OpenStream<C>, Fault> {
        let mut counts = self.0.lock();
        let count = counts.entry(caller.clone()).or_default();
        if *count >= MAX_PER_CALLER {
            let reason = format!("this token has {MAX_PER_CALLER} subscriptions open: close one first");
            return Err(Fault::LimitReached { why: reason });
        }
        *count += 1;
        Ok(OpenStream { counts: Arc::clone(&self.0), caller: caller.clone() })
    }
}

/// A counted subscription.
pub(super) struct OpenStream<C: Eq + Hash> {
    counts: Counts<C>,
    caller: C,
}

impl<C: Eq + Hash + Send + 'static> OpenStream<C> {
    /// Counts the subscription until the returned stream is dropped.
    pub fn attach_to(self, notices: BoxStream<'static, ChangeNotice>) -> BoxStream<'static, ChangeNotice> {
        notices
            .inspect(move |_| {
                let _counted = &self;
            })
            .boxed()
    }
}

impl<C: Eq + Hash> Drop for OpenStream<C> {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.caller);
            }
        }
    }
}
