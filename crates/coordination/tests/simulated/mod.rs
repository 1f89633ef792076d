//! A world with one workflow in it: what the database holds, the runs under way, two servers.

mod agents;
mod server;

use std::collections::{BTreeMap, HashMap, HashSet};

use agents::Behaviour;
use emergent_coordination::{
    plan::Next,
    settle::Enacted,
    state::{Attempt, Snapshot},
};
use emergent_domain::{
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    run::{Reason, RunStatus},
    task::{Task, TaskStatus, VerdictKind},
    time::Timestamp,
    workflow::{Amount, Limit, OnFailure, SelectorKind, Workflow, WorkflowSettings, WorkflowStatus},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use server::Server;

/// Long enough for anything that ends at all.
const MOST_MOMENTS: u64 = 2_000_000;
const LEASE: u64 = 9_000;

pub struct Story {
    pub tasks: usize,
    pub attempts: usize,
    pub crashes: usize,
    /// completed, failed, cancelled, completed after a person helped
    pub end: usize,
}

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
    attempts: HashMap<ObjectId, Vec<RunId>>,
}

pub struct Run {
    pub task: ObjectId,
    pub attempt: Attempt,
    behaviour: Behaviour,
    reserved: Amount,
}

pub struct World {
    pub now: u64,
    rng: StdRng,
    pub db: Database,
    servers: Vec<Server>,
    /// What happens when; the number tells equal moments apart.
    agenda: BTreeMap<(u64, u64), Event>,
    number: u64,
    crashes: usize,
    helped: usize,
    by_key: HashMap<String, ObjectId>,
    made: u32,
}

