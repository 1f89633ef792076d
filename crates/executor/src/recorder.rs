//! Writes what happens in a run, as it happens. Everything of one moment is one transaction, and
//! each begins by asking whether the run is still ours: after a cancel, or once another runner took
//! over, nothing more is written.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use emergent_domain::{
    agent::ModelConfig,
    author::Author,
    ids::{ObjectId, RunId, ToolCallId},
    run::{Reason, Run, RunEnd, ToolCallStatus},
    run_event::{RecordedMessage, RecordedToolCall, RunEvent, RunEventBody},
    time::Timestamp,
};
use emergent_graph::{Actor, WriteContext};
use emergent_store::{
    Tx,
    budget::{self as rows, NewModelCall},
    runs::record,
};
use emergent_tools::{GraphChange, Tool};
use serde_json::{Value, json};
use tracing::error;

use crate::{
    Error, Executor, Result,
    budget::{self, CallEstimate, ReserveOutcome, Settlement},
    ended_runs::apply_end,
    run_budget::call_prices,
    sessions::SessionMessages,
    spans,
};

/// What one moment brings. Places among the events are given out in the order things are added.
#[derive(Debug, Default)]
pub struct RecordBatch {
    message: Option<RecordedMessage>,
    calls: Vec<RecordedToolCall>,
    results: Vec<RecordedToolCall>,
    events: Vec<PendingEvent>,
    end: Option<RunEnd>,
    settlement: Option<Settlement>,
    /// Model calls that whoever drove the run before left open are settled in full.
    mark_open_calls_lost: bool,
}

#[derive(Debug)]
struct PendingEvent {
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
    committed_seq: i64,
    /// The newest place that is given out.
    last_seq: i64,
    steps_before: i64,
    ended: bool,
    /// An answer whose calls are being made, to be written with the first of their results. The
    /// places it was given end at `held_upto`.
    buffered: Option<Arc<RecordBatch>>,
    buffered_up_to: i64,
    /// Where what is said is written as well.
    session: Option<ObjectId>,
    /// For whoever walks its workflow.
    workflow_run: Option<Arc<Run>>,
}

impl Recorder {
    pub fn new(executor: &Executor, run: &Run, owner: Arc<str>) -> Self {
        Self {
            executor: executor.clone(),
            run: run.id,
            project: run.project,
            owner,
            committed_seq: run.seq,
            last_seq: run.seq,
            steps_before: run.steps_before,
            ended: false,
            buffered: None,
            buffered_up_to: 0,
            session: run.workflow_link.session,
            workflow_run: run.workflow_link.workflow.map(|_| Arc::new(run.clone())),
        }
    }

    /// The newest place that is given out.
    pub fn last_seq(&self) -> i64 {
        self.last_seq
    }

