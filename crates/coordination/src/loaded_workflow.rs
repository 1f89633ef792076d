//! The state of a workflow that its driver holds in memory, and how it is loaded in one transaction.

use std::{
    collections::{HashMap, HashSet},
    sync::OnceLock,
};

use emergent_domain::{
    agent::Agent,
    coordination::CoordinationSettings,
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    run::RunStatus,
    task::{Task, TaskStatus, VerdictKind},
    workflow::{Workflow, WorkflowStatus},
};
use emergent_rules::workflow::{
    decide,
    discussion::{
        MAX_OPENED_DISCUSSIONS, TaskDiscussion, WantedChanges, append_decisions, endless_discussions_error,
        overall_progress, wanted_changes,
    },
    select::AgentCard,
    snapshot::{Attempt, DiscussionProgress, Snapshot},
};
use emergent_store::{
    Tx, projects,
    tasks::{self, TaskOutcome},
    workflows,
};

use crate::{
    agent_cards, attempts, discussion::load_discussion, dispatchable::dispatchable_agents,
    ended_runs::EndedRuns, foreign_blockers, run_times::RunTimes,
};

/// A workflow with everything that its driver needs for decisions.
pub(crate) struct LoadedWorkflow {
    pub snapshot: Snapshot,
    /// The newest session of each task.
    pub sessions: HashMap<ObjectId, ObjectId>,
    /// The times of runs that have ended since the workflow was loaded.
    pub run_times: HashMap<RunId, RunTimes>,
    /// The discussions of each task's attempt, the oldest first.
    pub discussions: HashMap<ObjectId, Vec<TaskDiscussion>>,
    /// How many discussions were started for the ended attempts at tasks that require a review.
    pub discussion_counts: HashMap<ObjectId, i64>,
    /// The agents that the dispatcher may start.
    pub agents: Vec<Agent>,
    /// Which agents the project chooses for tasks.
    pub coordination: CoordinationSettings,
    /// How earlier tasks of other workflows ended.
    outcomes: Vec<TaskOutcome>,
    /// Computed at the first use; `agents` stays the same until the workflow is loaded again.
    cards: OnceLock<Vec<AgentCard>>,
    /// Tasks that wait for something this workflow does not drive; `None` once they were reported.
    pub unreported_waits: Option<Vec<(ObjectId, String)>>,
}

/// Loads a workflow, or `None` if it does not exist any more.
pub(crate) fn load_workflow(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: WorkflowId,
) -> Result<Option<LoadedWorkflow>, emergent_store::Error> {
    let Some(workflow) = workflows::get(tx, project, id)? else { return Ok(None) };
    let tasks: Vec<Task> = tasks::list_for_workflow(tx, project, id)?.iter().map(Task::from_object).collect();
    let task_ids: Vec<ObjectId> = tasks.iter().map(|task| task.id).collect();
    let blocks = tasks::list_blocks_of(tx, &task_ids)?;
    let foreign_blockers = foreign_blockers::load_foreign_blockers(tx, project, &tasks, &blocks)?;
    let foreign_results = foreign_blockers::load_foreign_results(tx, project, &tasks, &blocks)?;
    let attempts = attempts::load_attempts(tx, project, &tasks)?;
    let sessions = workflows::list_sessions(tx, id)?.into_iter().collect();
    let discussions = load_discussions(tx, project, &tasks)?;
    let agents = dispatchable_agents(tx, project)?;
    let coordination = projects::get(tx, project)?.map(|project| project.coordination).unwrap_or_default();
    let outcomes = agent_cards::load_outcomes(tx, project, id, &tasks)?;
    let mut snapshot = Snapshot::new(workflow, tasks, &blocks, &foreign_blockers);
    snapshot.attempts = attempts;
    snapshot.foreign_results = foreign_results;
    for (task, _) in workflows::list_attempts(tx, id)?.iter().filter(|(_, run)| !run.is_resumed) {
        *snapshot.attempt_counts.entry(*task).or_default() += 1;
    }
    let is_running = snapshot.workflow.status == WorkflowStatus::Running;
    let waits = is_running.then(|| decide::foreign_waits(&snapshot));
    let discussion_counts = load_discussion_counts(tx, &snapshot)?;
    let mut loaded = LoadedWorkflow {
        snapshot,
        sessions,
        run_times: HashMap::new(),
        discussions,
        discussion_counts,
        agents,
        coordination,
        outcomes,
        cards: OnceLock::new(),
        unreported_waits: waits,
    };
    loaded.merge_discussions();
    Ok(Some(loaded))
}

