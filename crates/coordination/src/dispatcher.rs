//! Takes workflows that nobody walks and walks them, each in a task of its own. A lease for each
//! says whose it is: when it cannot be kept, the walk is dropped before another server begins.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use emergent_domain::{
    agent::ModelConfig,
    ids::WorkflowId,
    workflow::{Escalation, Workflow, WorkflowStatus},
};
use emergent_executor::Executor;
use emergent_net::backoff::Backoff;
use emergent_store::{Engine, Tx, workflows};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Duration, Instant, MissedTickBehavior, interval, sleep},
};
use tracing::{error, warn};

use crate::{Error, Result, metrics::Counters, service::new_event, workflow_driver::WorkflowDriver};

/// How long a server that has gone silent keeps its workflows.
pub(crate) const LEASE: Duration = Duration::from_secs(9);
const HEARTBEAT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const CLAIM_BATCH: usize = 64;
/// Failures in a row before a workflow goes to a person.
const MAX_FAILURES: u32 = 6;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(6_400));

#[derive(Debug, Clone)]
pub struct Settings {
    /// Tasks at work at once on this server, over all workflows.
    pub max_tasks: usize,
    /// Workflows walked at once on this server; the rest wait or are another's.
    pub max_workflows: usize,
    /// The model that judges: selection, evaluation, triage. Without one, rules decide.
    pub judge: Option<ModelConfig>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_tasks: 256, max_workflows: 1_000, judge: None }
    }
}

/// A handle on the workflows of every project; clones share it.
#[derive(Clone)]
pub struct Dispatcher(Arc<Inner>);

struct Inner {
    executor: Executor,
    settings: Settings,
    slots: TaskSlots,
    /// With a number of its own, so that one that was replaced does not take out its successor.
    drivers: Mutex<HashMap<WorkflowId, (u64, AbortHandle)>>,
    started: AtomicU64,
    counters: Counters,
}

impl Dispatcher {
    pub fn new(executor: Executor, settings: Settings) -> Self {
        let slots = TaskSlots { max: settings.max_tasks, in_use: AtomicUsize::new(0), freed: Notify::new() };
        Self(Arc::new(Inner {
            executor,
            settings,
            slots,
            drivers: Mutex::default(),
            started: AtomicU64::new(0),
            counters: Counters::default(),
        }))
    }