    /// Whether the end is written.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    fn now(&self) -> Timestamp {
        self.executor.clock().now()
    }

    fn next_seq(&mut self) -> i64 {
        self.last_seq += 1;
        self.last_seq
    }

    /// Adds a message; its place is set here.
    pub fn add_message(&mut self, batch: &mut RecordBatch, mut message: RecordedMessage) {
        message.seq = self.next_seq();
        batch.message = Some(message);
    }

    /// Adds a call; its place is set here. One that has its result already gets that place too.
    pub fn add_call(&mut self, batch: &mut RecordBatch, mut call: RecordedToolCall) -> i64 {
        call.seq = self.next_seq();
        let seq = call.seq;
        batch.calls.push(call);
        seq
    }

    /// Gives the results of calls that were decided without being made their places, after all
    /// calls of the message.
    pub fn assign_result_seqs(&mut self, batch: &mut RecordBatch) {
        for at in 0..batch.calls.len() {
            if batch.calls[at].status.is_terminal() {
                let seq = self.next_seq();
                batch.calls[at].result_seq = Some(seq);
            }
        }
    }

    pub fn add_result(&mut self, batch: &mut RecordBatch, mut call: RecordedToolCall) -> RecordedToolCall {
        call.result_seq = Some(self.next_seq());
        batch.results.push(call.clone());
        call
    }

    /// `tools`: what patterns came to, so that a run that is taken up again has the same.
    pub fn add_started(&mut self, batch: &mut RecordBatch, recovered: bool, tools: Option<Vec<&str>>) {
        let mut data = json!({ "recovered": recovered });
        if let Some(tools) = tools {
            data["tools"] = json!(tools);
        }
        batch.mark_open_calls_lost = recovered;
        self.add_event(batch, RunEventBody::Started { recovered }, data);
    }

    pub fn add_loop_detected(&mut self, batch: &mut RecordBatch, call: ToolCallId, tool: &str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let data = json!({ "call": call, "tool": tool, "count": count });
        self.add_event(batch, RunEventBody::LoopDetected { call, tool: tool.to_owned(), count }, data);
    }

    pub fn add_limit_reached(&mut self, batch: &mut RecordBatch, reason: Reason) {
        self.add_event(batch, RunEventBody::LimitReached { reason }, json!({ "reason": reason }));
    }

    /// `upto`: results up to this place are no longer shown to the model.
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

    fn add_event(&mut self, batch: &mut RecordBatch, body: RunEventBody, data: Value) {
        let seq = self.next_seq();
        batch.events.push(PendingEvent { seq, body, data });
    }

    pub fn set_end(batch: &mut RecordBatch, end: RunEnd) {
        batch.end = Some(end);
    }

    /// For an end that is not the driver's own.
    pub fn mark_open_calls_lost(batch: &mut RecordBatch) {
        batch.mark_open_calls_lost = true;
    }

    /// Keeps a batch to be written with the next one: a step whose calls take no time is one commit.
    /// Whatever leaves the house, or takes long, asks for [`Recorder::flush`] first.
    pub fn buffer(&mut self, batch: RecordBatch) {
        self.buffered = Some(Arc::new(batch));
        self.buffered_up_to = self.last_seq;
    }

    pub fn has_buffered(&self) -> bool {
        self.buffered.is_some()
    }

    /// Writes what is held.
    pub async fn flush(&mut self, steps: i64) -> Result<()> {
        if self.has_buffered() { self.commit(RecordBatch::default(), steps).await } else { Ok(()) }
    }

    /// Writes a batch, and what is held before it, then tells whoever follows.
    pub async fn commit(&mut self, batch: RecordBatch, steps: i64) -> Result<()> {
        let batch = Arc::new(batch);
        let (writing, held, now, at) =
            (Arc::clone(&batch), self.buffered.clone(), self.now(), self.position(steps));
        let (lines, graph, project) = (
            self.session_messages(&[held.as_deref(), Some(&batch)], now),
            self.executor.graph().clone(),
            self.project,
        );
        let of_workflow = self.workflow_run.clone().map(|run| (self.executor.clone(), run));
        let work = move |tx: &mut Tx<'_>| {
            fence(tx, &at)?;
            if let (Some((executor, run)), Some(end)) = (&of_workflow, &writing.end) {
                let (executor, run) = (executor.clone(), apply_end(run, end, at.steps, at.seq + 1, now));
                tx.after_commit(move || executor.publish_ended_run(run));
            }
            write_buffered(tx, &at, held.as_deref(), &writing.results, now)?;
            let written = |call: &&RecordedToolCall| held.as_ref().is_some_and(|held| held.has_call(call.id));
            write_batch(tx, &at, &writing, writing.results.iter().filter(|call| !written(call)), now)?;
            if let Some(lines) = &lines {
                lines.write(tx, &graph, project)?;
            }
            settle_calls(tx, at.run, [held.as_deref(), Some(&*writing)])
        };
        let done = self.executor.db().write(work).await;
        self.after_commit(done, now)?;
        self.publish(&batch, now);
        Ok(())
    }

    /// Runs a tool's change and records its result, both or neither.
    pub async fn commit_change(
        &mut self,
        change: GraphChange,
        mut call: RecordedToolCall,
        tool: &Arc<dyn Tool>,
        begun: std::time::Instant,
        steps: i64,
    ) -> Result<RecordedToolCall> {
        call.result_seq = Some(self.next_seq());
        call.status = ToolCallStatus::Completed;
        let (now, at, held) = (self.now(), self.position(steps), self.buffered.clone());
        let author = Author::Run { run_id: self.run, tool_call_id: Some(call.id) };
        let actor = Actor { project: self.project, author };
        let (graph, guard, tool) =
            (self.executor.graph().clone(), self.executor.settings().guard.clone(), Arc::clone(tool));
        let (project, session) = (self.project, self.session);
        let done = self
            .executor
            .db()
            .write(move |tx| {
                let mut call = call.clone();
                fence(tx, &at)?;
                let writer = graph.write_context(tx, actor)?;
                let output = run_change(&change, tx, &writer)?;
                call.output = Some(guard.truncate_for(tool.info(), output));
                call.duration_ms = Some(elapsed_ms(begun));
                if held.as_ref().is_some_and(|held| held.has_call(call.id)) {
                    write_buffered(tx, &at, held.as_deref(), std::slice::from_ref(&call), now)?;
                } else {
                    write_buffered(tx, &at, held.as_deref(), &[], now)?;
                    record::complete_call(tx, at.run, &call)?;
                }
                if let Some(session) = session {
                    let mut lines = SessionMessages::new(session, at.run);
                    held.iter().for_each(|held| held.add_to_session(&mut lines, now));
                    lines.push_result(&call, now);
                    lines.write(tx, &graph, project)?;
                }
                settle_calls(tx, at.run, [held.as_deref()])?;
                Ok::<_, Error>(call)
            })
            .await;
        let call = self.after_commit(done, now)?;
        let batch = RecordBatch { results: vec![call.clone()], ..RecordBatch::default() };
        self.publish(&batch, now);
        Ok(call)
    }

    /// Says that a call is about to leave the house, so that it is never made twice by mistake.
    pub async fn mark_call_started(&mut self, seq: i64, steps: i64) -> Result<()> {
        self.flush(steps).await?;
        let (now, at) = (self.now(), self.position(steps));
        let done = self.executor.db().write(move |tx| {
            fence(tx, &at)?;
            record::mark_call_started(tx, at.run, seq)?;
            Ok::<_, Error>(())
        });
        let done = done.await;
        self.after_commit(done, now)
    }

    /// Reserves a model call for this run, or says why not.
    pub async fn reserve(
        &mut self,
        call: NewModelCall,
        model: ModelConfig,
        wish: CallEstimate,
        steps: i64,
    ) -> Result<ReserveOutcome> {
        self.flush(steps).await?;
        let (now, at, models) = (self.now(), self.position(steps), self.executor.models().clone());
        let done = self.executor.db().write(move |tx| {
            fence(tx, &at)?;
            Ok::<_, Error>(budget::reserve(tx, call_prices(&models, &model), &call, wish)?)
        });
        let done = done.await;
        self.after_commit(done, now)
    }

    /// What these add to the session, if there is one.
    fn session_messages(&self, batches: &[Option<&RecordBatch>], now: Timestamp) -> Option<SessionMessages> {
        let mut lines = SessionMessages::new(self.session?, self.run);
        batches.iter().flatten().for_each(|batch| batch.add_to_session(&mut lines, now));
        Some(lines)
    }

    /// What a transaction about this run must begin with, for those that write other rows.
    pub fn position(&self, steps: i64) -> RunPosition {
        RunPosition {
            run: self.run,
            owner: Arc::clone(&self.owner),
            expected_seq: self.committed_seq,
            seq: self.last_seq,
            steps: self.steps_before + steps,
        }
    }

    /// A commit that went well makes the places that were given out final, and what was held is
    /// told; one that did not takes back the places of what it tried, and what is held stays so.
    fn after_commit<T>(&mut self, done: Result<T>, now: Timestamp) -> Result<T> {
        match &done {
            Ok(_) => {
                self.committed_seq = self.last_seq;
                if let Some(held) = self.buffered.take() {
                    self.publish(&held, now);
                }
            }
            Err(_) => {
                self.last_seq = if self.has_buffered() { self.buffered_up_to } else { self.committed_seq }
            }
        }
        done
    }

    fn publish(&mut self, batch: &RecordBatch, now: Timestamp) {
        if let Some(end) = &batch.end {
            self.executor.telemetry().record_run_end(end);
            spans::run_ended(end);
            self.ended = true;
            self.committed_seq += 1;
            self.last_seq = self.committed_seq;
        }
        let hub = self.executor.hub();
        if !hub.has_subscribers(self.run) {
            return;
        }
        let mut events = Vec::new();
        events.extend(batch.message.iter().map(|one| (one.seq, RunEventBody::Message(one.clone()))));
        for call in &batch.calls {
            let started = RecordedToolCall { output: None, status: ToolCallStatus::Running, ..call.clone() };
            events.push((call.seq, RunEventBody::ToolStarted(started)));
        }
        for call in batch.calls.iter().chain(&batch.results) {
            events.extend(call.result_seq.map(|seq| (seq, RunEventBody::ToolCompleted(call.clone()))));
        }
        events.extend(batch.events.iter().map(|note| (note.seq, note.body.clone())));
        if let Some(end) = &batch.end {
            let body = RunEventBody::Ended {
                status: end.status(),
                reason: end.reason(),
                summary: end.summary().to_owned(),
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

/// Where a run stands, as the runner that drives it knows it.
#[derive(Debug, Clone)]
pub struct RunPosition {
    run: RunId,
    owner: Arc<str>,
    expected_seq: i64,
    seq: i64,
    steps: i64,
}

/// Lets only the runner through that has the run in hand, and keeps the run's row until the end of
/// the transaction.
pub fn fence(tx: &mut Tx<'_>, at: &RunPosition) -> Result<()> {
    if record::advance(tx, at.run, &at.owner, at.expected_seq, at.seq, at.steps)? {
        Ok(())
    } else {
        Err(Error::Lost(at.run))
    }
}

impl RecordBatch {
    /// Adds what a model call came to.
    pub fn set_settlement(&mut self, settlement: Settlement) {
        self.settlement = Some(settlement);
    }

    fn add_to_session(&self, lines: &mut SessionMessages, now: Timestamp) {
        self.message.iter().for_each(|message| lines.push_message(message));
        self.calls.iter().chain(&self.results).for_each(|call| lines.push_result(call, now));
    }

    fn has_call(&self, call: ToolCallId) -> bool {
        self.calls.iter().any(|one| one.id == call)
    }
}

/// Writes what was held, its calls as they stand by now: one that has its result is written once.
fn write_buffered(
    tx: &mut Tx<'_>,
    at: &RunPosition,
    held: Option<&RecordBatch>,
    results: &[RecordedToolCall],
    now: Timestamp,
) -> Result<()> {
    let Some(held) = held else { return Ok(()) };
    let newest =
        |call: &RecordedToolCall| results.iter().find(|one| one.id == call.id).unwrap_or(call).clone();
    let calls = held.calls.iter().map(newest).collect();
    let whole = RecordBatch { message: held.message.clone(), calls, ..RecordBatch::default() };
    write_batch(tx, at, &whole, [].iter(), now)?;
    write_events(tx, at, held, now)
}

fn write_batch<'a>(
    tx: &mut Tx<'_>,
    at: &RunPosition,
    batch: &RecordBatch,
    results: impl Iterator<Item = &'a RecordedToolCall>,
    now: Timestamp,
) -> Result<()> {
    if let Some(message) = &batch.message {
        record::insert_message(tx, at.run, message)?;
    }
    if !batch.calls.is_empty() {
        record::insert_calls(tx, at.run, &batch.calls)?;
    }
    for call in results {
        record::complete_call(tx, at.run, call)?;
    }
    write_events(tx, at, batch, now)?;
    if let Some(end) = &batch.end
        && !record::end_run(tx, at.run, &at.owner, at.seq, end, at.steps, now)?
    {
        return Err(Error::Lost(at.run));
    }
    Ok(())
}

/// Last of all: the counters are everybody's, and are held as short as can be.
fn settle_calls<const N: usize>(
    tx: &mut Tx<'_>,
    run: RunId,
    batches: [Option<&RecordBatch>; N],
) -> Result<()> {
    for batch in batches.into_iter().flatten() {
        if let Some(settlement) = &batch.settlement {
            settlement.write(tx)?;
        }
        if batch.mark_open_calls_lost {
            rows::mark_lost_for_runs(tx, &[run])?;
        }
    }
    Ok(())
}

fn write_events(tx: &mut Tx<'_>, at: &RunPosition, batch: &RecordBatch, now: Timestamp) -> Result<()> {
    for note in &batch.events {
        record::insert_event(tx, at.run, note.seq, note.body.kind(), &note.data, now)?;
    }
    Ok(())
}

/// Runs a tool's change. A panic in it is the call's own error, as it is outside a transaction; what
/// it wrote is rolled back with the transaction.
fn run_change(change: &GraphChange, tx: &mut Tx<'_>, writer: &WriteContext) -> Result<Value> {
    let done = catch_unwind(AssertUnwindSafe(|| change(tx, writer)));
    done.unwrap_or_else(|_| {
        error!(run.author = ?writer.author, "a tool panicked in its transaction");
        let message = "the tool crashed on this call: try it with another input, or do without it".to_owned();
        Err(emergent_graph::Error::Conflict { message })
    })
    .map_err(Error::from)
}

pub fn elapsed_ms(begun: std::time::Instant) -> i64 {
    i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX)
}
