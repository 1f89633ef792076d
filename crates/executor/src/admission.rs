//! Admission: checks and inserts every run, however it is started, in the transaction of its caller.

use std::sync::Arc;

use emergent_domain::{
    agent::{Agent, AgentDefinition, ModelConfig, Visibility},
    author::Author,
    ids::{AgentId, RunId, ScheduleId, TokenId, ToolCallId},
    invalid::Invalid,
    pack::nearest_name,
    run::{
        DEFAULT_SPAWNED_STEPS, DEFAULT_TIMEOUT_SECONDS, MAX_DEPTH, MAX_STEPS, Origin, Run, RunStatus,
        RunTerms,
    },
    workflow::WorkflowLink,
};
use emergent_graph::Actor;
use emergent_store::{
    Tx, agents,
    budget::{MAX_BUDGET_RUNS, NewModelCall},
    idempotency::accept_once,
    projects,
    runs::{self, conversation::Conversation},
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    Error, Executor, Result,
    admission_batch::{AdmissionBatch, AdmittedRun, KnownFacts},
    budget,
    cost_limit::check_cost_limit,
    first_messages::first_messages,
    internal_agents,
    loaded_run::{LoadedRun, has_tool_patterns, is_flow},
    start_options::StartOptions,
};

/// How a run is started, and its relation to other runs.
pub(crate) struct Admission<'a> {
    pub origin: Origin,
    /// Set when the caller has to know the id before the run exists.
    pub id: Option<RunId>,
    pub parent: Option<&'a Run>,
    pub parent_call: Option<ToolCallId>,
    pub child_index: i64,
    pub resumed: Option<&'a Run>,
    pub started_by: Option<TokenId>,
    /// The caller has locked this schedule and has checked that it has no active run.
    pub schedule: Option<ScheduleId>,
    pub cause: Option<TriggerCause>,
    /// Set by the layer that starts the run. Without it, a run inherits the workflow and the task of its
    /// parent or of the run it resumes, because their budgets apply to it.
    pub workflow_link: Option<WorkflowLink>,
    /// Whether a completed run may be resumed as well.
    pub resumable: Resumable,
}

/// Which runs may be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumable {
    Paused,
    /// Also a completed run, if it did not submit what its workflow needs.
    PausedOrCompleted,
}

/// The runs that led to the trigger of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TriggerCause {
    /// The run that wrote the change that triggered this one.
    pub run: Option<RunId>,
    /// How many runs triggered one another before this one.
    pub depth: i64,
}

impl<'a> Admission<'a> {
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            id: None,
            parent: None,
            parent_call: None,
            child_index: 0,
            resumed: None,
            started_by: None,
            schedule: None,
            cause: None,
            workflow_link: None,
            resumable: Resumable::Paused,
        }
    }

    /// Admits a child of a run. `child_index` is its index among the children of one tool call or one flow.
    pub fn child_of(origin: Origin, parent: &'a Run, call: Option<ToolCallId>, child_index: i64) -> Self {
        Self {
            parent: Some(parent),
            parent_call: call,
            child_index,
            started_by: parent.started_by,
            ..Self::new(origin)
        }
    }
}

/// Checks the request, and inserts the run as queued together with its first messages.
pub(crate) fn admit(
    tx: &mut Tx<'_>,
    executor: &Executor,
    agent: &Agent,
    admission: &Admission<'_>,
    start: &StartOptions,
) -> Result<Run> {
    Ok(admit_run(tx, executor, agent, admission, start, None, &mut KnownFacts::default())?.run)
}

/// Like [`admit`], but the run gets the next free slot of this server if there is one, and `admissions`
/// returns its first messages to the caller.
pub(crate) fn admit_in_batch(
    tx: &mut Tx<'_>,
    executor: &Executor,
    admissions: &mut AdmissionBatch,
    agent: &Agent,
    admission: &Admission<'_>,
    start: &StartOptions,
) -> Result<Run> {
    let owner = admissions.next_owner();
    let admitted = admit_run(tx, executor, agent, admission, start, owner, &mut admissions.known)?;
    let run = admitted.run.clone();
    admissions.push(admitted);
    Ok(run)
}