    pub fn executor(&self) -> &Executor {
        &self.0.executor
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn slots(&self) -> &TaskSlots {
        &self.0.slots
    }

    /// How many workflows this process drives.
    pub fn driven_count(&self) -> usize {
        self.0.drivers.lock().len()
    }

    /// Adds the metrics of the workflows that this process drives to a registry, which shares their
    /// values.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.0.counters.register(registry);
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Walks workflows until `stop` says true. What is not finished then stays as it is: the next
    /// start, or another server, goes on with it.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let owner: Arc<str> = uuid::Uuid::now_v7().to_string().into();
            if let Err(error) = self.run_with_owner(&owner, &mut stop).await {
                warn!(error = %error, "the dispatcher starts anew");
                self.abort_all();
                tokio::select! { () = sleep(POLL_INTERVAL) => {}, _ = stop.changed() => {} }
            }
        }
    }

    async fn run_with_owner(&self, owner: &Arc<str>, stop: &mut watch::Receiver<bool>) -> Result<()> {
        let db = self.executor().graph().db().clone();
        let mut waiting = db.waiter(workflows::CLAIMABLE_CHANNEL);
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut kept = Instant::now();
        loop {
            if *stop.borrow() {
                self.abort_all();
                let (owner, now) = (Arc::clone(owner), self.executor().graph().clock().now());
                let given_back: Result<(), emergent_store::Error> =
                    db.write(move |tx| workflows::release_all(tx, &owner, now)).await;
                return Ok(given_back?);
            }
            if let Err(error) = self.claim_workflows(owner).await {
                warn!(error = %error, "could not look for workflows, trying again");
            }
            tokio::select! {
                () = waiting.wait(POLL_INTERVAL) => {}
                _ = stop.changed() => {}
                _ = heartbeat.tick() => match self.renew_leases(owner).await {
                    Ok(()) => kept = Instant::now(),
                    Err(error) => warn!(error = %error, "could not keep the leases of workflows"),
                },
            }
            // Nobody else begins before the lease lapses, by a clock that may differ a little.
            if kept.elapsed() > LEASE - HEARTBEAT && db.engine() == Engine::Postgres {
                self.renew_leases(owner).await?;
                kept = Instant::now();
            }
        }
    }

    async fn renew_leases(&self, owner: &Arc<str>) -> Result<()> {
        let until = self.executor().graph().clock().now() + LEASE;
        let who = Arc::clone(owner);
        let ours: Result<Vec<WorkflowId>, emergent_store::Error> =
            self.executor().graph().db().write(move |tx| workflows::renew(tx, &who, until)).await;
        let ours = ours?;
        let idle: Vec<WorkflowId> = {
            let mut walks = self.0.drivers.lock();
            walks.retain(|id, (_, handle)| {
                let kept = ours.contains(id) && !handle.is_finished();
                if !kept {
                    handle.abort();
                }
                kept
            });
            ours.into_iter().filter(|id| !walks.contains_key(id)).collect()
        };
        // Claimed, and nobody walks it here: a walk that crashed, or an answer that was lost.
        for id in idle {
            let now = self.executor().graph().clock().now();
            let given_back: Result<(), emergent_store::Error> =
                self.executor().graph().db().write(move |tx| workflows::make_claimable(tx, id, now)).await;
            given_back?;
        }
        Ok(())
    }

    async fn claim_workflows(&self, owner: &Arc<str>) -> Result<()> {
        let room = self.settings().max_workflows.saturating_sub(self.driven_count()).min(CLAIM_BATCH);
        if room == 0 {
            return Ok(());
        }
        let now = self.executor().graph().clock().now();
        let who = Arc::clone(owner);
        let claimed: Result<Vec<Workflow>, emergent_store::Error> = self
            .executor()
            .graph()
            .db()
            .write(move |tx| workflows::claim(tx, &who, now, now + LEASE, room))
            .await;
        for workflow in claimed? {
            self.spawn_driver(workflow, owner);
        }
        Ok(())
    }

    fn spawn_driver(&self, workflow: Workflow, owner: &Arc<str>) {
        let (id, dispatcher, owner) = (workflow.id, self.clone(), Arc::clone(owner));
        let number = self.0.started.fetch_add(1, Ordering::Relaxed);
        // Held until the handle is in the map, so that the task cannot take itself out before.
        let mut walks = self.0.drivers.lock();
        let task = tokio::spawn(async move {
            let _gone = DriverGuard(dispatcher.clone(), id, number);
            let mut walk = WorkflowDriver::new(&dispatcher, &workflow, &owner);
            for failures in 0u32.. {
                let error = match walk.run().await {
                    Ok(()) => return,
                    Err(error) => error,
                };
                error!(workflow.id = %id, error = %error, "workflow `{id}` was interrupted, walking on");
                let ours = !matches!(error, Error::Store(_));
                if ours
                    && failures >= MAX_FAILURES
                    && dispatcher.escalate_unwritable(&workflow, &owner, &error).await
                {
                    return;
                }
                sleep(BACKOFF.delay(failures)).await;
            }
        });
        if let Some((_, before)) = walks.insert(id, (number, task.abort_handle())) {
            before.abort();
        }
    }

    /// What cannot be written however often it is tried is a person's business.
    async fn escalate_unwritable(&self, workflow: &Workflow, owner: &Arc<str>, error: &Error) -> bool {
        let (project, id, owner) = (workflow.project, workflow.id, Arc::clone(owner));
        let reason = format!("it could not go on: {error}");
        let now = self.executor().graph().clock().now();
        let work = move |tx: &mut Tx<'_>| {
            if workflows::fence(tx, id, &owner, now + LEASE)?.is_none() {
                return Ok(false);
            }
            let Some(mut workflow) = workflows::get(tx, project, id)? else { return Ok(false) };
            let from = workflow.status;
            // No task is in the way: what there is to do is to go on once it is mended.
            let options = ["resume", "cancel"].map(str::to_owned).to_vec();
            workflow.status = WorkflowStatus::Escalated;
            workflow.updated_at = now;
            let reason = reason.clone();
            let data = json!({ "status": "escalated", "reason": reason, "options": options });
            workflow.escalation = Some(Escalation { reason, task: None, discussion: None, options, at: now });
            workflows::update(tx, from, &workflow)?;
            workflows::append_events(tx, id, &[new_event("escalated", None, data, now)])?;
            Ok(true)
        };
        let done: Result<bool, emergent_store::Error> = self.executor().graph().db().write(work).await;
        if let Ok(true) = done {
            self.counters().record_escalation();
        }
        done.inspect_err(|error| warn!(workflow.id = %id, error = %error, "could not hand it over")).is_ok()
    }

    fn abort_all(&self) {
        let handles: Vec<AbortHandle> =
            self.0.drivers.lock().drain().map(|(_, (_, handle))| handle).collect();
        handles.iter().for_each(AbortHandle::abort);
    }
}

/// Takes a walk out of the map when it ends, however it does.
struct DriverGuard(Dispatcher, WorkflowId, u64);

impl Drop for DriverGuard {
    fn drop(&mut self) {
        let mut walks = self.0.0.drivers.lock();
        if walks.get(&self.1).is_some_and(|(number, _)| *number == self.2) {
            walks.remove(&self.1);
        }
    }
}

/// The tasks that may be at work on this server at once.
pub(crate) struct TaskSlots {
    max: usize,
    in_use: AtomicUsize,
    pub freed: Notify,
}

/// One workflow's share of them, given back when it is dropped.
pub(crate) struct SlotShare {
    dispatcher: Dispatcher,
    in_use: usize,
}

impl SlotShare {
    pub fn new(dispatcher: &Dispatcher) -> Self {
        Self { dispatcher: dispatcher.clone(), in_use: 0 }
    }

    /// Takes as many as are wanted and free; how many that is.
    pub fn acquire(&mut self, wanted: usize) -> usize {
        let slots = self.dispatcher.slots();
        let mut got = 0;
        let _ = slots.in_use.fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| {
            got = wanted.min(slots.max.saturating_sub(taken));
            Some(taken + got)
        });
        self.in_use += got;
        got
    }

    /// Keeps this many.
    pub fn shrink_to(&mut self, used: usize) {
        let slots = self.dispatcher.slots();
        if used < self.in_use {
            slots.in_use.fetch_sub(self.in_use - used, Ordering::AcqRel);
            slots.freed.notify_waiters();
        } else {
            slots.in_use.fetch_add(used - self.in_use, Ordering::AcqRel);
        }
        self.in_use = used;
    }
}

impl Drop for SlotShare {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
