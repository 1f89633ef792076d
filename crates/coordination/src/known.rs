//! Everything a walk knows of its workflow, read in one go and kept while nobody else changes it.

use std::collections::HashMap;

use emergent_domain::{
    agent::Agent,
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    run::{Run, RunStatus},
    task::{Task, TaskStatus, VerdictKind},
    workflow::{Workflow, WorkflowStatus},
};
use emergent_store::{Tx, agents, runs, tasks, workflows};
use serde_json::Value;

use crate::{
    outside, plan,
    select::AgentCard,
    state::{Attempt, Snapshot, Talk},
    talk::{self, Talking},
    verdicts::verdict_of,
};

/// The event that says what a task waits for.
pub(crate) const WAITING: &str = "task_waiting";

pub(crate) struct Known {
    pub snapshot: Snapshot,
    /// The newest session of each task.
    pub sessions: HashMap<ObjectId, ObjectId>,
    /// The discussions of each task's newest attempt that had any, the oldest first.
    pub talking: HashMap<ObjectId, Vec<Talking>>,
    pub agents: Vec<Agent>,
    /// What waits for something that nobody walks here, and was not told yet.
    pub untold: Vec<(ObjectId, String)>,
}

/// Reads a workflow as it stands; `None` when it is gone.
pub(crate) fn load(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: WorkflowId,
) -> Result<Option<Known>, emergent_store::Error> {
    let Some(workflow) = workflows::get(tx, project, id)? else { return Ok(None) };
    let all: Vec<Task> = tasks::of_workflow(tx, project, id)?.iter().map(Task::of).collect();
    let blocks = tasks::blocks(tx, project, id)?;
    let outside = outside::read(tx, project, &all, &blocks)?;
    let attempts = attempts(tx, project, &all)?;
    let sessions = workflows::sessions(tx, id)?.into_iter().collect();
    let talking = discussions(tx, project, &all)?;
    let agents = agents::all(tx, project)?;
    let mut snapshot = Snapshot::new(workflow, all, &blocks, &outside);
    snapshot.attempts = attempts;
    let untold = untold(tx, &snapshot)?;
    let mut known = Known { snapshot, sessions, talking, agents, untold };
    known.join_talks(tx)?;
    Ok(Some(known))
}

fn discussions(
    tx: &mut Tx<'_>,
    project: ProjectId,
    all: &[Task],
) -> Result<HashMap<ObjectId, Vec<Talking>>, emergent_store::Error> {
    let about: Vec<ObjectId> = all.iter().map(|task| task.id).collect();
    let mut talking: HashMap<ObjectId, Vec<Talking>> = HashMap::new();
    for (task, object) in tasks::discussions(tx, project, &about)? {
        if let Some(found) = Talking::read(tx, project, &object)? {
            let of_task = talking.entry(task).or_default();
            // What was discussed in attempts before is over.
            of_task.retain(|one| one.attempt == found.attempt);
            of_task.push(found);
        }
    }
    Ok(talking)
}

/// What waits, as far as the newest event about it does not say so already.
fn untold(tx: &mut Tx<'_>, snapshot: &Snapshot) -> Result<Vec<(ObjectId, String)>, emergent_store::Error> {
    let mut untold = Vec::new();
    if snapshot.workflow.status != WorkflowStatus::Running {
        return Ok(untold);
    }
    for (task, why) in plan::waits(snapshot) {
        let newest = workflows::newest_event_of(tx, snapshot.workflow.id, task)?;
        if !newest.is_some_and(|(kind, data)| kind == WAITING && data["reason"] == why.as_str()) {
            untold.push((task, why));
        }
    }
    Ok(untold)
}

fn attempts(
    tx: &mut Tx<'_>,
    project: ProjectId,
    all: &[Task],
) -> Result<HashMap<ObjectId, Attempt>, emergent_store::Error> {
    let at_work: Vec<&Task> = all
        .iter()
        .filter(|task| matches!(task.status, TaskStatus::InProgress | TaskStatus::Paused))
        .collect();
    let ids: Vec<RunId> = at_work.iter().filter_map(|task| task.run).collect();
    let found = workflows::runs_of(tx, project, &ids)?;
    let mut attempts = HashMap::new();
    for run in found {
        if let Some(task) = at_work.iter().find(|task| task.run == Some(run.id)) {
            attempts.insert(task.id, attempt(tx, task, &run)?);
        }
    }
    Ok(attempts)
}