/// Checks the request and inserts the run. `owner` is the runner that drives the run at once; without one,
/// the run is queued.
fn admit_run(
    tx: &mut Tx<'_>,
    executor: &Executor,
    agent: &Agent,
    admission: &Admission<'_>,
    start: &StartOptions,
    owner: Option<Arc<str>>,
    known: &mut KnownFacts,
) -> Result<AdmittedRun> {
    start.check()?;
    // A run that is admitted after its project was deleted would be cancelled by nobody.
    if known.held_project != Some(agent.project) {
        if !projects::hold_live(tx, agent.project)? {
            return Err(Error::not_found("project", agent.project));
        }
        known.held_project = Some(agent.project);
    }
    check_visibility(tx, agent, admission)?;
    // A resumed child keeps its depth: a resumption must not give it more tools.
    let depth = match admission.parent {
        Some(parent) => parent.depth + 1,
        None => admission.resumed.map_or(0, |run| run.depth),
    };
    if depth > MAX_DEPTH {
        return Err(Error::Conflict(format!(
            "delegation is too deep: agents may delegate at most {MAX_DEPTH} levels deep"
        )));
    }
    let steps_before = admission.resumed.map_or(0, |run| run.step_count);
    if steps_before >= MAX_STEPS {
        return Err(Error::Conflict(format!(
            "step limit reached: this run and the runs it resumes took {steps_before} of {MAX_STEPS} steps; start a new run"
        )));
    }
    // Children and resumptions count towards the length of a trigger chain.
    let inherited = admission
        .parent
        .or(admission.resumed)
        .map(|run| TriggerCause { run: run.cause, depth: run.cause_depth });
    let cause = admission.cause.or(inherited).unwrap_or_default();
    let workflow_link = admission.workflow_link.unwrap_or_else(|| {
        let inherited =
            admission.parent.or(admission.resumed).map(|run| run.workflow_link).unwrap_or_default();
        WorkflowLink { workflow: inherited.workflow, task: inherited.task, ..WorkflowLink::default() }
    });
    let definition = &agent.definition;
    let id = admission.id.unwrap_or_else(RunId::new);
    let terms = run_terms(id, admission, start)?;
    let model = choose_model(executor, definition, &terms, admission, start)?;
    check_cost_limit(executor.models(), definition, &model, admission.origin, start)?;
    let now = executor.clock().now();
    let call = NewModelCall {
        id: Uuid::nil(),
        project: agent.project,
        workflow: workflow_link.workflow,
        task: workflow_link.task,
        agent: definition.name.clone(),
        run: None,
        budget_runs: terms.budget_runs.clone(),
        at: now,
    };
    let budget_status = budget::budget_status(tx, &call, &mut known.limits)?;
    if let Some(reason) = budget_status.exhausted {
        return Err(Error::BudgetUsedUp(format!("agent `{}` is not started: {reason}", definition.name)));
    }
    let (status, started_at) = match owner {
        Some(_) => (RunStatus::Running, Some(now)),
        None => (RunStatus::Queued, None),
    };
    let limited = budget_status.limited || !terms.limit.is_unlimited();
    let run = Run {
        id,
        project: agent.project,
        agent: agent.id,
        agent_version: agent.version,
        agent_name: definition.name.clone(),
        status,
        reason: None,
        origin: admission.origin,
        parent: admission.parent.map(|run| run.id),
        parent_call: admission.parent_call,
        child_index: admission.child_index,
        depth,
        resumed_from: admission.resumed.map(|run| run.id),
        schedule: admission.schedule,
        cause: cause.run,
        cause_depth: cause.depth,
        workflow_link,
        terms,
        model,
        step_count: steps_before,
        steps_before,
        max_steps: start
            .max_steps
            .or(definition.max_steps.map(|steps| i64::from(steps).min(MAX_STEPS)))
            .or(admission.parent.map(|_| DEFAULT_SPAWNED_STEPS)),
        timeout_seconds: start
            .timeout_seconds
            .or(definition.default_timeout.map(i64::from))
            .unwrap_or(DEFAULT_TIMEOUT_SECONDS),
        deadline_base: started_at,
        owner: owner.as_deref().map(str::to_owned),
        seq: 0,
        summary: None,
        output: None,
        error: None,
        started_by: admission.started_by,
        created_at: now,
        started_at,
        completed_at: None,
        waiting_for: None,
        waiting_since: None,
    };
    let (mut run, messages) = first_messages(run, agent, admission.resumed, start);
    // A simple run is started here, so its driver does not have to read the same data again.
    let starts_here = owner.is_some()
        && admission.resumed.is_none()
        && !has_tool_patterns(definition)
        && !is_flow(&run, definition, admission.parent);
    run.seq += i64::from(starts_here);
    runs::insert(tx, &run)?;
    runs::record::insert_messages(tx, run.id, &messages)?;
    if owner.is_none() {
        tx.wake(runs::QUEUED_CHANNEL)?;
    }
    if !starts_here {
        return Ok(AdmittedRun { run, first_messages: messages, loaded: None });
    }
    runs::record::insert_event(tx, run.id, run.seq, "run_started", &json!({ "recovered": false }), now)?;
    let loaded = LoadedRun {
        definition: definition.clone(),
        earlier: Vec::new(),
        own: Conversation { messages: messages.clone(), ..Conversation::default() },
        limited,
        approvals: Vec::new(),
    };
    Ok(AdmittedRun { run, first_messages: messages, loaded: Some(loaded) })
}

