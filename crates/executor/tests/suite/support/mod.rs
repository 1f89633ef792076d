//! A small server for tests about runs: a database, a scripted model, and a runner.

#![allow(dead_code)]

pub mod priced_model;
pub mod server;
pub mod tools;
pub mod workflow_runs;

use std::{sync::Arc, time::Duration};

use emergent_domain::{
    agent::{Agent, AgentDefinition},
    author::Author,
    ids::{ProjectId, RunId},
    run::{Reason, Run, RunStatus},
    run_event::{RecordedToolCall, RunEvent, RunEventBody},
    time::Clock,
};
use emergent_executor::{Executor, Settings, StartOptions};
use emergent_graph::{Actor, Graph};
use emergent_llm::Models;
use emergent_store::Db;
use emergent_testkit::scripted::ScriptedModel;
use emergent_tools::{Tool, ToolPool, remote::McpServers};
use serde_json::Value;
use tokio::{sync::watch, task::JoinHandle};

pub struct Harness {
    pub executor: Executor,
    pub project: ProjectId,
    pub model: ScriptedModel,
    stop: watch::Sender<bool>,
    runner: Option<JoinHandle<()>>,
}

pub struct HarnessOptions {
    pub model: ScriptedModel,
    pub models: Option<Models>,
    pub settings: Settings,
    pub tools: Vec<Arc<dyn Tool>>,
    /// The external MCP servers.
    pub remote: Option<McpServers>,
    pub clock: Clock,
    /// Called before anything runs.
    pub prepare: fn(&Executor),
}

impl HarnessOptions {
    pub fn new(model: ScriptedModel) -> Self {
        let settings = Settings::default();
        Self {
            model,
            models: None,
            settings,
            tools: Vec::new(),
            remote: None,
            clock: Clock::system(),
            prepare: |_| {},
        }
    }

    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    pub fn max_runs(mut self, max_runs: usize) -> Self {
        self.settings.max_runs = max_runs;
        self
    }
}

impl Harness {
    /// Opens the harness and starts its runner.
    pub async fn open(db: &Db, model: ScriptedModel) -> Self {
        Self::build(db, HarnessOptions::new(model)).await.staffed()
    }

    /// Opens the harness with more than a model, and starts its runner.
    pub async fn with(db: &Db, plan: HarnessOptions) -> Self {
        Self::build(db, plan).await.staffed()
    }

    /// Opens the harness without a runner.
    pub async fn build(db: &Db, plan: HarnessOptions) -> Self {
        let graph = Graph::new(db.clone(), plan.clock, None);
        let project = graph.ensure_default_project().await.unwrap().id;
        let pool = plan
            .tools
            .into_iter()
            .fold(ToolPool::new(emergent_tools::builtin::tools()), |pool, tool| pool.with_tool(tool));
        let pool = match plan.remote {
            Some(servers) => pool.with_remote(servers),
            None => pool,
        };
        let models = plan.models.unwrap_or_else(|| plan.model.models());
        let executor = Executor::new(graph, models, pool, plan.settings);
        (plan.prepare)(&executor);
        Self { executor, project, model: plan.model, stop: watch::channel(false).0, runner: None }
    }

    pub fn staffed(mut self) -> Self {
        let (executor, stop) = (self.executor.clone(), self.stop.subscribe());
        self.runner = Some(tokio::spawn(async move { executor.run(stop).await }));
        self
    }

    /// Shuts the runner down.
    pub async fn close(mut self) {
        let _ = self.stop.send(true);
        if let Some(runner) = self.runner.take() {
            let _ = runner.await;
        }
    }

    pub fn actor(&self) -> Actor {
        Actor { project: self.project, author: Author::System }
    }

    pub async fn agent(&self, definition: AgentDefinition) -> Agent {
        self.executor.create_agent(self.actor(), definition).await.unwrap()
    }

    /// Starts an agent and waits for the end of its run.
    pub async fn run(&self, agent: &Agent, input: &str) -> Run {
        let run = self.start(agent, input).await;
        self.ended(run.id).await
    }

    pub async fn start(&self, agent: &Agent, input: &str) -> Run {
        let start = StartOptions { input: input.to_owned(), ..StartOptions::default() };
        self.executor.trigger(self.actor(), agent.id, start).await.unwrap()
    }

    /// Starts an agent with start options and waits for the end of its run.
    pub async fn run_with(&self, agent: &Agent, start: StartOptions) -> Run {
        let run = self.executor.trigger(self.actor(), agent.id, start).await.unwrap();
        self.ended(run.id).await
    }

