//! Adds entries to a batch: messages, tool calls and their results, events, and the end.

use emergent_domain::{
    approval::{Approval, ApprovalKind},
    ids::ToolCallId,
    run::{Reason, RunEnd},
    run_event::{ModelRetry, RecordedMessage, RecordedToolCall, RunEventBody},
};
use emergent_tools::ToolSet;
use serde_json::{Value, json};

use super::{PendingEvent, RecordBatch, Recorder, Wait};

impl Recorder {
    /// Adds a message and assigns its `seq`.
    pub fn add_message(&mut self, batch: &mut RecordBatch, mut message: RecordedMessage) {
        message.seq = self.next_seq();
        batch.messages.push(message);
    }

    /// Adds a tool call and assigns its `seq`.
    pub fn add_call(&mut self, batch: &mut RecordBatch, mut call: RecordedToolCall) -> i64 {
        call.seq = self.next_seq();
        let seq = call.seq;
        batch.calls.push(call);
        seq
    }

    /// Assigns a `seq` to the results of calls that were refused, after all calls of the message.
    pub fn assign_result_seqs(&mut self, batch: &mut RecordBatch) {
        for position in 0..batch.calls.len() {
            if batch.calls[position].status.is_terminal() {
                let seq = self.next_seq();
                batch.calls[position].result_seq = Some(seq);
            }
        }
    }

    /// Adds the result of a call and assigns its `seq`.
    pub fn add_result(&mut self, batch: &mut RecordBatch, mut call: RecordedToolCall) -> RecordedToolCall {
        call.result_seq = Some(self.next_seq());
        batch.results.push(call.clone());
        call
    }

    /// Adds the start of the run. `tools` are the tools that patterns matched, so that a recovered run has
    /// the same ones, of the same servers.
    pub fn add_started(&mut self, batch: &mut RecordBatch, recovered: bool, tools: Option<&ToolSet>) {
        let mut data = json!({ "recovered": recovered });
        if let Some(tools) = tools {
            data["tools"] = json!(tools.names().collect::<Vec<_>>());
            let servers = tools.servers();
            if !servers.is_empty() {
                data["toolServers"] = json!(servers);
            }
        }
        batch.mark_open_calls_lost = recovered;
        self.add_event(batch, RunEventBody::Started { recovered }, data);
    }

    /// Adds the tools that the whitelist of the run names and that are missing, and the servers that cannot be used, if
    /// there are any.
    pub fn add_missing_tools(&mut self, batch: &mut RecordBatch, tools: &ToolSet) {
        let (servers, missing_tools) = (tools.unavailable_servers(), tools.missing_tools());
        if !servers.is_empty() || !missing_tools.is_empty() {
            let data = json!({ "servers": servers, "missingTools": missing_tools });
            let (servers, missing_tools) = (servers.to_vec(), missing_tools.to_vec());
            self.add_event(batch, RunEventBody::ServersUnavailable { servers, missing_tools }, data);
        }
    }

    /// Adds that a call was refused because it repeats earlier calls; `count` is how often it was made.
    pub fn add_loop_detected(&mut self, batch: &mut RecordBatch, call: ToolCallId, tool: &str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let data = json!({ "call": call, "tool": tool, "count": count });
        self.add_event(batch, RunEventBody::LoopDetected { call, tool: tool.to_owned(), count }, data);
    }

    /// Adds that an answer was truncated or empty, and that the model is asked again.
    pub fn add_incomplete_answer(&mut self, batch: &mut RecordBatch, step: i64, reason: Reason) {
        let data = json!({ "step": step, "reason": reason });
        self.add_event(batch, RunEventBody::AnswerIncomplete { step, reason }, data);
    }

    /// Adds that a model call failed and is repeated after a wait.
    pub fn add_model_retry(&mut self, batch: &mut RecordBatch, step: i64, retry: &ModelRetry) {
        let mut data = json!(retry);
        data["step"] = json!(step);
        self.add_event(batch, RunEventBody::ModelRetry { step, retry: retry.clone(), child: None }, data);
    }

    /// Adds that the run reached a limit and has to finish.
    pub fn add_limit_reached(&mut self, batch: &mut RecordBatch, reason: Reason) {
        self.add_event(batch, RunEventBody::LimitReached { reason }, json!({ "reason": reason }));
    }

    /// Adds that the conversation was shortened from `before` to `after` tokens. The model no longer sees the
    /// full results up to the `seq` in `upto`.
    pub fn add_compacted(
        &mut self,
        batch: &mut RecordBatch,
        before: i64,
        after: i64,
        upto: i64,
        summarised: bool,
    ) {
        let data = json!({ "before": before, "after": after, "upto": upto, "summarised": summarised });
        self.add_event(batch, RunEventBody::Compacted { before, after, summarised }, data);
    }

    /// Adds that the run goes on after it waited for a person.
    pub fn add_continued(&mut self, batch: &mut RecordBatch) {
        self.add_event(batch, RunEventBody::Continued, json!({}));
    }

    /// Adds the requests that people have to decide, or the calls that the caller has to answer. The run waits after the commit, and this runner no longer
    /// owns it.
    pub fn add_requests(&mut self, batch: &mut RecordBatch, requests: Vec<Approval>) {
        for request in &requests {
            let Approval { id: approval, call, tool, kind, .. } = request;
            let data = json!({ "approval": approval, "call": call, "tool": tool, "kind": kind });
            let (approval, call, tool, kind, child) = (*approval, *call, tool.clone(), *kind, None);
            self.add_event(
                batch,
                RunEventBody::ApprovalRequested { approval, call, tool, kind, child },
                data,
            );
        }
        let has = |kind| requests.iter().any(|request| request.kind == kind);
        let kinds = [ApprovalKind::Approval, ApprovalKind::Question];
        let waiting_for = kinds.into_iter().find(|kind| has(*kind)).unwrap_or(ApprovalKind::ClientTool);
        let data = json!({ "waitingFor": waiting_for });
        self.add_event(batch, RunEventBody::Waiting { waiting_for }, data);
        batch.wait = Some(Wait { waiting_for, requests, keeps_owner: false });
    }

    /// Adds the request of an external server for input. The run waits after the commit, and this runner still owns
    /// it, because the tool call is in progress.
    pub fn add_input_request(&mut self, batch: &mut RecordBatch, request: Approval) {
        self.add_requests(batch, vec![request]);
        if let Some(wait) = &mut batch.wait {
            wait.keeps_owner = true;
        }
    }

    pub(super) fn add_event(&mut self, batch: &mut RecordBatch, body: RunEventBody, data: Value) {
        let seq = self.next_seq();
        batch.events.push(PendingEvent { seq, body, data });
    }

    /// Sets the end of the run, which is written last.
    pub fn set_end(batch: &mut RecordBatch, end: RunEnd) {
        batch.end = Some(end);
    }

    /// Settles open model calls of the run in full. Used for an end that the driver did not decide, because
    /// then the cost of these calls is unknown.
    pub fn mark_open_calls_lost(batch: &mut RecordBatch) {
        batch.mark_open_calls_lost = true;
    }
}
