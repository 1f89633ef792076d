//! Exports a conversation as JSON lines, or as a text to read.

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, header},
    response::Response,
};
use emergent_chat::{self as chat, Chat, ListedMessage};
use emergent_domain::{
    conversation::{ChatMessage, ChatRole, Conversation},
    cursor::Page,
    ids::ProjectId,
};
use emergent_graph as graph;
use emergent_store::requester::stream_on_behalf_of;
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, App,
    auth::{Caller, InProject},
    extract::{Path, Query},
    stream_limit::{StreamPermit, with_guard},
    views::chat::{ChatMessageView, ConversationView},
};

/// How many messages are read at a time.
const PAGE: usize = 50;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ExportFormat {
    /// The conversation, then its messages, one JSON object in each line.
    #[default]
    Jsonl,
    Markdown,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportQuery {
    /// `jsonl`, which is usual, or `markdown`.
    #[serde(default)]
    #[param(value_type = Option<ExportFormat>, inline)]
    format: ExportFormat,
}

/// Exports a conversation with all its messages, the oldest first.
#[utoipa::path(
    get, path = "/api/chat/conversations/{conversationId}/export", tag = "chat", operation_id = "exportConversation",
    params(("conversationId" = Uuid, Path), ExportQuery),
    responses((status = 200, description = "Lines of JSON, or Markdown", content((String = "application/x-ndjson"), (String = "text/markdown")))),
)]
pub(super) async fn export(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Path(id): Path<emergent_domain::ids::ConversationId>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, ApiError> {
    let conversation = app.chat.get_conversation(project, id).await?;
    let permits = (
        StreamPermit::acquire(&app.exports, &caller.token)?,
        StreamPermit::acquire(&app.streams, &caller.token)?,
    );
    let format = query.format;
    let first = stream::iter([Ok(head(format, &conversation))]);
    let pages = pages(app.chat.clone(), project, conversation).map(move |page| {
        page.map(|messages| messages.into_iter().map(|message| line(format, message)).collect::<String>())
    });
    let text = first.chain(pages).map(|text: chat::Result<String>| text.map(Bytes::from));
    let text = stream_on_behalf_of(caller.requester(), text);
    let text = caller.until_access_ends(&app, text, graph::Error::TokenEnded.into());
    let body = Body::from_stream(with_guard(text, permits));
    let mut response = Response::new(body);
    let content_type = match format {
        ExportFormat::Jsonl => "application/x-ndjson",
        ExportFormat::Markdown => "text/markdown; charset=utf-8",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

/// Reads the messages page by page.
fn pages(
    chat: Chat,
    project: ProjectId,
    conversation: Conversation,
) -> impl Stream<Item = chat::Result<Vec<ListedMessage>>> + Send {
    let id = conversation.id;
    stream::try_unfold(Some(Page::first(PAGE)), move |page| {
        let chat = chat.clone();
        async move {
            let Some(page) = page else { return Ok(None) };
            let found = chat.list_messages(project, id, None, page).await?;
            let next = found.next.map(|after| Page { limit: PAGE, after: Some(after) });
            Ok(Some((found.items, next)))
        }
    })
}

fn head(format: ExportFormat, conversation: &Conversation) -> String {
    match format {
        ExportFormat::Jsonl => json_line(&ConversationView::from(conversation.clone())),
        ExportFormat::Markdown => format!("# {}\n", conversation.title),
    }
}

fn line(format: ExportFormat, listed: ListedMessage) -> String {
    let ListedMessage { message, is_rehearsal, .. } = listed;
    match format {
        ExportFormat::Jsonl => {
            json_line(&ChatMessageView { rehearsal: is_rehearsal, ..ChatMessageView::from(message) })
        }
        ExportFormat::Markdown => {
            let (speaker, at) = (speaker(&message), message.created_at);
            format!("\n## {speaker} ({at})\n\n{}\n", message.content)
        }
    }
}

fn speaker(message: &ChatMessage) -> String {
    match message.role {
        ChatRole::User => "User".to_owned(),
        ChatRole::Assistant => format!("Assistant, {}", message.status),
    }
}

fn json_line(value: &impl serde::Serialize) -> String {
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}
