//! How many subscriptions each caller has open: every one is looked after for as long as it stays.
//! The streams of sessions need no count, a session has one.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use futures_util::{StreamExt, stream::BoxStream};
use parking_lot::Mutex;

use super::{Fault, listen::ChangeNotice};

const MAX_PER_CALLER: usize = 20;

type Counts<C> = Arc<Mutex<HashMap<C, usize>>>;

pub(super) struct StreamCounts<C>(Counts<C>);

impl<C> Default for StreamCounts<C> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<C: Clone + Eq + Hash + Send + 'static> StreamCounts<C> {
    /// One more of this caller, until it is dropped.
    pub fn open(&self, caller: &C) -> Result<OpenStream<C>, Fault> {
        let mut counts = self.0.lock();
        let count = counts.entry(caller.clone()).or_default();
        if *count >= MAX_PER_CALLER {
            let why = format!("this token has {MAX_PER_CALLER} subscriptions open: close one first");
            return Err(Fault::LimitReached { why });
        }
        *count += 1;
        Ok(OpenStream { counts: Arc::clone(&self.0), caller: caller.clone() })
    }
}

/// A subscription that counts.
pub(super) struct OpenStream<C: Eq + Hash> {
    counts: Counts<C>,
    caller: C,
}

impl<C: Eq + Hash + Send + 'static> OpenStream<C> {
    /// Counts for as long as the changes are listened to.
    pub fn attach_to(self, heard: BoxStream<'static, ChangeNotice>) -> BoxStream<'static, ChangeNotice> {
        heard
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
