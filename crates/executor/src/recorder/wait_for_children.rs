//! Records that a run waits because its children wait for a person, what for, and what was decided.

use emergent_domain::{
    approval::{Approval, Choice},
    ids::{ApprovalId, RunId, ToolCallId},
    run_event::{RunEvent, RunEventBody},
};
use emergent_store::{
    Tx, approvals,
    runs::{record, waiting},
};
use serde_json::json;
use tracing::info;

use super::{RecordBatch, Recorder, fence, writes::start_waiting};
use crate::{Error, Result};

/// The requests of the runs below a run that its record tells of as pending.
pub struct ToldRequests(Vec<ApprovalId>);

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

    /// Reads which requests of the runs below this one its record tells of as pending.
    pub async fn told_requests(&self) -> Result<ToldRequests> {
        let run = self.run;
        let told = self.executor.db().read(move |tx| record::list_told_as_pending(tx, run)).await;
        told.map(ToldRequests).map_err(|error: emergent_store::Error| error.into())
    }

    /// Records which of these requests are not pending any more, so that whoever follows this run learns of it. The
    /// decision itself is recorded for the run that asked: this run may have an owner, who alone writes its record.
    pub async fn tell_decisions(&mut self, told: &mut ToldRequests, steps: i64) -> Result<()> {
        if told.0.is_empty() {
            return Ok(());
        }
        let (project, ids) = (self.project, told.0.clone());
        let ended = self.executor.db().read(move |tx| approvals::list_ended(tx, project, &ids)).await?;
        if ended.is_empty() {
            return Ok(());
        }
        told.0.retain(|id| ended.iter().all(|request| request.id != *id));
        let mut batch = RecordBatch::default();
        for request in ended {
            let Approval { id: approval, call, tool, status, decision, run, .. } = request;
            // A request without a decision was withdrawn when its run ended.
            let edited = decision.as_ref().is_some_and(|decision| decision.edited_input.is_some());
            let (decision, reason) =
                decision.map_or((Choice::Deny, None), |decision| (decision.choice, decision.reason));
            let data = json!({
                "approval": approval, "call": call, "tool": tool, "status": status, "decision": decision,
                "reason": reason, "edited": edited, "child": run,
            });
            let child = Some(run);
            let body = RunEventBody::ApprovalDecided {
                approval,
                call,
                tool,
                status,
                decision,
                reason,
                edited,
                child,
            };
            self.add_event(&mut batch, body, data);
        }
        self.commit(batch, steps).await
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