    /// Resumes a paused run and waits for its end.
    pub async fn resumed(&self, run: RunId) -> Run {
        let run = self.executor.resume(self.actor(), run, None).await.unwrap();
        self.ended(run.id).await
    }

    /// Returns the children of a run in the order in which they were started.
    pub async fn children(&self, run: RunId) -> Vec<Run> {
        let found =
            self.executor.graph().db().read(move |tx| emergent_store::runs::list_children(tx, run, None));
        let found: Result<Vec<Run>, emergent_store::Error> = found.await;
        found.unwrap()
    }

    pub async fn events(&self, run: RunId) -> Vec<RunEvent> {
        self.executor.run_events(self.project, run, 0, 10_000).await.unwrap()
    }

    /// Returns the tool calls of a run with their results.
    pub async fn calls(&self, run: RunId) -> Vec<RecordedToolCall> {
        let over = |event: RunEvent| match event.body {
            RunEventBody::ToolCompleted(call) => Some(call),
            _ => None,
        };
        let mut calls: Vec<RecordedToolCall> = self.events(run).await.into_iter().filter_map(over).collect();
        calls.sort_by_key(|call| call.seq);
        calls
    }

    /// Returns the outputs of the tool calls, as the model saw them.
    pub async fn answers(&self, run: RunId) -> Vec<Value> {
        self.calls(run).await.into_iter().map(|call| call.output.unwrap_or_default()).collect()
    }

    pub async fn ended(&self, run: RunId) -> Run {
        for _ in 0..3_000 {
            let run = self.executor.get_run(self.project, run).await.unwrap();
            if run.status.is_terminal() {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("run {run} did not end within 30 seconds");
    }

    /// Renders all recorded events of a run, one line each.
    pub async fn timeline(&self, run: RunId) -> String {
        let events = self.executor.run_events(self.project, run, 0, 1_000).await.unwrap();
        events.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

fn line(event: &emergent_domain::run_event::RunEvent) -> String {
    use emergent_domain::run_event::{MessageContent, RunEventBody as Body};
    match &event.body {
        Body::Started { recovered } => {
            if *recovered {
                "started again".into()
            } else {
                "started".into()
            }
        }
        Body::Message(message) => {
            let text = match &message.content {
                MessageContent::Text { text, injected: None } => text.clone(),
                MessageContent::Text { injected: Some(reason), .. } => format!("[{reason}]"),
                MessageContent::Parts(parts) => emergent_domain::chat::join_text(parts),
                MessageContent::Summary { text, .. } => format!("[summary] {text}"),
            };
            format!("{} {}: {text}", message.step, message.role)
        }
        Body::ToolStarted(call) => format!("{} call {} {}", call.step, call.tool, call.input),
        Body::ToolCompleted(call) => {
            format!(
                "{} result {} {} {}",
                call.step,
                call.tool,
                call.status,
                call.output.clone().unwrap_or_default()
            )
        }
        Body::ServersUnavailable { servers, .. } => {
            let names: Vec<_> = servers.iter().map(|server| server.server.as_str()).collect();
            format!("without {}", names.join(", "))
        }
        Body::LoopDetected { tool, count, .. } => format!("loop {tool} {count}"),
        Body::LimitReached { reason } => format!("limit {reason}"),
        Body::Compacted { summarised, .. } => format!("compacted summarised={summarised}"),
        Body::Ended { status, reason, summary, error, .. } => {
            let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            let error = error.as_ref().map(|error| format!(" error: {error}")).unwrap_or_default();
            format!("ended {status}{reason}: {summary}{error}")
        }
        other => format!("{other:?}"),
    }
}

/// Waits for a condition, which is checked every few milliseconds.
pub async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..3_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never came: {what}");
}

#[track_caller]
pub fn assert_ended(run: &Run, status: RunStatus, reason: Option<Reason>) {
    assert_eq!((run.status, run.reason), (status, reason), "{run:?}");
}

/// A definition that uses the scripted model.
pub fn agent(name: &str) -> AgentDefinition {
    AgentDefinition {
        system_prompt: format!("You are {name}."),
        model: Some(ScriptedModel::MODEL.parse().unwrap()),
        ..AgentDefinition::new(name)
    }
}

pub fn with_tools(name: &str, tools: &[&str]) -> AgentDefinition {
    AgentDefinition { tools: tools.iter().map(|tool| (*tool).to_owned()).collect(), ..agent(name) }
}
