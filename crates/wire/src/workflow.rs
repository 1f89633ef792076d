//! Workflows: their settings, their tasks with status and spend, and the question that they ask a person.
//! Single tasks are in `task`.

use emergent_domain::{
    task::{Priority, TaskStatus, VerdictKind},
    time::Timestamp,
    trigger::EventKind,
    workflow::{
        Escalation, Limit, OnFailure, SelectorKind, ThreadingKind, TriggerOrigin, Workflow, WorkflowSettings,
        WorkflowStatus,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

pub use crate::escalation_action::EscalationAction;
use crate::{
    budget::{AmountView, BudgetView, LimitView},
    escalation_action, schema,
};

/// A workflow that was started.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedWorkflow {
    pub workflow_id: Uuid,
    /// The model that chooses agents and evaluates results, as `provider/name`; null when the rules alone decide.
    #[serde(default)]
    pub judge: Option<String>,
}

/// A workflow in a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowFacts)]
pub struct WorkflowSummaryView {
    pub id: Uuid,
    #[schema(value_type = schema::WorkflowStatus)]
    pub status: WorkflowStatus,
    pub description: String,
    pub settings: SettingsView,
    /// Present while a person has to say how it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalation: Option<EscalationView>,
    /// What was done, what failed and why, what it cost; null until it is over.
    pub summary: Option<String>,
    /// The run that plans, or planned last.
    pub planner_run_id: Option<Uuid>,
    /// The run that started it, if an agent did.
    pub started_by_run: Option<Uuid>,
    /// The schedule or event that started it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<WorkflowOriginView>,
    /// The place of its newest event.
    pub event_seq: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<Timestamp>,
}

/// A workflow that was changed. The first is for whoever may read workflows.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ChangedWorkflow)]
pub enum ChangedWorkflowView {
    Whole(Box<WorkflowSummaryView>),
    Brief(WorkflowStateView),
}

/// What became of a workflow that was changed by somebody who may not read it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowState)]
pub struct WorkflowStateView {
    pub id: Uuid,
    #[schema(value_type = schema::WorkflowStatus)]
    pub status: WorkflowStatus,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A workflow in a list, with its progress and its spend.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ListedWorkflow)]
pub struct ListedWorkflowView {
    #[serde(flatten)]
    pub facts: WorkflowSummaryView,
    /// Present, and true, when a script answered in one of its runs instead of a model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    pub task_counts: TaskCountsView,
    /// What it has spent so far.
    pub spent: AmountView,
    /// Of model calls under way.
    pub reserved: AmountView,
}

/// How many tasks of a workflow there are, and how many have each status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TaskCounts)]
pub struct TaskCountsView {
    pub total: i64,
    pub pending: i64,
    pub in_progress: i64,
    pub completed: i64,
    pub failed: i64,
    pub paused: i64,
    pub skipped: i64,
}

impl TaskCountsView {
    pub fn new(counts: &[(TaskStatus, i64)]) -> Self {
        let mut view = Self::default();
        for (status, count) in counts {
            view.total += count;
            *match status {
                TaskStatus::Pending => &mut view.pending,
                TaskStatus::InProgress => &mut view.in_progress,
                TaskStatus::Completed => &mut view.completed,
                TaskStatus::Failed => &mut view.failed,
                TaskStatus::Paused => &mut view.paused,
                TaskStatus::Skipped => &mut view.skipped,
            } += count;
        }
        view
    }
}

impl From<Workflow> for WorkflowSummaryView {
    fn from(workflow: Workflow) -> Self {
        let (project, budget) = (workflow.project.0, workflow.settings.budget);
        Self {
            id: workflow.id.0,
            status: workflow.status,
            description: workflow.description,
            settings: workflow.settings.into(),
            escalation: workflow
                .escalation
                .map(|escalation| EscalationView::new(project, workflow.id.0, escalation, budget)),
            summary: workflow.summary,
            planner_run_id: workflow.planner_run.map(Into::into),
            started_by_run: workflow.started_by_run.map(Into::into),
            origin: workflow.origin.trigger.map(Into::into),
            event_seq: workflow.event_seq,
            created_at: workflow.created_at,
            updated_at: workflow.updated_at,
            completed_at: workflow.completed_at,
        }
    }
}

/// The firing of a trigger that started a workflow.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowOrigin)]
pub struct WorkflowOriginView {
    /// The name of the trigger.
    pub name: String,
    /// Of a schedule; null for an event.
    pub schedule_id: Option<Uuid>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub scheduled_at: Option<Timestamp>,
    /// Of an event; null for a schedule.
    #[schema(value_type = Option<schema::EventKind>)]
    pub event: Option<EventKind>,
    pub entity_id: Option<Uuid>,
    pub entity_type: Option<String>,
    pub entity_version: Option<i64>,
}

