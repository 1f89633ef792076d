//! Workflows as the outside sees them: the graph of tasks with each one's state, what it cost, and
//! what a person is asked. Tasks by themselves are in `coordination_task`.

use std::collections::HashMap;

use emergent_coordination::{TaskDetail, WorkflowDetail};
use emergent_domain::ids::ObjectId;
pub(crate) use emergent_wire::workflow::*;

use super::{IntoView, coordination_budget::budget_view};

impl IntoView<WorkflowView> for WorkflowDetail {
    fn into_view(self) -> WorkflowView {
        let shown = self;
        let keys: HashMap<ObjectId, String> =
            shown.tasks.iter().map(|one| (one.task.id, one.task.key.clone())).collect();
        let limit = shown.workflow.settings.budget;
        WorkflowView {
            facts: shown.workflow.into(),
            tasks: shown.tasks.into_iter().map(IntoView::into_view).collect(),
            budget: budget_view(limit, shown.spent, &keys),
        }
    }
}

impl IntoView<WorkflowTaskView> for TaskDetail {
    fn into_view(self) -> WorkflowTaskView {
        let shown = self;
        let task = shown.task;
        WorkflowTaskView {
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
