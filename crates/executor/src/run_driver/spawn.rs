//! The tools `spawn_agents` and `list_available_agents`, with which agents find and start one another.

use std::sync::Arc;

use async_trait::async_trait;
use emergent_domain::{
    agent::{AgentDefinition, Visibility},
    json::Schema,
    run::{Origin, Run, RunStatus, ToolCallStatus},
    workflow::{Limit, to_microusd},
};
use emergent_store::{Tx, agents, runs};
use emergent_tools::{
    Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput,
    builtin::{
        define::parse_input,
        input::{NoInput, Uuid},
        schema::{input_schema, offered_schema},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{RunDriver, error_output};
use crate::{
    Error, Executor, Result,
    admission::{Admission, admit_in_batch},
    admission_batch::AdmissionBatch,
    child_runs::{self, Child, ChildBatch},
    child_timeout, internal_agents,
    resume::resume_in_batch,
    start_options::StartOptions,
};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpawnInput {
    /// Run in parallel.
    #[schemars(length(min = 1, max = 100))]
    tasks: Vec<SpawnTask>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpawnTask {
    /// Name from list_available_agents.
    agent_name: String,
    /// What to do, in full.
    #[schemars(length(min = 1))]
    task: String,
    /// Seconds; default: the agent's.
    #[schemars(range(min = 1, max = 86_400))]
    timeout: Option<i64>,
    /// The most that the agent and those it starts may cost, in US dollars.
    #[schemars(range(min = 0.000_001))]
    max_cost_usd: Option<f64>,
    /// The most tokens that they may use.
    #[schemars(range(min = 1))]
    max_total_tokens: Option<i64>,
    /// Your paused run of that agent, to continue it.
    #[schemars(with = "Option<Uuid>")]
    resume_run_id: Option<emergent_domain::ids::RunId>,
}

#[derive(Debug, Serialize)]
struct SpawnResult {
    run_id: Option<emergent_domain::ids::RunId>,
    agent_name: String,
    status: RunStatus,
    summary: String,
    /// The answer as a value, if the agent has an output schema and completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    steps: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Says that the agent had less time than it should have had.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl RunDriver {
    /// Runs the agents of one call and records the result of each.
    pub(crate) async fn run_spawn_call(&mut self, index: usize) -> Result<()> {
        let started_at = Instant::now();
        let Some(tool) = self.tools.get(&self.calls[index].tool).cloned() else { return Ok(()) };
        let (guard, input) = (&self.executor.settings().guard, self.calls[index].input.clone());
        let checked = guard.check(self.executor.graph(), self.run.project, tool.as_ref(), input).await;
        let name = &tool.info().name;
        let parsed = checked.and_then(|input| parse_input(name, input).map_err(|error| error.to_string()));
        let spawn: SpawnInput = match parsed {
            Ok(spawn) => spawn,
            Err(reason) => {
                return self
                    .record_result(index, ToolCallStatus::Error, error_output(reason), started_at)
                    .await;
            }
        };
        let (tasks, call) = (Arc::new(spawn.tasks), self.calls[index].id);
        let (executor, parent) = (self.executor.clone(), Arc::new(self.run.clone()));
        let (deadline, grace) = (self.deadline, self.executor.settings().grace);
        let admit: child_runs::AdmitChild = {
            let (tasks, parent, executor) = (Arc::clone(&tasks), Arc::clone(&parent), executor.clone());
            let definition = Arc::clone(&self.definition);
            Arc::new(move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch, child_index: usize| {
                check_may_spawn(&definition, &tasks[child_index].agent_name)?;
                let admission = Admission::child_of(
                    Origin::Spawn,
                    &parent,
                    Some(call),
                    i64::try_from(child_index).unwrap_or(0),
                );
                // A child that waited for its turn has less time than the first ones.
                let max_timeout = child_timeout::max_child_timeout(deadline, grace);
                let spawning =
                    Spawning { executor: &executor, parent: &parent, definition: &definition, max_timeout };
                start_child(tx, admissions, &spawning, &tasks[child_index], admission)
            })
        };
        // The children may need the slot of the run that waits for them.
        self.slot.release();
        let batch = ChildBatch {
            call: Some(call),
            first_part: 0,
            existing: vec![None; tasks.len()],
            deadline: self.deadline,
            admit,
        };
        let steps = self.machine.steps();
        let children = child_runs::run_children(&executor, &parent, &mut self.recorder, steps, batch).await?;
        self.slot.acquire().await;
        let default_timeouts = child_timeout::default_timeouts(&executor, &children).await?;
        let results: Vec<SpawnResult> = children
            .into_iter()
            .zip(tasks.iter())
            .zip(default_timeouts)
            .map(|((child, task), default_timeout)| spawn_result(child, task, default_timeout))
            .collect();
        let all_failed =
            results.iter().all(|result| matches!(result.status, RunStatus::Failed | RunStatus::Cancelled));
        let status = if all_failed { ToolCallStatus::Error } else { ToolCallStatus::Completed };
        let output = self.executor.settings().guard.truncate(json!(results));
        self.record_result(index, status, output, started_at).await
    }
}

/// Refuses an agent that the definition of the parent does not list in `config.may_spawn`.
fn check_may_spawn(parent: &AgentDefinition, name: &str) -> Result<()> {
    if parent.may_spawn(name) {
        return Ok(());
    }
    let allowed: Vec<String> = parent.spawn_patterns().map(|pattern| format!("`{pattern}`")).collect();
    let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
    Err(Error::Forbidden(format!(
        "you may not start the agent `{name}`; the agents you may start: {allowed}"
    )))
}

/// What all children of one call have in common.
struct Spawning<'a> {
    executor: &'a Executor,
    parent: &'a Run,
    /// The definition of the parent.
    definition: &'a AgentDefinition,
    /// How many seconds a child may have at most.
    max_timeout: i64,
}

/// Admits the run of one task: a new run, or the resumption of a paused one.
fn start_child(
    tx: &mut Tx<'_>,
    admissions: &mut AdmissionBatch,
    spawning: &Spawning<'_>,
    task: &SpawnTask,
    admission: Admission<'_>,
) -> Result<Run> {
    let Spawning { executor, parent, definition, max_timeout } = *spawning;
    let Some(id) = task.resume_run_id else {
        let Some(agent) = agents::get_by_name(tx, parent.project, &task.agent_name)? else {
            let mut names = agents::list_visible_names(tx, parent.project)?;
            names.retain(|name| *name != parent.agent_name && definition.may_spawn(name));
            return Err(Error::unknown_agent(&task.agent_name, &names));
        };
        let timeout = task.timeout.unwrap_or_else(|| child_timeout::default_timeout(&agent.definition));
        let start = StartOptions {
            input: task.task.clone(),
            timeout_seconds: Some(timeout.min(max_timeout)),
            limit: task.limit(),
            ..StartOptions::default()
        };
        return admit_in_batch(tx, executor, admissions, &agent, &admission, &start);
    };
    let paused = runs::get_for_update(tx, parent.project, id)?.ok_or_else(|| Error::not_found("run", id))?;
    // A run may resume only runs that it, or a run that it resumes, has spawned.
    let mut own_runs = runs::resume_chain(tx, parent)?;
    own_runs.push(parent.id);
    if !paused.parent.is_some_and(|id| own_runs.contains(&id)) || paused.agent_name != task.agent_name {
        return Err(Error::not_found("paused run of this agent among your own", id));
    }
    let timeout = match task.timeout {
        Some(timeout) => timeout,
        None => child_timeout::resumed_timeout(tx, &paused)?,
    };
    let start = StartOptions {
        input: task.task.clone(),
        timeout_seconds: Some(timeout.min(max_timeout)),
        limit: task.limit(),
        ..StartOptions::default()
    };
    resume_in_batch(tx, executor, admissions, &paused, admission, &start)
}

impl SpawnTask {
    fn limit(&self) -> Limit {
        Limit { microusd: self.max_cost_usd.map(to_microusd), tokens: self.max_total_tokens }
    }
}

/// Returns what the model reads about a child. It is told of a timeout that was shortened: of one that it asked for,
/// and of that of the definition (`default_timeout`) if the child ran out of it.
fn spawn_result(child: Child, task: &SpawnTask, default_timeout: Option<i64>) -> SpawnResult {
    match child {
        Child::Run(run) => SpawnResult {
            note: task.timeout.or(default_timeout).filter(|wanted| run.timeout_seconds < *wanted).map(|wanted| {
                format!(
                    "its timeout was shortened from {wanted} to {} seconds, because your own time ends soon after",
                    run.timeout_seconds
                )
            }),
            run_id: Some(run.id),
            agent_name: run.agent_name,
            status: run.status,
            summary: run.summary.unwrap_or_default(),
            output: run.output,
            steps: run.step_count,
            error: run.error,
        },
        Child::Refused(refusal) => SpawnResult::without_run(task, refusal.text),
        Child::NotStarted => {
            SpawnResult::without_run(task, "not started: your own time was up".to_owned())
        }
    }
}

impl SpawnResult {
    /// The result of a task whose agent was not started.
    fn without_run(task: &SpawnTask, reason: String) -> Self {
        Self {
            run_id: None,
            agent_name: task.agent_name.clone(),
            status: RunStatus::Failed,
            summary: String::new(),
            output: None,
            steps: 0,
            error: Some(reason),
            note: None,
        }
    }
}

/// The tool `spawn_agents` as the model sees it. The driver executes its calls.
pub(crate) struct SpawnAgents {
    info: ToolInfo,
    checked_schema: Schema,
}

impl SpawnAgents {
    pub fn new() -> Self {
        let info = ToolInfo {
            name: "spawn_agents".into(),
            server: None,
            description: "Starts agents on tasks and waits for all of them. Each sees only the `task` text you give it, and has \
                          its own tools. Returns one result per task, in order: run_id, status (completed, paused, failed, \
                          cancelled), summary, steps, and output if the agent has an output schema. A paused agent reached a limit: to continue it, call again with its \
                          run_id as resume_run_id and what to do next as task."
                .into(),
            input_schema: offered_schema::<SpawnInput>().into(),
            effect: Effect::Coordinates,
            scope: None,
        };
        Self { info, checked_schema: input_schema::<SpawnInput>().into() }
    }
}

#[async_trait]
impl Tool for SpawnAgents {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    fn checked_schema(&self) -> &Schema {
        &self.checked_schema
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<ToolOutput, ToolError> {
        Err(ToolError::Refused("only a running agent can start others".into()))
    }
}

/// The tool `list_available_agents`.
pub(crate) struct ListAvailableAgents(ToolInfo);

impl ListAvailableAgents {
    pub fn new() -> Self {
        Self(ToolInfo {
            name: "list_available_agents".into(),
            server: None,
            description: "Lists the agents that spawn_agents can start, with name, description, tools, flow type and visibility."
                .into(),
            input_schema: input_schema::<NoInput>().into(),
            effect: Effect::Reads,
            scope: None,
        })
    }
}

#[async_trait]
impl Tool for ListAvailableAgents {
    fn info(&self) -> &ToolInfo {
        &self.0
    }

    async fn call(&self, context: &ToolContext, _: Value) -> Result<ToolOutput, ToolError> {
        let (project, run) = (context.project, context.run);
        let read = context.graph.db().read(move |tx| {
            let mut listed = agents::list_all(tx, project)?;
            let caller = match run {
                Some(run) => runs::get(tx, project, run)?,
                None => None,
            };
            if let Some(caller) = caller {
                let definition = agents::get_version(tx, caller.agent, caller.agent_version)?;
                let may_spawn = |name: &str| definition.as_ref().is_none_or(|parent| parent.may_spawn(name));
                listed.retain(|agent| agent.id != caller.agent && may_spawn(&agent.definition.name));
                if !internal_agents::may_start_internal(tx, &caller)? {
                    listed.retain(|agent| agent.definition.visibility != Visibility::Internal);
                }
            }
            Ok::<_, emergent_store::Error>(listed)
        });
        let mut agents = read.await.map_err(|error| ToolError::from(emergent_graph::Error::from(error)))?;
        agents.sort_by(|a, b| a.definition.name.cmp(&b.definition.name));
        // System prompts are not listed: they may contain what other agents should not see.
        let listed: Vec<Value> = agents
            .iter()
            .map(|agent| {
                let definition = &agent.definition;
                json!({
                    "name": definition.name,
                    "description": definition.description,
                    "tools": definition.tools,
                    "flow_type": definition.flow_type,
                    "visibility": definition.visibility,
                })
            })
            .collect();
        Ok(ToolOutput::Answer(json!({ "agents": listed })))
    }
}