impl From<TriggerOrigin> for WorkflowOriginView {
    fn from(origin: TriggerOrigin) -> Self {
        let empty = |name| Self {
            name,
            schedule_id: None,
            scheduled_at: None,
            event: None,
            entity_id: None,
            entity_type: None,
            entity_version: None,
        };
        match origin {
            TriggerOrigin::Schedule { schedule, name, at } => {
                Self { schedule_id: Some(schedule.0), scheduled_at: Some(at), ..empty(name) }
            }
            TriggerOrigin::Event { name, event, entity, entity_type, version } => Self {
                event: Some(event),
                entity_id: Some(entity),
                entity_type: Some(entity_type),
                entity_version: Some(version),
                ..empty(name)
            },
        }
    }
}

/// How it is walked.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowSettings)]
pub struct SettingsView {
    pub max_concurrent: usize,
    #[schema(value_type = schema::Selector)]
    pub selector: SelectorKind,
    pub evaluate: bool,
    #[schema(value_type = schema::Threading)]
    pub threading: ThreadingKind,
    #[schema(value_type = schema::OnFailure)]
    pub on_failure: OnFailure,
    pub planner: Option<String>,
    /// The model of every run, as `provider/name`; absent when each agent uses its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub budget: LimitView,
}

impl From<WorkflowSettings> for SettingsView {
    fn from(settings: WorkflowSettings) -> Self {
        Self {
            max_concurrent: settings.max_concurrent,
            selector: settings.selector,
            evaluate: settings.evaluate,
            threading: settings.threading,
            on_failure: settings.on_failure,
            planner: settings.planner,
            model: settings.model.map(|model| model.to_string()),
            budget: settings.budget.into(),
        }
    }
}

/// Why a workflow waits for a person, and what that person can do.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Escalation)]
pub struct EscalationView {
    pub reason: String,
    /// The task that is in the way.
    pub task_id: Option<Uuid>,
    /// The discussion that did not come to an end.
    pub discussion_id: Option<Uuid>,
    /// Of `retry`, `reassign`, `skip`, `decide`, `resume`, `cancel`.
    pub options: Vec<String>,
    /// The commands and requests that go on, for each of the options, and `resume`, which tries everything again, unless a
    /// discussion waits for its decision.
    #[serde(default)]
    pub actions: Vec<EscalationAction>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl EscalationView {
    /// The escalation of a workflow with this budget.
    fn new(project: Uuid, workflow: Uuid, escalation: Escalation, budget: Limit) -> Self {
        let actions = escalation_action::actions(project, workflow, &escalation, budget);
        Self {
            reason: escalation.reason,
            task_id: escalation.task.map(Into::into),
            discussion_id: escalation.discussion.map(Into::into),
            actions,
            options: escalation.options,
            at: escalation.at,
        }
    }
}

/// A workflow, with its tasks and what it cost.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Workflow)]
pub struct WorkflowView {
    #[serde(flatten)]
    pub facts: WorkflowSummaryView,
    /// Present, and true, when a script answered in one of its runs instead of a model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    /// The oldest first.
    pub tasks: Vec<WorkflowTaskView>,
    pub budget: BudgetView,
}

/// A task in its workflow.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowTask)]
pub struct WorkflowTaskView {
    pub id: Uuid,
    /// Its name within the workflow.
    pub key: String,
    pub title: String,
    pub kind: String,
    #[schema(value_type = schema::TaskStatus)]
    pub status: TaskStatus,
    #[schema(value_type = schema::TaskPriority)]
    pub priority: Priority,
    /// Who does it, did it, or is to.
    pub agent: Option<String>,
    /// How often it was begun. A resumed run continues its attempt.
    pub attempts: usize,
    pub max_retries: i64,
    /// The runs of its attempts, the oldest first; an attempt has several if its run was resumed.
    pub run_ids: Vec<Uuid>,
    /// Keys of the tasks it waits for; ids of those of another workflow.
    pub blocked_by: Vec<String>,
    /// What it waits for that is not done in this workflow: a task of another one, or whoever took it
    /// by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    pub requires_collaboration: bool,
    #[schema(value_type = schema::VerdictKind)]
    pub verdict: VerdictKind,
    /// What its last attempt said at its end.
    pub summary: Option<String>,
    /// What it hands on to those that wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output: Option<Value>,
}
