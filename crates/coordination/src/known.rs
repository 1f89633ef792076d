//! Everything a walk knows of its workflow, read in one go and kept while nobody else changes it.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    agent::Agent,
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    run::Run,
    task::{Task, TaskStatus, VerdictKind},
    workflow::Workflow,
};
use emergent_store::{Tx, agents, runs, tasks, workflows};
use serde_json::Value;

use crate::{
    select::AgentCard,
    state::{Attempt, Snapshot, Talk},
    talk::Talking,
    verdicts::verdict_of,
};

pub(crate) struct Known {
    pub snapshot: Snapshot,
    /// The newest session of each task.
    pub sessions: HashMap<ObjectId, ObjectId>,
    /// The discussion of each task's newest attempt that had one.
    pub talking: HashMap<ObjectId, Talking>,
    pub agents: Vec<Agent>,
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
    let here: HashSet<ObjectId> = all.iter().map(|task| task.id).collect();
    let outside: Vec<ObjectId> =
        blocks.iter().map(|(from, _)| *from).filter(|from| !here.contains(from)).collect();
    let open_outside = workflows::open_among(tx, project, &outside)?.into_iter().collect();
    let attempts = attempts(tx, project, &all)?;
    let sessions = workflows::sessions(tx, id)?.into_iter().collect();
    let talks_about: Vec<ObjectId> = all.iter().map(|task| task.id).collect();
    let mut talking = HashMap::new();
    for (task, object) in tasks::discussions(tx, project, &talks_about)? {
        if let Some(found) = Talking::read(tx, project, &object)? {
            talking.insert(task, found);
        }
    }
    let agents = agents::all(tx, project)?;
    let mut snapshot = Snapshot::new(workflow, all, &blocks, &open_outside);
    snapshot.attempts = attempts;
    let mut known = Known { snapshot, sessions, talking, agents };
    known.join_talks();
    Ok(Some(known))
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
    Ok(Attempt {
        run: run.id,
        agent: run.agent_name.clone(),
        status: run.status,
        reason: run.reason,
        summary,
        error: run.error.clone(),
        verdict,
    })
}

impl Known {
    pub fn workflow(&self) -> &Workflow {
        &self.snapshot.workflow
    }

    /// The agents, as one is chosen among them.
    pub fn cards(&self) -> Vec<AgentCard> {
        self.agents.iter().map(|agent| AgentCard::of(&agent.definition)).collect()
    }

    /// Tells the snapshot how far each task's discussion is. What a discussion came to is what the
    /// task hands on.
    pub fn join_talks(&mut self) {
        self.snapshot.talks.clear();
        for (task, talking) in &self.talking {
            let Some(attempt) = self.snapshot.attempts.get_mut(task) else { continue };
            if talking.of_run != Some(attempt.run) {
                continue;
            }
            let talk = talking.talk();
            if talk == Talk::Resolved {
                talking.conclude(&mut attempt.summary);
            }
            self.snapshot.talks.insert(*task, talk);
        }
    }

    /// The runs whose end would change something.
    pub fn awaited(&self) -> Vec<RunId> {
        let attempts = self.snapshot.attempts.values().filter(|attempt| !attempt.status.is_terminal());
        let turns = self.talking.values().flat_map(Talking::open_turns);
        attempts.map(|attempt| attempt.run).chain(turns).chain(self.planning()).collect()
    }

    fn planning(&self) -> Option<RunId> {
        let workflow = self.workflow();
        let plans = workflow.status == emergent_domain::workflow::WorkflowStatus::Planning;
        workflow.planner_run.filter(|_| plans)
    }
}
