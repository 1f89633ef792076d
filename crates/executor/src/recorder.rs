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
    run::{CallStatus, Reason, Run, RunEnd},
    run_event::{RecordedCall, RecordedMessage, RunEvent, RunEventBody},
    time::Timestamp,
};
use emergent_graph::{Actor, Writer};
use emergent_store::{
    Tx,
    budget::{self as rows, NewCall},
    runs::record,
};
use emergent_tools::{Change, Tool};
use serde_json::{Value, json};
use tracing::error;

use crate::{
    Error, Executor, Result,
    budget::{self, Reserved, Settlement, Wish},
    ended::ended,
    purse::prices,
    sessions::Lines,
    spans,
};

/// What one moment brings. Places among the events are given out in the order things are added.
#[derive(Debug, Default)]
pub struct Batch {
    message: Option<RecordedMessage>,
    calls: Vec<RecordedCall>,
    results: Vec<RecordedCall>,
    notes: Vec<Note>,
    end: Option<RunEnd>,
    settles: Option<Settlement>,
    /// Model calls that whoever drove the run before left open are settled in full.
    loses: bool,
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
    /// An answer whose calls are being made, to be written with the first of their results. The
    /// places it was given end at `held_upto`.
    held: Option<Arc<Batch>>,
    held_upto: i64,
    /// Where what is said is written as well.
    session: Option<ObjectId>,
    /// For whoever walks its workflow.
    of_workflow: Option<Arc<Run>>,
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
            held: None,
            held_upto: 0,
            session: run.duty.session,
            of_workflow: run.duty.workflow.map(|_| Arc::new(run.clone())),
        }
    }

    /// The newest place that is given out.
    pub fn newest(&self) -> i64 {
        self.given
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

    /// `tools`: what patterns came to, so that a run that is taken up again has the same.
    pub fn started(&mut self, batch: &mut Batch, recovered: bool, tools: Option<Vec<&str>>) {
        let mut data = json!({ "recovered": recovered });
        if let Some(tools) = tools {
            data["tools"] = json!(tools);
        }
        batch.loses = recovered;
        self.note(batch, RunEventBody::Started { recovered }, data);
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

    /// For an end that is not the driver's own.
    pub fn loses_open_calls(batch: &mut Batch) {
        batch.loses = true;
    }

    /// Keeps a batch to be written with the next one: a step whose calls take no time is one commit.
    /// Whatever leaves the house, or takes long, asks for [`Recorder::flush`] first.
    pub fn hold(&mut self, batch: Batch) {
        self.held = Some(Arc::new(batch));
        self.held_upto = self.given;
    }

    pub fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// Writes what is held.
    pub async fn flush(&mut self, steps: i64) -> Result<()> {
        if self.holds() { self.commit(Batch::default(), steps).await } else { Ok(()) }
    }

    /// Writes a batch, and what is held before it, then tells whoever follows.
    pub async fn commit(&mut self, batch: Batch, steps: i64) -> Result<()> {
        let batch = Arc::new(batch);
        let (writing, held, now, at) = (Arc::clone(&batch), self.held.clone(), self.now(), self.at(steps));
        let (lines, graph, project) =
            (self.lines(&[held.as_deref(), Some(&batch)], now), self.executor.graph().clone(), self.project);
        let of_workflow = self.of_workflow.clone().map(|run| (self.executor.clone(), run));
        let work = move |tx: &mut Tx<'_>| {
            fence(tx, &at)?;
            if let (Some((executor, run)), Some(end)) = (&of_workflow, &writing.end) {
                let (executor, run) = (executor.clone(), ended(run, end, at.steps, at.seq + 1, now));
                tx.after_commit(move || executor.tell_ended(run));
            }
            write_held(tx, &at, held.as_deref(), &writing.results, now)?;
            let written = |call: &&RecordedCall| held.as_ref().is_some_and(|held| held.has(call.id));
            write(tx, &at, &writing, writing.results.iter().filter(|call| !written(call)), now)?;
            if let Some(lines) = &lines {
                lines.write(tx, &graph, project)?;
            }
            settle(tx, at.run, [held.as_deref(), Some(&*writing)])
        };
        let done = self.executor.db().write(work).await;
        self.settle(done, now)?;
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
        let (now, at, held) = (self.now(), self.at(steps), self.held.clone());
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
                let writer = graph.writer(tx, actor)?;
                let output = prepared(&change, tx, &writer)?;
                call.output = Some(guard.cut_for(tool.info(), output));
                call.duration_ms = Some(millis(begun));
                if held.as_ref().is_some_and(|held| held.has(call.id)) {
                    write_held(tx, &at, held.as_deref(), std::slice::from_ref(&call), now)?;
                } else {
                    write_held(tx, &at, held.as_deref(), &[], now)?;
                    record::call_ends(tx, at.run, &call)?;
                }
                if let Some(session) = session {
                    let mut lines = Lines::new(session, at.run);
                    held.iter().for_each(|held| held.told(&mut lines, now));
                    lines.result(&call, now);
                    lines.write(tx, &graph, project)?;
                }
                settle(tx, at.run, [held.as_deref()])?;
                Ok::<_, Error>(call)
            })
            .await;
        let call = self.settle(done, now)?;
        let batch = Batch { results: vec![call.clone()], ..Batch::default() };
        self.tell(&batch, now);
        Ok(call)
    }

    /// Says that a call is about to leave the house, so that it is never made twice by mistake.
    pub async fn call_begins(&mut self, seq: i64, steps: i64) -> Result<()> {
        self.flush(steps).await?;
        let (now, at) = (self.now(), self.at(steps));
        let done = self.executor.db().write(move |tx| {
            fence(tx, &at)?;
            record::call_begins(tx, at.run, seq)?;
            Ok::<_, Error>(())
        });
        let done = done.await;
        self.settle(done, now)
    }

    /// Reserves a model call for this run, or says why not.
    pub async fn reserve(
        &mut self,
        call: NewCall,
        model: ModelConfig,
        wish: Wish,
        steps: i64,
    ) -> Result<Reserved> {
        self.flush(steps).await?;
        let (now, at, models) = (self.now(), self.at(steps), self.executor.models().clone());
        let done = self.executor.db().write(move |tx| {
            fence(tx, &at)?;
            Ok::<_, Error>(budget::reserve(tx, prices(&models, &model), &call, wish)?)
        });
        let done = done.await;
        self.settle(done, now)
    }

    /// What these add to the session, if there is one.
    fn lines(&self, batches: &[Option<&Batch>], now: Timestamp) -> Option<Lines> {
        let mut lines = Lines::new(self.session?, self.run);
        batches.iter().flatten().for_each(|batch| batch.told(&mut lines, now));
        Some(lines)
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

    /// A commit that went well makes the places that were given out final, and what was held is
    /// told; one that did not takes back the places of what it tried, and what is held stays so.
    fn settle<T>(&mut self, done: Result<T>, now: Timestamp) -> Result<T> {
        match &done {
            Ok(_) => {
                self.seq = self.given;
                if let Some(held) = self.held.take() {
                    self.tell(&held, now);
                }
            }
            Err(_) => self.given = if self.holds() { self.held_upto } else { self.seq },
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

impl Batch {
    /// Adds what a model call came to.
    pub fn settles(&mut self, settlement: Settlement) {
        self.settles = Some(settlement);
    }

    fn told(&self, lines: &mut Lines, now: Timestamp) {
        self.message.iter().for_each(|message| lines.message(message));
        self.calls.iter().chain(&self.results).for_each(|call| lines.result(call, now));
    }

    fn has(&self, call: ToolCallId) -> bool {
        self.calls.iter().any(|one| one.id == call)
    }
}

/// Writes what was held, its calls as they stand by now: one that has its result is written once.
fn write_held(
    tx: &mut Tx<'_>,
    at: &At,
    held: Option<&Batch>,
    results: &[RecordedCall],
    now: Timestamp,
) -> Result<()> {
    let Some(held) = held else { return Ok(()) };
    let newest = |call: &RecordedCall| results.iter().find(|one| one.id == call.id).unwrap_or(call).clone();
    let calls = held.calls.iter().map(newest).collect();
    let whole = Batch { message: held.message.clone(), calls, ..Batch::default() };
    write(tx, at, &whole, [].iter(), now)?;
    write_notes(tx, at, held, now)
}

fn write<'a>(
    tx: &mut Tx<'_>,
    at: &At,
    batch: &Batch,
    results: impl Iterator<Item = &'a RecordedCall>,
    now: Timestamp,
) -> Result<()> {
    if let Some(message) = &batch.message {
        record::message(tx, at.run, message)?;
    }
    if !batch.calls.is_empty() {
        record::calls(tx, at.run, &batch.calls)?;
    }
    for call in results {
        record::call_ends(tx, at.run, call)?;
    }
    write_notes(tx, at, batch, now)?;
    if let Some(end) = &batch.end
        && !record::end(tx, at.run, &at.owner, at.seq, end, at.steps, now)?
    {
        return Err(Error::Lost(at.run));
    }
    Ok(())
}

/// Last of all: the counters are everybody's, and are held as short as can be.
fn settle<const N: usize>(tx: &mut Tx<'_>, run: RunId, batches: [Option<&Batch>; N]) -> Result<()> {
    for batch in batches.into_iter().flatten() {
        if let Some(settlement) = &batch.settles {
            settlement.write(tx)?;
        }
        if batch.loses {
            rows::lose_of_runs(tx, &[run])?;
        }
    }
    Ok(())
}

fn write_notes(tx: &mut Tx<'_>, at: &At, batch: &Batch, now: Timestamp) -> Result<()> {
    for note in &batch.notes {
        record::event(tx, at.run, note.seq, note.body.kind(), &note.data, now)?;
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
