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
mod agent_rights;
pub mod agents;
pub mod approvals;
mod budget;
pub mod bulk;
mod chat_runs;
mod child_runs;
mod child_timeout;
mod claims;
pub mod client_tools;
mod context;
mod cost_limit;
mod dry_run;
pub mod error;
mod event_hub;
mod fair_queue;
mod first_messages;
mod flow;
mod flow_parts;
mod follow;
pub mod history;
mod internal_agents;
mod invoke;
mod linked_runs;
mod loaded_run;
mod model_query;
mod named_objects;
mod output_schema;
mod queue;
mod recorder;
mod resume;
mod retry_notices;
pub mod revert;
pub mod run_chains;
mod run_driver;
mod run_hooks;
mod run_task;
pub mod run_writes;
mod runner;
mod scrub;
mod slots;
pub mod spans;
mod start_options;
mod stopped_part;
mod streamed_text;
pub mod telemetry;
pub mod timeline;
pub mod triggers;
pub mod webhooks;
mod workflow_hooks;

use std::{collections::HashMap, sync::Arc, time::Duration};

use emergent_domain::{
    client_tool::DEFAULT_WAIT_SECONDS,
    ids::RunId,
    run::{GRACE_SECONDS, MessageRole},
    time::Clock,
};
use emergent_graph::Graph;
use emergent_llm::Models;
use emergent_store::{Db, Tx, runs};
use emergent_tools::{Guard, ToolPool};
use parking_lot::{Mutex, RwLock};
use tokio::task::AbortHandle;

use crate::{
    flow_parts::FlowParts,
    queue::QueueGauge,
    run_driver::{
        add_artifact::AddArtifact,
        ask_user::AskUser,
        spawn::{ListAvailableAgents, SpawnAgents},
    },
    slots::RunnerHandle,
    spans::OpenSpans,
    telemetry::Telemetry,
};

pub use admission::Resumable;
pub use admission_batch::{AdmissionBatch, FirstMessages};
pub use chat_runs::{ChatRun, admit_chat_run, check_chat_agent};
pub use error::{Error, Result};
pub use event_hub::{EventHub, LiveAnswer, LiveEvent, LiveText, MAX_TEXT_BYTES, Subscription};
pub use linked_runs::{LinkedRun, admit_linked_run, resume_linked_run};
pub use model_query::{ModelQuery, ModelQueryError};
pub use run_hooks::{NewEntry, RunHooks, TxWrite};
pub use slots::OwnedSlot;
pub use start_options::StartOptions;
pub use workflow_hooks::{TriggeredWorkflow, WorkflowHooks};

/// Gives access to the agents and runs of all projects. Clones share the same state.
#[derive(Clone)]
pub struct Executor(Arc<Inner>);

struct Inner {
    graph: Graph,
    models: Models,
    tools: ToolPool,
    settings: Settings,
    hub: EventHub,
    flow_parts: FlowParts,
    /// The runs this process drives.
    driven: Mutex<HashMap<RunId, AbortHandle>>,
    /// The runner of this process, while it holds its lease.
    runner: Mutex<Option<RunnerHandle>>,
    run_hooks: RwLock<Option<Arc<RunHooks>>>,
    workflow_hooks: RwLock<Option<Arc<WorkflowHooks>>>,
    queue: QueueGauge,
    telemetry: Telemetry,
    open_spans: OpenSpans,
    trigger_warnings: triggers::TriggerWarnings,
    started_changes: triggers::StartedChanges,
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
    /// How long a server that has stopped renewing its lease keeps its runs. Tests shorten it.
    pub lease: Duration,
    pub guard: Guard,
    /// Whether spans contain messages and the inputs and outputs of tools.
    pub capture_content: bool,
    /// Whether the webhooks of projects may have loopback, link-local and private addresses.
    pub allow_private_hosts: bool,
    /// How long a run waits for the results of tools of its caller. Then it is cancelled.
    pub client_wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let grace = Duration::from_secs(GRACE_SECONDS);
        let guard = Guard::default();
        let (max_runs, max_queued) = (256, 100_000);
        Self {
            max_runs,
            max_project_runs: None,
            max_queued,
            grace,
            lease: claims::DEFAULT_LEASE,
            guard,
            capture_content: false,
            allow_private_hosts: false,
            client_wait: Duration::from_secs(DEFAULT_WAIT_SECONDS),
        }
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
        let tools = tools
            .with_tool(Arc::new(SpawnAgents::new()))
            .with_tool(Arc::new(ListAvailableAgents::new()))
            .with_tool(Arc::new(AskUser::new()))
            .with_tool(Arc::new(AddArtifact::new()));
        Self(Arc::new(Inner {
            graph,
            models,
            tools,
            settings,
            hub: EventHub::default(),
            flow_parts: FlowParts::default(),
            driven: Mutex::default(),
            runner: Mutex::default(),
            run_hooks: RwLock::default(),
            workflow_hooks: RwLock::default(),
            queue: QueueGauge::default(),
            telemetry: Telemetry::default(),
            open_spans: OpenSpans::default(),
            trigger_warnings: triggers::TriggerWarnings::default(),
            started_changes: triggers::StartedChanges::default(),
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

    pub(crate) fn workflow_hooks_cell(&self) -> &RwLock<Option<Arc<WorkflowHooks>>> {
        &self.0.workflow_hooks
    }

    pub(crate) fn queue(&self) -> &QueueGauge {
        &self.0.queue
    }

    pub(crate) fn started_changes(&self) -> &triggers::StartedChanges {
        &self.0.started_changes
    }

    pub(crate) fn trigger_warnings(&self) -> &triggers::TriggerWarnings {
        &self.0.trigger_warnings
    }

    /// Returns the text that the model of a run is writing; see [`EventHub::text_from`]. For a flow, it is the text
    /// of the part that writes the answer.
    pub fn live_text(&self, run: RunId, known: Option<(i64, u64)>, skip: usize) -> Option<LiveText> {
        let part = self.flow_parts().answering_run(run);
        if part == run {
            self.hub().text_from(run, known, skip)
        } else {
            self.hub().part_text_from(part, known, skip)
        }
    }

    /// What the model of a run is writing, if this process drives the run and the answer is not recorded yet.
    pub async fn text_in_progress(&self, run: RunId) -> Result<Option<String>> {
        let Some(live) = self.live_text(run, None, 0) else { return Ok(None) };
        let after = live.after;
        let read = move |tx: &mut Tx<'_>| {
            runs::timeline::messages_with_calls(tx, run, runs::timeline::SeqRange::after(after), 10)
        };
        let later = self.db().read(read).await?;
        // Messages of step 0 are what was said before. A flow records no answers itself.
        let is_recorded =
            later.iter().any(|message| message.role == MessageRole::Assistant && message.step > 0);
        Ok(Some(live.text).filter(|text| !is_recorded && !text.trim().is_empty()))
    }

    pub(crate) fn flow_parts(&self) -> &FlowParts {
        &self.0.flow_parts
    }

    pub(crate) fn hub(&self) -> &EventHub {
        &self.0.hub
    }
}
