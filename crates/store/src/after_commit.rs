//! What follows the commit of a transaction in this process.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    search::vectors::{VectorChange, VectorIndexes},
    wake::Wake,
};

/// The work that follows the commit of a transaction: vector index updates, hooks and wakes.
pub(crate) struct AfterCommit {
    pub(crate) wakes: Vec<String>,
    pub(crate) hooks: Vec<Box<dyn FnOnce() + Send>>,
    pub(crate) vectors: Vec<VectorChange>,
}

impl AfterCommit {
    /// The channels to wake.
    pub(crate) fn wakes(&self) -> &[String] {
        &self.wakes
    }

    /// Does the work in this process. Indexes come first, so that hooks and waiters see the change. A hook
    /// that panics is logged: the transaction is committed, and its caller and the writer go on.
    pub(crate) fn run(self, wake: &Arc<Wake>, indexes: Option<&VectorIndexes>) {
        if let Some(indexes) = indexes {
            run_caught(|| indexes.apply(self.vectors));
        }
        self.hooks.into_iter().for_each(run_caught);
        self.wakes.iter().for_each(|channel| wake.notify(channel));
    }
}

fn run_caught(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        let message = emergent_net::errors::panic_message(panic.as_ref()).unwrap_or("no message");
        tracing::error!(cause = message, "what follows a commit panicked; the commit itself is done");
    }
}
