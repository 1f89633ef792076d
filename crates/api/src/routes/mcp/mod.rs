//! `/mcp`: the project's tools, prompts and resources for clients of the Model Context Protocol. The
//! protocol itself is in `emergent_mcp::server`; this module connects it to HTTP, tokens and projects.

mod agent_labels;
mod agents;
mod catalog;
mod catalog_cache;
mod catalog_watch;
mod complete;
mod database_errors;
mod host;
mod metadata;
mod origin;
mod resource_watch;
mod resources;
mod tool_calls;
mod withheld;

use std::{convert::Infallible, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use emergent_mcp::server::{PostedMessage, Reply, ReplyBody};
use emergent_store::requester::stream_on_behalf_of;
use futures_util::{StreamExt, future::select};

pub use self::host::McpCaller;
pub(crate) use self::host::{Endpoint, endpoint};
pub(crate) use self::metadata::base_url;
use crate::{
    ApiError, App,
    access::Routes,
    auth::{Caller, InProject},
    endpoint::routes,
    error::Failure,
    extract::{has_content_type, parse_body_with, read_limited},
    limits,
    request_context::RequestContext,
    stream_limit::{StreamPermit, with_guard},
};

pub(super) fn routes() -> Routes {
    Routes::new().any_token(routes!(post, get_stream, delete_session)).layer(metadata::challenge).merge(
        Routes::new().public(routes!(metadata::server_metadata)).public(routes!(metadata::mcp_metadata)),
    )
}

/// Handles a message of the Model Context Protocol, in either of its eras: 2026-07-28, in which
/// requests are independent, and 2025-11-25 and earlier, which start with `initialize`. The response is
/// JSON, or an event stream if messages precede the result. The token's scopes decide which tools are
/// listed and can be called.
#[utoipa::path(
    post, path = "/mcp", tag = "mcp", operation_id = "mcp",
    request_body(content = Object, description = "A JSON-RPC 2.0 request, notification or response"),
    responses(
        (status = 200, description = "A JSON-RPC response, or a stream that ends with it", body = Object),
        (status = 202, description = "The notification or response was accepted"),
        (status = 400, description = "A JSON-RPC error: the message, its headers or its version are invalid", body = Object),
        (status = 403, description = "The token lacks the tool's scope, or a web page of another origin sent the request", body = Object),
        (status = 404, description = "The method or session does not exist", body = Object),
        (status = 429, description = "A JSON-RPC error: the token has reached its limit of sessions or subscriptions. \
            Or, in the envelope, `overloaded`: more requests or streams than there is room for", body = Object),
    ),
)]
async fn post(
    State(app): State<App>,
    Extension(context): Extension<RequestContext>,
    caller: Caller,
    InProject(project): InProject,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    origin::check(headers)?;
    if !has_content_type(headers, "application/json") {
        return Err(ApiError::wrong_content_type("application/json"));
    }
    let body = read_limited(&parts, body, limits::BODY, "the body").await?;
    let message = parse_body_with(&parts, body, |body| Ok(PostedMessage::parse(body))).await?;
    let mcp_caller = McpCaller { project, token: Arc::clone(&caller.token) };
    let reply = app.mcp.handle(&mcp_caller, headers, message).await;
    let hold = match &reply.body {
        // A call in progress must not fail because the stream limit is reached: it then stays counted as a
        // request.
        ReplyBody::Events(_) => {
            let permit = StreamPermit::acquire(&app.streams, &caller.token);
            Some(permit.map_or_else(|_| StreamHold::Request(context), StreamHold::Stream))
        }
        ReplyBody::Changes(_) => {
            Some(StreamHold::Stream(StreamPermit::acquire(&app.streams, &caller.token)?))
        }
        ReplyBody::Empty | ReplyBody::Json(_) => None,
    };
    Ok(to_response(&app, &caller, reply, hold))
}

/// Streams change notifications to a client with a session.
#[utoipa::path(
    get, path = "/mcp", tag = "mcp", operation_id = "mcpStream",
    params(("Mcp-Session-Id" = Option<String>, Header, description = "From the response to `initialize`.")),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 403, description = "A web page of another origin sent the request", body = Object),
        (status = 404, description = "The session does not exist", body = Object),
        (status = 405, description = "No session was named", body = Object),
        (status = 429, description = "`overloaded`: the limit of requests or streams is reached", body = Failure),
    ),
)]
async fn get_stream(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    origin::check(&headers)?;
    let mcp_caller = McpCaller { project, token: Arc::clone(&caller.token) };
    // The permit is acquired before the session is used, because opening a stream closes the previous one.
    let hold = StreamHold::Stream(StreamPermit::acquire(&app.streams, &caller.token)?);
    Ok(to_response(&app, &caller, app.mcp.get(&mcp_caller, &headers), Some(hold)))
}

/// Ends a session and cancels everything in progress in it.
#[utoipa::path(
    delete, path = "/mcp", tag = "mcp", operation_id = "endMcpSession",
    params(("Mcp-Session-Id" = Option<String>, Header, description = "From the response to `initialize`.")),
    responses(
        (status = 204, description = "It has ended"),
        (status = 403, description = "A web page of another origin sent the request", body = Object),
        (status = 404, description = "The session does not exist", body = Object),
        (status = 405, description = "No session was named", body = Object),
    ),
)]
async fn delete_session(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    origin::check(&headers)?;
    let mcp_caller = McpCaller { project, token: Arc::clone(&caller.token) };
    Ok(to_response(&app, &caller, app.mcp.delete(&mcp_caller, &headers), None))
}

/// What an open stream is counted as, until it is dropped: a stream or a request in progress.
enum StreamHold {
    Stream(#[allow(dead_code, reason = "dropping it ends the count")] StreamPermit),
    Request(#[allow(dead_code, reason = "dropping it ends the count")] RequestContext),
}

/// Converts a reply of the protocol into an HTTP response.
fn to_response(app: &App, caller: &Caller, reply: Reply, hold: Option<StreamHold>) -> Response {
    let Ok(status) = StatusCode::from_u16(reply.status) else {
        return ApiError::internal_text("an MCP reply has an invalid status").into_response();
    };
    let (body, content_type) = match reply.body {
        ReplyBody::Empty => (Body::empty(), None),
        ReplyBody::Json(text) => (Body::from(text), Some("application/json")),
        ReplyBody::Events(frames) | ReplyBody::Changes(frames) => {
            let end = select(Box::pin(app.closed()), Box::pin(caller.access_ended(app)));
            let frames = stream_on_behalf_of(caller.requester(), frames);
            let frames = with_guard(frames.map(Ok::<_, Infallible>).take_until(end), hold);
            (
                app.answers.count_frames(Body::from_stream(frames), caller.requester()),
                Some("text/event-stream"),
            )
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if content_type == Some("text/event-stream") {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Proxies that buffer would delay events.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    }
    let session = reply.session.and_then(|id| HeaderValue::from_str(&id).ok());
    if let Some(session) = session {
        headers.insert("mcp-session-id", session);
    }
    let challenge = reply.challenge.and_then(|text| HeaderValue::from_str(&text).ok());
    if let Some(challenge) = challenge {
        headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}
