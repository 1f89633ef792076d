//! A run that only its caller waits for. It is cancelled when the caller stops waiting.

use emergent_domain::ids::RunId;
use emergent_executor::{Error, Executor};
use emergent_graph::Actor;

/// Cancels a run when it is dropped before [`WaitedRun::keep`].
pub(crate) struct WaitedRun {
    executor: Executor,
    actor: Actor,
    pub run: RunId,
    is_kept: bool,
}

impl WaitedRun {
    pub(crate) fn new(executor: Executor, actor: Actor, run: RunId) -> Self {
        Self { executor, actor, run, is_kept: false }
    }

    /// The run has ended, or goes on without its caller.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for WaitedRun {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let (executor, actor, run) = (self.executor.clone(), self.actor, self.run);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                match executor.cancel(actor, run).await {
                    // The run has ended by itself in the meantime.
                    Ok(_) | Err(Error::Conflict(_)) => {}
                    Err(error) => {
                        tracing::warn!(run.id = %run, %error, "could not cancel a run that nobody waits for")
                    }
                }
            });
        }
    }
}
