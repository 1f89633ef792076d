//! What a dispatcher knows of a workflow at one moment, and what its tasks mean to one another.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, RunId},
    run::{Reason, RunStatus},
    task::{Task, TaskStatus},
    verdict::Verdict,
    workflow::Workflow,
};

use crate::workflow::foreign_blockers::{self, ForeignBlocker};

/// The run of a task that is in progress, as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub run: RunId,
    pub agent: String,
    pub status: RunStatus,
    pub reason: Option<Reason>,
    pub summary: String,
    pub error: Option<String>,
    /// What a verifying task found, once it has ended.
    pub verdict: Option<Verdict>,
    /// It goes on from a run that completed without one.
    pub asked_again: bool,
}

/// How far the discussions of a task have come; of several, the first of these that one is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiscussionProgress {
    /// Somebody speaks, or is to be asked.
    Open,
    /// A person has to decide.
    Escalated,
    /// The outcome is there: the task is done with it, unless it wants a review besides.
    Resolved,
    /// As before, and the review that a task wants was among them.
    Reviewed,
}

/// A workflow with its tasks, indexed for the questions that are asked again and again.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub workflow: Workflow,
    tasks: Vec<Task>,
    index: HashMap<ObjectId, usize>,
    blockers: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
    /// What each task waits for in other workflows, or in none.
    foreign_blockers: HashMap<ObjectId, Vec<ForeignBlocker>>,
    /// Tasks with such a blocker, whether it is completed or not.
    has_foreign_blocker: HashSet<ObjectId>,
    /// How many wait for each, directly or not.
    dependent_counts: Vec<usize>,
    pub attempts: HashMap<ObjectId, Attempt>,
    pub discussions: HashMap<ObjectId, DiscussionProgress>,
}

impl Snapshot {
    /// `blocks`: (blocker, blocked). A blocker that is not among the tasks holds up when it is among
    /// those `outside`.
    pub fn new(
        workflow: Workflow,
        tasks: Vec<Task>,
        blocks: &[(ObjectId, ObjectId)],
        outside: &[ForeignBlocker],
    ) -> Self {
        let index: HashMap<ObjectId, usize> =
            tasks.iter().enumerate().map(|(place, task)| (task.id, place)).collect();
        let (mut blockers, mut dependents) = (vec![Vec::new(); tasks.len()], vec![Vec::new(); tasks.len()]);
        let mut held: HashMap<ObjectId, Vec<ForeignBlocker>> = HashMap::new();
        for (from, to) in blocks {
            match (index.get(from), index.get(to)) {
                (Some(from), Some(to)) => {
                    blockers[*to].push(*from);
                    dependents[*from].push(*to);
                }
                (None, Some(_)) => {
                    let open = outside.iter().filter(|one| one.id == *from).cloned();
                    held.entry(*to).or_default().extend(open);
                }
                _ => {}
            }
        }
        let has_foreign_blocker = held.keys().copied().collect();
        held.retain(|_, blockers| !blockers.is_empty());
        let dependent_counts = count_dependents(&dependents);
        Self {
            workflow,
            tasks,
            index,
            blockers,
            dependents,
            foreign_blockers: held,
            has_foreign_blocker,
            dependent_counts,
            attempts: HashMap::new(),
            discussions: HashMap::new(),
        }
    }

    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub fn get(&self, id: ObjectId) -> Option<&Task> {
        self.index.get(&id).map(|place| &self.tasks[*place])
    }

    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut Task> {
        self.index.get(&id).map(|place| &mut self.tasks[*place])
    }

