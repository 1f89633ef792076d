//! Records what happens in a run, as it happens. Each batch is one transaction, and each transaction
//! starts with a fence that checks that this runner still owns the run: after a cancellation or a
//! takeover, nothing more is written.

mod entries;
mod input_requests;
mod publish;
mod wait_for_children;
mod writes;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use emergent_domain::{
    agent::ModelConfig,
    approval::{Approval, ApprovalKind},
    author::Author,
    ids::{RunId, ToolCallId},
    run::{Run, RunEnd, ToolCallStatus},
    run_event::{RecordedMessage, RecordedToolCall, RunEventBody},
    time::Timestamp,
};
use emergent_graph::{Actor, WriteContext, judged_names::JudgedNames};
use emergent_store::{
    Tx,
    budget::NewModelCall,
    requester::{Requester, on_behalf_of},
    runs::record,
};
use emergent_tools::{GraphChange, Tool};
use serde_json::Value;
use tracing::error;

use self::writes::{mark_ended, settle_calls, write_batch, write_buffered};
use crate::{
    Error, Executor, Result,
    budget::{self, CallEstimate, CallPrices, ReserveOutcome, Settlement},
    run_hooks::{NewEntry, RunHooks, TxWrite},
};

/// The entries of one transaction. They get their `seq` in the order in which they are added.
#[derive(Debug, Default)]
pub struct RecordBatch {
    messages: Vec<RecordedMessage>,
    calls: Vec<RecordedToolCall>,
    results: Vec<RecordedToolCall>,
    events: Vec<PendingEvent>,
    end: Option<RunEnd>,
    /// The requests that the run waits for after this transaction.
    wait: Option<Wait>,
    settlement: Option<Settlement>,
    /// Settles in full the model calls that a previous driver of the run left open.
    mark_open_calls_lost: bool,
}

/// What a run waits for.
#[derive(Debug)]
struct Wait {
    waiting_for: ApprovalKind,
    requests: Vec<Approval>,
    /// True if a tool call of the run is in progress, which only this runner can finish.
    keeps_owner: bool,
}

/// An event that is not written yet. `body` is published; `data` is stored.
#[derive(Debug)]
struct PendingEvent {
    seq: i64,
    body: RunEventBody,
    data: Value,
}