enum Event {
    Server(usize),
    RunEnds(RunId),
    Crash(usize),
    Outside,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let count =
            if rng.random_bool(0.03) { rng.random_range(100..=300) } else { rng.random_range(1..=40) };
        let workflow = workflow(&mut rng);
        let db = Database {
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
        };
        let mut world = Self {
            now: 0,
            rng,
            db,
            servers: vec![Server::new(0), Server::new(1)],
            agenda: BTreeMap::new(),
            number: 0,
            crashes: 0,
            helped: 0,
            by_key: HashMap::new(),
            made: 0,
        };
        let density = world.rng.random_range(0.0..3.0) / count as f64;
        for _ in 0..count {
            world.add_task(density);
        }
        world.plan_for(0, Event::Server(0));
        world.plan_for(1, Event::Server(1));
        for _ in 0..world.rng.random_range(0..6) {
            let (at, server) = (world.rng.random_range(0..60_000), world.rng.random_range(0..2));
            world.plan_for(at, Event::Crash(server));
        }
        for _ in 0..world.rng.random_range(0..4) {
            let at = world.rng.random_range(0..30_000);
            world.plan_for(at, Event::Outside);
        }
        world
    }

    fn plan_for(&mut self, after: u64, event: Event) {
        self.number += 1;
        self.agenda.insert((self.now + after, self.number), event);
    }

    /// A task that waits for some of those there are: there is no way round.
    fn add_task(&mut self, density: f64) {
        self.made += 1;
        let id = ObjectId::new();
        let earlier: Vec<ObjectId> = self.db.tasks.iter().map(|task| task.id).collect();
        let mut blockers = Vec::new();
        for before in earlier.iter().rev().take(60) {
            if self.rng.random_bool((density * 8.0).clamp(0.0, 0.9)) {
                blockers.push(*before);
            }
        }
        let verdict = match self.rng.random_range(0..10) {
            0 if !blockers.is_empty() => VerdictKind::Test,
            1 if !blockers.is_empty() => VerdictKind::Review,
            _ => VerdictKind::None,
        };
        let key = format!("t{}", self.made);
        self.by_key.insert(key.clone(), id);
        self.db.blocks.extend(blockers.iter().map(|before| (*before, id)));
        let task = Task {
            id,
            version: 1,
            workflow: Some(self.db.workflow.id),
            title: key.clone(),
            key,
            description: String::new(),
            kind: String::new(),
            tags: Vec::new(),
            status: TaskStatus::Pending,
            priority: emergent_domain::task::Priority::ALL[self.rng.random_range(0..4)],
            complexity: None,
            assigned_agent: None,
            agent_is_named: false,
            requires_collaboration: false,
            collaborators: Vec::new(),
            retry_count: 0,
            max_retries: self.rng.random_range(0..4),
            failure_context: String::new(),
            verdict,
            verifies: Vec::new(),
            run: None,
            resumes: 0,
            summary: None,
            output: None,
            created_at: Timestamp::from_micros(i64::from(self.made)),
        };
        self.db.tasks.push(task);
    }

    /// From the first look to the end of the workflow.
    pub fn play(mut self) -> Story {
        let mut moments = 0;
        while !self.db.workflow.status.is_over() {
            moments += 1;
            assert!(moments < MOST_MOMENTS, "the workflow does not come to an end: {}", self.tell());
            let Some(((at, _), event)) = self.agenda.pop_first() else {
                panic!("nothing happens any more: {}", self.tell())
            };
            self.now = at;
            match event {
                Event::Server(which) => self.serve(which),
                Event::RunEnds(run) => self.run_ends(run),
                Event::Crash(which) => self.crash(which),
                Event::Outside => self.outside(),
            }
            self.check();
        }
        self.check_end();
        Story {
            tasks: self.db.tasks.len(),
            attempts: self.db.runs.len(),
            crashes: self.crashes,
            end: match self.db.workflow.status {
                WorkflowStatus::Completed if self.helped > 0 => 3,
                WorkflowStatus::Completed => 0,
                WorkflowStatus::Failed => 1,
                _ => 2,
            },
        }
    }

    fn serve(&mut self, which: usize) {
        let mut server = std::mem::replace(&mut self.servers[which], Server::new(which));
        let busy = server.turn(self);
        let wait = match (server.is_down(), busy) {
            (true, _) => self.rng.random_range(100..20_000),
            (_, true) => self.rng.random_range(1..50),
            // Nothing to do: woken by chance, within its lease.
            (_, false) => self.rng.random_range(100..4_000),
        };
        server.come_back();
        self.servers[which] = server;
        self.plan_for(wait, Event::Server(which));
    }

    fn crash(&mut self, which: usize) {
        self.crashes += 1;
        self.servers[which].crash();
        // Runs go on elsewhere: they have their own leases.
    }

    /// An agent or a person changes the graph: a new task, or help for a workflow that waits.
    fn outside(&mut self) {
        if self.db.workflow.status == WorkflowStatus::Running && self.db.tasks.len() < 300 {
            self.add_task(0.1);
            self.db.workflow.revision += 1;
        }
    }

    /// A person helps a workflow that waits, a few times, then gives up on it.
    pub fn person(&mut self) {
        let workflow = &mut self.db.workflow;
        if workflow.status != WorkflowStatus::Escalated {
            return;
        }
        workflow.revision += 1;
        if self.helped >= 3 || self.rng.random_bool(0.1) {
            workflow.status = WorkflowStatus::Cancelled;
            return;
        }
        self.helped += 1;
        workflow.status = WorkflowStatus::Running;
        workflow.escalation = None;
        let raise = Limit { microusd: workflow.settings.budget.microusd.map(|most| most * 2), tokens: None };
        workflow.settings.budget = raise;
        for task in &mut self.db.tasks {
            if matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped) {
                assert!(task.status.may_become(TaskStatus::Pending, true));
                task.status = TaskStatus::Pending;
                task.max_retries = task.max_retries.max(task.retry_count + 1);
                (task.run, task.assigned_agent) = (None, None);
                task.version += 1;
            }
        }
    }

    /// Queues the run of an attempt: it reserves what it may cost before it asks anybody.
    pub fn begin(&mut self, task: ObjectId, run: RunId, resumed: bool) {
        let found = self.db.tasks.iter().find(|one| one.id == task).expect("the task is there").clone();
        let behaviour = agents::behave(&mut self.rng, &found);
        let wants = Amount { microusd: self.rng.random_range(1..50), tokens: self.rng.random_range(1..500) };
        let total = self.db.spent + self.db.reserved + wants;
        let (behaviour, reserved) = match self.db.workflow.settings.budget.holds(total) {
            true => (behaviour, wants),
            false => (Behaviour::Fails(Reason::Budget), Amount::default()),
        };
        self.db.reserved = self.db.reserved + reserved;
        let after = match behaviour {
            Behaviour::Hangs => 300_000,
            _ => self.rng.random_range(1..5_000),
        };
        let attempt = Attempt {
            run,
            agent: "somebody".to_owned(),
            status: RunStatus::Queued,
            reason: None,
            summary: String::new(),
            error: None,
            verdict: None,
        };
        assert!(!self.db.runs.contains_key(&run), "a run is started once");
        self.db.runs.insert(run, Run { task, attempt, behaviour, reserved });
        self.db.attempts.entry(task).or_default().push(run);
        let _ = resumed;
        self.plan_for(after, Event::RunEnds(run));
    }

    fn run_ends(&mut self, id: RunId) {
        let adds = {
            let Some(run) = self.db.runs.get_mut(&id) else { return };
            let spent = agents::end(&mut self.rng, run.behaviour, &mut run.attempt, run.reserved);
            assert!(spent.microusd <= run.reserved.microusd && spent.tokens <= run.reserved.tokens);
            self.db.spent = self.db.spent + spent;
            self.db.reserved = Amount {
                microusd: self.db.reserved.microusd - run.reserved.microusd,
                tokens: self.db.reserved.tokens - run.reserved.tokens,
            };
            run.reserved = Amount::default();
            run.behaviour.adds_tasks()
        };
        if adds && self.db.tasks.len() < 300 && self.db.workflow.status == WorkflowStatus::Running {
            self.add_task(0.05);
            self.db.workflow.revision += 1;
        }
    }

    /// What a server decided is written, as one transaction would: all of it, if the server still
    /// holds the workflow and has seen the newest of it.
    pub fn commit(&mut self, server: usize, seen: i64, decisions: &[Decision]) -> Result<i64, Refusal> {
        if self.db.owner != Some(server) || !self.db.workflow.status.is_live() {
            return Err(Refusal::Lost);
        }
        self.db.workflow.revision += 1;
        if self.db.workflow.revision != seen + 1 {
            return Err(Refusal::Stale);
        }
        for decision in decisions {
            match decision {
                Decision::Begin { task, run, resumed } => {
                    self.starts(*task, *resumed);
                    let found = self.task(*task);
                    found.status = TaskStatus::InProgress;
                    found.run = Some(*run);
                    found.resumes = if *resumed { found.resumes + 1 } else { 0 };
                    found.version += 1;
                    self.begin(*task, *run, *resumed);
                }
                Decision::Settled(enacted, after) => self.settled(enacted, after),
                Decision::Other(next) => self.other(next),
            }
        }
        Ok(self.db.workflow.revision)
    }

    fn task(&mut self, id: ObjectId) -> &mut Task {
        self.db.tasks.iter_mut().find(|task| task.id == id).expect("the task is there")
    }

    fn starts(&mut self, id: ObjectId, resumed: bool) {
        let status: HashMap<ObjectId, TaskStatus> =
            self.db.tasks.iter().map(|task| (task.id, task.status)).collect();
        let open =
            self.db.blocks.iter().filter(|(from, to)| *to == id && status[from] != TaskStatus::Completed);
        if !resumed {
            assert_eq!(open.count(), 0, "a task starts only when what it waits for is completed");
        }
        let expected = if resumed { TaskStatus::Paused } else { TaskStatus::Pending };
        assert_eq!(status[&id], expected, "an attempt begins from {expected}");
    }

    fn settled(&mut self, enacted: &Enacted, after: &[Task]) {
        for ((step, _), after) in enacted.moves.iter().zip(after) {
            let found = self.task(step.task);
            let (from, to) = (found.status, after.status);
            assert!(from.may_become(to, true), "{from} may not become {to}");
            let version = found.version + 1;
            *found = after.clone();
            found.version = version;
            let count = self.db.completed.entry(step.task).or_default();
            if to == TaskStatus::Completed && from != TaskStatus::Completed {
                *count += 1;
                assert_eq!(*count, 1, "a task completes once, unless it was sent back");
            } else if from == TaskStatus::Completed && to != TaskStatus::Completed {
                *count -= 1;
            }
        }
        if let Some(trouble) = &enacted.trouble {
            self.db.workflow.escalation = Some(emergent_domain::workflow::Escalation {
                reason: trouble.reason.clone(),
                task: trouble.task,
                discussion: None,
                options: Vec::new(),
                at: Timestamp::from_micros(0),
            });
        }
    }

    fn other(&mut self, next: &Next) {
        match next {
            Next::Skip { task, .. } => {
                let found = self.task(*task);
                assert!(found.status.may_become(TaskStatus::Skipped, true));
                found.status = TaskStatus::Skipped;
                found.version += 1;
            }
            Next::Escalate(_) => self.db.workflow.status = WorkflowStatus::Escalated,
            Next::End { status, .. } => self.db.workflow.status = *status,
            _ => {}
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot =
            Snapshot::new(self.db.workflow.clone(), self.db.tasks.clone(), &self.db.blocks, &HashSet::new());
        for task in &self.db.tasks {
            if matches!(task.status, TaskStatus::InProgress | TaskStatus::Paused)
                && let Some(run) = task.run.and_then(|run| self.db.runs.get(&run))
            {
                snapshot.attempts.insert(task.id, run.attempt.clone());
            }
        }
        snapshot
    }

    /// What holds at every moment.
    fn check(&self) {
        let at_work = self.db.tasks.iter().filter(|task| task.status == TaskStatus::InProgress).count();
        let slots = self.db.workflow.settings.max_concurrent;
        assert!(at_work <= slots, "{at_work} tasks at work, {slots} slots");
        let used = self.db.spent + self.db.reserved;
        assert!(self.db.workflow.settings.budget.holds(used), "the budget is exceeded: {used:?}");
        for task in &self.db.tasks {
            assert!(task.retry_count <= task.max_retries.max(task.retry_count), "retries are bounded");
        }
    }

    fn check_end(&self) {
        if self.db.workflow.status == WorkflowStatus::Completed {
            let open = self.db.tasks.iter().find(|task| !task.status.is_over());
            assert!(open.is_none(), "a completed workflow has nothing left to do: {open:?}");
        }
        for (task, runs) in &self.db.attempts {
            let different: HashSet<&RunId> = runs.iter().collect();
            assert_eq!(different.len(), runs.len(), "every attempt at {task} is a run of its own");
        }
        let open: Vec<_> = self.db.runs.values().filter(|run| !run.attempt.status.is_terminal()).collect();
        let reserved: Amount = open.iter().map(|run| run.reserved).sum();
        assert_eq!(reserved, self.db.reserved, "what is reserved is what runs under way reserved");
    }

    fn tell(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for task in &self.db.tasks {
            *counts.entry(task.status.as_str()).or_default() += 1;
        }
        format!("{} {counts:?} {:?}", self.db.workflow.status, self.db.workflow.escalation)
    }
}

