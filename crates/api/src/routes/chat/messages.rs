//! Lists the messages of a conversation.

use axum::extract::State;
use emergent_domain::{
    cursor::Page,
    ids::{ChatMessageId, ConversationId},
};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{
    App,
    auth::InProject,
    extract::{Path, Query},
    response::{Envelope, Result, page},
    views::chat::ChatMessageView,
};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagesQuery {
    /// Only this message and those before it in its branch.
    #[param(value_type = Option<Uuid>)]
    branch: Option<ChatMessageId>,
    /// The maximum number of results; the default is 50.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// The `x-next-cursor` of the previous page.
    cursor: Option<String>,
}

/// Lists the messages of a conversation, the oldest first: those of people, and answers. An answer that is being
/// written is not listed; follow the stream of the conversation.
#[utoipa::path(
    get, path = "/api/chat/conversations/{conversationId}/messages", tag = "chat",
    operation_id = "listConversationMessages",
    params(("conversationId" = Uuid, Path), MessagesQuery),
    responses((status = 200, description = "A page of messages", body = Envelope<Vec<ChatMessageView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<ConversationId>,
    Query(query): Query<MessagesQuery>,
) -> Result<Vec<ChatMessageView>> {
    let requested = Page::new(query.limit, query.cursor.as_deref())?;
    page(app.chat.list_messages(project, id, query.branch, requested).await?)
}
