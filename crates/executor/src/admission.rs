//! The one way in: every run, however it is started, is checked and queued here, in the
//! transaction of whatever started it.

use std::sync::Arc;

use emergent_domain::{
    agent::{Agent, ModelConfig, Visibility},
    author::Author,
    ids::{AgentId, MessageId, RunId, ScheduleId, TokenId, ToolCallId},
    invalid::Invalid,
    run::{
        DEFAULT_SPAWNED_STEPS, DEFAULT_TIMEOUT_SECONDS, MAX_DEPTH, MAX_STEPS, MessageRole, Origin, Run,
        RunStatus,
    },
    run_event::{MessageContent, RecordedMessage},
    workflow::WorkflowLink,
};
use emergent_graph::Actor;
use emergent_store::{
    Tx, agents,
    budget::NewModelCall,
    runs::{self, conversation::Conversation},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    Error, Executor, Result, budget, flow,
    place::{AdmissionBatch, AdmittedRun},
    resume,
    run_driver::has_tool_globs,
    run_task::LoadedRun,
    sessions::SessionMessages,
};

const MAX_INPUT_BYTES: usize = 1 << 20;
/// A day: longer work is a workflow.
const MAX_TIMEOUT_SECONDS: i64 = 86_400;

/// What a run is started with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StartOptions {
    pub input: String,
    /// Told to the agent below the input, as JSON.
    pub context: Option<Value>,
    /// Instead of what the definition says.
    pub model: Option<ModelConfig>,
    pub max_steps: Option<i64>,
    pub timeout_seconds: Option<i64>,
}

/// How a run comes in.
pub(crate) struct Admission<'a> {
    pub origin: Origin,
    /// Set by whoever has to know it before.
    pub id: Option<RunId>,
    pub parent: Option<&'a Run>,
    pub parent_call: Option<ToolCallId>,
    pub part: i64,
    pub resumed: Option<&'a Run>,
    pub started_by: Option<TokenId>,
    /// The caller holds it, and has seen that no run of it is live.
    pub schedule: Option<ScheduleId>,
    pub cause: Option<TriggerCause>,
    /// Set by the dispatcher; what a run starts has its workflow and task otherwise.
    pub workflow_link: Option<WorkflowLink>,
}

/// What set a run off, when other runs did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TriggerCause {
    /// The run that wrote what it was triggered by.
    pub run: Option<RunId>,
    /// How many runs set one another off before.
    pub depth: i64,
}

impl<'a> Admission<'a> {
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            id: None,
            parent: None,
            parent_call: None,
            part: 0,
            resumed: None,
            started_by: None,
            schedule: None,
            cause: None,
            workflow_link: None,
        }
    }

    /// A child of a run, at a place among those of one call or of a flow.
    pub fn child_of(origin: Origin, parent: &'a Run, call: Option<ToolCallId>, part: i64) -> Self {
        Self {
            parent: Some(parent),
            parent_call: call,
            part,
            started_by: parent.started_by,
            ..Self::new(origin)
        }
    }
}

/// Checks everything and queues the run with its first messages.
pub(crate) fn admit(
    tx: &mut Tx<'_>,
    executor: &Executor,
    agent: &Agent,
    door: &Admission<'_>,
    start: &StartOptions,
) -> Result<Run> {
    let AdmittedRun { run, session_messages: lines, .. } = admit_run(tx, executor, agent, door, start, None)?;
    if let Some(lines) = lines {
        lines.write(tx, executor.graph(), run.project)?;
    }
    Ok(run)
}

/// As [`admit`], into the next place on this server; without one, into the queue. Its first lines are
/// the doorman's to write.
pub(crate) fn admit_in_batch(
    tx: &mut Tx<'_>,
    executor: &Executor,
    doorman: &mut AdmissionBatch,
    agent: &Agent,
    door: &Admission<'_>,
    start: &StartOptions,
) -> Result<Run> {
    let admitted = admit_run(tx, executor, agent, door, start, doorman.next_owner())?;
    let run = admitted.run.clone();
    doorman.push(admitted);
    Ok(run)
}