/// Counts the discussions of the attempts whose review may be opened now.
fn load_discussion_counts(
    tx: &mut Tx<'_>,
    snapshot: &Snapshot,
) -> Result<HashMap<ObjectId, i64>, emergent_store::Error> {
    let has_ended =
        |task: &Task| snapshot.attempts.get(&task.id).is_some_and(|attempt| attempt.status.is_terminal());
    let reviewed = snapshot.tasks().iter().filter(|task| {
        task.status == TaskStatus::InProgress && task.requires_collaboration && has_ended(task)
    });
    let id = snapshot.workflow.id;
    reviewed.map(|task| Ok((task.id, workflows::count_discussions(tx, id, task.id)?))).collect()
}

/// Loads the discussions of the current attempt of each task.
fn load_discussions(
    tx: &mut Tx<'_>,
    project: ProjectId,
    tasks: &[Task],
) -> Result<HashMap<ObjectId, Vec<TaskDiscussion>>, emergent_store::Error> {
    let task_ids: Vec<ObjectId> = tasks.iter().map(|task| task.id).collect();
    let current_runs: HashMap<ObjectId, RunId> =
        tasks.iter().filter_map(|task| Some((task.id, task.run?))).collect();
    let mut first_runs: HashMap<ObjectId, Option<RunId>> = HashMap::new();
    let mut discussions: HashMap<ObjectId, Vec<TaskDiscussion>> = HashMap::new();
    for (task, object) in tasks::list_discussions(tx, project, &task_ids)? {
        let Some(run) = current_runs.get(&task) else { continue };
        let attempt = match first_runs.get(&task) {
            Some(first_run) => *first_run,
            None => *first_runs.entry(task).or_insert(attempts::first_run_of_attempt(tx, project, *run)?),
        };
        // Discussions of earlier attempts no longer matter.
        let discussion = load_discussion(tx, project, &object)?;
        if let Some(mut discussion) =
            discussion.filter(|discussion| discussion.attempt.is_some() && discussion.attempt == attempt)
        {
            let task_discussions = discussions.entry(task).or_default();
            discussion.include_earlier_outcomes(task_discussions);
            task_discussions.push(discussion);
        }
    }
    Ok(discussions)
}

impl LoadedWorkflow {
    pub fn workflow(&self) -> &Workflow {
        &self.snapshot.workflow
    }

    /// The agents as the selector sees them.
    pub fn agent_cards(&self) -> &[AgentCard] {
        self.cards.get_or_init(|| agent_cards::agent_cards(&self.agents, &self.coordination, &self.outcomes))
    }

    /// The agents as the selector sees them, including how tasks of the same kind ended in this workflow.
    pub fn agent_cards_for(&self, task: &Task) -> Vec<AgentCard> {
        let mut cards = self.agent_cards().to_vec();
        agent_cards::count_tasks_of_kind(&mut cards, &task.kind, self.snapshot.tasks());
        cards
    }

    /// Marks the attempt at a task as failed if its review was opened too often: somebody takes the reviews out of the
    /// graph. Returns whether that is so.
    pub fn fail_if_discussed_too_often(&mut self, task: ObjectId) -> bool {
        let count = self.discussion_counts.get(&task).copied().unwrap_or(0);
        let attempt = self.snapshot.attempts.get_mut(&task);
        let Some(attempt) = attempt.filter(|_| count >= MAX_OPENED_DISCUSSIONS) else { return false };
        attempt.status = RunStatus::Failed;
        attempt.error = Some(endless_discussions_error(count));
        true
    }