/// A task's run as the rules see it; what it handed in is read once it has ended.
pub(crate) fn attempt(tx: &mut Tx<'_>, task: &Task, run: &Run) -> Result<Attempt, emergent_store::Error> {
    let summary = run.summary.clone().unwrap_or_default();
    let verdict = if task.verdict != VerdictKind::None && run.status.is_terminal() {
        let handed_in: Option<Value> = runs::handed_in(tx, run.id)?;
        verdict_of(task.verdict, handed_in.as_ref(), &summary)
    } else {
        None
    };
    let owes = task.verdict != VerdictKind::None && verdict.is_none();
    let asked_again = owes && goes_on_from_completed(tx, run)?;
    Ok(Attempt {
        run: run.id,
        agent: run.agent_name.clone(),
        status: run.status,
        reason: run.reason,
        summary,
        error: run.error.clone(),
        verdict,
        asked_again,
    })
}

/// Only a run that owed something is gone on with after it completed, so one such says that it was
/// asked for it.
fn goes_on_from_completed(tx: &mut Tx<'_>, run: &Run) -> Result<bool, emergent_store::Error> {
    let before = runs::resume_chain(tx, run)?;
    let before = workflows::runs_of(tx, run.project, &before)?;
    Ok(before.iter().any(|one| one.status == RunStatus::Completed))
}

/// The run an attempt began with: those after it only go on with it.
pub(crate) fn first_run(
    tx: &mut Tx<'_>,
    project: ProjectId,
    run: RunId,
) -> Result<Option<RunId>, emergent_store::Error> {
    let Some(run) = runs::get(tx, project, run)? else { return Ok(None) };
    Ok(Some(runs::resume_chain(tx, &run)?.pop().unwrap_or(run.id)))
}

impl Known {
    pub fn workflow(&self) -> &Workflow {
        &self.snapshot.workflow
    }

    /// The agents, as one is chosen among them.
    pub fn cards(&self) -> Vec<AgentCard> {
        self.agents.iter().map(|agent| AgentCard::of(&agent.definition)).collect()
    }

    /// Tells the snapshot how far each task's discussions are. What they came to is what the task
    /// hands on.
    fn join_talks(&mut self, tx: &mut Tx<'_>) -> Result<(), emergent_store::Error> {
        for (task, talking) in &self.talking {
            let Some(attempt) = self.snapshot.attempts.get_mut(task) else { continue };
            let begun = first_run(tx, self.snapshot.workflow.project, attempt.run)?;
            let of_attempt = talking.iter().filter(|one| one.attempt.is_some() && one.attempt == begun);
            let Some(talk) = of_attempt.map(Talking::talk).min() else { continue };
            if talk == Talk::Resolved {
                talk::conclude(talking, &mut attempt.summary);
            }
            self.snapshot.talks.insert(*task, talk);
        }
        Ok(())
    }

    /// The run of an attempt has ended. Discussions of the runs it goes on from are its own.
    pub fn ended(&mut self, task: ObjectId, mut attempt: Attempt) {
        if self.snapshot.talks.get(&task) == Some(&Talk::Resolved)
            && let Some(talking) = self.talking.get(&task)
        {
            talk::conclude(talking, &mut attempt.summary);
        }
        self.snapshot.attempts.insert(task, attempt);
    }

    /// The discussion of a task that a person has to decide.
    pub fn undecided(&self, task: ObjectId) -> Option<ObjectId> {
        self.snapshot.talks.get(&task).filter(|talk| **talk == Talk::Escalated)?;
        let talking = self.talking.get(&task)?;
        talking.iter().find(|one| one.talk() == Talk::Escalated).map(|one| one.id)
    }

    /// The runs whose end would change something.
    pub fn awaited(&self) -> Vec<RunId> {
        let attempts = self.snapshot.attempts.values().filter(|attempt| !attempt.status.is_terminal());
        let turns = self.talking.values().flatten().flat_map(Talking::open_turns);
        attempts.map(|attempt| attempt.run).chain(turns).chain(self.planning()).collect()
    }

    fn planning(&self) -> Option<RunId> {
        let workflow = self.workflow();
        let plans = workflow.status == WorkflowStatus::Planning;
        workflow.planner_run.filter(|_| plans)
    }
}
