//! Writes what was decided: everything of one look at a workflow is one transaction, behind the
//! fence that only its dispatcher passes. Whoever else changed a task in between makes it stale,
//! and nothing is written.

mod attempt;
mod moved;
mod settled;

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
    workflow::{Duty, Hands, Limit, Workflow, WorkflowStatus},
};
use emergent_executor::{Doorman, Executor, News, Start};
use emergent_graph::{Actor, Writer, objects, relationships};
use emergent_store::{
    Tx, agents, budget, runs,
    workflows::{self, NewEvent},
};
use serde_json::{Map, Value, json};

use crate::{Error, Result, known::WAITING, plan::Trouble, settle::Move, talk};

/// What is to be written, as it was decided on a snapshot at `seen`.
pub(crate) struct Work {
    pub project: ProjectId,
    pub workflow: WorkflowId,
    pub owner: Arc<str>,
    /// How long the workflow stays the owner's.
    pub until: Timestamp,
    pub seen: i64,
    pub items: Vec<Item>,
}

pub(crate) enum Item {
    Begin(Box<Begin>),
    Settle(Box<Settle>),
    /// A task that is not started, or not done: skipped, or failed before its first step.
    Decide {
        step: Move,
        before: Box<Task>,
    },
    Talk(Box<talk::Step>),
    /// Who plans is started, or started again.
    Plan {
        agent: AgentId,
        prompt: String,
        run: RunId,
    },
    /// A task waits for something that nobody walks here.
    Waits {
        task: ObjectId,
        why: String,
    },
    /// The workflow moves on or ends.
    Workflow {
        to: WorkflowStatus,
        why: String,
        summary: Option<String>,
        escalation: Option<Trouble>,
    },
    /// A plan that will not do.
    Refused {
        why: String,
    },
    /// What such a plan left behind.
    Discard {
        task: ObjectId,
    },
}

impl Item {
    /// How many runs it starts.
    pub fn runs(&self) -> usize {
        match self {
            Item::Begin(_) | Item::Plan { .. } => 1,
            Item::Talk(step) => step.runs(),
            _ => 0,
        }
    }
}

/// An attempt at a task: its session and its run.
pub(crate) struct Begin {
    pub task: Task,
    pub agent: AgentId,
    pub agent_name: String,
    pub why: String,
    pub prompt: String,
    pub run: RunId,
    pub session: ObjectId,
    /// Of the attempt before.
    pub before: Option<ObjectId>,
    pub informed_by: Vec<ObjectId>,
    pub hands: Option<Hands>,
    /// The run that goes on, instead of a new conversation.
    pub resumes: Option<RunId>,
    /// Something of another workflow blocks it, whether that is done by now or not.
    pub has_outside: bool,
}

/// An attempt that has ended, and what follows.
pub(crate) struct Settle {
    pub task: ObjectId,
    pub run: RunId,
    pub status: RunStatus,
    pub session: Option<ObjectId>,
    /// With the version each task had.
    pub moves: Vec<(Move, Task)>,
    pub verdict: Option<Verdict>,
    pub summary: String,
}

/// What a transaction left: the tasks' new versions, and the workflow's.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub versions: Vec<(ObjectId, i64)>,
    pub revision: i64,
    /// How long the runs of attempts that ended were queued.
    pub waited: Vec<Duration>,
}

/// The transaction under way.
pub(crate) struct Writing<'a, 'b> {
    pub tx: &'a mut Tx<'b>,
    pub executor: &'a Executor,
    pub doorman: &'a mut Doorman,
    pub writer: Writer,
    pub workflow: Workflow,
    pub now: Timestamp,
    pub events: Vec<NewEvent>,
    pub applied: Applied,
    /// New objects and edges, written together at the end.
    news: News,
    agents: HashMap<AgentId, Agent>,
}

pub(crate) fn apply(
    tx: &mut Tx<'_>,
    doorman: &mut Doorman,
    executor: &Executor,
    work: &Work,
) -> Result<Applied> {
    let id = work.workflow;
    let Some((revision, _)) = workflows::fence(tx, id, &work.owner, work.until)? else {
        return Err(Error::Lost(id));
    };
    if revision != work.seen + 1 {
        return Err(Error::Stale(id));
    }
    let workflow = workflows::get(tx, work.project, id)?.ok_or(Error::Lost(id))?;
    let mut writer = executor.graph().writer(tx, Actor { project: work.project, author: Author::System })?;
    writer.dispatcher = true;
    let now = writer.now;
    let applied = Applied { revision, ..Applied::default() };
    let mut writing = Writing {
        tx,
        executor,
        doorman,
        writer,
        workflow,
        now,
        events: Vec::new(),
        applied,
        news: News::default(),
        agents: HashMap::new(),
    };
    for item in &work.items {
        writing.write(item)?;
    }
    let Writing { tx, doorman, writer, events, applied, news, .. } = writing;
    doorman.write(tx, &writer, news)?;
    workflows::record_own(tx, id, &events)?;
    Ok(applied)
}

