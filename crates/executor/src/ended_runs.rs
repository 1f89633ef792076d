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
pub struct EndedRuns {
    executor: Executor,
    workflow: WorkflowId,
    runs: mpsc::UnboundedReceiver<Run>,
}

impl EndedRuns {
    /// The next that has ended since it was asked last.
    pub fn try_next(&mut self) -> Option<Run> {
        self.runs.try_recv().ok()
    }
}

impl Drop for EndedRuns {
    fn drop(&mut self) {
        self.runs.close();
        // Another may listen by now.
        let mut listeners = self.executor.ended_run_senders().lock();
        if listeners.get(&self.workflow).is_some_and(mpsc::UnboundedSender::is_closed) {
            listeners.remove(&self.workflow);
        }
    }
}

impl Executor {
    /// Hears of the runs of a workflow that end here from now on. There is one who does.
    pub fn subscribe_ended_runs(&self, workflow: WorkflowId) -> EndedRuns {
        let (sender, runs) = mpsc::unbounded_channel();
        self.ended_run_senders().lock().insert(workflow, sender);
        EndedRuns { executor: self.clone(), workflow, runs }
    }

    pub(crate) fn publish_ended_run(&self, run: Run) {
        let Some(workflow) = run.workflow_link.workflow else { return };
        if let Some(listener) = self.ended_run_senders().lock().get(&workflow) {
            // Who has left finds it in the database.
            let _ = listener.send(run);
        }
    }
}

/// A run as its end leaves it.
pub(crate) fn apply_end(run: &Run, end: &RunEnd, steps: i64, seq: i64, now: Timestamp) -> Run {
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
