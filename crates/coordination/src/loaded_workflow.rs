//! Everything a walk knows of its workflow, read in one go and kept while nobody else changes it.

use std::collections::HashMap;

use emergent_domain::{
    agent::Agent,
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    run::{Run, RunStatus},
    task::{Task, TaskStatus, VerdictKind},
    workflow::{Workflow, WorkflowStatus},
};
use emergent_executor::EndedRuns;
use emergent_rules::workflow::{
    decide,
    select::AgentCard,
    snapshot::{Attempt, DiscussionProgress, Snapshot},
    verdicts::parse_verdict,
};
use emergent_store::{Tx, agents, runs, tasks, workflows};
use serde_json::Value;

use crate::{
    discussion::{self, TaskDiscussion},
    foreign_blockers,
};

/// The event that says what a task waits for.
pub(crate) const TASK_WAITING_EVENT: &str = "task_waiting";

pub(crate) struct LoadedWorkflow {
    pub snapshot: Snapshot,
    /// The newest session of each task.
    pub sessions: HashMap<ObjectId, ObjectId>,
    /// The discussions of each task's attempt, the oldest first.
    pub discussions: HashMap<ObjectId, Vec<TaskDiscussion>>,
    pub agents: Vec<Agent>,
    /// What waits for something that nobody walks here; `None` once it was looked through.
    pub unreported_waits: Option<Vec<(ObjectId, String)>>,
}

/// Reads a workflow as it stands; `None` when it is gone.
pub(crate) fn load_workflow(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: WorkflowId,
) -> Result<Option<LoadedWorkflow>, emergent_store::Error> {
    let Some(workflow) = workflows::get(tx, project, id)? else { return Ok(None) };
    let all: Vec<Task> = tasks::list_for_workflow(tx, project, id)?.iter().map(Task::from_object).collect();
    let blocks = tasks::list_blocks(tx, project, id)?;
    let outside = foreign_blockers::load_foreign_blockers(tx, project, &all, &blocks)?;
    let attempts = load_attempts(tx, project, &all)?;
    let sessions = workflows::list_sessions(tx, id)?.into_iter().collect();
    let talking = load_discussions(tx, project, &all)?;
    let agents = agents::list_all(tx, project)?;
    let mut snapshot = Snapshot::new(workflow, all, &blocks, &outside);
    snapshot.attempts = attempts;
    let runs = snapshot.workflow.status == WorkflowStatus::Running;
    let waits = runs.then(|| decide::foreign_waits(&snapshot));
    let mut known =
        LoadedWorkflow { snapshot, sessions, discussions: talking, agents, unreported_waits: waits };
    known.merge_discussions();
    Ok(Some(known))
}

fn load_discussions(
    tx: &mut Tx<'_>,
    project: ProjectId,
    all: &[Task],
) -> Result<HashMap<ObjectId, Vec<TaskDiscussion>>, emergent_store::Error> {
    let about: Vec<ObjectId> = all.iter().map(|task| task.id).collect();
    let at: HashMap<ObjectId, RunId> = all.iter().filter_map(|task| Some((task.id, task.run?))).collect();
    let mut begun: HashMap<ObjectId, Option<RunId>> = HashMap::new();
    let mut talking: HashMap<ObjectId, Vec<TaskDiscussion>> = HashMap::new();
    for (task, object) in tasks::list_discussions(tx, project, &about)? {
        let Some(run) = at.get(&task) else { continue };
        let attempt = match begun.get(&task) {
            Some(known) => *known,
            None => *begun.entry(task).or_insert(first_run_of_attempt(tx, project, *run)?),
        };
        // What was discussed in attempts before is over.
        let found = TaskDiscussion::load(tx, project, &object)?;
        if let Some(mut found) = found.filter(|one| one.attempt.is_some() && one.attempt == attempt) {
            let of_task = talking.entry(task).or_default();
            found.include_earlier_outcomes(of_task);
            of_task.push(found);
        }
    }
    Ok(talking)
}

fn load_attempts(
    tx: &mut Tx<'_>,
    project: ProjectId,
    all: &[Task],
) -> Result<HashMap<ObjectId, Attempt>, emergent_store::Error> {
    let at_work: Vec<&Task> = all
        .iter()
        .filter(|task| matches!(task.status, TaskStatus::InProgress | TaskStatus::Paused))
        .collect();
    let ids: Vec<RunId> = at_work.iter().filter_map(|task| task.run).collect();
    let found = workflows::list_runs(tx, project, &ids)?;
    let mut attempts = HashMap::new();
    for run in found {
        if let Some(task) = at_work.iter().find(|task| task.run == Some(run.id)) {
            attempts.insert(task.id, load_attempt(tx, task, &run)?);
        }
    }
    Ok(attempts)
}

/// A task's run as the rules see it; what it handed in is read once it has ended.
pub(crate) fn load_attempt(
    tx: &mut Tx<'_>,
    task: &Task,
    run: &Run,
) -> Result<Attempt, emergent_store::Error> {
    let mut attempt = attempt_from_run(run);
    if task.verdict != VerdictKind::None {
        if run.status.is_terminal() {
            let handed_in = last_submission(tx, run)?;
            attempt.verdict = parse_verdict(task.verdict, handed_in.as_ref(), &attempt.summary);
        }
        attempt.asked_again = attempt.verdict.is_none() && was_asked_again(tx, run)?;
    }
    Ok(attempt)
}

