//! The state of a workflow at one moment: its tasks, what blocks what, attempts and discussions.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, RunId},
    run::{Reason, RunStatus},
    task::{Task, TaskStatus},
    verdict::Verdict,
    workflow::Workflow,
};

use serde_json::Value;

use crate::workflow::{
    foreign_blockers::{self, ForeignBlocker},
    transition::{AttemptMode, Change, Transition, stored_summary},
};

/// The run of a task that is in progress, as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub run: RunId,
    pub agent: String,
    pub status: RunStatus,
    pub reason: Option<Reason>,
    pub summary: String,
    /// The final answer as a value, if the run has an output schema and completed.
    pub output: Option<Value>,
    pub error: Option<String>,
    /// The verdict of a verifying task, once its run has ended.
    pub verdict: Option<Verdict>,
    /// True if the run resumes one that completed without a verdict.
    pub asked_again: bool,
}

/// How far the discussions of a task are. With several discussions, the one that is furthest behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiscussionProgress {
    /// A turn is running, or has to be started.
    Open,
    /// A person has to decide.
    Escalated,
    /// All are decided. The task is done unless it also requires a review.
    Resolved,
    /// All are decided, and the review that the task requires was among them.
    Reviewed,
}

/// A workflow with its tasks, indexed for the questions that the rules ask often.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub workflow: Workflow,
    tasks: Vec<Task>,
    index: HashMap<ObjectId, usize>,
    blockers: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
    /// The open blockers of each task that belong to another workflow, or to none.
    foreign_blockers: HashMap<ObjectId, Vec<ForeignBlocker>>,
    /// Tasks with such a blocker, whether it is completed or not.
    has_foreign_blocker: HashSet<ObjectId>,
    /// How many tasks wait for each task, directly or not.
    dependent_counts: Vec<usize>,
    pub attempts: HashMap<ObjectId, Attempt>,
    /// How many attempts at each task were started. A resumed run continues its attempt.
    pub attempt_counts: HashMap<ObjectId, i64>,
    pub discussions: HashMap<ObjectId, DiscussionProgress>,
    /// The completed blockers of each task that belong to another workflow, or to none.
    pub foreign_results: HashMap<ObjectId, Vec<Task>>,
}

impl Snapshot {
    /// `blocks` has pairs of (blocker, blocked). A blocker that is not one of the tasks counts only if
    /// it is in `outside`, which has the open ones.
    pub fn new(
        workflow: Workflow,
        tasks: Vec<Task>,
        blocks: &[(ObjectId, ObjectId)],
        outside: &[ForeignBlocker],
    ) -> Self {
        let index: HashMap<ObjectId, usize> =
            tasks.iter().enumerate().map(|(position, task)| (task.id, position)).collect();
        let (mut blockers, mut dependents) = (vec![Vec::new(); tasks.len()], vec![Vec::new(); tasks.len()]);
        let mut open_blockers: HashMap<ObjectId, Vec<ForeignBlocker>> = HashMap::new();
        for (from, to) in blocks {
            match (index.get(from), index.get(to)) {
                (Some(from), Some(to)) => {
                    blockers[*to].push(*from);
                    dependents[*from].push(*to);
                }
                (None, Some(_)) => {
                    let open = outside.iter().filter(|one| one.id == *from).cloned();
                    open_blockers.entry(*to).or_default().extend(open);
                }
                _ => {}
            }
        }
        let has_foreign_blocker = open_blockers.keys().copied().collect();
        open_blockers.retain(|_, blockers| !blockers.is_empty());
        let dependent_counts = count_dependents(&dependents);
        Self {
            workflow,
            tasks,
            index,
            blockers,
            dependents,
            foreign_blockers: open_blockers,
            has_foreign_blocker,
            dependent_counts,
            attempts: HashMap::new(),
            attempt_counts: HashMap::new(),
            discussions: HashMap::new(),
            foreign_results: HashMap::new(),
        }
    }

    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub fn get(&self, id: ObjectId) -> Option<&Task> {
        self.index.get(&id).map(|position| &self.tasks[*position])
    }

