//! Records that a run waits because its children wait for a person, and what for.

use emergent_domain::{
    approval::Approval,
    ids::{RunId, ToolCallId},
    run_event::{RunEvent, RunEventBody},
};
use emergent_store::{
    Tx, approvals,
    runs::{record, waiting},
};
use serde_json::json;
use tracing::info;

use super::{Recorder, fence, writes::start_waiting};
use crate::{Error, Result};

impl Recorder {
    /// Lets the run wait until one of its children goes on or ends, if these are `count` and all of them wait for
    /// a person; false if they do not. Afterwards this runner no longer owns the run. The requests of the runs below
    /// it are told in its record, because whoever follows this run does not follow them.
    pub async fn wait_for_children(
        &mut self,
        call: Option<ToolCallId>,
        count: usize,
        steps: i64,
    ) -> Result<bool> {
        self.flush(steps).await?;
        let first_seq = self.last_seq + 1;
        let (now, position) = (self.now(), self.position(steps));
        let commit = self.executor.db().write(move |tx| {
            let Some(kind) = waiting::lock_waiting_children(tx, position.run, call, count)? else {
                return Ok(None);
            };
            let requests = list_new_requests(tx, position.run)?;
            let mut position = position.clone();
            position.seq = first_seq + i64::try_from(requests.len()).unwrap_or(0);
            fence(tx, &position)?;
            for (seq, request) in (first_seq..).zip(&requests) {
                let Approval { id: approval, call, tool, kind, run: child, .. } = request;
                let data =
                    json!({ "approval": approval, "call": call, "tool": tool, "kind": kind, "child": child });
                record::insert_event(tx, position.run, seq, "approval_requested", &data, now)?;
            }
            let data = json!({ "waitingFor": kind });
            record::insert_event(tx, position.run, position.seq, "run_waiting", &data, now)?;
            start_waiting(tx, &position, kind, now)?;
            Ok::<_, Error>(Some((kind, requests)))
        });
        let Some((waiting_for, requests)) = commit.await? else { return Ok(false) };
        let told = requests.into_iter().map(|request| {
            let Approval { id: approval, call, tool, kind, run, .. } = request;
            RunEventBody::ApprovalRequested { approval, call, tool, kind, child: Some(run) }
        });
        for (seq, body) in (first_seq..).zip(told.chain([RunEventBody::Waiting { waiting_for }])) {
            self.last_seq = seq;
            self.executor.hub().publish(RunEvent { run: self.run, seq: Some(seq), at: now, body });
        }
        self.committed_seq = self.last_seq;
        info!(run.id = %self.run, "run `{}` waits for its children, which wait for a person", self.run);
        Ok(true)
    }
}

/// The pending requests below a run of which its record does not tell yet: a run can wait again while one of them is
/// still pending.
fn list_new_requests(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<Approval>> {
    let told = record::list_told_requests(tx, run)?;
    let mut requests = approvals::list_pending_below(tx, run)?;
    requests.retain(|request| !told.contains(&request.id.to_string()));
    Ok(requests)
}