/// `here`: the runner that drives it at once.
fn admit_run(
    tx: &mut Tx<'_>,
    executor: &Executor,
    agent: &Agent,
    door: &Admission<'_>,
    start: &StartOptions,
    here: Option<Arc<str>>,
) -> Result<AdmittedRun> {
    check_options(start)?;
    check_visibility(agent, door.origin)?;
    // What goes on from a child stays as deep as it was: it must not gain tools by being resumed.
    let depth = match door.parent {
        Some(parent) => parent.depth + 1,
        None => door.resumed.map_or(0, |run| run.depth),
    };
    if depth > MAX_DEPTH {
        return Err(Error::Conflict(format!("agents delegate at most {MAX_DEPTH} levels deep")));
    }
    let before = door.resumed.map_or(0, |run| run.step_count);
    if before >= MAX_STEPS {
        return Err(Error::Conflict(format!(
            "the run and those it goes on from took {before} steps, and {MAX_STEPS} in total is the limit"
        )));
    }
    // A chain that passes through children or resumptions is no shorter for it.
    let from =
        door.parent.or(door.resumed).map(|run| TriggerCause { run: run.cause, depth: run.cause_depth });
    let cause = door.cause.or(from).unwrap_or_default();
    let duty = door.workflow_link.unwrap_or_else(|| {
        let from = door.parent.or(door.resumed).map(|run| run.workflow_link).unwrap_or_default();
        WorkflowLink { workflow: from.workflow, task: from.task, ..WorkflowLink::default() }
    });
    let definition = &agent.definition;
    let wanted = start.model.as_ref().or(definition.model.as_ref());
    let model = executor.models().choose(wanted).map_err(|error| Error::NoModel(error.to_string()))?;
    let now = executor.clock().now();
    let call = NewModelCall {
        id: Uuid::nil(),
        project: agent.project,
        workflow: duty.workflow,
        task: duty.task,
        agent: definition.name.clone(),
        run: None,
        at: now,
    };
    let standing = budget::budget_status(tx, &call)?;
    if let Some(why) = standing.exhausted {
        return Err(Error::Conflict(format!("agent `{}` is not started: {why}", definition.name)));
    }
    let (status, since) = match here {
        Some(_) => (RunStatus::Running, Some(now)),
        None => (RunStatus::Queued, None),
    };
    let run = Run {
        id: door.id.unwrap_or_else(RunId::new),
        project: agent.project,
        agent: agent.id,
        agent_version: agent.version,
        agent_name: definition.name.clone(),
        status,
        reason: None,
        origin: door.origin,
        parent: door.parent.map(|run| run.id),
        parent_call: door.parent_call,
        child_index: door.part,
        depth,
        resumed_from: door.resumed.map(|run| run.id),
        schedule: door.schedule,
        cause: cause.run,
        cause_depth: cause.depth,
        workflow_link: duty,
        model,
        step_count: before,
        steps_before: before,
        max_steps: start
            .max_steps
            .or(definition.max_steps.map(i64::from))
            .or(door.parent.map(|_| DEFAULT_SPAWNED_STEPS)),
        timeout_seconds: start
            .timeout_seconds
            .or(definition.default_timeout.map(i64::from))
            .unwrap_or(DEFAULT_TIMEOUT_SECONDS),
        deadline_base: since,
        owner: here.as_deref().map(str::to_owned),
        seq: 0,
        summary: None,
        error: None,
        started_by: door.started_by,
        created_at: now,
        started_at: since,
        completed_at: None,
    };
    let (mut run, first) = first_messages(run, agent, door, start);
    // What is known already need not be read again by whoever drives it.
    let starts = here.is_some()
        && door.resumed.is_none()
        && !has_tool_globs(definition)
        && !flow::is_flow(&run, definition, door.parent);
    run.seq += i64::from(starts);
    runs::insert(tx, &run)?;
    runs::record::insert_messages(tx, run.id, &first)?;
    let lines = run.workflow_link.session.map(|session| {
        let mut lines = SessionMessages::new(session, run.id);
        first.iter().for_each(|message| lines.push_message(message));
        lines
    });
    if here.is_none() {
        tx.wake(runs::QUEUED_CHANNEL)?;
    }
    if !starts {
        return Ok(AdmittedRun { run, session_messages: lines, loaded: None });
    }
    runs::record::insert_event(tx, run.id, run.seq, "run_started", &json!({ "recovered": false }), now)?;
    let ready = LoadedRun {
        definition: definition.clone(),
        earlier: Vec::new(),
        own: Conversation { messages: first, ..Conversation::default() },
        limited: standing.limited,
    };
    Ok(AdmittedRun { run, session_messages: lines, loaded: Some(ready) })
}

