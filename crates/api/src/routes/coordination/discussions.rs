//! Lists and returns discussions, and lets a person decide an escalated one.

use axum::extract::State;
use emergent_domain::{coordination::DISCUSSION_STATUSES, object_ref::ObjectRef};

use crate::{
    ApiError, App,
    auth::{AsActor, InProject},
    error::Failure,
    extract::{Json, ObjectPath, Query, paged_query},
    response::{Envelope, Result, ok, page},
    views::coordination_discussion::{DecideDiscussion, DiscussionSummaryView, DiscussionView},
};

paged_query! {
    pub(super) struct DiscussionListQuery {
        /// `active`, `resolved`, `escalated` or `abandoned`.
        status: Option<String>,
        /// Only discussions of this task: its id, or `SpecTask/key`.
        #[serde(rename = "taskId")]
        #[param(value_type = Option<String>, rename = "taskId")]
        task: Option<ObjectRef>,
    }
}

/// Lists the discussions of the project, newest first.
#[utoipa::path(
    get, path = "/api/coordination/discussions", tag = "coordination", operation_id = "listDiscussions",
    params(DiscussionListQuery),
    responses((status = 200, description = "A page of discussions", body = Envelope<Vec<DiscussionSummaryView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<DiscussionListQuery>,
) -> Result<Vec<DiscussionSummaryView>> {
    let requested = query.page()?;
    if let Some(status) = query.status.as_deref().filter(|status| !DISCUSSION_STATUSES.contains(status)) {
        let reason = format!("`{status}` is not one of {}", DISCUSSION_STATUSES.join(", "));
        return Err(ApiError::invalid("status", reason));
    }
    let task = match query.task {
        Some(reference) => Some(app.dispatcher.resolve_task(project, reference).await?),
        None => None,
    };
    page(app.dispatcher.discussions(project, query.status, task, requested).await?)
}

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
    responses(
        (status = 200, description = "The discussion", body = Envelope<DiscussionView>),
        (status = 409, description = "`conflict`: the discussion is not escalated, or was decided already", body = Failure),
    ),
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
