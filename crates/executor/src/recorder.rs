//! Writes what happens in a run, as it happens. Everything of one moment is one transaction, and
//! each begins by asking whether the run is still ours: after a cancel, or once another runner took
//! over, nothing more is written.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use emergent_domain::{
    author::Author,
    ids::{RunId, ToolCallId},
    run::{CallStatus, Reason, Run, RunEnd},
    run_event::{RecordedCall, RecordedMessage, RunEvent, RunEventBody},
    time::Timestamp,
};
use emergent_graph::{Actor, Writer};
use emergent_store::{Tx, runs::record};
use emergent_tools::{Change, Tool};
use serde_json::{Value, json};
use tracing::error;

use crate::{Error, Executor, Result, spans};

/// What one moment brings. Places among the events are given out in the order things are added.
#[derive(Debug, Default)]
pub struct Batch {
    message: Option<RecordedMessage>,
    calls: Vec<RecordedCall>,
    results: Vec<RecordedCall>,
    notes: Vec<Note>,
    end: Option<RunEnd>,
}

#[derive(Debug)]
struct Note {
    seq: i64,
    body: RunEventBody,
    data: Value,
}

pub struct Recorder {
    executor: Executor,
    run: RunId,
    project: emergent_domain::ids::ProjectId,
    owner: Arc<str>,
    /// The newest place that is written.
    seq: i64,
    /// The newest place that is given out.
    given: i64,
    steps_before: i64,
    ended: bool,
}

impl Recorder {
    pub fn new(executor: &Executor, run: &Run, owner: Arc<str>) -> Self {
        Self {
            executor: executor.clone(),
            run: run.id,
            project: run.project,
            owner,
            seq: run.seq,
            given: run.seq,
            steps_before: run.steps_before,
            ended: false,
        }
    }

    /// The newest place that is written.
    pub fn seq(&self) -> i64 {
        self.seq
    }

    /// Whether the end is written.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    fn now(&self) -> Timestamp {
        self.executor.clock().now()
    }

    fn place(&mut self) -> i64 {
        self.given += 1;
        self.given
    }

    /// Adds a message; its place is set here.
    pub fn message(&mut self, batch: &mut Batch, mut message: RecordedMessage) {
        message.seq = self.place();
        batch.message = Some(message);
    }

    /// Adds a call; its place is set here. One that has its result already gets that place too.
    pub fn call(&mut self, batch: &mut Batch, mut call: RecordedCall) -> i64 {
        call.seq = self.place();
        let seq = call.seq;
        batch.calls.push(call);
        seq
    }

    /// Gives the results of calls that were decided without being made their places, after all
    /// calls of the message.
    pub fn place_results(&mut self, batch: &mut Batch) {
        for at in 0..batch.calls.len() {
            if batch.calls[at].status.is_over() {
                let seq = self.place();
                batch.calls[at].result_seq = Some(seq);
            }
        }
    }

    pub fn result(&mut self, batch: &mut Batch, mut call: RecordedCall) -> RecordedCall {
        call.result_seq = Some(self.place());
        batch.results.push(call.clone());
        call
    }

    pub fn started(&mut self, batch: &mut Batch, recovered: bool) {
        self.note(batch, RunEventBody::Started { recovered }, json!({ "recovered": recovered }));
    }

    pub fn looped(&mut self, batch: &mut Batch, call: ToolCallId, tool: &str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let data = json!({ "call": call, "tool": tool, "count": count });
        self.note(batch, RunEventBody::LoopDetected { call, tool: tool.to_owned(), count }, data);
    }

    pub fn limit(&mut self, batch: &mut Batch, reason: Reason) {
        self.note(batch, RunEventBody::LimitReached { reason }, json!({ "reason": reason }));
    }

    /// `upto`: results up to this place are no longer shown to the model.
    pub fn compacted(&mut self, batch: &mut Batch, before: i64, after: i64, upto: i64, summarised: bool) {
        let data = json!({ "before": before, "after": after, "upto": upto, "summarised": summarised });
        self.note(batch, RunEventBody::Compacted { before, after, summarised }, data);
    }

    fn note(&mut self, batch: &mut Batch, body: RunEventBody, data: Value) {
        let seq = self.place();
        batch.notes.push(Note { seq, body, data });
    }

    pub fn end(batch: &mut Batch, end: RunEnd) {
        batch.end = Some(end);
    }

    /// Writes a batch, then tells whoever follows.
    pub async fn commit(&mut self, batch: Batch, steps: i64) -> Result<()> {
        let batch = Arc::new(batch);
        let (writing, now, at) = (Arc::clone(&batch), self.now(), self.at(steps));
        let done = self.executor.db().write(move |tx| write(tx, &at, &writing, now)).await;
        self.settle(done)?;
        self.tell(&batch, now);
        Ok(())
    }

    /// Runs a tool's change and records its result, both or neither.
    pub async fn commit_change(
        &mut self,
        change: Change,
        mut call: RecordedCall,
        tool: &Arc<dyn Tool>,
        begun: std::time::Instant,
        steps: i64,
    ) -> Result<RecordedCall> {
        call.result_seq = Some(self.place());
        call.status = CallStatus::Completed;
        let (now, at) = (self.now(), self.at(steps));
        let author = Author::Run { run_id: self.run, tool_call_id: Some(call.id) };
        let actor = Actor { project: self.project, author };
        let (graph, guard, tool) =
            (self.executor.graph().clone(), self.executor.settings().guard.clone(), Arc::clone(tool));
        let done = self
            .executor
            .db()
            .write(move |tx| {
                let mut call = call.clone();
                fence(tx, &at)?;
                let writer = graph.writer(tx, actor)?;
                let output = prepared(&change, tx, &writer)?;
                call.output = Some(guard.cut_for(tool.info(), output));
                call.duration_ms = Some(millis(begun));
                record::call_ends(tx, at.run, &call)?;
                Ok::<_, Error>(call)
            })
            .await;
        let call = self.settle(done)?;
        let batch = Batch { results: vec![call.clone()], ..Batch::default() };
        self.tell(&batch, now);
        Ok(call)
    }

    /// Says that a call is about to leave the house, so that it is never made twice by mistake.
    pub async fn call_begins(&mut self, seq: i64, steps: i64) -> Result<()> {
        let at = self.at(steps);
        let done = self.executor.db().write(move |tx| {
            fence(tx, &at)?;
            record::call_begins(tx, at.run, seq)?;
            Ok::<_, Error>(())
        });
        let done = done.await;
        self.settle(done)
    }

    /// What a transaction about this run must begin with, for those that write other rows.
    pub fn at(&self, steps: i64) -> At {
        At {
            run: self.run,
            owner: Arc::clone(&self.owner),
            seen: self.seq,
            seq: self.given,
            steps: self.steps_before + steps,
        }
    }

    /// A commit that went well makes the places that were given out final; one that did not takes
    /// them back.
    fn settle<T>(&mut self, done: Result<T>) -> Result<T> {
        match &done {
            Ok(_) => self.seq = self.given,
            Err(_) => self.given = self.seq,
        }
        done
    }

    fn tell(&mut self, batch: &Batch, now: Timestamp) {
        if let Some(end) = &batch.end {
            self.executor.telemetry().run_ended(end);
            spans::run_ended(end);
            self.ended = true;
            self.seq += 1;
            self.given = self.seq;
        }
        let hub = self.executor.hub();
        if !hub.is_followed(self.run) {
            return;
        }
        let mut events = Vec::new();
        events.extend(batch.message.iter().map(|one| (one.seq, RunEventBody::Message(one.clone()))));
        for call in &batch.calls {
            let started = RecordedCall { output: None, status: CallStatus::Running, ..call.clone() };
            events.push((call.seq, RunEventBody::ToolStarted(started)));
        }
        for call in batch.calls.iter().chain(&batch.results) {
            events.extend(call.result_seq.map(|seq| (seq, RunEventBody::ToolCompleted(call.clone()))));
        }
        events.extend(batch.notes.iter().map(|note| (note.seq, note.body.clone())));
        if let Some(end) = &batch.end {
            let body = RunEventBody::Ended {
                status: end.status(),
                reason: end.reason(),
                summary: end.summary().to_owned(),
                error: end.error().map(str::to_owned),
            };
            events.push((self.seq, body));
        }
        events.sort_by_key(|(seq, _)| *seq);
        for (seq, body) in events {
            hub.tell(RunEvent { run: self.run, seq: Some(seq), at: now, body });
        }
    }
}

