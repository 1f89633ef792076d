//! Notifies the driver of a workflow when one of its runs ends, as soon as this process has committed
//! the end. The notification contains the whole run. Runs that other servers drove, and lost
//! notifications, are found in the database.

use emergent_domain::{
    ids::WorkflowId,
    run::{Run, RunEnd},
    time::Timestamp,
};
use tokio::sync::mpsc;

use crate::Executor;

/// Receives the runs of one workflow that end in this process.
pub struct EndedRuns {
    executor: Executor,
    workflow: WorkflowId,
    runs: mpsc::UnboundedReceiver<Run>,
}

impl EndedRuns {
    /// Returns the next run that has ended, if there is one.
    pub fn try_next(&mut self) -> Option<Run> {
        self.runs.try_recv().ok()
    }
}

impl Drop for EndedRuns {
    fn drop(&mut self) {
        self.runs.close();
        // Another receiver may have replaced this one by now, and must stay registered.
        let mut listeners = self.executor.ended_run_senders().lock();
        if listeners.get(&self.workflow).is_some_and(mpsc::UnboundedSender::is_closed) {
            listeners.remove(&self.workflow);
        }
    }
}

impl Executor {
    /// Receives the runs of a workflow that end in this process from now on. A workflow has one receiver; a
    /// new one replaces it.
    pub fn subscribe_ended_runs(&self, workflow: WorkflowId) -> EndedRuns {
        let (sender, runs) = mpsc::unbounded_channel();
        self.ended_run_senders().lock().insert(workflow, sender);
        EndedRuns { executor: self.clone(), workflow, runs }
    }

    pub(crate) fn publish_ended_run(&self, run: Run) {
        let Some(workflow) = run.workflow_link.workflow else { return };
        if let Some(listener) = self.ended_run_senders().lock().get(&workflow) {
            // A receiver that was dropped finds the run in the database.
            let _ = listener.send(run);
        }
    }
}

/// Returns the run with its end applied.
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