    pub fn by_key(&self, key: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.key == key)
    }

    /// The tasks a task waits for itself.
    pub fn blockers(&self, id: ObjectId) -> impl Iterator<Item = &Task> {
        let places = self.index.get(&id).map(|place| self.blockers[*place].as_slice()).unwrap_or_default();
        places.iter().map(|place| &self.tasks[*place])
    }

    /// Those it waits for through others, the nearest first and so many at most; its direct blockers
    /// not included.
    pub fn indirect_blockers(&self, id: ObjectId, most: usize) -> Vec<&Task> {
        let Some(start) = self.index.get(&id) else { return Vec::new() };
        let mut seen: HashSet<usize> = self.blockers[*start].iter().copied().collect();
        let mut level = self.blockers[*start].clone();
        let mut found = Vec::new();
        while !level.is_empty() {
            let mut next = Vec::new();
            for before in level.iter().flat_map(|place| &self.blockers[*place]) {
                if found.len() == most {
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

    /// Whether any blocker is in another workflow: nobody tells when that one is done.
    pub fn has_foreign_blockers(&self) -> bool {
        !self.foreign_blockers.is_empty()
    }

    /// What a task waits for that nobody walks here, in words.
    pub fn describe_wait(&self, task: &Task) -> Option<String> {
        foreign_blockers::describe_wait(
            task,
            self.attempts.contains_key(&task.id),
            self.foreign_blockers(task.id),
        )
    }

    /// Pending tasks that can start, in the order in which they should: the most urgent, then what
    /// most others wait for, then the oldest.
    pub fn available(&self) -> Vec<&Task> {
        let mut free: Vec<(usize, &Task)> = self
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| task.status == TaskStatus::Pending && self.is_unblocked(task))
            .collect();
        free.sort_by_key(|(place, task)| {
            (task.priority, std::cmp::Reverse(self.dependent_counts[*place]), task.created_at, task.id)
        });
        free.into_iter().map(|(_, task)| task).collect()
    }

    /// Tasks in progress that are this dispatcher's: one that a person or an agent took by hand has
    /// no attempt, and takes no slot.
    pub fn running_attempts(&self) -> usize {
        let at_work = |task: &&Task| {
            task.status == TaskStatus::InProgress
                && self.attempts.contains_key(&task.id)
                && self.discussions.get(&task.id) != Some(&DiscussionProgress::Escalated)
        };
        self.tasks.iter().filter(at_work).count()
    }

    /// An attempt is on its way.
    pub fn record_attempt_start(&mut self, id: ObjectId, run: RunId, agent: &str, resumed: bool) {
        let Some(task) = self.get_mut(id) else { return };
        task.status = TaskStatus::InProgress;
        task.run = Some(run);
        task.assigned_agent = Some(agent.to_owned());
        task.resumes = if resumed { task.resumes + 1 } else { 0 };
        let attempt = Attempt {
            run,
            agent: agent.to_owned(),
            status: RunStatus::Queued,
            reason: None,
            summary: String::new(),
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
        task.verifies.iter().filter_map(|key| self.by_key(key)).filter(|one| one.id != task.id).collect()
    }

    /// Whether a task waits for another, directly or not.
    pub fn waits_for(&self, task: ObjectId, other: ObjectId) -> bool {
        match (self.index.get(&task), self.index.get(&other)) {
            (Some(task), Some(other)) => reachable(&self.blockers, *task).contains(other),
            _ => false,
        }
    }

    /// What lies on a way from one task to another, neither included.
    pub fn between(&self, from: ObjectId, to: ObjectId) -> Vec<&Task> {
        let (Some(from), Some(to)) = (self.index.get(&from), self.index.get(&to)) else { return Vec::new() };
        let after = reachable(&self.dependents, *from);
        let before = reachable(&self.blockers, *to);
        let mut both: Vec<usize> = after.intersection(&before).copied().collect();
        both.sort_unstable();
        both.into_iter().map(|place| &self.tasks[place]).collect()
    }
}

fn reachable(edges: &[Vec<usize>], from: usize) -> HashSet<usize> {
    let mut seen = HashSet::new();
    let mut level = edges[from].clone();
    while let Some(place) = level.pop() {
        if seen.insert(place) {
            level.extend(&edges[place]);
        }
    }
    seen
}

/// For each task how many are reached from it. Bits of everything that comes after, put together
/// from the last task to the first.
fn count_dependents(after: &[Vec<usize>]) -> Vec<usize> {
    let words = after.len().div_ceil(64);
    let mut reached: Vec<Option<Vec<u64>>> = vec![None; after.len()];
    for start in 0..after.len() {
        let mut stack = vec![start];
        while let Some(place) = stack.last().copied() {
            if reached[place].is_some() {
                stack.pop();
                continue;
            }
            let open: Vec<usize> =
                after[place].iter().copied().filter(|next| reached[*next].is_none()).collect();
            // There is no way round: such an edge was refused when it was written.
            if !open.is_empty() && stack.len() <= after.len() {
                stack.extend(open);
                continue;
            }
            let mut bits = vec![0u64; words];
            for next in &after[place] {
                bits[next / 64] |= 1 << (next % 64);
                if let Some(further) = &reached[*next] {
                    bits.iter_mut().zip(further).for_each(|(one, other)| *one |= other);
                }
            }
            reached[place] = Some(bits);
            stack.pop();
        }
    }
    reached
        .into_iter()
        .map(|bits| bits.unwrap_or_default().iter().map(|word| word.count_ones() as usize).sum())
        .collect()
}
