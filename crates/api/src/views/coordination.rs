//! Workflows as the outside sees them: the graph of tasks with each one's state, what it cost, and
//! what a person is asked. Tasks by themselves are in `coordination_task`.

use std::collections::HashMap;

use emergent_coordination::{TaskDetail, WorkflowDetail};
use emergent_domain::{
    ids::ObjectId,
    task::{Priority, TaskStatus, VerdictKind},
    time::Timestamp,
    workflow::{
        Escalation, OnFailure, SelectorKind, ThreadingKind, Workflow, WorkflowSettings, WorkflowStatus,
    },
};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    coordination_budget::{BudgetView, LimitView},
    coordination_task::{PriorityView, TaskStatusView, VerdictKindView},
};

/// A workflow that was started.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartedWorkflow {
    pub workflow_id: Uuid,
}

#[derive(ToSchema)]
#[schema(as = WorkflowStatus, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum WorkflowStatusView {
    Planning,
    Running,
    Completed,
    Failed,
    Escalated,
    Cancelled,
}

/// Who chooses an agent for a task that names none.
#[derive(ToSchema)]
#[schema(as = Selector, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum SelectorView {
    Rules,
    Llm,
    Hybrid,
}

/// Who chooses what a task is told of the work before it: what is nearest and fits, or a model where
/// there is much to tell.
#[derive(ToSchema)]
#[schema(as = Threading, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum ThreadingView {
    Rules,
    Llm,
}

/// What a task that failed for good means for the rest: what waits for it is skipped, or a person
/// is asked.
#[derive(ToSchema)]
#[schema(as = OnFailure, rename_all = "lowercase")]
#[allow(dead_code, reason = "describes the domain's type")]
pub(crate) enum OnFailureView {
    Skip,
    Escalate,
}

/// A workflow in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowFacts)]
pub(crate) struct WorkflowSummaryView {
    id: Uuid,
    #[schema(value_type = WorkflowStatusView)]
    status: WorkflowStatus,
    description: String,
    settings: SettingsView,
    /// Present while a person has to say how it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    escalation: Option<EscalationView>,
    /// What was done, what failed and why, what it cost; null until it is over.
    summary: Option<String>,
    /// The run that plans, or planned last.
    planner_run_id: Option<Uuid>,
    /// The run that started it, if an agent did.
    started_by_run: Option<Uuid>,
    /// The place of its newest event.
    event_seq: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    completed_at: Option<Timestamp>,
}

impl From<Workflow> for WorkflowSummaryView {
    fn from(workflow: Workflow) -> Self {
        Self {
            id: workflow.id.0,
            status: workflow.status,
            description: workflow.description,
            settings: workflow.settings.into(),
            escalation: workflow.escalation.map(Into::into),
            summary: workflow.summary,
            planner_run_id: workflow.planner_run.map(Into::into),
            started_by_run: workflow.started_by_run.map(Into::into),
            event_seq: workflow.event_seq,
            created_at: workflow.created_at,
            updated_at: workflow.updated_at,
            completed_at: workflow.completed_at,
        }
    }
}

/// How it is walked.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowSettings)]
pub(crate) struct SettingsView {
    max_concurrent: usize,
    #[schema(value_type = SelectorView)]
    selector: SelectorKind,
    evaluate: bool,
    #[schema(value_type = ThreadingView)]
    threading: ThreadingKind,
    #[schema(value_type = OnFailureView)]
    on_failure: OnFailure,
    planner: Option<String>,
    budget: LimitView,
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
            budget: settings.budget.into(),
        }
    }
}

/// Why a workflow waits for a person, and what that person can do.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Escalation)]
pub(crate) struct EscalationView {
    reason: String,
    /// The task that is in the way.
    task_id: Option<Uuid>,
    /// The discussion that did not come to an end.
    discussion_id: Option<Uuid>,
    /// Of `retry`, `reassign`, `skip`, `decide`, `resume`, `cancel`.
    options: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl From<Escalation> for EscalationView {
    fn from(escalation: Escalation) -> Self {
        Self {
            reason: escalation.reason,
            task_id: escalation.task.map(Into::into),
            discussion_id: escalation.discussion.map(Into::into),
            options: escalation.options,
            at: escalation.at,
        }
    }
}

/// A workflow, with its tasks and what it cost.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Workflow)]
pub(crate) struct WorkflowView {
    #[serde(flatten)]
    facts: WorkflowSummaryView,
    /// The oldest first.
    tasks: Vec<WorkflowTaskView>,
    budget: BudgetView,
}

impl From<WorkflowDetail> for WorkflowView {
    fn from(shown: WorkflowDetail) -> Self {
        let keys: HashMap<ObjectId, String> =
            shown.tasks.iter().map(|one| (one.task.id, one.task.key.clone())).collect();
        let limit = shown.workflow.settings.budget;
        Self {
            facts: shown.workflow.into(),
            tasks: shown.tasks.into_iter().map(Into::into).collect(),
            budget: BudgetView::new(limit, shown.spent, &keys),
        }
    }
}

/// A task in its workflow.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WorkflowTask)]
pub(crate) struct WorkflowTaskView {
    id: Uuid,
    /// Its name within the workflow.
    key: String,
    title: String,
    kind: String,
    #[schema(value_type = TaskStatusView)]
    status: TaskStatus,
    #[schema(value_type = PriorityView)]
    priority: Priority,
    /// Who does it, did it, or is to.
    agent: Option<String>,
    /// How often it was begun.
    attempts: usize,
    max_retries: i64,
    /// The run of each attempt, the oldest first.
    run_ids: Vec<Uuid>,
    /// Keys of the tasks it waits for; ids of those of another workflow.
    blocked_by: Vec<String>,
    /// What it waits for that is not done in this workflow: a task of another one, or whoever took it
    /// by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<String>,
    requires_collaboration: bool,
    #[schema(value_type = VerdictKindView)]
    verdict: VerdictKind,
    /// What its last attempt said at its end.
    summary: Option<String>,
}

impl From<TaskDetail> for WorkflowTaskView {
    fn from(shown: TaskDetail) -> Self {
        let task = shown.task;
        Self {
            id: task.id.0,
            key: task.key,
            title: task.title,
            kind: task.kind,
            status: task.status,
            priority: task.priority,
            agent: task.assigned_agent,
            attempts: shown.runs.len(),
            max_retries: task.max_retries,
            run_ids: shown.runs.into_iter().map(Into::into).collect(),
            blocked_by: shown.blocked_by,
            waiting: shown.waiting,
            requires_collaboration: task.requires_collaboration,
            verdict: task.verdict,
            summary: task.summary,
        }
    }
}
