//! The task that drives one run this runner owns, from its record to its end.

use std::{panic::AssertUnwindSafe, sync::Arc};

use emergent_domain::{
    agent::AgentDefinition,
    ids::RunId,
    run::{Reason, Run, RunEnd, RunStatus},
    run_event::{RunEvent, RunEventBody},
};
use emergent_store::{
    budget,
    runs::{self, conversation::Conversation},
};
use futures_util::FutureExt;
use tokio::time::{Duration, Instant, sleep};
use tracing::{Instrument, error, warn};

use crate::{
    Error, Executor, Result,
    flow::{self, Flow},
    recorder::{RecordBatch, Recorder},
    run_driver::RunDriver,
    slots::RunSlot,
    spans, submission,
};

/// After this many database failures in a row, the driver gives the run up.
const MAX_STORE_FAILURES: u32 = 20;

/// The state from which a run continues.
pub(crate) struct LoadedRun {
    pub definition: AgentDefinition,
    /// The conversations of the runs it resumes, oldest first.
    pub earlier: Vec<Conversation>,
    pub own: Conversation,
    /// Whether a budget limits the run.
    pub limited: bool,
}

/// Drives a run in its own task. `loaded` is set for a run that was started when it was admitted.
pub(crate) fn spawn(
    executor: &Executor,
    run: Run,
    owner: Arc<str>,
    slot: RunSlot,
    loaded: Option<LoadedRun>,
) {
    let (id, driver) = (run.id, executor.clone());
    // The map stays locked until the handle is in it, so that the task cannot remove itself before that.
    let mut driven = executor.driven().lock();
    let task = tokio::spawn(async move {
        let _gone = DrivenRunGuard(driver.clone(), id, tokio::task::id());
        drive_until_end(driver, run, owner, slot, loaded).await;
    });
    if let Some(before) = driven.insert(id, task.abort_handle()) {
        // The old task drove the run under an owner name that is no longer valid.
        before.abort();
    }
}

/// Removes a run from the map of driven runs when its task ends, in whatever way.
struct DrivenRunGuard(Executor, RunId, tokio::task::Id);

impl Drop for DrivenRunGuard {
    fn drop(&mut self) {
        let mut driven = self.0.driven().lock();
        // Another task may drive the run by now, and its entry must stay.
        if driven.get(&self.1).is_some_and(|handle| handle.id() == self.2) {
            driven.remove(&self.1);
        }
    }
}

/// Drives a run until it ends or another runner owns it. After a database failure the run continues
/// from its record, as after a crash.
async fn drive_until_end(
    executor: Executor,
    run: Run,
    owner: Arc<str>,
    slot: RunSlot,
    mut loaded: Option<LoadedRun>,
) {
    let (id, project) = (run.id, run.project);
    let (next, mut run, mut slot) = (slot.unacquired(), run, Some(slot));
    for failures in 0.. {
        let mut run_slot = slot.take().unwrap_or_else(|| next.unacquired());
        run_slot.acquire().await;
        let span = spans::run_span(&executor, &run);
        let driven = drive(&executor, run.clone(), Arc::clone(&owner), run_slot, loaded.take())
            .instrument(span.span());
        let driven = AssertUnwindSafe(driven).catch_unwind().await;
        let failed = match driven {
            Ok(Ok(()) | Err(Error::Lost(_))) => return,
            Ok(Err(error)) => with_causes(&error),
            Err(panic) => {
                let message = panic.downcast_ref::<&str>().copied().map(str::to_owned);
                let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                error!(run.id = %id, "the driver of run `{id}` panicked: {message}");
                let reason = "internal error while driving this run; see the server log";
                fail_run(&executor, &run, &owner, reason).instrument(span.span()).await;
                return;
            }
        };
        spans::mark_interrupted(&span);
        drop(span);
        warn!(run.id = %id, error = failed, "run `{id}` was interrupted; it continues from its record");
        sleep(Duration::from_millis(100 << failures.min(8))).await;
        let who = Arc::clone(&owner);
        match executor.db().read(move |tx| runs::get(tx, project, id)).await {
            Ok(Some(now)) if now.status == RunStatus::Running && now.owner.as_deref() == Some(&*who) => {
                run = now
            }
            Ok(_) => return,
            Err(error) => {
                let error: emergent_store::Error = error;
                warn!(run.id = %id, error = %error, "could not load run `{id}`");
            }
        }
        if failures >= MAX_STORE_FAILURES {
            fail_run(&executor, &run, &owner, &failed).await;
            return;
        }
    }
}

/// Formats an error with all its causes, for the log.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(&format!(": {source}"));
        cause = source.source();
    }
    text
}

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

async fn drive(
    executor: &Executor,
    run: Run,
    owner: Arc<str>,
    slot: RunSlot,
    loaded: Option<LoadedRun>,
) -> Result<()> {
    let started = loaded.is_some();
    let (loaded, parent) = match loaded {
        Some(loaded) => (Some(loaded), None),
        None => load(executor, &run).await?,
    };
    let Some(loaded) = loaded else {
        let mut recorder = Recorder::new(executor, &run, owner);
        let mut batch = RecordBatch::default();
        Recorder::mark_open_calls_lost(&mut batch);
        Recorder::set_end(
            &mut batch,
            RunEnd::failed(Reason::Definition, "the agent's definition was deleted"),
        );
        return recorder.commit(batch, 0).await;
    };
    if flow::is_flow(&run, &loaded.definition, parent.as_ref()) {
        let left = run.deadline().map_or(Duration::ZERO, |end| end.since(executor.clock().now()));
        let recorder = Recorder::new(executor, &run, owner);
        let flow = Flow::new(executor, run, &loaded.definition, recorder, Instant::now() + left, slot);
        return flow.drive(&loaded).await;
    }
    let definition = &loaded.definition;
    let mut tools = executor
        .tools()
        .resolve(run.project, &definition.tools, run.depth, definition.allows_delegation())
        .await;
    // A recovered run keeps its tools, even if more of the pool match its patterns by now.
    if let Some(names) = &loaded.own.tools {
        tools.retain(names);
    }
    submission::add_submission_tool(&mut tools, run.workflow_link.deliverable);
    if started {
        let body = RunEventBody::Started { recovered: false };
        executor.hub().publish(RunEvent { run: run.id, seq: Some(run.seq), at: run.created_at, body });
    }
    let own = loaded.own.clone();
    RunDriver::new(executor, run, owner, loaded, tools, slot).drive(&own, started).await
}

/// Loads the state from which a run continues. The state is `None` if its definition was deleted.
async fn load(executor: &Executor, run: &Run) -> Result<(Option<LoadedRun>, Option<Run>)> {
    let run = run.clone();
    let work = move |tx: &mut emergent_store::Tx<'_>| {
        let Some(definition) = emergent_store::agents::get_version(tx, run.agent, run.agent_version)? else {
            return Ok((None, None));
        };
        let mut chain = runs::resume_chain(tx, &run)?;
        chain.reverse();
        let before =
            chain.into_iter().map(|id| runs::conversation::load(tx, id)).collect::<Result<_, _>>()?;
        let own = runs::conversation::load(tx, run.id)?;
        let limits = budget::limits_for(tx, run.project, run.workflow_link.workflow, &run.agent_name)?;
        let parent = match run.parent {
            Some(parent) => runs::get(tx, run.project, parent)?,
            None => None,
        };
        let limited = !limits.kinds().is_empty();
        Ok::<_, emergent_store::Error>((
            Some(LoadedRun { definition, earlier: before, own, limited }),
            parent,
        ))
    };
    Ok(executor.db().read(work).await?)
}
