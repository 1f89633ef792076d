//! Running agents: who may start one, what it does next, what is recorded, and how it ends.
//!
//! `admit` is the one way in. A `runner` takes what is queued and drives it: the [`machine`]
//! decides, in values; the driver asks models and calls tools; the recorder writes everything as
//! it happens. SQL is the store's, HTTP the API's.

mod admit;
pub mod agents;
mod ask_once;
mod budget;
mod calls;
mod children;
mod context;
mod dispatch;
mod drive;
mod driver;
mod ended;
pub mod error;
mod flow;
mod follow;
mod hands;
pub mod history;
mod hub;
mod invoke;
pub mod machine;
mod place;
mod purse;
mod queue;
mod recorder;
mod resume;
pub mod revert;
mod runner;
mod scrub;
mod sessions;
mod shorten;
pub mod spans;
mod spawn;
pub mod telemetry;
pub mod timeline;
pub mod triggers;

use std::{collections::HashMap, sync::Arc, time::Duration};

use emergent_domain::{
    ids::{RunId, WorkflowId},
    redact::Redactor,
    run::{GRACE_SECONDS, Run},
    time::Clock,
};
use emergent_graph::Graph;
use emergent_llm::Models;
use emergent_store::Db;
use emergent_tools::{Guard, ToolPool};
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::AbortHandle};

use crate::{
    place::Runner,
    queue::Queue,
    spawn::{ListAvailableAgents, SpawnAgents},
    telemetry::Telemetry,
};

pub use admit::Start;
pub use ask_once::{AskOnce, NoAnswer};
pub use dispatch::{dispatch, dispatch_resume};
pub use ended::Ended;
pub use error::{Error, Result};
pub use hub::Hub;
pub use place::{Doorman, Place};
pub use sessions::News;

/// A handle on agents and runs of every project; clones share it.
#[derive(Clone)]
pub struct Executor(Arc<Inner>);

struct Inner {
    graph: Graph,
    models: Models,
    tools: ToolPool,
    settings: Settings,
    hub: Hub,
    /// The runs this process drives.
    live: Mutex<HashMap<RunId, AbortHandle>>,
    /// The runner of this process, while it has its lease.
    runner: Mutex<Option<Runner>>,
    /// Who waits for the runs of a workflow.
    listeners: Mutex<HashMap<WorkflowId, mpsc::UnboundedSender<Run>>>,
    queue: Queue,
    telemetry: Telemetry,
    warned: triggers::Warned,
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// Runs driven at once by this server; the rest wait. A run that waits for its children does
    /// not count.
    pub max_runs: usize,
    /// Runs that may wait for their turn, over all projects, before more are refused.
    pub max_queued: usize,
    /// What the model has to answer in once time is up.
    pub grace: Duration,
    pub guard: Guard,
    /// Whether spans carry what was said and what tools were given and answered.
    pub capture_content: bool,
    /// Keeps secrets out of what external tools answered, before it is recorded or the model sees it.
    pub redactor: Redactor,
}

impl Default for Settings {
    fn default() -> Self {
        let grace = Duration::from_secs(GRACE_SECONDS);
        let (guard, redactor) = (Guard::default(), Redactor::default());
        Self { max_runs: 256, max_queued: 100_000, grace, guard, capture_content: false, redactor }
    }
}

impl Executor {
    pub fn new(graph: Graph, models: Models, tools: ToolPool, settings: Settings) -> Self {
        let tools = tools.with(Arc::new(SpawnAgents::new())).with(Arc::new(ListAvailableAgents::new()));
        Self(Arc::new(Inner {
            graph,
            models,
            tools,
            settings,
            hub: Hub::default(),
            live: Mutex::default(),
            runner: Mutex::default(),
            listeners: Mutex::default(),
            queue: Queue::default(),
            telemetry: Telemetry::default(),
            warned: triggers::Warned::default(),
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

    pub(crate) fn db(&self) -> &Db {
        self.0.graph.db()
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.0.graph.clock()
    }

    pub(crate) fn live(&self) -> &Mutex<HashMap<RunId, AbortHandle>> {
        &self.0.live
    }

    pub(crate) fn runner(&self) -> &Mutex<Option<Runner>> {
        &self.0.runner
    }

    pub(crate) fn listeners(&self) -> &Mutex<HashMap<WorkflowId, mpsc::UnboundedSender<Run>>> {
        &self.0.listeners
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.0.queue
    }

    pub(crate) fn warned(&self) -> &triggers::Warned {
        &self.0.warned
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.0.hub
    }
}
