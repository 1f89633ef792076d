//! `/api/approvals`: the inbox of a project, with everything that a person has to decide.

mod inbox;

use axum::extract::State;
use emergent_domain::{author::Author, ids::ApprovalId, token::Scope::ApprovalsDecide};
use utoipa_axum::routes;

use crate::{
    ApiError, App,
    access::Routes,
    auth::{AsActor, InProject},
    extract::{BodyLimits, Json, Path},
    response::{Envelope, Result, ok},
    views::approval::{ApprovalView, DecideApproval},
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(ApprovalsDecide, routes!(inbox::list))
        .scoped(ApprovalsDecide, routes!(get))
        .scoped(ApprovalsDecide, routes!(decide))
        .limit_bodies(BodyLimits::SMALL)
}

/// Returns a tool call that has to be approved, or a question of an agent, with what was decided.
#[utoipa::path(
    get, path = "/api/approvals/{approvalId}", tag = "approvals", operation_id = "getApproval",
    params(("approvalId" = Uuid, Path)),
    responses((status = 200, description = "The approval or question", body = Envelope<ApprovalView>)),
)]
async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<ApprovalId>,
) -> Result<ApprovalView> {
    ok(app.executor.get_approval(project, id).await?)
}

/// Approves or denies a tool call, or answers a question. The run goes on when everything that it waits for is
/// decided. The first decision counts: a later one gets 409 with the first.
#[utoipa::path(
    post, path = "/api/approvals/{approvalId}/decide", tag = "approvals", operation_id = "decideApproval",
    params(("approvalId" = Uuid, Path)), request_body = DecideApproval,
    responses(
        (status = 200, description = "The approval or question, decided", body = Envelope<ApprovalView>),
        (status = 409, description = "`already_decided` with the first decision, or `conflict`: the digest is not that of the call"),
    ),
)]
async fn decide(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Path(id): Path<ApprovalId>,
    Json(body): Json<DecideApproval>,
) -> Result<ApprovalView> {
    let Author::Token { id: token } = actor.author else {
        return Err(ApiError::forbidden("only a token can decide".to_owned()));
    };
    ok(app.executor.decide_approval(actor.project, id, body.into(), token).await?)
}
