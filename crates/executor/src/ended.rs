//! Who walks a workflow hears of the end of its runs as this process commits it, with what there is to
//! know. What other servers drove, and what was lost, it finds in the database.

use emergent_domain::{
    ids::WorkflowId,
    run::{Run, RunEnd},
    time::Timestamp,
};
use tokio::sync::mpsc;

use crate::Executor;

/// Runs of one workflow that ended, as they did.
pub struct Ended {
    executor: Executor,
    workflow: WorkflowId,
    runs: mpsc::UnboundedReceiver<Run>,
}

impl Ended {
    /// The next that has ended since it was asked last.
    pub fn take(&mut self) -> Option<Run> {
        self.runs.try_recv().ok()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.runs.close();
        // Another may listen by now.
        let mut listeners = self.executor.listeners().lock();
        if listeners.get(&self.workflow).is_some_and(mpsc::UnboundedSender::is_closed) {
            listeners.remove(&self.workflow);
        }
    }
}

impl Executor {
    /// Hears of the runs of a workflow that end here from now on. There is one who does.
    pub fn ended_runs(&self, workflow: WorkflowId) -> Ended {
        let (sender, runs) = mpsc::unbounded_channel();
        self.listeners().lock().insert(workflow, sender);
        Ended { executor: self.clone(), workflow, runs }
    }

    pub(crate) fn tell_ended(&self, run: Run) {
        let Some(workflow) = run.duty.workflow else { return };
        if let Some(listener) = self.listeners().lock().get(&workflow) {
            // Who has left finds it in the database.
            let _ = listener.send(run);
        }
    }
}

/// A run as its end leaves it.
pub(crate) fn ended(run: &Run, end: &RunEnd, steps: i64, seq: i64, now: Timestamp) -> Run {
    Run {
        status: end.status(),
        reason: end.reason(),
        summary: Some(end.summary().to_owned()),
        error: end.error().map(str::to_owned),
        completed_at: Some(now),
        step_count: steps,
        seq,
        ..run.clone()
    }
}
