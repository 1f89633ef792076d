//! What a dispatcher knows of a workflow at one moment, and what its tasks mean to one another.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, RunId},
    run::{Reason, RunStatus},
    task::{Task, TaskStatus},
    verdict::Verdict,
    workflow::Workflow,
};

use crate::outside::{self, Outside};

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
pub enum Talk {
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
    place: HashMap<ObjectId, usize>,
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    /// What each task waits for in other workflows, or in none.
    outside: HashMap<ObjectId, Vec<Outside>>,
    /// Tasks with such a blocker, whether it is completed or not.
    has_outside: HashSet<ObjectId>,
    /// How many wait for each, directly or not.
    waiting: Vec<usize>,
    pub attempts: HashMap<ObjectId, Attempt>,
    pub talks: HashMap<ObjectId, Talk>,
}

impl Snapshot {
    /// `blocks`: (blocker, blocked). A blocker that is not among the tasks holds up when it is among
    /// those `outside`.
    pub fn new(
        workflow: Workflow,
        tasks: Vec<Task>,
        blocks: &[(ObjectId, ObjectId)],
        outside: &[Outside],
    ) -> Self {
        let place: HashMap<ObjectId, usize> =
            tasks.iter().enumerate().map(|(place, task)| (task.id, place)).collect();
        let (mut before, mut after) = (vec![Vec::new(); tasks.len()], vec![Vec::new(); tasks.len()]);
        let mut held: HashMap<ObjectId, Vec<Outside>> = HashMap::new();
        for (from, to) in blocks {
            match (place.get(from), place.get(to)) {
                (Some(from), Some(to)) => {
                    before[*to].push(*from);
                    after[*from].push(*to);
                }
                (None, Some(_)) => {
                    let open = outside.iter().filter(|one| one.id == *from).cloned();
                    held.entry(*to).or_default().extend(open);
                }
                _ => {}
            }
        }
        let has_outside = held.keys().copied().collect();
        held.retain(|_, blockers| !blockers.is_empty());
        let waiting = waiting(&after);
        Self {
            workflow,
            tasks,
            place,
            before,
            after,
            outside: held,
            has_outside,
            waiting,
            attempts: HashMap::new(),
            talks: HashMap::new(),
        }
    }

    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub fn get(&self, id: ObjectId) -> Option<&Task> {
        self.place.get(&id).map(|place| &self.tasks[*place])
    }

    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut Task> {
        self.place.get(&id).map(|place| &mut self.tasks[*place])
    }

    pub fn by_key(&self, key: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.key == key)
    }

    /// The tasks a task waits for itself.
    pub fn blockers(&self, id: ObjectId) -> impl Iterator<Item = &Task> {
        let places = self.place.get(&id).map(|place| self.before[*place].as_slice()).unwrap_or_default();
        places.iter().map(|place| &self.tasks[*place])
    }

    /// Those it waits for through others, the nearest first and so many at most; its direct blockers
    /// not included.
    pub fn indirect_blockers(&self, id: ObjectId, most: usize) -> Vec<&Task> {
        let Some(start) = self.place.get(&id) else { return Vec::new() };
        let mut seen: HashSet<usize> = self.before[*start].iter().copied().collect();
        let mut level = self.before[*start].clone();
        let mut found = Vec::new();
        while !level.is_empty() {
            let mut next = Vec::new();
            for before in level.iter().flat_map(|place| &self.before[*place]) {
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
    pub fn is_free(&self, task: &Task) -> bool {
        self.outside(task.id).is_empty()
            && self.blockers(task.id).all(|blocker| blocker.status == TaskStatus::Completed)
    }

    /// What a task waits for in other workflows, or in none.
    pub fn outside(&self, id: ObjectId) -> &[Outside] {
        self.outside.get(&id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a task has a blocker that is not of its workflow, even one that is completed: it may be
    /// taken back there.
    pub fn has_outside(&self, id: ObjectId) -> bool {
        self.has_outside.contains(&id)
    }

    /// Whether any blocker is in another workflow: nobody tells when that one is done.
    pub fn looks_outside(&self) -> bool {
        !self.outside.is_empty()
    }

    /// What a task waits for that nobody walks here, in words.
    pub fn waiting(&self, task: &Task) -> Option<String> {
        outside::waiting(task, self.attempts.contains_key(&task.id), self.outside(task.id))
    }

    /// Pending tasks that can start, in the order in which they should: the most urgent, then what
    /// most others wait for, then the oldest.
    pub fn available(&self) -> Vec<&Task> {
        let mut free: Vec<(usize, &Task)> = self
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| task.status == TaskStatus::Pending && self.is_free(task))
            .collect();
        free.sort_by_key(|(place, task)| {
            (task.priority, std::cmp::Reverse(self.waiting[*place]), task.created_at, task.id)
        });
        free.into_iter().map(|(_, task)| task).collect()
    }

    /// Tasks in progress that are this dispatcher's: one that a person or an agent took by hand has
    /// no attempt, and takes no slot.
    pub fn busy(&self) -> usize {
        let at_work = |task: &&Task| {
            task.status == TaskStatus::InProgress
                && self.attempts.contains_key(&task.id)
                && self.talks.get(&task.id) != Some(&Talk::Escalated)
        };
        self.tasks.iter().filter(at_work).count()
    }

    /// An attempt is on its way.
    pub fn began(&mut self, id: ObjectId, run: RunId, agent: &str, resumed: bool) {
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
    pub fn verified_by(&self, task: &Task) -> Vec<&Task> {
        if task.verifies.is_empty() {
            return self.blockers(task.id).collect();
        }
        task.verifies.iter().filter_map(|key| self.by_key(key)).filter(|one| one.id != task.id).collect()
    }

    /// Whether a task waits for another, directly or not.
    pub fn waits_for(&self, task: ObjectId, other: ObjectId) -> bool {
        match (self.place.get(&task), self.place.get(&other)) {
            (Some(task), Some(other)) => reach(&self.before, *task).contains(other),
            _ => false,
        }
    }

    /// What lies on a way from one task to another, neither included.
    pub fn between(&self, from: ObjectId, to: ObjectId) -> Vec<&Task> {
        let (Some(from), Some(to)) = (self.place.get(&from), self.place.get(&to)) else { return Vec::new() };
        let after = reach(&self.after, *from);
        let before = reach(&self.before, *to);
        let mut both: Vec<usize> = after.intersection(&before).copied().collect();
        both.sort_unstable();
        both.into_iter().map(|place| &self.tasks[place]).collect()
    }
}

fn reach(edges: &[Vec<usize>], from: usize) -> HashSet<usize> {
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
fn waiting(after: &[Vec<usize>]) -> Vec<usize> {
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