    pub fn by_key(&self, key: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.key == key)
    }

    /// The tasks a task waits for itself.
    pub fn blockers(&self, id: ObjectId) -> impl Iterator<Item = &Task> {
        let positions =
            self.index.get(&id).map(|position| self.blockers[*position].as_slice()).unwrap_or_default();
        positions.iter().map(|position| &self.tasks[*position])
    }

    /// The tasks that a task waits for through its direct blockers, the nearest first.
    pub fn indirect_blockers(&self, id: ObjectId, limit: usize) -> Vec<&Task> {
        let Some(start) = self.index.get(&id) else { return Vec::new() };
        let mut seen: HashSet<usize> = self.blockers[*start].iter().copied().collect();
        let mut level = self.blockers[*start].clone();
        let mut found = Vec::new();
        while !level.is_empty() {
            let mut next = Vec::new();
            for before in level.iter().flat_map(|position| &self.blockers[*position]) {
                if found.len() == limit {
                    return found;
                }
                if seen.insert(*before) {
                    next.push(*before);
                    found.push(&self.tasks[*before]);
                }
            }
            level = next;
        }
        found
    }

    /// Whether everything a task waits for is completed.
    pub fn is_unblocked(&self, task: &Task) -> bool {
        self.foreign_blockers(task.id).is_empty()
            && self.blockers(task.id).all(|blocker| blocker.status == TaskStatus::Completed)
    }

    /// What a task waits for in other workflows, or in none.
    pub fn foreign_blockers(&self, id: ObjectId) -> &[ForeignBlocker] {
        self.foreign_blockers.get(&id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a task has a blocker that is not of its workflow, even one that is completed: it may be
    /// taken back there.
    pub fn has_foreign_blocker(&self, id: ObjectId) -> bool {
        self.has_foreign_blocker.contains(&id)
    }

    /// Whether any blocker is outside this workflow. No event wakes the dispatcher when it completes.
    pub fn has_foreign_blockers(&self) -> bool {
        !self.foreign_blockers.is_empty()
    }

    /// Describes what a task waits for that this workflow does not drive.
    pub fn describe_wait(&self, task: &Task) -> Option<String> {
        foreign_blockers::describe_wait(
            task,
            self.attempts.contains_key(&task.id),
            self.foreign_blockers(task.id),
        )
    }

    /// Pending tasks that can start, in order: by priority, then by how many tasks wait for them, then
    /// by age.
    pub fn available(&self) -> Vec<&Task> {
        let mut free: Vec<(usize, &Task)> = self
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| task.status == TaskStatus::Pending && self.is_unblocked(task))
            .collect();
        free.sort_by_key(|(position, task)| {
            (task.priority, std::cmp::Reverse(self.dependent_counts[*position]), task.created_at, task.id)
        });
        free.into_iter().map(|(_, task)| task).collect()
    }

    /// Counts tasks in progress that have an attempt. A task that a person or an agent took by hand
    /// has none, and needs no slot. Neither does an attempt whose run waits for a person.
    pub fn running_attempts(&self) -> usize {
        let has_running_attempt = |task: &&Task| {
            task.status == TaskStatus::InProgress
                && self.attempts.get(&task.id).is_some_and(|attempt| attempt.status != RunStatus::Waiting)
                && self.discussions.get(&task.id) != Some(&DiscussionProgress::Escalated)
        };
        self.tasks.iter().filter(has_running_attempt).count()
    }

    /// The number of the newest attempt at a task. A task that runs again although it did not fail is in its next
    /// attempt as well.
    pub fn attempt_number(&self, task: &Task) -> i64 {
        // A task that is pending again has ended the attempts that its retries count.
        let by_retries = task.retry_count + i64::from(task.status != TaskStatus::Pending);
        self.attempt_counts.get(&task.id).copied().unwrap_or(by_retries)
    }

    /// The number of the attempt that would start now.
    pub fn next_attempt_number(&self, task: &Task) -> i64 {
        self.attempt_counts.get(&task.id).map_or(task.retry_count + 1, |count| count + 1)
    }

    /// Makes a decided change in memory, as the transaction makes it in the graph. Decisions that
    /// follow in the same pass see the state after it.
    pub fn apply(&mut self, change: &Change<'_>) {
        match change {
            Change::AttemptStarted { task, run, agent, mode } => {
                self.start_attempt(*task, *run, agent, *mode);
            }
            Change::AttemptConcluded { task, transitions } => {
                transitions.iter().for_each(|transition| self.move_task(transition));
                if transitions.iter().any(|transition| transition.task == *task) {
                    self.store_summary(*task);
                }
                // A run that is resumed keeps its attempt and what was discussed in it.
                if self.get(*task).is_some_and(|task| task.status != TaskStatus::Paused) {
                    self.attempts.remove(task);
                    self.discussions.remove(task);
                }
            }
            Change::TaskMoved(transition) => self.move_task(transition),
        }
    }

    /// The transaction with the decided changes was committed: the tasks and the workflow have these
    /// versions now.
    pub fn set_committed(&mut self, versions: &[(ObjectId, i64)], revision: i64) {
        for (task, version) in versions {
            if let Some(task) = self.get_mut(*task) {
                task.version = *version;
            }
        }
        self.workflow.revision = revision;
    }

    pub(super) fn get_mut(&mut self, id: ObjectId) -> Option<&mut Task> {
        self.index.get(&id).map(|position| &mut self.tasks[*position])
    }

    fn move_task(&mut self, transition: &Transition) {
        if let Some(task) = self.get_mut(transition.task) {
            transition.to.apply_to(task);
        }
    }

    /// The task keeps the summary of its attempt, in place of what an earlier one said.
    fn store_summary(&mut self, id: ObjectId) {
        let Some(summary) = self.attempts.get(&id).map(|attempt| stored_summary(&attempt.summary)) else {
            return;
        };
        if let Some(task) = self.get_mut(id) {
            task.summary = Some(summary);
        }
    }

    fn start_attempt(&mut self, id: ObjectId, run: RunId, agent: &str, mode: AttemptMode) {
        let number = self.get(id).map(|task| self.next_attempt_number(task));
        if let Some(number) = number.filter(|_| mode == AttemptMode::New) {
            self.attempt_counts.insert(id, number);
        }
        let Some(task) = self.get_mut(id) else { return };
        task.status = TaskStatus::InProgress;
        task.run = Some(run);
        task.assigned_agent = Some(agent.to_owned());
        task.resumes = match mode {
            AttemptMode::New => 0,
            AttemptMode::Resumed => task.resumes + 1,
        };
        let attempt = Attempt {
            run,
            agent: agent.to_owned(),
            status: RunStatus::Queued,
            reason: None,
            summary: String::new(),
            output: None,
            error: None,
            verdict: None,
            asked_again: false,
        };
        self.attempts.insert(id, attempt);
    }

    /// The tasks that a verifying task judges: those it names, else its direct blockers.
    pub fn verified_tasks(&self, task: &Task) -> Vec<&Task> {
        if task.verifies.is_empty() {
            return self.blockers(task.id).collect();
        }
        let mut verified: Vec<&Task> = Vec::new();
        for other in task.verifies.iter().filter_map(|key| self.by_key(key)) {
            // A task that is named twice is sent back once.
            if other.id != task.id && verified.iter().all(|known| known.id != other.id) {
                verified.push(other);
            }
        }
        verified
    }

    /// Whether a task waits for another, directly or not.
    pub fn waits_for(&self, task: ObjectId, other: ObjectId) -> bool {
        match (self.index.get(&task), self.index.get(&other)) {
            (Some(task), Some(other)) => reachable(&self.blockers, *task).contains(other),
            _ => false,
        }
    }

    /// The tasks on the paths between two tasks, without the two.
    pub fn between(&self, from: ObjectId, to: ObjectId) -> Vec<&Task> {
        let (Some(from), Some(to)) = (self.index.get(&from), self.index.get(&to)) else { return Vec::new() };
        let after = reachable(&self.dependents, *from);
        let before = reachable(&self.blockers, *to);
        let mut both: Vec<usize> = after.intersection(&before).copied().collect();
        both.sort_unstable();
        both.into_iter().map(|position| &self.tasks[position]).collect()
    }
}