    /// Records in the snapshot how far the discussions of each task are. Their decisions become part of
    /// the attempt's summary.
    fn merge_discussions(&mut self) {
        for (task, discussions) in &self.discussions {
            let Some(attempt) = self.snapshot.attempts.get_mut(task) else { continue };
            let Some(progress) = overall_progress(discussions) else { continue };
            if progress >= DiscussionProgress::Resolved {
                append_decisions(discussions, &mut attempt.summary);
            }
            self.snapshot.discussions.insert(*task, progress);
        }
    }

    /// Records that the run of an attempt has ended. Discussions of the runs that it resumes belong to it.
    pub fn record_attempt_end(&mut self, task: ObjectId, mut attempt: Attempt) {
        match self.snapshot.discussions.get(&task) {
            Some(progress) if *progress >= DiscussionProgress::Resolved => {
                let discussions = self.discussions.get(&task).map(Vec::as_slice).unwrap_or_default();
                append_decisions(discussions, &mut attempt.summary);
            }
            Some(_) => {}
            // The discussions that are still loaded belong to an earlier attempt.
            None => drop(self.discussions.remove(&task)),
        }
        self.snapshot.attempts.insert(task, attempt);
    }

    /// Records which of the runs that have not ended wait for a person.
    pub fn set_waiting_runs(&mut self, waiting: &HashSet<RunId>) {
        for attempt in self.snapshot.attempts.values_mut().filter(|attempt| !attempt.status.is_terminal()) {
            if waiting.contains(&attempt.run) {
                attempt.status = RunStatus::Waiting;
            } else if attempt.status == RunStatus::Waiting {
                attempt.status = RunStatus::Running;
            }
        }
    }

    /// The discussion of a task that a person has to decide, if there is one.
    pub fn escalated_discussion(&self, task: ObjectId) -> Option<&TaskDiscussion> {
        self.snapshot
            .discussions
            .get(&task)
            .filter(|progress| **progress == DiscussionProgress::Escalated)?;
        let discussions = self.discussions.get(&task)?;
        discussions.iter().find(|discussion| discussion.progress() == DiscussionProgress::Escalated)
    }

    /// What a person wants to be changed in the result of a task whose discussions are decided.
    pub fn wanted_changes(&self, task: ObjectId) -> Option<WantedChanges> {
        self.snapshot.discussions.get(&task).filter(|progress| **progress == DiscussionProgress::Reviewed)?;
        wanted_changes(self.discussions.get(&task)?)
    }

    /// Applies runs that ended in this process. Returns false if the caller has to read the database
    /// instead: nothing arrived, or a run has a verdict or a discussion, which only the database holds.
    /// Applying an outdated run is harmless, because the commit then fails as stale.
    pub fn apply_ended_runs(&mut self, ended: &mut EndedRuns) -> bool {
        let mut applied = false;
        while let Some(run) = ended.try_next() {
            let task = self.snapshot.tasks().iter().find(|task| task.run == Some(run.id));
            // Verdicts and turns of discussions are only in the database.
            let Some(task) = task.filter(|task| task.verdict == VerdictKind::None) else { return false };
            let (task, attempt) = (task.id, attempts::attempt_from_run(&run));
            if self.discussions.contains_key(&task) || !self.snapshot.attempts.contains_key(&task) {
                return false;
            }
            self.snapshot.attempts.insert(task, attempt);
            self.run_times.insert(run.id, RunTimes::from(&run));
            applied = true;
        }
        applied
    }

    /// The runs that the workflow waits for: of attempts, of turns, and of the planner.
    pub fn pending_runs(&self) -> Vec<RunId> {
        let attempts = self.snapshot.attempts.values().filter(|attempt| !attempt.status.is_terminal());
        let turns = self.discussions.values().flatten().flat_map(TaskDiscussion::open_turns);
        attempts.map(|attempt| attempt.run).chain(turns).chain(self.pending_planner_run()).collect()
    }

    fn pending_planner_run(&self) -> Option<RunId> {
        let workflow = self.workflow();
        let is_planning = workflow.status == WorkflowStatus::Planning;
        workflow.planner_run.filter(|_| is_planning)
    }
}
