//! Writes what was decided: everything of one look at a workflow is one transaction, behind the
//! fence that only its dispatcher passes. Whoever else changed a task in between makes it stale,
//! and nothing is written.

mod conclude_attempt;
mod start_attempt;
mod workflow;

use std::{collections::HashMap, sync::Arc, time::Duration};

use emergent_domain::{
    agent::Agent,
    author::Author,
    ids::{AgentId, ObjectId, ProjectId, RunId, WorkflowId},
    object::{NewObject, ObjectPatch},
    relationship::NewRelationship,
    run::{Run, RunStatus},
    task::Task,
    time::Timestamp,
    verdict::Verdict,
    workflow::{Deliverable, Limit, Workflow, WorkflowLink, WorkflowStatus},
};
use emergent_executor::{AdmissionBatch, Executor, GraphDrafts, StartOptions};
use emergent_graph::{Actor, WriteContext, objects, relationships};
use emergent_rules::workflow::{conclude::Transition, decide::NewEscalation};
use emergent_store::{
    Tx, agents, budget, runs,
    workflows::{self, NewWorkflowEvent},
};
use serde_json::{Map, Value, json};

use crate::{Error, Result, discussion, loaded_workflow::TASK_WAITING_EVENT};

/// What is to be written, as it was decided on a snapshot at `seen`.
pub(crate) struct WriteBatch {
    pub project: ProjectId,
    pub workflow: WorkflowId,
    pub owner: Arc<str>,
    /// How long the workflow stays the owner's.
    pub lease_until: Timestamp,
    pub revision: i64,
    pub writes: Vec<WorkflowWrite>,
}

pub(crate) enum WorkflowWrite {
    StartAttempt(Box<NewAttempt>),
    ConcludeAttempt(Box<AttemptEnd>),
    /// A task that is not started, or not done: skipped, or failed before its first step.
    ChangeTask {
        step: Transition,
        before: Box<Task>,
    },
    AdvanceDiscussion(Box<discussion::DiscussionWrite>),
    /// Who plans is started, or started again.
    StartPlanner {
        agent: AgentId,
        prompt: String,
        run: RunId,
    },
    /// A task waits for something that nobody walks here.
    ReportWait {
        task: ObjectId,
        why: String,
    },
    /// The workflow moves on or ends.
    MoveWorkflow {
        to: WorkflowStatus,
        why: String,
        summary: Option<String>,
        escalation: Option<NewEscalation>,
    },
    /// A plan that will not do.
    RejectPlan {
        why: String,
    },
    /// What such a plan left behind.
    DeleteTask {
        task: ObjectId,
    },
}

impl WorkflowWrite {
    /// How many runs it starts.
    pub fn run_count(&self) -> usize {
        match self {
            WorkflowWrite::StartAttempt(_) | WorkflowWrite::StartPlanner { .. } => 1,
            WorkflowWrite::AdvanceDiscussion(step) => step.run_count(),
            _ => 0,
        }
    }
}

/// An attempt at a task: its session and its run.
pub(crate) struct NewAttempt {
    pub task: Task,
    pub agent: AgentId,
    pub agent_name: String,
    pub reason: String,
    pub prompt: String,
    pub run: RunId,
    pub session: ObjectId,
    /// Of the attempt before.
    pub previous_session: Option<ObjectId>,
    pub informed_by: Vec<ObjectId>,
    pub deliverable: Option<Deliverable>,
    /// The run that goes on, instead of a new conversation.
    pub resumed_run: Option<RunId>,
    /// Something of another workflow blocks it, whether that is done by now or not.
    pub has_foreign_blocker: bool,
}

/// An attempt that has ended, and what follows.
pub(crate) struct AttemptEnd {
    pub task: ObjectId,
    pub run: RunId,
    pub status: RunStatus,
    pub session: Option<ObjectId>,
    /// With the version each task had.
    pub transitions: Vec<(Transition, Task)>,
    pub verdict: Option<Verdict>,
    pub summary: String,
}

/// What a transaction left: the tasks' new versions, and the workflow's.
#[derive(Debug, Default)]
pub(crate) struct CommitResult {
    pub versions: Vec<(ObjectId, i64)>,
    pub revision: i64,
    /// How long the runs of attempts that ended were queued.
    pub queue_times: Vec<Duration>,
}

