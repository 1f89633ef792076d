//! Runs agents: admission, the loop of model and tool calls, the record of every run, and how a run
//! ends.
//!
//! `admission` is the only way to start a run: it checks the request and inserts the run in the
//! caller's transaction. A `runner` claims queued runs and starts a driver for each. The state machine of
//! `emergent_rules::run` decides what a run does next, without any input or output of its own; the driver
//! calls models and tools; the recorder writes everything in transactions that check the runner's lease. A
//! run can therefore continue from its record after a crash, on any server. The executor does not know what
//! a run is for: the layer that starts runs for workflows sets `RunHooks`. SQL is in `store`, HTTP in `api`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

mod admission;
mod admission_batch;
pub mod agents;
mod budget;
mod child_runs;
mod claims;
mod context;
pub mod error;
mod event_hub;
mod fair_queue;
mod first_messages;
mod flow;
mod follow;
pub mod history;
mod internal_agents;
mod invoke;
mod linked_runs;
mod loaded_run;
mod model_query;
mod queue;
mod recorder;
mod resume;
pub mod revert;
mod run_driver;
mod run_hooks;
mod run_task;
mod runner;
mod scrub;
mod slots;
pub mod spans;
mod start_options;
pub mod telemetry;
pub mod timeline;
pub mod triggers;

use std::{collections::HashMap, sync::Arc, time::Duration};

use emergent_domain::{ids::RunId, redact::Redactor, run::GRACE_SECONDS, time::Clock};
use emergent_graph::Graph;
use emergent_llm::Models;
use emergent_store::Db;
use emergent_tools::{Guard, ToolPool};
use parking_lot::{Mutex, RwLock};
use tokio::task::AbortHandle;

use crate::{
    queue::QueueGauge,
    run_driver::spawn::{ListAvailableAgents, SpawnAgents},
    slots::RunnerHandle,
    spans::OpenSpans,
    telemetry::Telemetry,
};

pub use admission::Resumable;
pub use admission_batch::{AdmissionBatch, FirstMessages};
pub use error::{Error, Result};
pub use event_hub::EventHub;
pub use linked_runs::{LinkedRun, admit_linked_run, resume_linked_run};
pub use model_query::{ModelQuery, ModelQueryError};
pub use run_hooks::{NewEntry, RunHooks, TxWrite};
pub use slots::OwnedSlot;
pub use start_options::StartOptions;

/// Gives access to the agents and runs of all projects. Clones share the same state.
#[derive(Clone)]
pub struct Executor(Arc<Inner>);

struct Inner {
    graph: Graph,
    models: Models,
    tools: ToolPool,
    settings: Settings,
    hub: EventHub,
    /// The runs this process drives.
    driven: Mutex<HashMap<RunId, AbortHandle>>,
    /// The runner of this process, while it holds its lease.
    runner: Mutex<Option<RunnerHandle>>,
    run_hooks: RwLock<Option<Arc<RunHooks>>>,
    queue: QueueGauge,
    telemetry: Telemetry,
    open_spans: OpenSpans,
    trigger_warnings: triggers::TriggerWarnings,
}

/// The limits of an executor, and how it treats the output of tools.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The maximum number of runs that this server drives concurrently; other runs stay queued. A run that
    /// waits for its children does not count.
    pub max_runs: usize,
    /// How many of them may belong to one project; `None` for three quarters. Runs in progress are not
    /// interrupted, so the rest is what another project finds free.
    pub max_project_runs: Option<usize>,
    /// The maximum number of queued runs over all projects. Beyond it, new runs are refused. One project may
    /// queue three quarters of them.
    pub max_queued: usize,
    /// The time the model has for a final summary after the deadline of its run.
    pub grace: Duration,
    pub guard: Guard,
    /// Whether spans contain messages and the inputs and outputs of tools.
    pub capture_content: bool,
    /// Redacts secrets in the output of external tools before it is recorded or shown to the model.
    pub redactor: Redactor,
}

impl Default for Settings {
    fn default() -> Self {
        let grace = Duration::from_secs(GRACE_SECONDS);
        let (guard, redactor) = (Guard::default(), Redactor::default());
        let (max_runs, max_queued) = (256, 100_000);
        let max_project_runs = None;
        Self { max_runs, max_project_runs, max_queued, grace, guard, capture_content: false, redactor }
    }
}

impl Settings {
    /// The maximum number of runs of one project that this server drives concurrently.
    pub fn project_runs(&self) -> usize {
        self.max_project_runs.unwrap_or_else(|| project_share(self.max_runs)).min(self.max_runs)
    }

    /// The maximum number of queued runs of one project.
    pub fn project_queued(&self) -> usize {
        project_share(self.max_queued)
    }
}

/// The part of a capacity that one project may use: three quarters of it, and all of a capacity below four.
pub fn project_share(capacity: usize) -> usize {
    capacity - capacity / 4
}

impl Executor {
    pub fn new(graph: Graph, models: Models, tools: ToolPool, settings: Settings) -> Self {
        let tools =
            tools.with_tool(Arc::new(SpawnAgents::new())).with_tool(Arc::new(ListAvailableAgents::new()));
        Self(Arc::new(Inner {
            graph,
            models,
            tools,
            settings,
            hub: EventHub::default(),
            driven: Mutex::default(),
            runner: Mutex::default(),
            run_hooks: RwLock::default(),
            queue: QueueGauge::default(),
            telemetry: Telemetry::default(),
            open_spans: OpenSpans::default(),
            trigger_warnings: triggers::TriggerWarnings::default(),
        }))
    }

    pub fn graph(&self) -> &Graph {
        &self.0.graph
    }

    pub fn models(&self) -> &Models {
        &self.0.models
    }

    pub fn tools(&self) -> &ToolPool {
        &self.0.tools
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub fn telemetry(&self) -> &Telemetry {
        &self.0.telemetry
    }

    pub(crate) fn open_spans(&self) -> &OpenSpans {
        &self.0.open_spans
    }

    pub(crate) fn db(&self) -> &Db {
        self.0.graph.db()
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.0.graph.clock()
    }

    pub(crate) fn driven(&self) -> &Mutex<HashMap<RunId, AbortHandle>> {
        &self.0.driven
    }

    pub(crate) fn runner(&self) -> &Mutex<Option<RunnerHandle>> {
        &self.0.runner
    }

    pub(crate) fn run_hooks(&self) -> &RwLock<Option<Arc<RunHooks>>> {
        &self.0.run_hooks
    }

    pub(crate) fn queue(&self) -> &QueueGauge {
        &self.0.queue
    }

    pub(crate) fn trigger_warnings(&self) -> &triggers::TriggerWarnings {
        &self.0.trigger_warnings
    }

    pub(crate) fn hub(&self) -> &EventHub {
        &self.0.hub
    }
}
