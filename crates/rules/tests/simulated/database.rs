//! The database, by its promises: what a server decided is written whole, if the server still holds
//! the workflow and has seen the newest of it; otherwise nothing is.

use std::collections::HashMap;

use emergent_domain::{
    ids::{ObjectId, RunId},
    task::{Task, TaskAuthority, TaskStatus},
    workflow::{Amount, Workflow, WorkflowStatus},
};
use emergent_rules::workflow::{conclude::ConcludedAttempt, decide::Action, snapshot::Snapshot};

use super::{World, runs::Run};

/// What is written, as everybody would read it.
pub struct Database {
    pub workflow: Workflow,
    pub tasks: Vec<Task>,
    pub blocks: Vec<(ObjectId, ObjectId)>,
    pub runs: HashMap<RunId, Run>,
    pub owner: Option<usize>,
    pub lease_until: u64,
    pub spent: Amount,
    pub reserved: Amount,
    /// How often each task was completed and taken back.
    completed: HashMap<ObjectId, i64>,
    pub attempts: HashMap<ObjectId, Vec<RunId>>,
}

pub enum Decision {
    Begin {
        task: ObjectId,
        run: RunId,
        resumed: bool,
    },
    /// With each task as it is afterwards.
    Settled(Box<ConcludedAttempt>, Vec<Task>),
    Other(Action),
}

#[derive(Debug, PartialEq)]
pub enum Refusal {
    Lost,
    Stale,
}

impl Database {
    pub fn new(workflow: Workflow) -> Self {
        Self {
            workflow,
            tasks: Vec::new(),
            blocks: Vec::new(),
            runs: HashMap::new(),
            owner: None,
            lease_until: 0,
            spent: Amount::default(),
            reserved: Amount::default(),
            completed: HashMap::new(),
            attempts: HashMap::new(),
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new(self.workflow.clone(), self.tasks.clone(), &self.blocks, &[]);
        for task in &self.tasks {
            if matches!(task.status, TaskStatus::InProgress | TaskStatus::Paused)
                && let Some(run) = task.run.and_then(|run| self.runs.get(&run))
            {
                snapshot.attempts.insert(task.id, run.attempt.clone());
            }
        }
        snapshot
    }

    fn task(&mut self, id: ObjectId) -> &mut Task {
        self.tasks.iter_mut().find(|task| task.id == id).expect("the task is there")
    }

    fn starts(&mut self, id: ObjectId, resumed: bool) {
        let status: HashMap<ObjectId, TaskStatus> =
            self.tasks.iter().map(|task| (task.id, task.status)).collect();
        let open = self.blocks.iter().filter(|(from, to)| *to == id && status[from] != TaskStatus::Completed);
        if !resumed {
            assert_eq!(open.count(), 0, "a task starts only when what it waits for is completed");
        }
        let expected = if resumed { TaskStatus::Paused } else { TaskStatus::Pending };
        assert_eq!(status[&id], expected, "an attempt begins from {expected}");
    }

    fn settled(&mut self, concluded: &ConcludedAttempt, after: &[Task]) {
        for ((step, _), after) in concluded.transitions.iter().zip(after) {
            let found = self.task(step.task);
            let (from, to) = (found.status, after.status);
            assert!(from.can_become(to, TaskAuthority::Workflow), "{from} may not become {to}");
            let version = found.version + 1;
            *found = after.clone();
            found.version = version;
            let count = self.completed.entry(step.task).or_default();
            if to == TaskStatus::Completed && from != TaskStatus::Completed {
                *count += 1;
                assert_eq!(*count, 1, "a task completes once, unless it was sent back");
            } else if from == TaskStatus::Completed && to != TaskStatus::Completed {
                *count -= 1;
            }
        }
    }

    fn other(&mut self, next: &Action) {
        match next {
            Action::SkipTask { task, .. } => {
                let found = self.task(*task);
                assert!(found.status.can_become(TaskStatus::Skipped, TaskAuthority::Workflow));
                found.status = TaskStatus::Skipped;
                found.version += 1;
            }
            Action::Escalate(_) => self.workflow.status = WorkflowStatus::Escalated,
            Action::EndWorkflow { status, .. } => self.workflow.status = *status,
            _ => {}
        }
    }
}

impl World {
    /// What a server decided is written, as one transaction would.
    pub fn commit(&mut self, server: usize, seen: i64, decisions: &[Decision]) -> Result<i64, Refusal> {
        if self.db.owner != Some(server) || !self.db.workflow.status.is_active() {
            return Err(Refusal::Lost);
        }
        self.db.workflow.revision += 1;
        if self.db.workflow.revision != seen + 1 {
            return Err(Refusal::Stale);
        }
        for decision in decisions {
            match decision {
                Decision::Begin { task, run, resumed } => {
                    self.db.starts(*task, *resumed);
                    let found = self.db.task(*task);
                    found.status = TaskStatus::InProgress;
                    found.run = Some(*run);
                    found.resumes = if *resumed { found.resumes + 1 } else { 0 };
                    found.version += 1;
                    self.begin(*task, *run);
                }
                Decision::Settled(concluded, after) => self.db.settled(concluded, after),
                Decision::Other(next) => self.db.other(next),
            }
        }
        Ok(self.db.workflow.revision)
    }
}