/// As [`attempt`], of a task that has nothing to hand in.
fn attempt_from_run(run: &Run) -> Attempt {
    Attempt {
        run: run.id,
        agent: run.agent_name.clone(),
        status: run.status,
        reason: run.reason,
        summary: run.summary.clone().unwrap_or_default(),
        error: run.error.clone(),
        verdict: None,
        asked_again: false,
    }
}

/// What an attempt handed in last: its run, or one that this goes on from.
fn last_submission(tx: &mut Tx<'_>, run: &Run) -> Result<Option<Value>, emergent_store::Error> {
    if let Some(given) = runs::submission(tx, run.id)? {
        return Ok(Some(given));
    }
    for before in runs::resume_chain(tx, run)? {
        if let Some(given) = runs::submission(tx, before)? {
            return Ok(Some(given));
        }
    }
    Ok(None)
}

/// Only a run that owed something is gone on with after it completed, so one such says that it was
/// asked for it.
fn was_asked_again(tx: &mut Tx<'_>, run: &Run) -> Result<bool, emergent_store::Error> {
    let before = runs::resume_chain(tx, run)?;
    let before = workflows::list_runs(tx, run.project, &before)?;
    Ok(before.iter().any(|one| one.status == RunStatus::Completed))
}

/// The run an attempt began with: those after it only go on with it.
pub(crate) fn first_run_of_attempt(
    tx: &mut Tx<'_>,
    project: ProjectId,
    run: RunId,
) -> Result<Option<RunId>, emergent_store::Error> {
    let Some(run) = runs::get(tx, project, run)? else { return Ok(None) };
    Ok(Some(runs::resume_chain(tx, &run)?.pop().unwrap_or(run.id)))
}

impl LoadedWorkflow {
    pub fn workflow(&self) -> &Workflow {
        &self.snapshot.workflow
    }

    /// The agents, as one is chosen among them.
    pub fn agent_cards(&self) -> Vec<AgentCard> {
        self.agents.iter().map(|agent| AgentCard::from_definition(&agent.definition)).collect()
    }

    /// Tells the snapshot how far each task's discussions are. What they came to is what the task
    /// hands on.
    fn merge_discussions(&mut self) {
        for (task, talking) in &self.discussions {
            let Some(attempt) = self.snapshot.attempts.get_mut(task) else { continue };
            let Some(talk) = discussion::overall_progress(talking) else { continue };
            if talk >= DiscussionProgress::Resolved {
                discussion::append_decisions(talking, &mut attempt.summary);
            }
            self.snapshot.discussions.insert(*task, talk);
        }
    }

    /// The run of an attempt has ended. Discussions of the runs it goes on from are its own.
    pub fn record_attempt_end(&mut self, task: ObjectId, mut attempt: Attempt) {
        match self.snapshot.discussions.get(&task) {
            Some(talk) if *talk >= DiscussionProgress::Resolved => {
                let talking = self.discussions.get(&task).map(Vec::as_slice).unwrap_or_default();
                discussion::append_decisions(talking, &mut attempt.summary);
            }
            Some(_) => {}
            // Those that are still known were of an attempt before.
            None => drop(self.discussions.remove(&task)),
        }
        self.snapshot.attempts.insert(task, attempt);
    }

    /// The discussion of a task that a person has to decide.
    pub fn escalated_discussion(&self, task: ObjectId) -> Option<ObjectId> {
        self.snapshot.discussions.get(&task).filter(|talk| **talk == DiscussionProgress::Escalated)?;
        let talking = self.discussions.get(&task)?;
        talking.iter().find(|one| one.progress() == DiscussionProgress::Escalated).map(|one| one.id)
    }

    /// Takes in runs that ended here; false when there is more to know than that, or nothing was
    /// heard: it is looked for in the database then. What is taken in for nothing does no harm: a
    /// change by others makes what is decided on it stale.
    pub fn apply_ended_runs(&mut self, ended: &mut EndedRuns) -> bool {
        let mut heard = false;
        while let Some(run) = ended.try_next() {
            let task = self.snapshot.tasks().iter().find(|task| task.run == Some(run.id));
            // A verdict was handed in, and a discussion has turns: they are read.
            let Some(task) = task.filter(|task| task.verdict == VerdictKind::None) else { return false };
            let (task, attempt) = (task.id, attempt_from_run(&run));
            if self.discussions.contains_key(&task) || !self.snapshot.attempts.contains_key(&task) {
                return false;
            }
            self.snapshot.attempts.insert(task, attempt);
            heard = true;
        }
        heard
    }

    /// The runs whose end would change something.
    pub fn pending_runs(&self) -> Vec<RunId> {
        let attempts = self.snapshot.attempts.values().filter(|attempt| !attempt.status.is_terminal());
        let turns = self.discussions.values().flatten().flat_map(TaskDiscussion::open_turns);
        attempts.map(|attempt| attempt.run).chain(turns).chain(self.pending_planner_run()).collect()
    }

    fn pending_planner_run(&self) -> Option<RunId> {
        let workflow = self.workflow();
        let plans = workflow.status == WorkflowStatus::Planning;
        workflow.planner_run.filter(|_| plans)
    }
}
