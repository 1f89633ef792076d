//! The transaction that writes the decisions about a workflow, and the small writes that they have in common.

use std::{collections::HashMap, time::Duration};

use emergent_domain::{
    agent::Agent,
    author::Author,
    ids::{AgentId, ObjectId, RunId},
    object::{NewObject, ObjectPatch},
    relationship::NewRelationship,
    run::Run,
    time::Timestamp,
    workflow::{Limit, Workflow, WorkflowLink, WorkflowOrigin},
    workflow_event::WorkflowEventBody,
};
use emergent_executor::{AdmissionBatch, Executor, LinkedRun, StartOptions, admit_linked_run};
use emergent_graph::{WriteContext, objects, relationships};
use emergent_store::{Tx, agents, budget, runs, workflows::NewWorkflowEvent};
use serde_json::{Map, Value, json};

use crate::{
    error::{Error, Result},
    sessions::GraphDrafts,
    transactions::new_event,
    workflow_runs::resume_workflow_run,
};

/// What a transaction changed.
#[derive(Debug, Default)]
pub(crate) struct CommitResult {
    /// The new versions of tasks. A task that changed more than once has several.
    pub versions: Vec<(ObjectId, i64)>,
    /// The new revision of the workflow.
    pub revision: i64,
    /// How long the runs of attempts that ended were queued.
    pub queue_times: Vec<Duration>,
}

/// The transaction that writes a batch, with the state that its writes share.
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
    pub drafts: GraphDrafts,
    /// The agents that were loaded in this transaction.
    pub agents: HashMap<AgentId, Agent>,
}

/// A new edge of the graph.
pub(crate) struct NewEdge {
    type_: &'static str,
    from: ObjectId,
    to: ObjectId,
    properties: Map<String, Value>,
}

impl NewEdge {
    pub fn new(type_: &'static str, from: ObjectId, to: ObjectId) -> Self {
        Self { type_, from, to, properties: Map::new() }
    }

    /// Sets its position among the edges of this type from the same object.
    pub fn with_sequence(self, sequence: i64) -> Self {
        self.with_properties(Map::from_iter([("sequence".to_owned(), json!(sequence))]))
    }

    pub fn with_properties(self, properties: Map<String, Value>) -> Self {
        Self { properties, ..self }
    }
}

/// What a run of the workflow is started with.
pub(crate) struct RunAdmission {
    pub agent: AgentId,
    /// The run to resume, instead of a new conversation.
    pub resumed_run: Option<RunId>,
    pub start: StartOptions,
    pub link: WorkflowLink,
    /// The index of a turn in its discussion; 0 for other runs.
    pub child_index: i64,
    pub run: RunId,
    pub task: Option<ObjectId>,
}

impl WorkflowTx<'_, '_> {
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

    /// Adds an event, which is written at the end.
    pub fn push_event(&mut self, task: Option<ObjectId>, run: Option<RunId>, body: &WorkflowEventBody) {
        self.events.push(new_event(task, run, body, self.now));
    }

    /// Adds a new object, which is written at the end.
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
        // Full-text search finds sessions; embedding each of them would cost more than the attempt.
        self.drafts.objects.push(if type_ == "Session" { draft.without_vector() } else { draft });
        Ok(())
    }

    /// Adds new edges, which are written at the end.
    pub fn draft_edges(&mut self, author: Author, edges: &[NewEdge]) -> Result<()> {
        for NewEdge { type_, from, to, properties } in edges {
            let (type_, from, to, properties) = ((*type_).to_owned(), *from, *to, properties.clone());
            let new = NewRelationship { type_, from, to, properties, weight: None };
            let draft = relationships::RelationshipDraft::new(new).map_err(emergent_graph::Error::from)?;
            self.drafts.edges.push(draft.with_author(author));
        }
        Ok(())
    }

    /// Loads an agent. A deleted agent makes the batch stale.
    pub fn get_agent(&mut self, id: AgentId) -> Result<Agent> {
        if let Some(agent) = self.agents.get(&id) {
            return Ok(agent.clone());
        }
        let agent = agents::get(self.tx, self.workflow.project, id)?;
        let agent = agent.filter(|agent| agent.deleted_at.is_none()).ok_or(Error::Stale(self.workflow.id))?;
        self.agents.insert(id, agent.clone());
        Ok(agent)
    }

    /// How a run of the workflow is started: with this input, with the model of the workflow if it has one, and
    /// within the trace of the request that started the workflow.
    pub fn start_options(&self, input: String) -> StartOptions {
        StartOptions {
            input,
            model: self.workflow.settings.model.clone(),
            traceparent: self.workflow.origin.traceparent.clone(),
            ..StartOptions::default()
        }
    }

    /// Queues a run. If it cannot be started, the failure belongs to its task or turn, not to the
    /// workflow.
    pub fn admit_run(&mut self, admission: RunAdmission) -> Result<Run> {
        let RunAdmission { agent, resumed_run, start, link, child_index, run, task } = admission;
        let started_by = self.workflow.started_by;
        let turn = link.discussion.map(|discussion| (discussion, child_index));
        let admitted = match resumed_run {
            Some(paused) => {
                let paused_run = runs::get_for_update(self.tx, self.workflow.project, paused)?;
                // A run that works at something else is not this workflow's to resume, whatever the task says.
                let own_work = (Some(self.workflow.id), task);
                let is_own = |run: &Run| (run.workflow_link.workflow, run.workflow_link.task) == own_work;
                match paused_run.filter(is_own) {
                    Some(paused_run) => resume_workflow_run(
                        self.tx,
                        self.executor,
                        self.admissions,
                        &paused_run,
                        link,
                        run,
                        start.input,
                    ),
                    None => Err(emergent_executor::Error::Conflict(format!(
                        "the run `{paused}` does not work at this task, and cannot be resumed for it"
                    ))),
                }
            }
            None => {
                let agent = self.get_agent(agent)?;
                let WorkflowOrigin { cause, cause_depth, .. } = self.workflow.origin;
                let run = LinkedRun { id: run, link, child_index, started_by, cause, cause_depth };
                admit_linked_run(self.tx, self.executor, self.admissions, &agent, run, &start)
            }
        };
        let refusal = match admitted {
            Ok(run) => return Ok(run),
            // The database failed, and did not refuse the run: the driver tries again.
            Err(error) if error.store_error().is_some() => return Err(error.into()),
            Err(other) => other.to_string(),
        };
        Err(Error::NotStarted { task, turn, budget: self.is_budget_spent()?, why: refusal })
    }

    /// Whether the workflow has spent its budget.
    fn is_budget_spent(&mut self) -> Result<bool> {
        let Limit { microusd, tokens } = self.workflow.settings.budget;
        let spent = budget::workflow_spend(self.tx, self.workflow.project, self.workflow.id)?.spent;
        Ok(microusd.is_some_and(|limit| spent.microusd >= limit)
            || tokens.is_some_and(|limit| spent.tokens >= limit))
    }
}

/// The author of sessions, entries and verdicts: the run they are about, although none of its tools
/// wrote them.
pub(crate) fn run_author(run: RunId) -> Author {
    Author::Run { run_id: run, tool_call_id: None }
}
