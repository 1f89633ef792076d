//! Lists, shows and adds tasks; retries, reassigns and skips them.

use axum::extract::State;
use emergent_domain::{ids::WorkflowId, task::TaskStatus};
use emergent_store::tasks::TaskFilter;

use crate::{
    App,
    auth::{AsActor, InProject},
    extract::{Json, OptionalJson, Query, TaskPath, paged_query},
    response::{Envelope, Result, created, ok, page},
    views::{
        coordination_task::{self, AddTask, ReassignTask, RetryTask, SkipTask, TaskView},
        schema,
    },
};

paged_query! {
    pub(super) struct TaskListQuery {
        #[param(value_type = Option<schema::TaskStatus>, inline)]
        status: Option<TaskStatus>,
        /// Only tasks that could start now: pending, without open blockers, and not taken.
        #[serde(default)]
        available: bool,
        /// Only tasks of this workflow.
        #[serde(rename = "workflowId")]
        #[param(value_type = Option<Uuid>, rename = "workflowId")]
        workflow: Option<WorkflowId>,
    }
}

/// Lists the project's tasks of all workflows, newest first.
#[utoipa::path(
    get, path = "/api/coordination/tasks", tag = "coordination", operation_id = "listTasks", params(TaskListQuery),
    responses((status = 200, description = "A page of tasks", body = Envelope<Vec<TaskView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<TaskListQuery>,
) -> Result<Vec<TaskView>> {
    let requested = query.page()?;
    let filter = TaskFilter { workflow: query.workflow, status: query.status, available: query.available };
    page(app.dispatcher.tasks(project, filter, requested).await?)
}

/// Returns one task, of any workflow or of none.
#[utoipa::path(
    get, path = "/api/coordination/tasks/{taskId}", tag = "coordination", operation_id = "getTask",
    params(("taskId" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`")),
    responses((status = 200, description = "The task", body = Envelope<TaskView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    TaskPath(task): TaskPath,
) -> Result<TaskView> {
    ok(app.dispatcher.task(project, task).await?)
}

/// Adds a task to a workflow that has not ended. Without a workflow, the task stands alone and any
/// agent or person can take it; `blockedBy` then names others outside of workflows, by id or key. While the workflow is
/// escalated, this needs the scope `approvals:decide` as well.
#[utoipa::path(
    post, path = "/api/coordination/tasks", tag = "coordination", operation_id = "addTask",
    request_body = AddTask,
    responses((status = 201, description = "The task", body = Envelope<TaskView>)),
)]
pub(super) async fn add(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Json(body): Json<AddTask>,
) -> Result<TaskView> {
    let workflow = body.workflow_id;
    created(app.dispatcher.add_task(actor, workflow, body.into()).await?)
}

/// Retries a task that failed, was skipped or was taken by hand, or checks again whether one can start
/// that waits for another workflow. If its workflow was waiting for this decision, the workflow
/// continues. While the workflow is escalated, this needs the scope `approvals:decide` as well.
#[utoipa::path(
    post, path = "/api/coordination/tasks/{taskId}/retry", tag = "coordination", operation_id = "retryTask",
    params(("taskId" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`")), request_body = Option<RetryTask>,
    responses((status = 200, description = "The task", body = Envelope<TaskView>)),
)]
pub(super) async fn retry(
    State(app): State<App>,
    AsActor(actor): AsActor,
    TaskPath(task): TaskPath,
    OptionalJson(body): OptionalJson<RetryTask>,
) -> Result<TaskView> {
    ok(app.dispatcher.command_task(actor, task, coordination_task::retry(body)).await?)
}

/// Assigns a task to another agent. If its workflow was waiting for this decision, the workflow
/// continues. While the workflow is escalated, this needs the scope `approvals:decide` as well.
#[utoipa::path(
    post, path = "/api/coordination/tasks/{taskId}/reassign", tag = "coordination",
    operation_id = "reassignTask", params(("taskId" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`")), request_body = ReassignTask,
    responses((status = 200, description = "The task", body = Envelope<TaskView>)),
)]
pub(super) async fn reassign(
    State(app): State<App>,
    AsActor(actor): AsActor,
    TaskPath(task): TaskPath,
    Json(body): Json<ReassignTask>,
) -> Result<TaskView> {
    ok(app.dispatcher.command_task(actor, task, coordination_task::reassign(body)).await?)
}

/// Skips a task and the tasks that depend on it. If its workflow was waiting for this decision, the
/// workflow continues. While the workflow is escalated, this needs the scope `approvals:decide` as well.
#[utoipa::path(
    post, path = "/api/coordination/tasks/{taskId}/skip", tag = "coordination", operation_id = "skipTask",
    params(("taskId" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`")), request_body = Option<SkipTask>,
    responses((status = 200, description = "The task", body = Envelope<TaskView>)),
)]
pub(super) async fn skip(
    State(app): State<App>,
    AsActor(actor): AsActor,
    TaskPath(task): TaskPath,
    OptionalJson(body): OptionalJson<SkipTask>,
) -> Result<TaskView> {
    ok(app.dispatcher.command_task(actor, task, coordination_task::skip(body)).await?)
}
