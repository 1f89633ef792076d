//! Makes, lists, shows, renames and deletes conversations, and stops their answers.

use axum::extract::State;
use emergent_domain::{
    author::Author,
    ids::{AgentId, ConversationId},
    token::Scope,
};

use crate::{
    App,
    auth::{AsActor, Caller, InProject},
    extract::{Json, OptionalJson, Path, Query, paged_query},
    response::{Envelope, Result, created, ok, page},
    views::chat::{ConversationView, CreateConversation, UpdateConversation},
};

paged_query! {
    pub(super) struct ConversationsQuery {
        /// Only conversations whose title or messages contain this text, whatever the case of its letters.
        #[param(max_length = 1000)]
        q: Option<String>,
    }
}

/// Lists the conversations of the project, newest first.
#[utoipa::path(
    get, path = "/api/chat/conversations", tag = "chat", operation_id = "listConversations",
    params(ConversationsQuery),
    responses((status = 200, description = "A page of conversations", body = Envelope<Vec<ConversationView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<ConversationsQuery>,
) -> Result<Vec<ConversationView>> {
    let requested = query.page()?;
    page(app.chat.list_conversations(project, query.q, requested).await?)
}

/// Makes a conversation without messages. Its agent never changes.
#[utoipa::path(
    post, path = "/api/chat/conversations", tag = "chat", operation_id = "createConversation",
    request_body = CreateConversation,
    responses((status = 201, description = "The conversation", body = Envelope<ConversationView>)),
)]
pub(super) async fn create(
    State(app): State<App>,
    AsActor(actor): AsActor,
    OptionalJson(body): OptionalJson<CreateConversation>,
) -> Result<ConversationView> {
    let agent = body.agent_definition_id.map(AgentId);
    created(app.chat.create_conversation(actor, body.title, agent).await?)
}

/// Returns a conversation, with the tokens and the cost of its answers, and what the current one waits for.
#[utoipa::path(
    get, path = "/api/chat/conversations/{conversationId}", tag = "chat", operation_id = "getConversation",
    params(("conversationId" = Uuid, Path)),
    responses((status = 200, description = "The conversation", body = Envelope<ConversationView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<ConversationId>,
) -> Result<ConversationView> {
    ok(app.chat.conversation_detail(project, id).await?)
}

/// Renames a conversation.
#[utoipa::path(
    patch, path = "/api/chat/conversations/{conversationId}", tag = "chat", operation_id = "renameConversation",
    params(("conversationId" = Uuid, Path)), request_body = UpdateConversation,
    responses((status = 200, description = "The conversation", body = Envelope<ConversationView>)),
)]
pub(super) async fn rename(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<ConversationId>,
    Json(body): Json<UpdateConversation>,
) -> Result<ConversationView> {
    ok(app.chat.rename_conversation(project, id, &body.title).await?)
}

/// Deletes a conversation, and ends the answer that is being written. Messages that wait for their turn are not
/// answered. A conversation that another token made needs the scope `admin:write`.
#[utoipa::path(
    delete, path = "/api/chat/conversations/{conversationId}", tag = "chat", operation_id = "deleteConversation",
    params(("conversationId" = Uuid, Path)),
    responses((status = 200, description = "The deleted conversation", body = Envelope<ConversationView>)),
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Path(id): Path<ConversationId>,
) -> Result<ConversationView> {
    // The author of a conversation never changes.
    let author = app.chat.get_conversation(project, id).await?.author;
    if author != (Author::Token { id: caller.token.id }) {
        caller.require_scope(Scope::AdminWrite)?;
    }
    ok(app.chat.delete_conversation(project, id).await?)
}

/// Stops the answer that is being written. The text so far becomes the answer, with the status `stopped`. Messages
/// that wait for their turn are answered next.
#[utoipa::path(
    post, path = "/api/chat/conversations/{conversationId}/stop", tag = "chat", operation_id = "stopConversation",
    params(("conversationId" = Uuid, Path)),
    responses(
        (status = 200, description = "The conversation", body = Envelope<ConversationView>),
        (status = 409, description = "No message is being answered"),
    ),
)]
pub(super) async fn stop(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<ConversationId>,
) -> Result<ConversationView> {
    ok(app.chat.stop_answer(project, id).await?)
}