/// Where a run stands, as the runner that drives it knows it.
#[derive(Debug, Clone)]
pub struct At {
    run: RunId,
    owner: Arc<str>,
    seen: i64,
    seq: i64,
    steps: i64,
}

/// Lets only the runner through that has the run in hand, and keeps the run's row until the end of
/// the transaction.
pub fn fence(tx: &mut Tx<'_>, at: &At) -> Result<()> {
    if record::advance(tx, at.run, &at.owner, at.seen, at.seq, at.steps)? {
        Ok(())
    } else {
        Err(Error::Lost(at.run))
    }
}

fn write(tx: &mut Tx<'_>, at: &At, batch: &Batch, now: Timestamp) -> Result<()> {
    fence(tx, at)?;
    if let Some(message) = &batch.message {
        record::message(tx, at.run, message)?;
    }
    if !batch.calls.is_empty() {
        record::calls(tx, at.run, &batch.calls)?;
    }
    for call in &batch.results {
        record::call_ends(tx, at.run, call)?;
    }
    for note in &batch.notes {
        record::event(tx, at.run, note.seq, note.body.kind(), &note.data, now)?;
    }
    if let Some(end) = &batch.end
        && !record::end(tx, at.run, &at.owner, at.seq, end, at.steps, now)?
    {
        return Err(Error::Lost(at.run));
    }
    Ok(())
}

/// Runs a tool's change. A panic in it is the call's own error, as it is outside a transaction; what
/// it wrote is rolled back with the transaction.
fn prepared(change: &Change, tx: &mut Tx<'_>, writer: &Writer) -> Result<Value> {
    let done = catch_unwind(AssertUnwindSafe(|| change(tx, writer)));
    done.unwrap_or_else(|_| {
        error!(run.author = ?writer.author, "a tool panicked in its transaction");
        let message = "the tool crashed on this call: try it with another input, or do without it".to_owned();
        Err(emergent_graph::Error::Conflict { message })
    })
    .map_err(Error::from)
}

pub fn millis(begun: std::time::Instant) -> i64 {
    i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX)
}
