//! The JSON-RPC binding.

use axum::{
    body::Bytes,
    extract::Request,
    http::{HeaderValue, header, request::Parts},
    response::{IntoResponse, Response},
};
use emergent_surfaces::a2a::{
    error::{A2aError, ErrorKind},
    jsonrpc::{self, RpcRequest, unknown_method},
    push::ListPushConfigs,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    agent_call::AgentCall,
    card,
    failure::{A2aFailure, RequestId, Result},
    push,
    query::{AgentQuery, VersionOnly},
    send,
    stream::{self, FrameFn},
    tasks,
};
use crate::{
    error::Failure,
    extract::{field_problem, has_content_type, parse_body_with, read_limited},
    limits, sse,
};

/// Handles a request of A2A's JSON-RPC binding: `SendMessage`, `SendStreamingMessage`, `GetTask`, `ListTasks`,
/// `CancelTask`, `SubscribeToTask`, `GetExtendedAgentCard`, and the methods about push notifications. An error of the
/// protocol is a JSON-RPC error with status 200.
#[utoipa::path(
    post, path = "/a2a/{project}/{agent}", tag = "a2a", operation_id = "a2aRpc",
    params(
        ("project" = String, Path, description = "The id or the name of a project"),
        ("agent" = String, Path, description = "The id or the name of an external agent"),
        ("A2A-Version" = Option<String>, Header, description = "`1.0`; a request without it counts as 0.3"),
        VersionOnly,
    ),
    request_body(content = Object, description = "A JSON-RPC 2.0 request"),
    responses(
        (
            status = 200, description = "A JSON-RPC response, or a stream of them",
            content((Object = "application/json"), (Object = "text/event-stream")),
        ),
        (status = 403, description = "`missing_scope`, or `forbidden`: the agent is not external", body = Failure),
        (status = 429, description = "`rate_limited`: this token started this agent too often; or `overloaded`", body = Failure),
    ),
)]
pub(super) async fn post(_: AgentQuery<VersionOnly>, call: AgentCall, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let request = match read(&parts, body).await {
        Ok(request) => request,
        Err((id, failure)) => return with_id(failure.into_response(), id),
    };
    let id = request.id.clone();
    with_id(handle(&call, request).await.unwrap_or_else(IntoResponse::into_response), id)
}

fn with_id(mut response: Response, id: Value) -> Response {
    response.extensions_mut().insert(RequestId(id));
    response
}

async fn read(parts: &Parts, body: axum::body::Body) -> std::result::Result<RpcRequest, (Value, A2aFailure)> {
    let without_id = |failure: A2aFailure| (Value::Null, failure);
    if !has_content_type(&parts.headers, "application/json") {
        let message = "send the body as `Content-Type: application/json`";
        return Err(without_id(A2aError::new(ErrorKind::WrongContentType, message).into()));
    }
    let body: Bytes = read_limited(parts, body, limits::BODY, "the body")
        .await
        .map_err(|error| without_id(error.into()))?;
    let parsed = parse_body_with(parts, body, |body| Ok(RpcRequest::parse(body))).await;
    match parsed {
        Ok(Ok(request)) => Ok(request),
        Ok(Err(failure)) => {
            let (id, error) = *failure;
            Err((id, error.into()))
        }
        Err(error) => Err(without_id(error.into())),
    }
}

async fn handle(call: &AgentCall, request: RpcRequest) -> Result<Response> {
    call.check_version()?;
    let RpcRequest { id, method, params } = request;
    match method.as_str() {
        "SendMessage" => {
            let answer = send::send(call, parse(params)?).await?;
            respond(&id, &answer)
        }
        "SendStreamingMessage" => stream::send(call, parse(params)?, frames(id)).await,
        "GetTask" => respond(&id, &tasks::get(call, parse(params)?).await?),
        "ListTasks" => respond(&id, &tasks::list(call, parse(params)?).await?),
        "CancelTask" => respond(&id, &tasks::cancel(call, parse(params)?).await?),
        "SubscribeToTask" => stream::subscribe(call, parse(params)?, frames(id)).await,
        "CreateTaskPushNotificationConfig" => respond(&id, &push::create(call, None, parse(params)?).await?),
        "GetTaskPushNotificationConfig" => respond(&id, &push::get(call, &parse(params)?).await?),
        "ListTaskPushNotificationConfigs" => {
            let params: ListPushConfigs = parse(params)?;
            respond(&id, &push::list(call, &params.task_id, &params.page).await?)
        }
        "DeleteTaskPushNotificationConfig" => {
            push::delete(call, parse(params)?).await?;
            respond(&id, &serde_json::json!({}))
        }
        "GetExtendedAgentCard" => respond(&id, &card::extended(call)?),
        _ => Err(unknown_method(&method).into()),
    }
}

/// Parses the parameters of a method. The error names the field.
fn parse<T: DeserializeOwned>(params: Value) -> Result<T> {
    serde_path_to_error::deserialize(params).map_err(|failure| {
        let path = failure.path().clone();
        field_problem(&path, &failure.into_inner().to_string()).into()
    })
}

fn respond(id: &Value, result: &impl Serialize) -> Result<Response> {
    let mut response = jsonrpc::result(id, result).to_string().into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn frames(id: Value) -> FrameFn {
    Box::new(move |update| match update {
        Ok(update) => sse::frame(None, &jsonrpc::result(&id, update)),
        Err(error) => sse::frame(None, &jsonrpc::failure(&id, error)),
    })
}