/// The transaction under way.
pub(crate) struct WorkflowTx<'a, 'b> {
    pub tx: &'a mut Tx<'b>,
    pub executor: &'a Executor,
    pub admissions: &'a mut AdmissionBatch,
    pub writer: WriteContext,
    pub workflow: Workflow,
    pub now: Timestamp,
    pub events: Vec<NewWorkflowEvent>,
    pub applied: CommitResult,
    /// New objects and edges, written together at the end.
    drafts: GraphDrafts,
    agents: HashMap<AgentId, Agent>,
}

pub(crate) fn apply(
    tx: &mut Tx<'_>,
    doorman: &mut AdmissionBatch,
    executor: &Executor,
    work: &WriteBatch,
) -> Result<CommitResult> {
    let id = work.workflow;
    let Some((revision, _)) = workflows::fence(tx, id, &work.owner, work.lease_until)? else {
        return Err(Error::Lost(id));
    };
    if revision != work.revision + 1 {
        return Err(Error::Stale(id));
    }
    let workflow = workflows::get(tx, work.project, id)?.ok_or(Error::Lost(id))?;
    let mut writer =
        executor.graph().write_context(tx, Actor { project: work.project, author: Author::System })?;
    writer.is_dispatcher = true;
    let now = writer.now;
    let applied = CommitResult { revision, ..CommitResult::default() };
    let mut writing = WorkflowTx {
        tx,
        executor,
        admissions: doorman,
        writer,
        workflow,
        now,
        events: Vec::new(),
        applied,
        drafts: GraphDrafts::default(),
        agents: HashMap::new(),
    };
    for item in &work.writes {
        writing.apply_write(item)?;
    }
    let WorkflowTx { tx, admissions: doorman, writer, events, applied, drafts: news, .. } = writing;
    doorman.write_drafts(tx, &writer, news)?;
    workflows::append_own_events(tx, id, &events)?;
    Ok(applied)
}

impl WorkflowTx<'_, '_> {
    fn apply_write(&mut self, item: &WorkflowWrite) -> Result<()> {
        match item {
            WorkflowWrite::StartAttempt(begin) => self.start_attempt(begin),
            WorkflowWrite::ConcludeAttempt(settle) => self.conclude_attempt(settle),
            WorkflowWrite::ChangeTask { step, before } => {
                self.update_task(
                    step.task,
                    before.version,
                    conclude_attempt::transition_properties(step, before),
                    &step.reason,
                )?;
                let data = json!({ "reason": step.reason, "from": before.status.as_str() });
                self.push_event(conclude_attempt::transition_event(step, false), Some(step.task), None, data);
                Ok(())
            }
            WorkflowWrite::AdvanceDiscussion(step) => discussion::write_discussion(self, step),
            WorkflowWrite::StartPlanner { agent, prompt, run } => self.start_planner(*agent, prompt, *run),
            WorkflowWrite::ReportWait { task, why } => {
                self.push_event(TASK_WAITING_EVENT, Some(*task), None, json!({ "reason": why }));
                Ok(())
            }
            WorkflowWrite::MoveWorkflow { to, why, summary, escalation } => {
                self.move_to(*to, why, summary.clone(), escalation.as_ref())
            }
            WorkflowWrite::RejectPlan { why } => {
                let run = self.workflow.planner_run;
                self.push_event("plan_refused", None, run, json!({ "reason": why }));
                Ok(())
            }
            WorkflowWrite::DeleteTask { task } => {
                objects::delete(self.tx, &self.writer, *task, None)?;
                Ok(())
            }
        }
    }

    /// Changes a task and remembers its new version.
    pub fn update_task(&mut self, task: ObjectId, version: i64, properties: Value, why: &str) -> Result<()> {
        let Value::Object(properties) = properties else { return Ok(()) };
        // A task may change more than once in one transaction.
        let newest = self.applied.versions.iter().rev().find(|(id, _)| *id == task);
        let expected = newest.map_or(version, |(_, version)| *version);
        let patch = ObjectPatch {
            properties: Some(properties),
            expected_version: Some(expected),
            ..ObjectPatch::default()
        };
        self.writer.reason = Some(why.to_owned());
        let changed = objects::update(self.tx, &self.writer, task, &patch);
        self.writer.reason = None;
        let changed = changed.map_err(|error| match error {
            emergent_graph::Error::VersionConflict { .. } | emergent_graph::Error::NotFound { .. } => {
                Error::Stale(self.workflow.id)
            }
            other => other.into(),
        })?;
        self.applied.versions.push((task, changed.version));
        Ok(())
    }

