//! Draws a workflow as text: its tasks in layers, one line each, updated by its events.
//!
//! This module does no I/O: it turns a workflow of the API and its events into lines for the caller to print.

mod advice;
mod describe;
mod draw;
mod layers;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, time::Duration};

use emergent_domain::{task::TaskStatus, text::counted, time::Timestamp, workflow::WorkflowStatus};
use emergent_wire::{
    budget::BudgetView,
    workflow::{WorkflowTaskView, WorkflowView},
    workflow_event::{WorkflowEventBody as Body, WorkflowEventView},
};
use uuid::Uuid;

pub use advice::advice;
pub use draw::RenderOptions;

/// The state of a workflow that is drawn.
#[derive(Debug, Clone)]
pub struct Dag {
    description: String,
    status: WorkflowStatus,
    started_at: Timestamp,
    ended: Option<Timestamp>,
    /// What it has spent, as text; empty before anything is spent.
    spent: String,
    /// Whether a script answers instead of a model.
    rehearsal: bool,
    tasks: Vec<Task>,
    /// The index in `tasks` of each task id.
    index: HashMap<Uuid, usize>,
}

#[derive(Debug, Clone)]
struct Task {
    id: Uuid,
    key: String,
    status: TaskStatus,
    agent: String,
    attempt: i64,
    blocked_by: Vec<String>,
    /// What the task waits for outside this workflow, as text.
    waiting: Option<String>,
    /// When the current attempt started; `None` between attempts.
    started_at: Option<Timestamp>,
    /// The total duration of its ended attempts.
    took: Duration,
    /// The state of its discussion, while there is one.
    discussion: Option<DiscussionState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiscussionState {
    Active {
        round: i64,
    },
    /// The participants did not agree; a person has to decide.
    Escalated,
}

impl fmt::Display for DiscussionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiscussionState::Active { round: 0 | 1 } => f.write_str("discussed"),
            DiscussionState::Active { round } => write!(f, "discussed, round {round}"),
            DiscussionState::Escalated => f.write_str("waits for a decision"),
        }
    }
}

impl Dag {
    pub fn new(workflow: &WorkflowView) -> Self {
        let mut dag = Self {
            description: String::new(),
            status: workflow.facts.status,
            started_at: workflow.facts.created_at,
            ended: None,
            spent: String::new(),
            rehearsal: false,
            tasks: Vec::new(),
            index: HashMap::new(),
        };
        dag.refresh(workflow);
        dag
    }

    /// Replaces the state with that of the workflow. Times and discussions, which only events carry, are
    /// retained.
    pub fn refresh(&mut self, workflow: &WorkflowView) {
        let mut previous: HashMap<Uuid, Task> = self.tasks.drain(..).map(|task| (task.id, task)).collect();
        let facts = &workflow.facts;
        self.description.clone_from(&facts.description);
        self.status = facts.status;
        self.started_at = facts.created_at;
        self.ended = facts.completed_at;
        self.spent = spend_text(&workflow.budget);
        // A run that was loaded since may have said it first.
        self.rehearsal |= workflow.rehearsal;
        for view in &workflow.tasks {
            let task = Task::new(view);
            self.tasks.push(match previous.remove(&view.id) {
                Some(previous) => Task {
                    attempt: previous.attempt.max(task.attempt),
                    started_at: previous.started_at,
                    took: previous.took,
                    discussion: previous.discussion,
                    ..task
                },
                None => task,
            });
        }
        self.index = self.tasks.iter().enumerate().map(|(index, task)| (task.id, index)).collect();
        // Only this state of a discussion is known without events.
        let undecided = facts.escalation.as_ref().filter(|escalation| escalation.discussion_id.is_some());
        if let Some(task) = undecided.and_then(|escalation| self.index.get(&escalation.task_id?).copied()) {
            self.tasks[task].discussion = Some(DiscussionState::Escalated);
        }
    }

    /// Applies an event. Returns false when the event does not carry everything that changed, such as a new
    /// task, a new plan or an unknown kind: the caller then loads the workflow and calls `refresh`.
    pub fn apply_event(&mut self, event: &WorkflowEventView) -> bool {
        let (body, at) = (event.body(), event.at);
        match &body {
            Body::WorkflowEnded { status, .. } => {
                (self.status, self.ended) = (status.unwrap_or(self.status), Some(at));
            }
            Body::Escalated { .. } => self.status = WorkflowStatus::Escalated,
            Body::WorkflowResumed { .. } => (self.status, self.ended) = (WorkflowStatus::Running, None),
            Body::PlanMade { .. } => self.status = WorkflowStatus::Running,
            Body::PlanningStarted {} => self.status = WorkflowStatus::Planning,
            _ => {}
        }
        if matches!(
            body,
            Body::PlanMade { .. }
                | Body::PlanRefused { .. }
                | Body::TaskAdded { .. }
                | Body::WorkflowResumed { .. }
                | Body::Unknown
        ) {
            return false;
        }
        let Some(id) = event.task_id else { return true };
        let Some(index) = self.index.get(&id) else { return false };
        // A waiting task may be changed by a person's command, which emits no event of its own.
        let is_complete = !matches!(body, Body::TaskWaiting { .. });
        self.tasks[*index].apply_event(body, at);
        is_complete
    }

