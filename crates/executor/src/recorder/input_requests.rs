//! Follows the request of an external server for input, while the run waits and this runner still owns it.

use std::sync::Arc;

use emergent_domain::{
    approval::Approval,
    run::RunStatus,
    run_event::{RunEvent, RunEventBody},
};
use emergent_store::{
    approvals,
    runs::{self, waiting},
};
use tokio::time::Duration;

use super::Recorder;
use crate::{Error, Result};

impl Recorder {
    /// Returns a request as soon as the run waits no longer; `None` while it waits. Fails if this runner no longer
    /// owns the run.
    pub async fn decided_request(&self, request: &Approval) -> Result<Option<Approval>> {
        let (project, run, id, owner) = (self.project, self.run, request.id, Arc::clone(&self.owner));
        let read = self.executor.db().read(move |tx| {
            let current = runs::get(tx, project, run)?;
            let current = current.filter(|run| run.owner.as_deref() == Some(&*owner));
            match current.map(|run| run.status) {
                Some(RunStatus::Waiting) => Ok(None),
                Some(RunStatus::Running | RunStatus::Queued) => {
                    let decided = approvals::get(tx, project, id)?;
                    decided.map(Some).ok_or(Error::Lost(run))
                }
                _ => Err(Error::Lost(run)),
            }
        });
        read.await
    }

    /// Withdraws a request that nobody waits for any more, unless it is decided.
    pub async fn withdraw_request(&self, request: &Approval, reason: &'static str) -> Result<()> {
        let (request, now) = (request.clone(), self.now());
        let work = move |tx: &mut emergent_store::Tx<'_>| {
            approvals::withdraw_request(tx, &request, reason, now)?;
            Ok::<_, Error>(())
        };
        self.executor.db().write(work).await
    }

    /// Records that the run goes on, and returns how long it waited.
    pub async fn continue_owned(&mut self) -> Result<Duration> {
        let (project, run, owner, now) = (self.project, self.run, Arc::clone(&self.owner), self.now());
        let work = move |tx: &mut emergent_store::Tx<'_>| {
            waiting::continue_owned(tx, project, run, &owner, now)?.ok_or(Error::Lost(run))
        };
        let (waited, seq) = self.executor.db().write(work).await?;
        (self.committed_seq, self.last_seq) = (seq, seq);
        let body = RunEventBody::Continued;
        self.executor.hub().publish(RunEvent { run, seq: Some(seq), at: now, body });
        Ok(waited)
    }
}
