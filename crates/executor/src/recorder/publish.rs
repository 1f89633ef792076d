//! Publishes what was recorded.

use emergent_domain::{
    run::{MessageRole, ToolCallStatus},
    run_event::{RecordedToolCall, RunEvent, RunEventBody},
    time::Timestamp,
};
use tracing::info;

use super::{RecordBatch, Recorder, Wait};
use crate::spans;

impl Recorder {
    /// Publishes what a batch recorded to the followers of the run. The end is logged and counted as well.
    pub(super) fn publish(&mut self, batch: &RecordBatch, now: Timestamp) {
        if let Some(end) = &batch.end {
            let (id, steps) = (self.run, self.steps);
            info!(run.id = %id, run.steps = steps, "run `{id}` ended: {end}");
            self.executor.telemetry().record_run_end(end);
            spans::run_ended(end);
            self.ended = true;
            self.committed_seq += 1;
            self.last_seq = self.committed_seq;
        }
        if let Some(Wait { waiting_for, requests, .. }) = &batch.wait {
            let (id, count) = (self.run, requests.len());
            info!(run.id = %id, requests = count, "run `{id}` waits ({waiting_for})");
            requests.iter().for_each(|request| self.executor.telemetry().record_request(request.kind));
        }
        let hub = self.executor.hub();
        if batch.messages.iter().any(|message| message.role == MessageRole::Assistant) {
            hub.end_answer(self.run);
        }
        if !hub.has_subscribers(self.run) {
            return;
        }
        let mut events = Vec::new();
        events.extend(
            batch.messages.iter().map(|message| (message.seq, RunEventBody::Message(message.clone()))),
        );
        for call in &batch.calls {
            let started = RecordedToolCall { output: None, status: ToolCallStatus::Running, ..call.clone() };
            events.push((call.seq, RunEventBody::ToolStarted(started)));
        }
        for call in batch.calls.iter().chain(&batch.results) {
            events.extend(call.result_seq.map(|seq| (seq, RunEventBody::ToolCompleted(call.clone()))));
        }
        events.extend(batch.events.iter().map(|event| (event.seq, event.body.clone())));
        if let Some(end) = &batch.end {
            let body = RunEventBody::Ended {
                status: end.status(),
                reason: end.reason(),
                summary: end.summary().to_owned(),
                output: end.output().cloned(),
                error: end.error().map(str::to_owned),
            };
            events.push((self.committed_seq, body));
        }
        events.sort_by_key(|(seq, _)| *seq);
        for (seq, body) in events {
            hub.publish(RunEvent { run: self.run, seq: Some(seq), at: now, body });
        }
    }
}
