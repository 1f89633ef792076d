//! A workflow as a picture: its tasks in layers, one line each, kept up to date by its events.
//!
//! Pure: it takes the workflow as the API shows it, and its events, and gives lines. Who prints
//! them, and how often, is the caller's business.

mod advice;
mod describe;
mod draw;
mod layers;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, time::Duration};

use emergent_domain::{task::TaskStatus, time::Timestamp, workflow::WorkflowStatus};
use emergent_wire::{
    budget::BudgetView,
    workflow::{WorkflowTaskView, WorkflowView},
    workflow_event::{WorkflowEventBody as Body, WorkflowEventView},
};
use uuid::Uuid;

pub use advice::advice;
pub use draw::RenderOptions;

/// A workflow as far as it is known.
#[derive(Debug, Clone)]
pub struct Dag {
    description: String,
    status: WorkflowStatus,
    started_at: Timestamp,
    ended: Option<Timestamp>,
    spent: String,
    tasks: Vec<Task>,
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
    /// What it waits for that is not done in this workflow.
    waiting: Option<String>,
    /// When its attempt under way began.
    started_at: Option<Timestamp>,
    /// How long attempts took that are over.
    took: Duration,
    /// What its discussion is at, while there is one.
    discussion: Option<DiscussionState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiscussionState {
    Active {
        round: i64,
    },
    /// It did not come to an end, and a person has to decide.
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
            tasks: Vec::new(),
            index: HashMap::new(),
        };
        dag.refresh(workflow);
        dag
    }

    /// Takes over how the workflow stands; how long things took is kept.
    pub fn refresh(&mut self, workflow: &WorkflowView) {
        let mut before: HashMap<Uuid, Task> = self.tasks.drain(..).map(|task| (task.id, task)).collect();
        let facts = &workflow.facts;
        self.description.clone_from(&facts.description);
        self.status = facts.status;
        self.started_at = facts.created_at;
        self.ended = facts.completed_at;
        self.spent = spend_text(&workflow.budget);
        for shown in &workflow.tasks {
            let task = Task::new(shown);
            self.tasks.push(match before.remove(&shown.id) {
                Some(known) => Task {
                    attempt: known.attempt.max(task.attempt),
                    started_at: known.started_at,
                    took: known.took,
                    discussion: known.discussion,
                    ..task
                },
                None => task,
            });
        }
        self.index = self.tasks.iter().enumerate().map(|(at, task)| (task.id, at)).collect();
    }

    /// Takes in what happened. False when the picture lacks something that only a fresh look at the
    /// workflow has: a new task, a new plan, or whatever a newer server tells.
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
        let Some(place) = self.index.get(&id) else { return false };
        // What is taken by hand moves without an event of its own.
        let is_whole = !matches!(body, Body::TaskWaiting { .. });
        self.tasks[*place].apply_event(body, at);
        is_whole
    }

    /// What a task is called here.
    fn name(&self, id: Uuid) -> String {
        self.index.get(&id).map_or_else(|| id.to_string(), |place| self.tasks[*place].key.clone())
    }
}

impl Task {
    fn new(shown: &WorkflowTaskView) -> Self {
        Self {
            id: shown.id,
            key: shown.key.clone(),
            status: shown.status,
            agent: shown.agent.clone().unwrap_or_default(),
            attempt: i64::try_from(shown.attempts).unwrap_or(i64::MAX),
            blocked_by: shown.blocked_by.clone(),
            waiting: shown.waiting.clone(),
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
            // These are about the workflow, or change nothing that is drawn.
            Body::WorkflowStarted { .. }
            | Body::PlanningStarted {}
            | Body::PlanMade { .. }
            | Body::PlanRefused { .. }
            | Body::WorkflowResumed { .. }
            | Body::WorkflowEnded { .. }
            | Body::Escalated { .. }
            | Body::TaskAdded { .. }
            | Body::TasksRefused { .. }
            | Body::TaskWaiting { .. }
            | Body::Unknown => {}
        }
    }

    fn set_ended(&mut self, status: TaskStatus, at: Timestamp) {
        self.status = status;
        self.discussion = None;
        self.waiting = None;
        if let Some(began) = self.started_at.take() {
            self.took += at.since(began);
        }
    }
}

/// `1200 tokens, $0.0123`; nothing before anything was spent.
fn spend_text(budget: &BudgetView) -> String {
    let spent = &budget.spent;
    if spent.tokens == 0 {
        return String::new();
    }
    let dollars = if spent.usd > 0.0 { format!(", ${:.4}", spent.usd) } else { String::new() };
    format!("{} tokens{dollars}", spent.tokens)
}
