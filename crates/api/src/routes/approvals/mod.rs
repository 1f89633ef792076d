//! `/api/approvals`: the inbox of a project, with everything that a person has to decide.

mod inbox;

use axum::extract::State;
use emergent_coordination::InboxItemDetail;
use emergent_domain::{author::Author, ids::ApprovalId, token::Scope::ApprovalsDecide};
use emergent_executor::Error as ExecutorError;

use crate::{
    ApiError, App,
    access::Routes,
    auth::{AsActor, InProject},
    endpoint::routes,
    extract::{BodyLimits, Json, Path},
    response::{Envelope, Result, ok},
    views::approval::{DecideApproval, EscalatedItemView, InboxDetailView},
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(ApprovalsDecide, routes!(inbox::list))
        .scoped(ApprovalsDecide, routes!(get))
        .scoped(ApprovalsDecide, routes!(decide))
        .limit_bodies(BodyLimits::SMALL)
}

/// Returns an item of the inbox, with what was decided: a tool call that has to be approved, a question of an agent, a
/// discussion without a decision, or an escalated workflow.
#[utoipa::path(
    get, path = "/api/approvals/{approvalId}", tag = "approvals", operation_id = "getApproval",
    params(("approvalId" = Uuid, Path)),
    responses((status = 200, description = "The item", body = Envelope<InboxDetailView>)),
)]
async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<ApprovalId>,
) -> Result<InboxDetailView> {
    match app.executor.get_approval(project, id).await {
        Ok(approval) => ok(InboxDetailView::Request(Box::new(approval.into()))),
        Err(ExecutorError::NotFound { .. }) => {
            ok(escalated_view(app.dispatcher.inbox_item(project, id.0).await?))
        }
        Err(error) => Err(error.into()),
    }
}

/// Approves or denies a tool call, or answers a question: the run goes on when everything that it waits for is
/// decided. Resumes (`approve`) or cancels (`deny`) an escalated workflow. Gives a discussion its outcome (`answer`), or
/// accepts its last proposal (`approve`), or cancels the workflow that waits for it (`deny`). The first decision counts: a
/// later one gets 409 with the first.
#[utoipa::path(
    post, path = "/api/approvals/{approvalId}/decide", tag = "approvals", operation_id = "decideApproval",
    params(("approvalId" = Uuid, Path)), request_body = DecideApproval,
    responses(
        (status = 200, description = "The item, decided", body = Envelope<InboxDetailView>),
        (status = 409, description = "`already_decided` with the first decision, or `conflict`: the digest is not that of the call"),
    ),
)]
async fn decide(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Path(id): Path<ApprovalId>,
    Json(body): Json<DecideApproval>,
) -> Result<InboxDetailView> {
    let Author::Token { id: token } = actor.author else {
        return Err(ApiError::forbidden("only a token can decide".to_owned()));
    };
    match app.executor.decide_approval(actor.project, id, body.clone().into(), token).await {
        Ok(approval) => ok(InboxDetailView::Request(Box::new(approval.into()))),
        Err(ExecutorError::NotFound { what: "approval", .. }) => {
            ok(escalated_view(app.dispatcher.decide_inbox_item(actor, id.0, body.into()).await?))
        }
        Err(error) => Err(error.into()),
    }
}

fn escalated_view(detail: InboxItemDetail) -> InboxDetailView {
    InboxDetailView::Escalated(EscalatedItemView::new(detail.item, detail.options))
}
