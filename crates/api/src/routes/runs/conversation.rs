//! The messages and tool calls of a run.

use axum::extract::State;
use emergent_domain::{
    cursor::ResultPage,
    ids::{RunId, ToolCallId},
    invalid::Invalid,
    run::{MessageRole, ToolCallStatus},
    tool_name,
};
use emergent_executor::timeline::{MessageFilter, ToolCallFilter};

use super::get_agent_run;
use crate::{
    App,
    auth::InProject,
    extract::{AgentRef, Path, Query, paged_query},
    response::{Envelope, Result, ok, page},
    views::{
        run_message::RunMessageView,
        schema,
        tool_call::{CallStatusView, ToolCallView},
    },
};

paged_query! {
    pub(super) struct MessageListQuery {
        #[param(value_type = Option<schema::MessageRole>, inline)]
        role: Option<MessageRole>,
        /// Only messages of this step.
        #[param(minimum = 0)]
        step: Option<i64>,
    }
}

/// Lists the messages of a run, oldest first. Tool calls are only referenced; `tool-calls` has their
/// inputs and outputs.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/runs/{runId}/messages", tag = "runs",
    operation_id = "listRunMessages",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path), MessageListQuery),
    responses((status = 200, description = "A page of messages", body = Envelope<Vec<RunMessageView>>)),
)]
pub(super) async fn messages(
    State(app): State<App>,
    InProject(project): InProject,
    Path((agent, run)): Path<(AgentRef, RunId)>,
    Query(query): Query<MessageListQuery>,
) -> Result<Vec<RunMessageView>> {
    let requested = query.page()?;
    if query.step.is_some_and(|step| step < 0) {
        return Err(Invalid::new("step", "must be 0 or more").into());
    }
    get_agent_run(&app, project, &agent, run).await?;
    let filter = MessageFilter { role: query.role, step: query.step };
    page(app.executor.run_messages(project, run, filter, requested).await?)
}

paged_query! {
    pub(super) struct ToolCallListQuery {
        /// Only calls of this tool, by any of its names.
        tool_name: Option<String>,
        #[param(value_type = Option<CallStatusView>, inline)]
        status: Option<CallStatusView>,
    }
}

/// Lists the tool calls of a run with their inputs and outputs, oldest first.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/runs/{runId}/tool-calls", tag = "runs",
    operation_id = "listRunToolCalls",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path), ToolCallListQuery),
    responses((status = 200, description = "A page of calls", body = Envelope<Vec<ToolCallView>>)),
)]
pub(super) async fn tool_calls(
    State(app): State<App>,
    InProject(project): InProject,
    Path((agent, run)): Path<(AgentRef, RunId)>,
    Query(query): Query<ToolCallListQuery>,
) -> Result<Vec<ToolCallView>> {
    let requested = query.page()?;
    if let Some(name) = &query.tool_name {
        emergent_domain::object::check_chars("tool_name", name)?;
    }
    get_agent_run(&app, project, &agent, run).await?;
    let tool_names = query.tool_name.map(|name| tool_name::all_names(&name)).unwrap_or_default();
    let filter = ToolCallFilter { tool_names, status: query.status.map(ToolCallStatus::from) };
    let ResultPage { items, next } = app.executor.run_tool_calls(project, run, filter, requested).await?;
    page(ResultPage {
        items: items.into_iter().map(|call| ToolCallView::new(run, call)).collect::<Vec<_>>(),
        next,
    })
}

/// Returns one tool call with its input and output.
#[utoipa::path(
    get, path = "/api/admin/agents/{agentId}/runs/{runId}/tool-calls/{toolCallId}", tag = "runs",
    operation_id = "getRunToolCall",
    params(("agentId" = String, Path, description = "The id or the name of an agent"), ("runId" = Uuid, Path), ("toolCallId" = Uuid, Path)),
    responses((status = 200, description = "The call", body = Envelope<ToolCallView>)),
)]
pub(super) async fn tool_call(
    State(app): State<App>,
    InProject(project): InProject,
    Path((agent, run, call)): Path<(AgentRef, RunId, ToolCallId)>,
) -> Result<ToolCallView> {
    get_agent_run(&app, project, &agent, run).await?;
    ok(ToolCallView::new(run, app.executor.run_tool_call(project, run, call).await?))
}
