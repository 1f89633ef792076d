//! The handle on workflows that the rest of the server uses, with the settings, the task slots and the
//! counters that all drivers of this process share. The loop that claims and drives workflows is in
//! `dispatch_loop`.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use emergent_domain::{agent::ModelConfig, ids::WorkflowId};
use emergent_executor::Executor;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::{sync::Notify, task::AbortHandle, time::Duration};

use crate::{
    agent_similarity::SentenceModel, ended_runs::EndedRunSenders, metrics::Counters, run_hooks::run_hooks,
};

/// How long a server that stopped responding keeps its workflows.
pub(crate) const LEASE: Duration = Duration::from_secs(9);

/// The limits of a dispatcher, and the model that it asks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Tasks that run at once on this server, over all workflows.
    pub max_tasks: usize,
    /// Workflows driven at once on this server. Others wait, or another server drives them.
    pub max_workflows: usize,
    /// The model that chooses agents, evaluates results and triages failures. Without one, rules decide.
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

/// A driver of this process. The number tells it apart from one that replaced it for the same
/// workflow, so that the end of the old one does not remove the new one.
pub(crate) struct RunningDriver {
    pub number: u64,
    pub handle: AbortHandle,
}

struct Inner {
    executor: Executor,
    settings: Settings,
    sentence_model: Option<SentenceModel>,
    slots: TaskSlots,
    drivers: Mutex<HashMap<WorkflowId, RunningDriver>>,
    /// How many drivers were started, which is the number of the next one.
    started: AtomicU64,
    counters: Counters,
    ended_runs: EndedRunSenders,
}

impl Dispatcher {
    /// Also makes the executor call the hooks of workflows for their runs, so it has to be called before the
    /// executor drives runs.
    pub fn new(executor: Executor, settings: Settings) -> Self {
        let ended_runs = EndedRunSenders::default();
        executor.set_run_hooks(run_hooks(executor.graph().clone(), ended_runs.clone()));
        let slots = TaskSlots { max: settings.max_tasks, in_use: AtomicUsize::new(0), freed: Notify::new() };
        let sentence_model = SentenceModel::new(executor.graph().embedder());
        Self(Arc::new(Inner {
            executor,
            settings,
            sentence_model,
            slots,
            drivers: Mutex::default(),
            started: AtomicU64::new(0),
            counters: Counters::default(),
            ended_runs,
        }))
    }

    pub fn executor(&self) -> &Executor {
        &self.0.executor
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The model that compares tasks with agents. `None` unless search is configured with a sentence model.
    pub(crate) fn sentence_model(&self) -> Option<&SentenceModel> {
        self.0.sentence_model.as_ref()
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

    pub(crate) fn drivers(&self) -> &Mutex<HashMap<WorkflowId, RunningDriver>> {
        &self.0.drivers
    }

    pub(crate) fn ended_runs(&self) -> &EndedRunSenders {
        &self.0.ended_runs
    }

    /// The number of the next driver.
    pub(crate) fn next_driver_number(&self) -> u64 {
        self.0.started.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.0.counters
    }
}

/// The capacity for concurrent tasks on this server.
pub(crate) struct TaskSlots {
    max: usize,
    in_use: AtomicUsize,
    /// Notifies drivers that wait for a free slot.
    pub freed: Notify,
}

/// The slots that one workflow occupies. They are released when this is dropped.
pub(crate) struct SlotShare {
    dispatcher: Dispatcher,
    in_use: usize,
}

impl SlotShare {
    pub fn new(dispatcher: &Dispatcher) -> Self {
        Self { dispatcher: dispatcher.clone(), in_use: 0 }
    }

    /// Takes up to this many free slots, and returns how many it took.
    pub fn acquire(&mut self, wanted: usize) -> usize {
        let slots = self.dispatcher.slots();
        let mut acquired = 0;
        let _ = slots.in_use.fetch_update(Ordering::AcqRel, Ordering::Acquire, |in_use| {
            acquired = wanted.min(slots.max.saturating_sub(in_use));
            Some(in_use + acquired)
        });
        self.in_use += acquired;
        acquired
    }

    /// Sets how many slots the workflow occupies, and releases the rest.
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
