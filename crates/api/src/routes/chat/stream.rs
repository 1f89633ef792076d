//! Sends a message and streams its answer, and follows an answer again.

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response, sse::Event},
};
use emergent_chat::{self as chat, Position, frame::Frame};
use emergent_domain::ids::ConversationId;
use futures_util::StreamExt;

use crate::{
    ApiError, App,
    auth::{AsActor, Caller, InProject},
    extract::{Json, Path},
    idempotency::AcceptedMessage,
    sse,
    views::{
        IntoView,
        chat::{ChatFrameView, SendMessage, new_message},
    },
};

/// Stores a message, starts its answer and streams it. Everything is checked before the stream starts. Closing the
/// connection changes nothing: the answer goes on, and `/stream` of the conversation follows it again. The same request
/// with the same `Idempotency-Key` stores nothing more, and streams the same answer.
#[utoipa::path(
    post, path = "/api/chat/stream", tag = "chat", operation_id = "sendMessage", request_body = SendMessage,
    responses(
        (status = 200, description = "Frames of JSON", body = ChatFrameView, content_type = "text/event-stream"),
        (status = 409, description = "A message of the conversation is being answered, and `queue` is not true"),
    ),
)]
pub(super) async fn send(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    accepted: Option<Extension<AcceptedMessage>>,
    Json(body): Json<SendMessage>,
) -> Result<Response, ApiError> {
    let permit = sse::permit(&app, &caller)?;
    if let Some(Extension(AcceptedMessage(message))) = accepted {
        let sent = app.chat.find_sent(actor.project, message).await?;
        return Ok(sse::stream_with(&app, &caller, permit, app.chat.follow(sent).map(frame)));
    }
    let sent = app.chat.send(actor, new_message(body)).await?;
    Ok(sse::stream_with(&app, &caller, permit, app.chat.follow_sent(sent).map(frame)))
}

/// Follows an answer again: what was said so far, then what is said next. Without `Last-Event-ID` it is the answer
/// that is being written, or the newest one. A client that sends the last `id:` it has seen misses nothing and
/// receives nothing twice.
#[utoipa::path(
    get, path = "/api/chat/conversations/{conversationId}/stream", tag = "chat", operation_id = "followConversation",
    params(
        ("conversationId" = Uuid, Path),
        ("Last-Event-ID" = Option<String>, Header, description = "The last `id:` seen."),
    ),
    responses(
        (status = 200, description = "Frames of JSON", body = ChatFrameView, content_type = "text/event-stream"),
        (status = 204, description = "There is no answer to follow, or the client has received all of it"),
    ),
)]
pub(super) async fn follow(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Path(id): Path<ConversationId>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let last: Option<Position> =
        sse::last_event_id(&headers, "is not a position in the frames of an answer")?;
    match app.chat.find_followed(project, id, last).await? {
        Some(followed) => Ok(sse::stream(&app, &caller, app.chat.follow(followed).map(frame))),
        // Browsers do not connect again after this.
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Returns one frame, or the last frame of a stream that failed.
fn frame(frame: chat::Result<Frame>) -> Event {
    match frame {
        Ok(Frame { position, body }) => {
            let view: ChatFrameView = body.into_view();
            sse::frame(Some(position.to_string()), &view)
        }
        Err(failure) => sse::error_frame(failure),
    }
}
