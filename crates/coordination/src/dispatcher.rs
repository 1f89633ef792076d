//! The handle on workflows that the rest of the server uses, with the settings, the task slots and the
//! counters that all drivers of this process share. The loop that claims and drives workflows is in
//! `dispatch_loop`.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use emergent_domain::{
    agent::ModelConfig,
    ids::{ProjectId, WorkflowId},
};
use emergent_executor::Executor;
use emergent_graph::WorkPool;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::{task::AbortHandle, time::Duration};

use crate::{
    agent_similarity::SentenceModel, ended_runs::EndedRunSenders, metrics::Counters, task_slots::TaskSlots,
};

/// How long a server that stopped responding keeps its workflows.
pub(crate) const LEASE: Duration = Duration::from_secs(9);

/// How long agents are chosen for one dry run, or for the tasks that start together in a workflow. It takes this long
/// only with thousands of words or patterns for each of many tasks.
pub(crate) const MAX_SELECTION_TIME: Duration = Duration::from_secs(5);
/// How many threads choose at once.
const SELECTION_THREADS: usize = 2;
/// How long a request waits until agents are chosen for it.
const MAX_SELECTION_WAIT: Duration = Duration::from_secs(30);

/// The limits of a dispatcher, and the model that it asks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Tasks that run at once on this server, over all workflows. One project may use three quarters of it.
    pub max_tasks: usize,
    /// Workflows driven at once on this server. Others wait, or another server drives them. One project may
    /// use three quarters of it.
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

/// A dispatcher that may have been dropped. The executor has one, because the dispatcher has the executor.
#[derive(Clone)]
pub(crate) struct WeakDispatcher(Weak<Inner>);

impl WeakDispatcher {
    pub fn upgrade(&self) -> Option<Dispatcher> {
        self.0.upgrade().map(Dispatcher)
    }
}

/// A driver of this process. The number tells it apart from one that replaced it for the same
/// workflow, so that the end of the old one does not remove the new one.
pub(crate) struct RunningDriver {
    pub number: u64,
    pub project: ProjectId,
    pub handle: AbortHandle,
}

struct Inner {
    executor: Executor,
    settings: Settings,
    sentence_model: Option<SentenceModel>,
    slots: Arc<TaskSlots>,
    selection_pool: WorkPool,
    drivers: Mutex<HashMap<WorkflowId, RunningDriver>>,
    /// How many drivers were started, which is the number of the next one.
    started: AtomicU64,
    counters: Counters,
    ended_runs: EndedRunSenders,
}

impl Dispatcher {
    /// Assembles a dispatcher without connecting it with the executor, which [`Dispatcher::new`] does.
    pub(crate) fn assemble(executor: Executor, settings: Settings, ended_runs: EndedRunSenders) -> Self {
        let slots = Arc::new(TaskSlots::new(settings.max_tasks));
        let sentence_model = SentenceModel::new(executor.graph().embedder());
        Self(Arc::new(Inner {
            executor,
            settings,
            sentence_model,
            slots,
            selection_pool: WorkPool::new("agents are being chosen", SELECTION_THREADS, MAX_SELECTION_WAIT),
            drivers: Mutex::default(),
            started: AtomicU64::new(0),
            counters: Counters::default(),
            ended_runs,
        }))
    }

    pub(crate) fn downgrade(&self) -> WeakDispatcher {
        WeakDispatcher(Arc::downgrade(&self.0))
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

    /// Where agents are chosen for many tasks, for one dry run or workflow of a project at a time. Whoever chooses there
    /// ends after [`MAX_SELECTION_TIME`].
    pub(crate) fn selection_pool(&self) -> &WorkPool {
        &self.0.selection_pool
    }

    pub(crate) fn slots(&self) -> &Arc<TaskSlots> {
        &self.0.slots
    }

    /// How many workflows this process drives.
    pub fn driven_count(&self) -> usize {
        self.0.drivers.lock().len()
    }

    /// How many workflows of each project this process drives.
    pub(crate) fn count_driven_by_project(&self) -> HashMap<ProjectId, usize> {
        let mut counts: HashMap<ProjectId, usize> = HashMap::new();
        for driver in self.0.drivers.lock().values() {
            *counts.entry(driver.project).or_default() += 1;
        }
        counts
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