fn reachable(edges: &[Vec<usize>], from: usize) -> HashSet<usize> {
    let mut seen = HashSet::new();
    let mut level = edges[from].clone();
    while let Some(position) = level.pop() {
        if seen.insert(position) {
            level.extend(&edges[position]);
        }
    }
    seen
}

/// Counts for each task the tasks that can be reached from it. Each task has a bit set of its
/// dependents, which is the union of the sets of its direct dependents.
fn count_dependents(after: &[Vec<usize>]) -> Vec<usize> {
    let words = after.len().div_ceil(64);
    let mut reached: Vec<Option<Vec<u64>>> = vec![None; after.len()];
    for start in 0..after.len() {
        let mut stack = vec![start];
        while let Some(position) = stack.last().copied() {
            if reached[position].is_some() {
                stack.pop();
                continue;
            }
            let open: Vec<usize> =
                after[position].iter().copied().filter(|next| reached[*next].is_none()).collect();
            // Cycles are refused when edges are written; the bound only protects against bad data.
            if !open.is_empty() && stack.len() <= after.len() {
                stack.extend(open);
                continue;
            }
            let mut bits = vec![0u64; words];
            for next in &after[position] {
                bits[next / 64] |= 1 << (next % 64);
                if let Some(further) = &reached[*next] {
                    bits.iter_mut().zip(further).for_each(|(one, other)| *one |= other);
                }
            }
            reached[position] = Some(bits);
            stack.pop();
        }
    }
    reached
        .into_iter()
        .map(|bits| bits.unwrap_or_default().iter().map(|word| word.count_ones() as usize).sum())
        .collect()
}