/// Writes the record of one run.
pub struct Recorder {
    executor: Executor,
    run: RunId,
    project: emergent_domain::ids::ProjectId,
    owner: Arc<str>,
    /// The last `seq` that is committed.
    committed_seq: i64,
    /// The last `seq` that is assigned.
    last_seq: i64,
    steps_before: i64,
    /// The steps of the resume chain, as they were last written.
    steps: i64,
    ended: bool,
    /// An answer whose calls are in progress. It is written together with their first results. Its entries
    /// end at `buffered_up_to`.
    buffered: Option<Arc<RecordBatch>>,
    buffered_up_to: i64,
    /// The hooks of the run, with the run as it was when its driver started.
    hooks: Option<(Arc<RunHooks>, Arc<Run>)>,
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
            steps: run.step_count,
            ended: false,
            buffered: None,
            buffered_up_to: 0,
            hooks: executor.hooks_for(run).map(|hooks| (hooks, Arc::new(run.clone()))),
        }
    }

    /// Returns the last `seq` that is assigned.
    pub fn last_seq(&self) -> i64 {
        self.last_seq
    }

    /// Whether the end is committed.
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

    /// Buffers a batch until the next commit, so that a step with quick calls needs one commit. Before an
    /// external or slow call, the caller uses [`Recorder::flush`].
    pub fn buffer(&mut self, batch: RecordBatch) {
        self.buffered = Some(Arc::new(batch));
        self.buffered_up_to = self.last_seq;
    }

    pub fn has_buffered(&self) -> bool {
        self.buffered.is_some()
    }

    /// Writes the buffered batch.
    pub async fn flush(&mut self, steps: i64) -> Result<()> {
        if self.has_buffered() { self.commit(RecordBatch::default(), steps).await } else { Ok(()) }
    }

    /// Writes the buffered batch and this one, then publishes both to subscribers.
    pub async fn commit(&mut self, batch: RecordBatch, steps: i64) -> Result<()> {
        self.steps = self.steps_before + steps;
        let batch = Arc::new(batch);
        let (writing, buffered, now, position) =
            (Arc::clone(&batch), self.buffered.clone(), self.now(), self.position(steps));
        let hook_write = self.hook_write(&[buffered.as_deref(), Some(&batch)], now);
        let hooks = self.hooks.clone();
        let work = move |tx: &mut Tx<'_>| {
            // The end of a run is a fence by itself.
            let ended = match &writing.end {
                Some(end) => Some(mark_ended(tx, &position, end, now)?),
                None => {
                    fence(tx, &position)?;
                    None
                }
            };
            if let (Some((hooks, run)), Some(end)) = (&hooks, &writing.end) {
                let (hooks, run) =
                    (Arc::clone(hooks), apply_end(run, end, position.steps, position.seq + 1, now));
                tx.after_commit(move || (hooks.after_end)(run));
            }
            write_buffered(tx, &position, buffered.as_deref(), &writing.results, now)?;
            let is_buffered = |call: &&RecordedToolCall| {
                buffered.as_ref().is_some_and(|buffered| buffered.has_call(call.id))
            };
            write_batch(
                tx,
                &position,
                &writing,
                writing.results.iter().filter(|call| !is_buffered(call)),
                now,
            )?;
            if let (Some(ended), Some(end)) = (ended, &writing.end) {
                record::finish_end(tx, ended, end, now)?;
            }
            if let Some(write) = &hook_write {
                write(tx)?;
            }
            settle_calls(tx, position.run, [buffered.as_deref(), Some(&*writing)])
        };
        let result = self.executor.db().write(work).await;
        self.after_commit(result, now)?;
        self.publish(&batch, now);
        Ok(())
    }

    /// Applies a tool's change and records its result in the same transaction.
    pub async fn commit_change(
        &mut self,
        (change, names): (GraphChange, Vec<JudgedNames>),
        mut call: RecordedToolCall,
        tool: &Arc<dyn Tool>,
        started_at: tokio::time::Instant,
        steps: i64,
    ) -> Result<RecordedToolCall> {
        call.result_seq = Some(self.next_seq());
        call.status = ToolCallStatus::Completed;
        let (now, position, buffered) = (self.now(), self.position(steps), self.buffered.clone());
        let author = Author::Run { run_id: self.run, tool_call_id: Some(call.id) };
        let actor = Actor { project: self.project, author };
        let (graph, guard, tool) =
            (self.executor.graph().clone(), self.executor.settings().guard.clone(), Arc::clone(tool));
        let (hooks, names) = (self.hooks.clone(), Arc::<[JudgedNames]>::from(names));
        let changed = self.executor.graph().write_validated(actor.project, move |tx| {
            let mut call = call.clone();
            fence(tx, &position)?;
            let mut ctx = graph.write_context(tx, actor)?;
            ctx.judged = Arc::clone(&names);
            let output = run_change(&change, tx, &ctx)?;
            call.output = Some(guard.truncate_for(tool.info(), output));
            call.duration_ms = Some(elapsed_ms(started_at));
            if buffered.as_ref().is_some_and(|buffered| buffered.has_call(call.id)) {
                write_buffered(tx, &position, buffered.as_deref(), std::slice::from_ref(&call), now)?;
            } else {
                write_buffered(tx, &position, buffered.as_deref(), &[], now)?;
                record::complete_call(tx, position.run, &call)?;
            }
            if let Some((hooks, run)) = &hooks {
                let mut entries: Vec<NewEntry<'_>> =
                    buffered.iter().flat_map(|buffered| buffered.entries()).collect();
                entries.push(NewEntry::Result(&call));
                if let Some(write) = (hooks.write_with_entries)(run, &entries, now) {
                    write(tx)?;
                }
            }
            settle_calls(tx, position.run, [buffered.as_deref()])?;
            Ok::<_, Error>(call)
        });
        // The change is the work of the project. The rest of the record is that of the server.
        let result = on_behalf_of(Requester::Project(actor.project), changed).await;
        let call = self.after_commit(result, now)?;
        let batch = RecordBatch { results: vec![call.clone()], ..RecordBatch::default() };
        self.publish(&batch, now);
        Ok(call)
    }

    /// Records that an external call is about to be made, so that it is never repeated by mistake.
    pub async fn mark_call_started(&mut self, seq: i64, steps: i64) -> Result<()> {
        self.flush(steps).await?;
        let (now, position) = (self.now(), self.position(steps));
        let commit = self.executor.db().write(move |tx| {
            fence(tx, &position)?;
            record::mark_call_started(tx, position.run, seq)?;
            Ok::<_, Error>(())
        });
        let result = commit.await;
        self.after_commit(result, now)
    }

    /// Reserves a model call for this run, or says why it cannot.
    pub async fn reserve(
        &mut self,
        call: NewModelCall,
        model: ModelConfig,
        estimate: CallEstimate,
        steps: i64,
    ) -> Result<ReserveOutcome> {
        self.flush(steps).await?;
        let (now, position, models) = (self.now(), self.position(steps), self.executor.models().clone());
        let commit = self.executor.db().write(move |tx| {
            fence(tx, &position)?;
            Ok::<_, Error>(budget::reserve(
                tx,
                CallPrices { models: &models, model: &model },
                &call,
                estimate,
            )?)
        });
        let result = commit.await;
        self.after_commit(result, now)
    }

    /// Returns what the hooks of the run write together with these batches.
    fn hook_write(&self, batches: &[Option<&RecordBatch>], now: Timestamp) -> Option<TxWrite> {
        let (hooks, run) = self.hooks.as_ref()?;
        let entries: Vec<NewEntry<'_>> = batches.iter().flatten().flat_map(|batch| batch.entries()).collect();
        if entries.is_empty() { None } else { (hooks.write_with_entries)(run, &entries, now) }
    }

    /// Returns the position for the fence of a transaction that writes other rows of this run.
    pub fn position(&self, steps: i64) -> RunPosition {
        RunPosition {
            run: self.run,
            owner: Arc::clone(&self.owner),
            expected_seq: self.committed_seq,
            seq: self.last_seq,
            steps: self.steps_before + steps,
        }
    }

    /// After a successful commit, the assigned `seq` numbers are final, and the buffered batch is
    /// published. After a failed one, the numbers of the failed batch are free again, and the buffered
    /// batch stays.
    fn after_commit<T>(&mut self, result: Result<T>, now: Timestamp) -> Result<T> {
        match &result {
            Ok(_) => {
                self.committed_seq = self.last_seq;
                if let Some(buffered) = self.buffered.take() {
                    self.publish(&buffered, now);
                }
            }
            Err(_) => {
                self.last_seq = if self.has_buffered() { self.buffered_up_to } else { self.committed_seq }
            }
        }
        result
    }
}

