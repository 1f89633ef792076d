//! The tokio task that drives one run of this runner, from its record to its end.

use std::{panic::AssertUnwindSafe, sync::Arc};

use emergent_domain::{
    ids::RunId,
    run::{Reason, Run, RunEnd, RunStatus, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RunEvent, RunEventBody},
};
use emergent_net::{backoff::Backoff, errors, trace_context};
use emergent_store::{
    Tx, approvals, budget,
    idempotency::for_current_request,
    requester::{self, on_behalf_of},
    runs,
};
use futures_util::FutureExt;
use tokio::time::{Duration, Instant, sleep};
use tracing::{Instrument, error, info, warn};

use crate::{
    Error, Executor, Result,
    admission_batch::AdmissionBatch,
    flow::Flow,
    loaded_run::{LoadedRun, is_flow},
    output_schema,
    recorder::{RecordBatch, Recorder},
    run_driver::RunDriver,
    slots::{OwnedSlot, RunSlot},
    spans,
};

/// After this many failures in a row, the run fails.
const MAX_STORE_FAILURES: u32 = 20;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(25_600));

/// Starts the task of a run. `ready` is the state of a run that was started when it was admitted.
pub(crate) fn spawn(executor: &Executor, run: Run, owner: Arc<str>, slot: RunSlot, ready: Option<LoadedRun>) {
    let (id, task_executor) = (run.id, executor.clone());
    // The lock is held until the handle is in the map, so that the task cannot remove itself before.
    let mut driven = executor.driven().lock();
    #[expect(
        clippy::disallowed_methods,
        reason = "`driven` keeps the handle; the runner waits for these tasks when it stops, and then aborts them"
    )]
    let task = tokio::spawn(async move {
        let _guard = DrivenRunGuard(task_executor.clone(), id, tokio::task::id());
        drive_until_end(task_executor, run, owner, slot, ready).await;
    });
    if let Some(replaced) = driven.insert(id, task.abort_handle()) {
        // A previous runner of this process, which lost its lease, drove the run.
        replaced.abort();
    }
}

impl Executor {
    /// Commits `work`, then drives the runs that it admitted into `slots`. The commit and the start of the
    /// drivers continue when the caller is dropped meanwhile: a run that this runner owns and does not
    /// drive would make no progress.
    pub async fn commit_and_drive<T, E>(
        &self,
        slots: Vec<OwnedSlot>,
        work: impl Fn(&mut Tx<'_>, &mut AdmissionBatch) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<emergent_store::Error> + Send + 'static,
    {
        let executor = self.clone();
        let commit = async move {
            let (owner, free_slots) = (slots.first().map(|slot| Arc::clone(&slot.owner)), slots.len());
            let work = move |tx: &mut Tx<'_>| {
                let mut admissions = AdmissionBatch::new(owner.clone(), free_slots);
                let output = work(tx, &mut admissions)?;
                Ok::<_, E>((output, admissions.into_started()))
            };
            let (output, started) = executor.db().write(work).await?;
            executor.drive_started(started, slots);
            Ok(output)
        };
        let aborted = |_| Err(emergent_store::Error::Closed.into());
        #[expect(
            clippy::disallowed_methods,
            reason = "awaited here; it is one transaction, and outlives a caller who gives up"
        )]
        let committed = tokio::spawn(on_behalf_of(requester::current(), for_current_request(commit)));
        committed.await.unwrap_or_else(aborted)
    }

    /// Starts the drivers of runs that were admitted into slots. A runner that lost its lease or stopped in
    /// the meantime drives nothing: another runner takes these runs over, as it does with all its runs.
    fn drive_started(&self, started: Vec<(Run, Option<LoadedRun>)>, slots: Vec<OwnedSlot>) {
        let runner = self.runner().lock();
        let Some(runner) = runner.as_ref() else { return };
        let _runtime = runner.runtime.enter();
        for ((run, loaded), slot) in started.into_iter().zip(slots) {
            if slot.owner == runner.owner {
                spawn(self, run, slot.owner, slot.slot, loaded);
            }
        }
    }
}

/// Removes a run from the map when its task ends, even by a panic.
struct DrivenRunGuard(Executor, RunId, tokio::task::Id);