pub enum Decision {
    Begin {
        task: ObjectId,
        run: RunId,
        resumed: bool,
    },
    /// With each task as it is afterwards.
    Settled(Box<Enacted>, Vec<Task>),
    Other(Next),
}

#[derive(Debug, PartialEq)]
pub enum Refusal {
    Lost,
    Stale,
}

fn workflow(rng: &mut StdRng) -> Workflow {
    let now = Timestamp::from_micros(0);
    let budget = match rng.random_range(0..4) {
        0 => Limit { microusd: Some(rng.random_range(20..2_000)), tokens: None },
        _ => Limit::default(),
    };
    Workflow {
        id: WorkflowId::new(),
        project: ProjectId::new(),
        description: String::new(),
        status: WorkflowStatus::Running,
        settings: WorkflowSettings {
            max_concurrent: rng.random_range(1..12),
            budget,
            selector: SelectorKind::Rules,
            on_failure: OnFailure::ALL[rng.random_range(0..2)],
            ..WorkflowSettings::default()
        },
        escalation: None,
        summary: None,
        planner_run: None,
        plan_attempts: 0,
        owner: None,
        revision: 0,
        event_seq: 0,
        started_by: None,
        started_by_run: None,
        created_at: now,
        updated_at: now,
        completed_at: None,
    }
}