impl Writing<'_, '_> {
    fn write(&mut self, item: &Item) -> Result<()> {
        match item {
            Item::Begin(begin) => self.begin(begin),
            Item::Settle(settle) => self.settle(settle),
            Item::Decide { step, before } => {
                self.change(step.task, before.version, settled::changes(step, before), &step.why)?;
                let data = json!({ "reason": step.why, "from": before.status.as_str() });
                self.tell(settled::event_of(step, false), Some(step.task), None, data);
                Ok(())
            }
            Item::Talk(step) => talk::write(self, step),
            Item::Plan { agent, prompt, run } => self.plan(*agent, prompt, *run),
            Item::Waits { task, why } => {
                self.tell(WAITING, Some(*task), None, json!({ "reason": why }));
                Ok(())
            }
            Item::Workflow { to, why, summary, escalation } => {
                self.move_to(*to, why, summary.clone(), escalation.as_ref())
            }
            Item::Refused { why } => {
                let run = self.workflow.planner_run;
                self.tell("plan_refused", None, run, json!({ "reason": why }));
                Ok(())
            }
            Item::Discard { task } => {
                objects::delete(self.tx, &self.writer, *task, None)?;
                Ok(())
            }
        }
    }

    /// Changes a task and remembers its new version.
    pub fn change(&mut self, task: ObjectId, version: i64, properties: Value, why: &str) -> Result<()> {
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

    pub fn tell(&mut self, kind: &'static str, task: Option<ObjectId>, run: Option<RunId>, data: Value) {
        self.events.push(NewEvent { kind, task, run, data, at: self.now });
    }

    /// A new object, written at the end.
    pub fn make(&mut self, author: Author, id: ObjectId, type_: &str, properties: Value) -> Result<()> {
        let Value::Object(properties) = properties else { return Ok(()) };
        let new = NewObject { type_: type_.to_owned(), properties, ..NewObject::default() };
        let draft = objects::Draft::new(new).map_err(emergent_graph::Error::from)?.with_id(id).by(author);
        // Sessions are found by their words; a vector for each would cost more than the attempt.
        self.news.objects.push(if type_ == "Session" { draft.without_vector() } else { draft });
        Ok(())
    }

    /// New edges, written at the end.
    pub fn join(&mut self, author: Author, edges: &[(&str, ObjectId, ObjectId, Option<i64>)]) -> Result<()> {
        for (type_, from, to, sequence) in edges {
            let mut properties = Map::new();
            if let Some(sequence) = sequence {
                properties.insert("sequence".to_owned(), json!(sequence));
            }
            let (type_, from, to) = ((*type_).to_owned(), *from, *to);
            let new = NewRelationship { type_, from, to, properties, weight: None };
            let draft = relationships::Draft::new(new).map_err(emergent_graph::Error::from)?;
            self.news.edges.push(draft.by(author));
        }
        Ok(())
    }

    pub fn agent(&mut self, id: AgentId) -> Result<Agent> {
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
    pub fn admit(
        &mut self,
        agent: AgentId,
        resumes: Option<RunId>,
        start: Start,
        duty: Duty,
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
                emergent_executor::dispatch_resume(
                    self.tx,
                    self.executor,
                    self.doorman,
                    &found,
                    duty,
                    run,
                    start.input,
                )
            }
            None => {
                let agent = self.agent(agent)?;
                emergent_executor::dispatch(
                    self.tx,
                    self.executor,
                    self.doorman,
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
        Err(Error::Refused { task, turn, budget: self.is_spent()?, why })
    }

    /// Whether nothing is left of what the workflow may spend.
    fn is_spent(&mut self) -> Result<bool> {
        let Limit { microusd, tokens } = self.workflow.settings.budget;
        let spent = budget::spent_of(self.tx, self.workflow.project, self.workflow.id)?.spent;
        Ok(microusd.is_some_and(|most| spent.microusd >= most)
            || tokens.is_some_and(|most| spent.tokens >= most))
    }
}

/// As this run: sessions, entries and verdicts are its own, though no tool of it wrote them.
pub(crate) fn as_run(run: RunId) -> Author {
    Author::Run { run_id: run, tool_call_id: None }
}