impl Drop for DrivenRunGuard {
    fn drop(&mut self) {
        let mut driven = self.0.driven().lock();
        // Another task may have replaced this one by now, and must stay in the map.
        if driven.get(&self.1).is_none_or(|handle| handle.id() == self.2) {
            driven.remove(&self.1);
            // The driver may have been dropped in the middle of an answer.
            self.0.hub().end_answer(self.1);
        }
    }
}

/// Drives a run until it ends or this runner loses it. When the database fails, the run continues from
/// its record, as after a crash.
async fn drive_until_end(
    executor: Executor,
    run: Run,
    owner: Arc<str>,
    slot: RunSlot,
    mut ready: Option<LoadedRun>,
) {
    let (id, project) = (run.id, run.project);
    let _part = executor.flow_parts().begin_part(&run);
    let (spare_slot, mut run, mut slot) = (slot.unacquired(), run, Some(slot));
    // While the disk is full, for example, the run waits for as long as it takes.
    let (mut failures, mut storage_faults) = (0_u32, 0_u32);
    loop {
        let mut current_slot = slot.take().unwrap_or_else(|| spare_slot.unacquired());
        current_slot.acquire().await;
        let span = spans::run_span(executor.open_spans(), &run);
        let driving = drive(&executor, run.clone(), Arc::clone(&owner), current_slot, ready.take());
        let context = run.terms.traceparent.as_deref().and_then(trace_context::parse);
        let driving = trace_context::with_parent(context, driving).instrument(span.span());
        let outcome = AssertUnwindSafe(driving).catch_unwind().await;
        let failure = match outcome {
            Ok(Ok(()) | Err(Error::Lost(_) | Error::Waiting(_))) => return,
            Ok(Err(error)) => {
                if error.is_storage_fault() {
                    storage_faults = storage_faults.saturating_add(1);
                } else {
                    (failures, storage_faults) = (failures + 1, 0);
                }
                errors::error_chain(&error)
            }
            Err(panic) => {
                let message = errors::panic_message(panic.as_ref()).unwrap_or_default();
                error!(run.id = %id, "the driver of run `{id}` panicked: {message}");
                let reason = "the server panicked while driving this run";
                fail_run(&executor, &run, &owner, reason).instrument(span.span()).await;
                return;
            }
        };
        spans::mark_interrupted(&span);
        drop(span);
        warn!(run.id = %id, error = failure, "run `{id}` was interrupted, continuing it from its record");
        sleep(BACKOFF.delay(failures.max(storage_faults).saturating_sub(1))).await;
        let owner_name = Arc::clone(&owner);
        match executor.db().read(move |tx| runs::get(tx, project, id)).await {
            Ok(Some(current))
                if current.status == RunStatus::Running && current.owner.as_deref() == Some(&*owner_name) =>
            {
                run = current
            }
            Ok(_) => return,
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(run.id = %id, error = %error, "run `{id}` could not be read");
            }
        }
        if failures > MAX_STORE_FAILURES {
            fail_run(&executor, &run, &owner, &failure).await;
            return;
        }
    }
}

/// Records that a run has failed, unless this runner lost it.
async fn fail_run(executor: &Executor, run: &Run, owner: &Arc<str>, reason: &str) {
    let project = run.project;
    let id = run.id;
    let newest = executor.db().read(move |tx| runs::get(tx, project, id)).await;
    let newest: Result<Option<Run>, emergent_store::Error> = newest;
    let Ok(Some(run)) = newest else { return };
    let mut recorder = Recorder::new(executor, &run, Arc::clone(owner));
    let mut batch = RecordBatch::default();
    Recorder::mark_open_calls_lost(&mut batch);
    Recorder::set_end(&mut batch, RunEnd::failed(Reason::Error, reason));
    if let Err(error) = recorder.commit(batch, run.step_count - run.steps_before).await {
        warn!(run.id = %run.id, error = %error, "could not record that run `{}` failed", run.id);
    }
}