/// The position of a run in its record, as its driver knows it.
#[derive(Debug, Clone)]
pub struct RunPosition {
    run: RunId,
    owner: Arc<str>,
    /// The last committed `seq`, which the fence compares.
    expected_seq: i64,
    /// The last `seq` after the transaction.
    seq: i64,
    steps: i64,
}

/// Checks that the runner still owns the run, and locks the run's row until the end of the transaction.
pub fn fence(tx: &mut Tx<'_>, position: &RunPosition) -> Result<()> {
    if record::advance(
        tx,
        position.run,
        &position.owner,
        position.expected_seq,
        position.seq,
        position.steps,
    )? {
        Ok(())
    } else {
        Err(Error::Lost(position.run))
    }
}

impl RecordBatch {
    /// Adds the settlement of a model call.
    pub fn set_settlement(&mut self, settlement: Settlement) {
        self.settlement = Some(settlement);
    }

    /// Returns the messages, and the calls that have a result.
    fn entries(&self) -> impl Iterator<Item = NewEntry<'_>> {
        let calls = self.calls.iter().chain(&self.results).filter(|call| call.result_seq.is_some());
        self.messages.iter().map(NewEntry::Message).chain(calls.map(NewEntry::Result))
    }

    fn has_call(&self, call: ToolCallId) -> bool {
        self.calls.iter().any(|recorded| recorded.id == call)
    }
}

/// Applies a tool's change. A panic in it becomes an error of the call, as it does outside a
/// transaction, and the transaction is rolled back.
fn run_change(change: &GraphChange, tx: &mut Tx<'_>, ctx: &WriteContext) -> Result<Value> {
    let output = catch_unwind(AssertUnwindSafe(|| change(tx, ctx)));
    output
        .unwrap_or_else(|_| {
            error!(run.author = ?ctx.author, "a tool panicked in its transaction");
            let message =
                "the tool crashed on this call: try other input, or continue without the tool".to_owned();
            Err(emergent_graph::Error::Conflict { message })
        })
        .map_err(Error::from)
}

/// Returns the run with its end applied.
fn apply_end(run: &Run, end: &RunEnd, steps: i64, seq: i64, now: Timestamp) -> Run {
    Run {
        status: end.status(),
        reason: end.reason(),
        summary: Some(end.summary().to_owned()),
        output: end.output().cloned(),
        error: end.error().map(str::to_owned),
        completed_at: Some(now),
        step_count: steps,
        seq,
        ..run.clone()
    }
}

pub fn elapsed_ms(started_at: tokio::time::Instant) -> i64 {
    i64::try_from(started_at.elapsed().as_millis()).unwrap_or(i64::MAX)
}