/// Returns what the run passes on: the model that was asked for, and the runs whose limits apply to it.
fn run_terms(id: RunId, admission: &Admission<'_>, start: &StartOptions) -> Result<RunTerms> {
    let resumed = admission.resumed.map(|run| &run.terms);
    let parent = admission.parent.map(|run| &run.terms);
    let inherited = || resumed.into_iter().chain(parent);
    let mut budget_runs: Vec<RunId> = Vec::new();
    for run in inherited().flat_map(|terms| &terms.budget_runs) {
        if !budget_runs.contains(run) {
            budget_runs.push(*run);
        }
    }
    if !start.limit.is_unlimited() {
        budget_runs.push(id);
    }
    if budget_runs.len() > MAX_BUDGET_RUNS {
        return Err(Error::Conflict(format!(
            "more than {MAX_BUDGET_RUNS} limits would apply to this run: start it without `maxCostUsd` and `maxTotalTokens`"
        )));
    }
    // A resumed run goes on with the limit of the run that it resumes.
    let inherited_limit = resumed.map(|terms| terms.limit).unwrap_or_default();
    Ok(RunTerms {
        requested_model: start
            .model
            .clone()
            .or_else(|| inherited().find_map(|terms| terms.requested_model.clone())),
        limit: if start.limit.is_unlimited() { inherited_limit } else { start.limit },
        budget_runs,
        traceparent: start
            .traceparent
            .clone()
            .or_else(|| inherited().find_map(|terms| terms.traceparent.clone())),
        // What a parent has to answer says nothing about the answers of its children.
        output_schema: start
            .output_schema
            .as_ref()
            .map(Into::into)
            .or_else(|| resumed.and_then(|terms| terms.output_schema.clone())),
        client_tools: start.client_tools.clone(),
    })
}

/// Chooses the model of a run. A flow that calls none is started without one that could be called, unless the request,
/// or the start of a run above, names one: its parts would be refused.
fn choose_model(
    executor: &Executor,
    definition: &AgentDefinition,
    terms: &RunTerms,
    admission: &Admission<'_>,
    start: &StartOptions,
) -> Result<ModelConfig> {
    let is_own_part = admission.origin == Origin::Flow
        && admission.parent.is_some_and(|parent| parent.agent_name == definition.name);
    let needs_none = definition.calls_no_model() && !is_own_part && terms.requested_model.is_none();
    match choose_callable_model(executor, definition, terms, admission, start) {
        Err(Error::NoModel(_)) if needs_none => Ok(definition.flow_model()),
        chosen => chosen,
    }
}

/// Chooses the model: the one that the start request names, or that of the run that is resumed, or that of the
/// definition if it is pinned, or the one that the start of a run above named. Without any of these,
/// `EMERGENT_MODEL` comes before the definition. The model of a workflow is for all its runs, so it counts as that of a
/// run above.
fn choose_callable_model(
    executor: &Executor,
    definition: &AgentDefinition,
    terms: &RunTerms,
    admission: &Admission<'_>,
    start: &StartOptions,
) -> Result<ModelConfig> {
    let own = definition.model.as_ref();
    let is_for_all = admission.origin == Origin::Dispatch;
    let requested = start
        .model
        .as_ref()
        .filter(|_| !(is_for_all && definition.pins_model()))
        .or(admission.resumed.map(|run| &run.model))
        .or(own.filter(|_| definition.pins_model()))
        .or(terms.requested_model.as_ref().filter(|_| !definition.pins_model()));
    executor.models().choose_for_run(requested, own).map_err(|error| {
        let nearest = nearest_provider(executor, requested.or(own), &error.to_string());
        Error::NoModel(format!("{error}{nearest}"))
    })
}

/// The provider that was probably meant, if the error is about a provider of this model that does not exist.
fn nearest_provider(executor: &Executor, model: Option<&ModelConfig>, error: &str) -> String {
    let is_meant =
        |model: &&ModelConfig| error.contains(&format!("the unknown provider `{}`", model.provider));
    let Some(model) = model.filter(is_meant) else { return String::new() };
    let providers = executor.models().status();
    match nearest_name(&model.provider, providers.iter().map(|provider| provider.name.as_str())) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    }
}

