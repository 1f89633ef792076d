//! Notifies the driver of a workflow when one of its runs ends, as soon as this process has committed
//! the end. The notification contains the whole run. Runs that other servers drove, and lost
//! notifications, are found in the database.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{ids::WorkflowId, run::Run};
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// The channels to the drivers of workflows, which wait for the ends of runs. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct EndedRunSenders(Arc<Mutex<HashMap<WorkflowId, mpsc::UnboundedSender<Run>>>>);

impl EndedRunSenders {
    /// Receives the runs of a workflow that end in this process from now on. A workflow has one receiver;
    /// a new one replaces it.
    pub fn subscribe(&self, workflow: WorkflowId) -> EndedRuns {
        let (sender, runs) = mpsc::unbounded_channel();
        self.0.lock().insert(workflow, sender);
        EndedRuns { senders: self.clone(), workflow, runs }
    }

    /// Sends a run that has ended to the driver of its workflow, if this process drives it.
    pub fn send(&self, run: Run) {
        let Some(workflow) = run.workflow_link.workflow else { return };
        if let Some(sender) = self.0.lock().get(&workflow) {
            // A receiver that was dropped finds the run in the database.
            let _ = sender.send(run);
        }
    }
}

/// Receives the runs of one workflow that end in this process.
pub(crate) struct EndedRuns {
    senders: EndedRunSenders,
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
        let mut senders = self.senders.0.lock();
        if senders.get(&self.workflow).is_some_and(mpsc::UnboundedSender::is_closed) {
            senders.remove(&self.workflow);
        }
    }
}