/// Loads a run unless it is `ready`, and drives it as a flow or with a model.
async fn drive(
    executor: &Executor,
    run: Run,
    owner: Arc<str>,
    slot: RunSlot,
    ready: Option<LoadedRun>,
) -> Result<()> {
    let started = ready.is_some();
    let (loaded, is_flow) = match ready {
        // A flow is not started when it is admitted.
        Some(ready) => (Some(ready), false),
        None => load(executor, &run).await?,
    };
    let Some(loaded) = loaded else {
        let end = RunEnd::failed(Reason::Definition, "the agent's definition was deleted");
        return end_undriven(executor, &run, owner, end).await;
    };
    log_start(&run, &loaded);
    if is_flow {
        let remaining = run.deadline().map_or(Duration::ZERO, |end| end.since(executor.clock().now()));
        let recorder = Recorder::new(executor, &run, owner);
        let flow = Flow::new(executor, run, &loaded.definition, recorder, Instant::now() + remaining, slot);
        return flow.drive(&loaded).await;
    }
    let output_schema = match output_schema::compile(executor.graph(), &run, &loaded.definition).await {
        Ok(schema) => schema,
        Err(end) => return end_undriven(executor, &run, owner, end).await,
    };
    let definition = &loaded.definition;
    let mut tools = executor
        .tools()
        .resolve_for_run(run.project, &definition.granted_tools(), run.depth, definition.allows_delegation())
        .await;
    // A recovered run gets no tool that was added to the pool in the meantime.
    if let Some(names) = &loaded.own.tools {
        tools.retain(names, &loaded.own.tool_servers);
    }
    if let Some(hooks) = executor.hooks_for(&run) {
        (hooks.add_tools)(&run, &mut tools);
    }
    if started {
        let body = RunEventBody::Started { recovered: false };
        executor.hub().publish(RunEvent { run: run.id, seq: Some(run.seq), at: run.created_at, body });
    }
    let own = loaded.own.clone();
    RunDriver::new(executor, run, owner, loaded, output_schema, tools, slot).drive(&own, started).await
}

/// Ends a run that cannot be driven.
async fn end_undriven(executor: &Executor, run: &Run, owner: Arc<str>, end: RunEnd) -> Result<()> {
    let mut recorder = Recorder::new(executor, run, owner);
    let mut batch = RecordBatch::default();
    Recorder::mark_open_calls_lost(&mut batch);
    Recorder::set_end(&mut batch, end);
    recorder.commit(batch, 0).await
}

/// Logs that a run is started or continued, and that it was delegated more than once.
fn log_start(run: &Run, loaded: &LoadedRun) {
    let (id, agent) = (run.id, &run.agent_name);
    let is_answer =
        |message: &RecordedMessage| message.step > 0 && matches!(message.content, MessageContent::Parts(_));
    let has_answers = loaded.own.messages.iter().any(is_answer);
    let verb = if has_answers { "goes on" } else { "starts" };
    info!(run.id = %id, run.origin = %run.origin, run.depth = run.depth, model = %run.model, "run `{id}` of agent `{agent}` {verb}");
    if run.depth > 1 {
        info!(run.id = %id, run.depth = run.depth, "run `{id}` is {} levels below its top-level run", run.depth);
    }
}

/// Loads the state that the run continues from, and whether the run is a flow. The state is `None` if the definition
/// of the agent was deleted.
async fn load(executor: &Executor, run: &Run) -> Result<(Option<LoadedRun>, bool)> {
    let run = run.clone();
    let work = move |tx: &mut Tx<'_>| {
        let Some(definition) = emergent_store::agents::get_version(tx, run.agent, run.agent_version)? else {
            return Ok((None, false));
        };
        let mut chain = runs::resume_chain(tx, &run)?;
        chain.reverse();
        let first = match chain.first() {
            Some(first) => runs::get(tx, run.project, *first)?,
            None => None,
        };
        let first = first.as_ref().unwrap_or(&run);
        let parent = match first.parent {
            Some(parent) => runs::get(tx, run.project, parent)?,
            None => None,
        };
        let is_flow = is_flow(first, &definition, parent.as_ref());
        let earlier =
            chain.into_iter().map(|id| runs::conversation::load(tx, id)).collect::<Result<_, _>>()?;
        let own = runs::conversation::load(tx, run.id)?;
        let (workflow, runs) = (run.workflow_link.workflow, &run.terms.budget_runs);
        let limits = budget::limits_for(tx, run.project, workflow, &run.agent_name, runs)?;
        let limited = !limits.kinds().is_empty();
        let has_held = own.calls.iter().any(|call| call.status == ToolCallStatus::Held);
        let approvals = if has_held { approvals::list_for_run(tx, run.id)? } else { Vec::new() };
        let loaded = LoadedRun { definition, earlier, own, limited, approvals };
        Ok::<_, emergent_store::Error>((Some(loaded), is_flow))
    };
    Ok(executor.db().read(work).await?)
}
