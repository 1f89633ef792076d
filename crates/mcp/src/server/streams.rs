//! How many subscriptions each caller has open: every one is looked after for as long as it stays.
//! The streams of sessions need no count, a session has one.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use futures_util::{StreamExt, stream::BoxStream};
use parking_lot::Mutex;

use super::{Fault, listen::Heard};

const OF_CALLER: usize = 20;

type Counts<C> = Arc<Mutex<HashMap<C, usize>>>;

pub(super) struct Streams<C>(Counts<C>);

impl<C> Default for Streams<C> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<C: Clone + Eq + Hash + Send + 'static> Streams<C> {
    /// One more of this caller, until it is dropped.
    pub fn open(&self, caller: &C) -> Result<Open<C>, Fault> {
        let mut counts = self.0.lock();
        let count = counts.entry(caller.clone()).or_default();
        if *count >= OF_CALLER {
            let why = format!("this token has {OF_CALLER} subscriptions open: close one first");
            return Err(Fault::TooMany { why });
        }
        *count += 1;
        Ok(Open { counts: Arc::clone(&self.0), caller: caller.clone() })
    }
}

/// A subscription that counts.
pub(super) struct Open<C: Eq + Hash> {
    counts: Counts<C>,
    caller: C,
}

impl<C: Eq + Hash + Send + 'static> Open<C> {
    /// Counts for as long as the changes are listened to.
    pub fn over(self, heard: BoxStream<'static, Heard>) -> BoxStream<'static, Heard> {
        heard
            .inspect(move |_| {
                let _counted = &self;
            })
            .boxed()
    }
}

impl<C: Eq + Hash> Drop for Open<C> {
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
