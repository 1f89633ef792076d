//! Returns a discussion, and lets a person decide an escalated one.

use axum::extract::State;

use crate::{
    ApiError, App,
    auth::{AsActor, InProject},
    extract::{Json, ObjectPath},
    response::{Envelope, Result, ok},
    views::coordination_discussion::{DecideDiscussion, DiscussionView},
};

/// Returns a discussion with its entries and its outcome.
#[utoipa::path(
    get, path = "/api/coordination/discussions/{discussionId}", tag = "coordination",
    operation_id = "getDiscussion", params(("discussionId" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`")),
    responses((status = 200, description = "The discussion", body = Envelope<DiscussionView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    ObjectPath(id): ObjectPath,
) -> Result<DiscussionView> {
    ok(app.dispatcher.discussion(project, id).await?)
}

/// Decides an escalated discussion; its workflow continues.
#[utoipa::path(
    post, path = "/api/coordination/discussions/{discussionId}/decide", tag = "coordination",
    operation_id = "decideDiscussion", params(("discussionId" = String, Path, description = "The id of an object, or `Type/key` with the slash as `%2F`")), request_body = DecideDiscussion,
    responses((status = 200, description = "The discussion", body = Envelope<DiscussionView>)),
)]
pub(super) async fn decide(
    State(app): State<App>,
    AsActor(actor): AsActor,
    ObjectPath(id): ObjectPath,
    Json(body): Json<DecideDiscussion>,
) -> Result<DiscussionView> {
    let is_empty = match &body.decision {
        serde_json::Value::Null => true,
        serde_json::Value::String(text) => text.trim().is_empty(),
        _ => false,
    };
    if is_empty {
        return Err(ApiError::invalid("decision", "is empty"));
    }
    ok(app.dispatcher.decide(actor, id, body.decision, body.reason).await?)
}
