//! What a call to another system tells its run while it is made: that it has to wait there and that its server cannot be
//! used, which the run records, and that nobody knows what came of it.

use std::sync::Arc;

use emergent_domain::{
    agent::REMOTE_AGENT_PROVIDER,
    run_event::{ModelRetry, UnavailableServer},
};
use emergent_tools::{CallReport, CallReporter};
use tokio::sync::mpsc;
use tracing::info;

use super::RunDriver;
use crate::{Result, recorder::RecordBatch, retry_notices, scrub};

/// The reports of one call.
pub(super) struct CallReports {
    reports: mpsc::UnboundedReceiver<CallReport>,
    /// Whether the call said that its outcome is unknown.
    is_unknown: bool,
    /// The server of the call, if it cannot be used.
    unavailable: Option<UnavailableServer>,
}

impl CallReports {
    /// The next wait of the call. `None` when there are no more.
    pub async fn next_wait(&mut self) -> Option<ModelRetry> {
        while let Some(report) = self.reports.recv().await {
            if let Some(wait) = self.take(report) {
                return Some(wait);
            }
        }
        None
    }

    /// Whether the call, which has ended, said that its outcome is unknown.
    pub fn has_unknown_outcome(&mut self) -> bool {
        self.take_remaining();
        self.is_unknown
    }

    /// The server of the call, which has ended, if the call said that it cannot be used.
    fn unavailable_server(&mut self) -> Option<UnavailableServer> {
        self.take_remaining();
        self.unavailable.take()
    }

    fn take_remaining(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            self.take(report);
        }
    }

    /// A wait as it is recorded, like that for a provider of models.
    fn take(&mut self, report: CallReport) -> Option<ModelRetry> {
        match report {
            CallReport::UnknownOutcome => {
                self.is_unknown = true;
                None
            }
            CallReport::ServerUnavailable(unavailable) => {
                self.unavailable = Some(unavailable);
                None
            }
            CallReport::Waits { server, reason, count, delay } => {
                let mut error = format!("the remote agent `{server}` {reason}");
                scrub::scrub_text(&mut error);
                let wait_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                let model = format!("{REMOTE_AGENT_PROVIDER}/{server}");
                Some(ModelRetry { model, error, attempt: count, wait_ms })
            }
        }
    }
}

impl RunDriver {
    /// Returns who gets the reports of a call, and the reports. The agent of another system that executes this run may
    /// wait for its people and its rate limit until the time of the run is up: there is nothing else to do. A model
    /// that calls it as a tool gets an answer at the timeout of the call.
    pub(super) fn call_reports(&self) -> (CallReporter, CallReports) {
        let (sender, reports) = mpsc::unbounded_channel();
        // The receiver lives as long as the call.
        let report = Arc::new(move |report| drop(sender.send(report)));
        let waits_until = (self.run.model.provider == REMOTE_AGENT_PROVIDER).then_some(self.deadline);
        (CallReporter { report, waits_until }, CallReports { reports, is_unknown: false, unavailable: None })
    }

    /// Records that the server of a call, which has ended, cannot be used, unless the run has said so before.
    pub(super) async fn record_unavailable_server(&mut self, reports: &mut CallReports) -> Result<()> {
        let Some(mut unavailable) = reports.unavailable_server() else { return Ok(()) };
        scrub::scrub_text(&mut unavailable.reason);
        if !self.tools.add_unavailable_server(unavailable) {
            return Ok(());
        }
        self.report_missing_tools().await
    }

    /// Records that a call waits for another system.
    pub(super) async fn record_wait(&mut self, wait: &ModelRetry) -> Result<()> {
        info!(run.id = %self.run.id, "run `{}` waits: {}", self.run.id, wait.error);
        let step = self.run.steps_before + self.machine.step();
        let mut batch = RecordBatch::default();
        self.recorder.add_model_retry(&mut batch, step, wait);
        self.recorder.commit(batch, self.machine.steps()).await?;
        retry_notices::tell_followers(&self.executor, &self.run, step, wait).await;
        Ok(())
    }
}