fn first_messages(
    mut run: Run,
    agent: &Agent,
    door: &Admission<'_>,
    start: &StartOptions,
) -> (Run, Vec<RecordedMessage>) {
    let message = |seq, role, step, text| RecordedMessage {
        id: MessageId::new(),
        seq,
        role,
        step,
        content: MessageContent::Text { text, injected: None },
        usage: None,
        cost: None,
        at: run.created_at,
    };
    let mut first = Vec::with_capacity(2);
    // What resumes a conversation has its system prompt, unless that is another by now.
    if door.resumed.is_none_or(|before| before.agent_version != agent.version) {
        first.push(message(1, MessageRole::System, 0, agent.definition.system_prompt.clone()));
    }
    let seq = i64::try_from(first.len()).unwrap_or(0) + 1;
    let text = match door.resumed {
        None => user_message(start),
        Some(_) if start.input.is_empty() => "Continue your work.".to_owned(),
        Some(_) => resume::resume_message(&user_message(start)),
    };
    first.push(message(seq, MessageRole::User, run.steps_before + 1, text));
    run.seq = seq;
    (run, first)
}

fn user_message(start: &StartOptions) -> String {
    match &start.context {
        None => start.input.clone(),
        Some(context) => format!(
            "{}\n\nContext:\n{}",
            start.input,
            serde_json::to_string_pretty(context).unwrap_or_default()
        ),
    }
}

fn check_options(start: &StartOptions) -> Result<(), Invalid> {
    if start.input.len() > MAX_INPUT_BYTES {
        return Err(Invalid::new("input", format!("is longer than {MAX_INPUT_BYTES} bytes")));
    }
    if start.input.contains('\0') {
        return Err(Invalid::new("input", "has a NUL character"));
    }
    if start.max_steps.is_some_and(|steps| steps < 1) {
        return Err(Invalid::new("maxSteps", "must be at least 1"));
    }
    if start.timeout_seconds.is_some_and(|seconds| !(1..=MAX_TIMEOUT_SECONDS).contains(&seconds)) {
        return Err(Invalid::new("timeoutSeconds", format!("must be 1 to {MAX_TIMEOUT_SECONDS}")));
    }
    Ok(())
}

/// The matrix of who may start what: visibility bounds the ways in from outside, never delegation.
fn check_visibility(agent: &Agent, origin: Origin) -> Result<()> {
    let name = &agent.definition.name;
    let visibility = agent.definition.visibility;
    match origin {
        Origin::Spawn | Origin::Flow | Origin::Dispatch | Origin::Resume => Ok(()),
        Origin::Invoke if visibility != Visibility::External => {
            Err(Error::Forbidden(format!("agent `{name}` is not open to the outside")))
        }
        _ if visibility == Visibility::Internal => Err(Error::Forbidden(format!(
            "agent `{name}` is internal: only other agents start it, by `spawn_agents`"
        ))),
        _ => Ok(()),
    }
}

pub(crate) fn author_token(actor: Actor) -> Option<TokenId> {
    match actor.author {
        Author::Token { id } => Some(id),
        _ => None,
    }
}

impl Executor {
    /// Starts an agent by hand; returns at once with the queued run.
    pub async fn trigger(&self, actor: Actor, agent: AgentId, start: StartOptions) -> Result<Run> {
        if start.input.trim().is_empty() {
            return Err(Invalid::new("input", "is required: what the agent is to do").into());
        }
        self.check_queue_capacity().await?;
        let executor = self.clone();
        let work = move |tx: &mut Tx<'_>| {
            let agent = agents::get(tx, actor.project, agent)?
                .filter(|agent| agent.deleted_at.is_none())
                .ok_or_else(|| Error::not_found("agent", agent))?;
            let door = Admission { started_by: author_token(actor), ..Admission::new(Origin::Trigger) };
            admit(tx, &executor, &agent, &door, &start)
        };
        self.db().write(work).await
    }

    /// Ends a run and everything below it.
    pub async fn cancel(&self, actor: Actor, run: RunId) -> Result<Run> {
        let now = self.clock().now();
        let work = move |tx: &mut Tx<'_>| {
            let found = runs::get_for_update(tx, actor.project, run)?;
            let found = found.ok_or_else(|| Error::not_found("run", run))?;
            if found.status.is_terminal() {
                return Err(Error::Conflict(format!("run `{run}` has ended: it is {}", found.status)));
            }
            let cancelled = runs::record::cancel_tree(tx, actor.project, run, "cancelled by request", now)?;
            let found = runs::get(tx, actor.project, run)?.ok_or_else(|| Error::not_found("run", run))?;
            Ok((found, cancelled))
        };
        let (found, cancelled) = self.db().write(work).await?;
        self.stop_driving(&cancelled);
        Ok(found)
    }
}
