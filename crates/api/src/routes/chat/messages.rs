//! Lists the messages of a conversation.

use axum::extract::State;
use emergent_domain::ids::{ChatMessageId, ConversationId};

use crate::{
    App,
    auth::InProject,
    extract::{Path, Query, paged_query},
    response::{Envelope, Result, page},
    views::chat::ChatMessageView,
};

paged_query! {
    pub(super) struct MessagesQuery {
        /// Only this message and those before it in its branch.
        #[param(value_type = Option<Uuid>)]
        branch: Option<ChatMessageId>,
    }
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
    let requested = query.page()?;
    page(app.chat.list_messages(project, id, query.branch, requested).await?)
}