/// Checks who may start the agent. Visibility restricts starts from outside, and delegation between agents
/// only so far as it would be a start from outside.
fn check_visibility(tx: &mut Tx<'_>, agent: &Agent, admission: &Admission<'_>) -> Result<()> {
    let name = &agent.definition.name;
    let visibility = agent.definition.visibility;
    match admission.origin {
        Origin::Spawn | Origin::Flow if visibility == Visibility::Internal => {
            check_parent_may_start(tx, name, admission.parent)
        }
        // Who may resume a run is checked where the request arrives.
        Origin::Spawn | Origin::Flow | Origin::Resume => Ok(()),
        Origin::Dispatch if agent.definition.is_dispatchable() => Ok(()),
        Origin::Dispatch => Err(Error::Forbidden(format!(
            "agent `{name}` is internal: the dispatcher may start it only if its definition has `config.dispatchable`"
        ))),
        Origin::Invoke if visibility != Visibility::External => Err(Error::Forbidden(format!(
            "agent `{name}` cannot be started from outside: its visibility is not `external`"
        ))),
        _ if visibility == Visibility::Internal => Err(internal_agent(name)),
        _ => Ok(()),
    }
}

/// The error of a start from outside of an agent that only other agents may start.
pub(crate) fn internal_agent(name: &str) -> Error {
    Error::Forbidden(format!(
        "agent `{name}` is internal: only other agents can start it, with `spawn_agents`"
    ))
}

fn check_parent_may_start(tx: &mut Tx<'_>, name: &str, parent: Option<&Run>) -> Result<()> {
    let Some(parent) = parent else { return Ok(()) };
    if internal_agents::may_start_internal(tx, parent)? {
        return Ok(());
    }
    Err(Error::Forbidden(format!(
        "agent `{name}` is internal: `{}` may start it only if a token with `admin:write` saved its definition or \
         started the run",
        parent.agent_name
    )))
}

/// The token of an actor, if it is one.
pub(crate) fn author_token(actor: Actor) -> Option<TokenId> {
    match actor.author {
        Author::Token { id } => Some(id),
        _ => None,
    }
}

impl Executor {
    /// Starts an agent on request, and returns at once. The run starts in the same transaction if a slot is
    /// free, and is queued otherwise.
    pub async fn trigger(&self, actor: Actor, agent: AgentId, start: StartOptions) -> Result<Run> {
        if start.input.trim().is_empty() {
            return Err(Invalid::new("input", "is required: it tells the agent what to do").into());
        }
        self.check_queue_capacity(actor.project).await?;
        let slots = self.try_acquire_slots(actor.project, 1);
        let (executor, start) = (self.clone(), start.with_trace_context());
        let work = move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch| {
            accept_once(tx, |tx| {
                let agent = agents::get(tx, actor.project, agent)?
                    .filter(|agent| agent.deleted_at.is_none())
                    .ok_or_else(|| Error::not_found("agent", agent))?;
                let started_by = author_token(actor);
                let admission = Admission { started_by, ..Admission::new(Origin::Trigger) };
                admit_in_batch(tx, &executor, admissions, &agent, &admission, &start)
            })
        };
        self.commit_and_drive(slots, work).await
    }

    /// Cancels a run and all its descendants.
    pub async fn cancel(&self, actor: Actor, run: RunId) -> Result<Run> {
        let now = self.clock().now();
        let written = self.text_in_progress(run).await?;
        let work = move |tx: &mut Tx<'_>| {
            let run_row = runs::get_for_update(tx, actor.project, run)?;
            let run_row = run_row.ok_or_else(|| Error::not_found("run", run))?;
            if run_row.status.is_terminal() {
                return Err(Error::Conflict(format!(
                    "run `{run}` has already ended: it is {}",
                    run_row.status
                )));
            }
            // Somebody has read this text in a conversation, or as a stream.
            if let Some(text) = written.as_ref().filter(|_| run_row.origin.answers_messages()) {
                runs::set_partial_summary(tx, run, text)?;
            }
            let cancelled = runs::record::cancel_tree(tx, actor.project, run, "cancelled by request", now)?;
            let run_row = runs::get(tx, actor.project, run)?.ok_or_else(|| Error::not_found("run", run))?;
            Ok((run_row, cancelled))
        };
        let (run_row, cancelled) = self.db().write(work).await?;
        self.stop_driving(&cancelled);
        Ok(run_row)
    }
}
