//! Converts workflows for the API, with their tasks and their spend. Requests about single tasks are in
//! `coordination_task`.

use std::collections::HashMap;

use emergent_coordination::{ListedWorkflow, TaskDetail, WorkflowDetail};
use emergent_domain::ids::ObjectId;
pub(crate) use emergent_wire::workflow::*;

use super::{IntoView, coordination_budget::budget_view};

impl IntoView<WorkflowView> for WorkflowDetail {
    fn into_view(self) -> WorkflowView {
        let detail = self;
        let keys: HashMap<ObjectId, String> =
            detail.tasks.iter().map(|task| (task.task.id, task.task.key.clone())).collect();
        let limit = detail.workflow.settings.budget;
        WorkflowView {
            facts: detail.workflow.into(),
            rehearsal: detail.is_rehearsal,
            tasks: detail.tasks.into_iter().map(IntoView::into_view).collect(),
            budget: budget_view(limit, detail.spent, &keys),
        }
    }
}

impl IntoView<ListedWorkflowView> for ListedWorkflow {
    fn into_view(self) -> ListedWorkflowView {
        let Self { workflow, progress, is_rehearsal } = self;
        ListedWorkflowView {
            facts: workflow.into(),
            rehearsal: is_rehearsal,
            task_counts: TaskCountsView::new(&progress.tasks),
            spent: progress.spent.into(),
            reserved: progress.reserved.into(),
        }
    }
}

impl IntoView<WorkflowTaskView> for TaskDetail {
    fn into_view(self) -> WorkflowTaskView {
        let detail = self;
        let task = detail.task;
        WorkflowTaskView {
            id: task.id.0,
            key: task.key,
            title: task.title,
            kind: task.kind,
            status: task.status,
            priority: task.priority,
            agent: task.assigned_agent,
            attempts: detail.attempts,
            max_retries: task.max_retries,
            run_ids: detail.runs.into_iter().map(Into::into).collect(),
            blocked_by: detail.blocked_by,
            waiting: detail.waiting,
            requires_collaboration: task.requires_collaboration,
            verdict: task.verdict,
            summary: task.summary,
            output: task.output,
        }
    }
}
