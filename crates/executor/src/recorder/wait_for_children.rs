//! Records that a run waits because its children wait for a person.

use emergent_domain::{
    ids::ToolCallId,
    run_event::{RunEvent, RunEventBody},
};
use emergent_store::runs::{record, waiting};
use serde_json::json;
use tracing::info;

use super::{Recorder, fence, writes::start_waiting};
use crate::{Error, Result};

impl Recorder {
    /// Lets the run wait until one of its children goes on or ends, if these are `count` and all of them wait for
    /// a person; false if they do not. Afterwards this runner no longer owns the run.
    pub async fn wait_for_children(
        &mut self,
        call: Option<ToolCallId>,
        count: usize,
        steps: i64,
    ) -> Result<bool> {
        self.flush(steps).await?;
        let seq = self.next_seq();
        let (now, position) = (self.now(), self.position(steps));
        let commit = self.executor.db().write(move |tx| {
            let Some(kind) = waiting::lock_waiting_children(tx, position.run, call, count)? else {
                return Ok(None);
            };
            fence(tx, &position)?;
            record::insert_event(tx, position.run, seq, "run_waiting", &json!({ "waitingFor": kind }), now)?;
            start_waiting(tx, &position, kind, now)?;
            Ok::<_, Error>(Some(kind))
        });
        let Some(waiting_for) = commit.await.inspect_err(|_| self.last_seq = self.committed_seq)? else {
            self.last_seq = self.committed_seq;
            return Ok(false);
        };
        self.committed_seq = self.last_seq;
        let body = RunEventBody::Waiting { waiting_for };
        self.executor.hub().publish(RunEvent { run: self.run, seq: Some(seq), at: now, body });
        info!(run.id = %self.run, "run `{}` waits for its children, which wait for a person", self.run);
        Ok(true)
    }
}
