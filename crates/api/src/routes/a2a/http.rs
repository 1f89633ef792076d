//! The HTTP+JSON binding.

use axum::{
    extract::Request,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use emergent_surfaces::a2a::{
    MEDIA_TYPE,
    card::AgentCard,
    error::{A2aError, ErrorKind},
    push::{PushConfig, PushConfigList, PushConfigParams, PushPage},
    request::{GetTask, ListTasks, SendMessage, TaskParams},
    types::{StreamResponse, Task, TaskList},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::IntoParams;

use super::{
    agent_call::AgentCall,
    card,
    failure::Result,
    push,
    query::{AgentQuery, VersionOnly},
    send as messages,
    stream::{self, FrameFn},
    tasks,
};
use crate::{
    ApiError,
    error::Failure,
    extract::{Path, has_content_type, parse_body, read_limited},
    limits,
    response::build_answer,
    sse,
};

/// An extended card is for the caller with this token.
const CACHE_CONTROL: &str = "private, max-age=60";

/// Sends a message to an external agent and returns its task, when it has ended or needs an input.
#[utoipa::path(
    post, path = "/a2a/{project}/{agent}/v1/message:send", tag = "a2a", operation_id = "a2aSendMessage",
    params(
        ("project" = String, Path), ("agent" = String, Path),
        ("A2A-Version" = Option<String>, Header, description = "`1.0`; a request without it counts as 0.3"),
        VersionOnly,
    ),
    request_body = SendMessage,
    responses(
        (status = 200, description = "The task, or the message of an agent that answers with messages", body = StreamResponse, content_type = "application/a2a+json"),
        (status = 403, description = "`missing_scope`, or `forbidden`: the agent is not external", body = Failure),
        (status = 429, description = "`rate_limited`: this token started this agent too often; or `overloaded`", body = Failure),
    ),
)]
pub(super) async fn send(_: AgentQuery<VersionOnly>, call: AgentCall, request: Request) -> Result<Response> {
    call.check_version()?;
    let body = read_body(request).await?;
    respond(&messages::send(&call, body).await?)
}

/// Sends a message to an external agent and streams its task and the updates of the task.
#[utoipa::path(
    post, path = "/a2a/{project}/{agent}/v1/message:stream", tag = "a2a", operation_id = "a2aStreamMessage",
    params(
        ("project" = String, Path), ("agent" = String, Path),
        ("A2A-Version" = Option<String>, Header, description = "`1.0`"),
        VersionOnly,
    ),
    request_body = SendMessage,
    responses((status = 200, description = "The task, then its updates", body = StreamResponse, content_type = "text/event-stream")),
)]
pub(super) async fn send_streaming(
    _: AgentQuery<VersionOnly>,
    call: AgentCall,
    request: Request,
) -> Result<Response> {
    call.check_version()?;
    let body = read_body(request).await?;
    stream::send(&call, body, frames()).await
}

/// Lists the tasks of an agent that this token started, or all of them with `admin:read`, by the time of their status.
#[utoipa::path(
    get, path = "/a2a/{project}/{agent}/v1/tasks", tag = "a2a", operation_id = "a2aListTasks",
    params(
        ("project" = String, Path), ("agent" = String, Path), ListTasks, VersionOnly,
        ("A2A-Version" = Option<String>, Header, description = "`1.0`"),
    ),
    responses((status = 200, description = "One page", body = TaskList, content_type = "application/a2a+json")),
)]
pub(super) async fn list(AgentQuery(query): AgentQuery<ListTasks>, call: AgentCall) -> Result<Response> {
    call.check_version()?;
    respond(&tasks::list(&call, query).await?)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryQuery {
    /// How many of the newest messages are included.
    #[serde(default, alias = "history_length")]
    history_length: Option<i64>,
}

/// Returns a task; with `:subscribe` after its id, streams its updates.
#[utoipa::path(
    get, path = "/a2a/{project}/{agent}/v1/tasks/{id}", tag = "a2a", operation_id = "a2aGetTask",
    params(
        ("project" = String, Path), ("agent" = String, Path),
        ("id" = String, Path, description = "The id of a task, or `<id>:subscribe`"),
        HistoryQuery, VersionOnly,
        ("A2A-Version" = Option<String>, Header, description = "`1.0`"),
    ),
    responses((
        status = 200, description = "The task, or its updates",
        content((Task = "application/a2a+json"), (StreamResponse = "text/event-stream")),
    )),
)]
pub(super) async fn get_task(
    AgentQuery(query): AgentQuery<HistoryQuery>,
    call: AgentCall,
    Path((_project, _agent, id)): Path<(String, String, String)>,
) -> Result<Response> {
    call.check_version()?;
    match id.split_once(':') {
        None => {
            let params = GetTask { id, history_length: query.history_length };
            respond(&tasks::get(&call, params).await?)
        }
        Some((id, "subscribe")) => stream::subscribe(&call, TaskParams { id: id.to_owned() }, frames()).await,
        Some(_) => Err(ApiError::no_route().into()),
    }
}

/// Cancels a task (`:cancel` after its id), or streams its updates (`:subscribe`).
#[utoipa::path(
    post, path = "/a2a/{project}/{agent}/v1/tasks/{id}", tag = "a2a", operation_id = "a2aChangeTask",
    params(
        ("project" = String, Path), ("agent" = String, Path),
        ("id" = String, Path, description = "`<id>:cancel` or `<id>:subscribe`"),
        ("A2A-Version" = Option<String>, Header, description = "`1.0`"),
        VersionOnly,
    ),
    responses((
        status = 200, description = "The task, or its updates",
        content((Task = "application/a2a+json"), (StreamResponse = "text/event-stream")),
    )),
)]
pub(super) async fn post_task(
    _: AgentQuery<VersionOnly>,
    call: AgentCall,
    Path((_project, _agent, id)): Path<(String, String, String)>,
) -> Result<Response> {
    call.check_version()?;
    match id.split_once(':') {
        Some((id, "cancel")) => respond(&tasks::cancel(&call, TaskParams { id: id.to_owned() }).await?),
        Some((id, "subscribe")) => stream::subscribe(&call, TaskParams { id: id.to_owned() }, frames()).await,
        _ => Err(ApiError::no_route().into()),
    }
}