    /// Adds the times of an event. The state of the tasks, which is newer, stays.
    pub fn apply_times(&mut self, event: &WorkflowEventView) {
        let Some(index) = event.task_id.and_then(|id| self.index.get(&id).copied()) else { return };
        let task = &mut self.tasks[index];
        let current = task.clone();
        task.apply_event(event.body(), event.at);
        *task = Task { started_at: task.started_at, took: task.took, ..current };
    }

    /// When the workflow started.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// Marks that a script answers instead of a model. A run says it before the workflow is loaded again.
    pub fn mark_rehearsal(&mut self) {
        self.rehearsal = true;
    }

    /// The key of a task, or its id when the task is unknown.
    pub fn name(&self, id: Uuid) -> String {
        self.index.get(&id).map_or_else(|| id.to_string(), |index| self.tasks[*index].key.clone())
    }
}

impl Task {
    fn new(view: &WorkflowTaskView) -> Self {
        Self {
            id: view.id,
            key: view.key.clone(),
            status: view.status,
            agent: view.agent.clone().unwrap_or_default(),
            attempt: i64::try_from(view.attempts).unwrap_or(i64::MAX),
            blocked_by: view.blocked_by.clone(),
            waiting: view.waiting.clone(),
            started_at: None,
            took: Duration::ZERO,
            discussion: None,
        }
    }

    fn apply_event(&mut self, event: Body, at: Timestamp) {
        match event {
            Body::TaskStarted { agent, attempt, .. } | Body::TaskResumed { agent, attempt, .. } => {
                self.status = TaskStatus::InProgress;
                self.agent = agent.unwrap_or_default();
                self.attempt = attempt.unwrap_or(self.attempt + 1);
                self.waiting = None;
                self.started_at = Some(at);
            }
            Body::TaskCompleted { .. } => self.set_ended(TaskStatus::Completed, at),
            Body::TaskFailed { .. } => self.set_ended(TaskStatus::Failed, at),
            Body::TaskSkipped { .. } => self.set_ended(TaskStatus::Skipped, at),
            Body::TaskPaused { .. } | Body::TaskAskedAgain { .. } => self.set_ended(TaskStatus::Paused, at),
            Body::TaskRetried { .. }
            | Body::TaskSentBack { .. }
            | Body::TaskReopened { .. }
            | Body::TaskVerdict { .. } => self.set_ended(TaskStatus::Pending, at),
            Body::DiscussionStarted { .. } => self.discussion = Some(DiscussionState::Active { round: 1 }),
            Body::DiscussionTurn { round, .. } | Body::DiscussionEntry { round, .. } => {
                self.discussion = Some(DiscussionState::Active { round: round.unwrap_or(1) });
            }
            Body::DiscussionEscalated { .. } => self.discussion = Some(DiscussionState::Escalated),
            Body::DiscussionDecided { .. } | Body::DiscussionResolved { .. } => self.discussion = None,
            // These concern the workflow, or change nothing that is drawn.
            Body::WorkflowStarted { .. }
            | Body::PlanningStarted {}
            | Body::PlanMade { .. }
            | Body::PlanRefused { .. }
            | Body::WorkflowResumed { .. }
            | Body::BudgetChanged { .. }
            | Body::WorkflowEnded { .. }
            | Body::Escalated { .. }
            | Body::TaskAdded { .. }
            | Body::TasksRefused { .. }
            | Body::TaskWaiting { .. }
            | Body::ModelRetry { .. }
            | Body::JudgeFailed { .. }
            | Body::Unknown => {}
        }
    }

    /// Ends the current attempt and its discussion.
    fn set_ended(&mut self, status: TaskStatus, at: Timestamp) {
        self.status = status;
        self.discussion = None;
        self.waiting = None;
        if let Some(started_at) = self.started_at.take() {
            self.took += at.since(started_at);
        }
    }
}

/// `1200 tokens, $0.0123`; empty before anything is spent.
fn spend_text(budget: &BudgetView) -> String {
    let spent = &budget.spent;
    if spent.tokens == 0 {
        return String::new();
    }
    let dollars = if spent.usd > 0.0 { format!(", ${:.4}", spent.usd) } else { String::new() };
    format!("{}{dollars}", counted(spent.tokens, "token"))
}