    pub fn push_event(
        &mut self,
        kind: &'static str,
        task: Option<ObjectId>,
        run: Option<RunId>,
        data: Value,
    ) {
        self.events.push(NewWorkflowEvent { kind, task, run, data, at: self.now });
    }

    /// A new object, written at the end.
    pub fn draft_object(
        &mut self,
        author: Author,
        id: ObjectId,
        type_: &str,
        properties: Value,
    ) -> Result<()> {
        let Value::Object(properties) = properties else { return Ok(()) };
        let new = NewObject { type_: type_.to_owned(), properties, ..NewObject::default() };
        let draft = objects::ObjectDraft::new(new)
            .map_err(emergent_graph::Error::from)?
            .with_id(id)
            .with_author(author);
        // Sessions are found by their words; a vector for each would cost more than the attempt.
        self.drafts.objects.push(if type_ == "Session" { draft.without_vector() } else { draft });
        Ok(())
    }

    /// New edges, written at the end.
    pub fn draft_edges(
        &mut self,
        author: Author,
        edges: &[(&str, ObjectId, ObjectId, Option<i64>)],
    ) -> Result<()> {
        for (type_, from, to, sequence) in edges {
            let mut properties = Map::new();
            if let Some(sequence) = sequence {
                properties.insert("sequence".to_owned(), json!(sequence));
            }
            let (type_, from, to) = ((*type_).to_owned(), *from, *to);
            let new = NewRelationship { type_, from, to, properties, weight: None };
            let draft = relationships::RelationshipDraft::new(new).map_err(emergent_graph::Error::from)?;
            self.drafts.edges.push(draft.with_author(author));
        }
        Ok(())
    }

    pub fn get_agent(&mut self, id: AgentId) -> Result<Agent> {
        if let Some(known) = self.agents.get(&id) {
            return Ok(known.clone());
        }
        let found = agents::get(self.tx, self.workflow.project, id)?;
        let found = found.filter(|agent| agent.deleted_at.is_none()).ok_or(Error::Stale(self.workflow.id))?;
        self.agents.insert(id, found.clone());
        Ok(found)
    }

    /// Queues a run. Why one cannot be started is its task's failure, or a turn's, not the workflow's.
    #[expect(clippy::too_many_arguments, reason = "what a run is started with, once")]
    pub fn admit_run(
        &mut self,
        agent: AgentId,
        resumes: Option<RunId>,
        start: StartOptions,
        duty: WorkflowLink,
        part: i64,
        run: RunId,
        task: Option<ObjectId>,
    ) -> Result<Run> {
        let started_by = self.workflow.started_by;
        let turn = duty.discussion.map(|discussion| (discussion, part));
        let admitted = match resumes {
            Some(paused) => {
                let found = runs::get_for_update(self.tx, self.workflow.project, paused)?;
                let found = found.ok_or_else(|| Error::not_found("run", paused))?;
                emergent_executor::admit_resumed_workflow_run(
                    self.tx,
                    self.executor,
                    self.admissions,
                    &found,
                    duty,
                    run,
                    start.input,
                )
            }
            None => {
                let agent = self.get_agent(agent)?;
                emergent_executor::admit_workflow_run(
                    self.tx,
                    self.executor,
                    self.admissions,
                    &agent,
                    start,
                    duty,
                    part,
                    run,
                    started_by,
                )
            }
        };
        let why = match admitted {
            Ok(run) => return Ok(run),
            Err(emergent_executor::Error::Store(error)) => return Err(Error::Store(error)),
            Err(other) => other.to_string(),
        };
        Err(Error::NotStarted { task, turn, budget: self.is_budget_spent()?, why })
    }

    /// Whether nothing is left of what the workflow may spend.
    fn is_budget_spent(&mut self) -> Result<bool> {
        let Limit { microusd, tokens } = self.workflow.settings.budget;
        let spent = budget::workflow_spend(self.tx, self.workflow.project, self.workflow.id)?.spent;
        Ok(microusd.is_some_and(|most| spent.microusd >= most)
            || tokens.is_some_and(|most| spent.tokens >= most))
    }
}

/// As this run: sessions, entries and verdicts are its own, though no tool of it wrote them.
pub(crate) fn run_author(run: RunId) -> Author {
    Author::Run { run_id: run, tool_call_id: None }
}