/// Returns the extended card of an agent: its card, with the schema of its output and the caller's rate limit.
#[utoipa::path(
    get, path = "/a2a/{project}/{agent}/v1/extendedAgentCard", tag = "a2a", operation_id = "a2aExtendedCard",
    params(
        ("project" = String, Path), ("agent" = String, Path),
        ("A2A-Version" = Option<String>, Header, description = "`1.0`"),
        VersionOnly,
    ),
    responses((status = 200, description = "The card", body = AgentCard, content_type = "application/a2a+json")),
)]
pub(super) async fn extended_card(_: AgentQuery<VersionOnly>, call: AgentCall) -> Result<Response> {
    call.check_version()?;
    let mut response = respond(&card::extended(&call)?)?;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL));
    Ok(response)
}

/// Lists where the updates of a task are sent.
#[utoipa::path(
    get, path = "/a2a/{project}/{agent}/v1/tasks/{id}/pushNotificationConfigs", tag = "a2a", operation_id = "a2aListPushConfigs",
    params(("project" = String, Path), ("agent" = String, Path), ("id" = String, Path), PushPage, VersionOnly),
    responses((status = 200, description = "All of them", body = PushConfigList, content_type = "application/a2a+json")),
)]
pub(super) async fn list_push_configs(
    AgentQuery(page): AgentQuery<PushPage>,
    call: AgentCall,
    Path((_project, _agent, id)): Path<(String, String, String)>,
) -> Result<Response> {
    call.check_version()?;
    respond(&push::list(&call, &id, &page).await?)
}

/// Sets an address to which the updates of a task are sent. One with the same id is replaced.
#[utoipa::path(
    post, path = "/a2a/{project}/{agent}/v1/tasks/{id}/pushNotificationConfigs", tag = "a2a", operation_id = "a2aCreatePushConfig",
    params(("project" = String, Path), ("agent" = String, Path), ("id" = String, Path), VersionOnly),
    request_body = PushConfig,
    responses((status = 200, description = "The configuration, without its secrets", body = PushConfig, content_type = "application/a2a+json")),
)]
pub(super) async fn create_push_config(
    _: AgentQuery<VersionOnly>,
    call: AgentCall,
    Path((_project, _agent, id)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response> {
    call.check_version()?;
    let config: PushConfig = read_body(request).await?;
    respond(&push::create(&call, Some(&id), config).await?)
}

/// Returns where the updates of a task are sent, without the secrets.
#[utoipa::path(
    get, path = "/a2a/{project}/{agent}/v1/tasks/{id}/pushNotificationConfigs/{config}", tag = "a2a", operation_id = "a2aGetPushConfig",
    params(("project" = String, Path), ("agent" = String, Path), ("id" = String, Path), ("config" = String, Path), VersionOnly),
    responses((status = 200, description = "The configuration", body = PushConfig, content_type = "application/a2a+json")),
)]
pub(super) async fn get_push_config(
    _: AgentQuery<VersionOnly>,
    call: AgentCall,
    Path((_project, _agent, task_id, id)): Path<(String, String, String, String)>,
) -> Result<Response> {
    call.check_version()?;
    respond(&push::get(&call, &PushConfigParams { task_id, id }).await?)
}

/// Deletes an address to which the updates of a task are sent. Nothing more is sent there.
#[utoipa::path(
    delete, path = "/a2a/{project}/{agent}/v1/tasks/{id}/pushNotificationConfigs/{config}", tag = "a2a", operation_id = "a2aDeletePushConfig",
    params(("project" = String, Path), ("agent" = String, Path), ("id" = String, Path), ("config" = String, Path), VersionOnly),
    responses((status = 200, description = "An empty object", body = Object, content_type = "application/a2a+json")),
)]
pub(super) async fn delete_push_config(
    _: AgentQuery<VersionOnly>,
    call: AgentCall,
    Path((_project, _agent, task_id, id)): Path<(String, String, String, String)>,
) -> Result<Response> {
    call.check_version()?;
    push::delete(&call, PushConfigParams { task_id, id }).await?;
    respond(&serde_json::json!({}))
}

async fn read_body<T: DeserializeOwned + Send + 'static>(request: Request) -> Result<T> {
    let (parts, body) = request.into_parts();
    if ![MEDIA_TYPE, "application/json"].iter().any(|media| has_content_type(&parts.headers, media)) {
        let message = format!("send the body as `Content-Type: {MEDIA_TYPE}`");
        return Err(A2aError::new(ErrorKind::WrongContentType, message).into());
    }
    let bytes = read_limited(&parts, body, limits::BODY, "the body").await?;
    Ok(parse_body(&parts, bytes).await?)
}

fn respond(value: &impl Serialize) -> Result<Response> {
    let body = build_answer(|| serde_json::to_vec(value));
    let body = body.map_err(|error| ApiError::internal_text(&error.to_string()))?;
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    Ok(response)
}

fn frames() -> FrameFn {
    Box::new(|update| match update {
        Ok(update) => sse::frame(None, update),
        Err(error) => sse::frame(None, &error.http_body()),
    })
}
