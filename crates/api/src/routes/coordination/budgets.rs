//! The daily budgets of a project and of its agents.

use axum::extract::State;

use crate::{
    ApiError, App,
    auth::{AsActor, InProject},
    extract::Json,
    response::{Envelope, Result, ok},
    views::coordination_budget::{BudgetsView, PutBudget},
};

/// Returns the daily limits (UTC) of the project and its agents, and what they have spent today.
#[utoipa::path(
    get, path = "/api/coordination/budgets", tag = "coordination", operation_id = "getBudgets",
    responses((status = 200, description = "Every limit", body = Envelope<BudgetsView>)),
)]
pub(super) async fn get(State(app): State<App>, InProject(project): InProject) -> Result<BudgetsView> {
    ok(app.dispatcher.budgets(project).await?)
}

/// Sets the daily limit of the project or of one of its agents. Without dollars and tokens, the limit
/// is removed.
#[utoipa::path(
    put, path = "/api/coordination/budgets", tag = "coordination", operation_id = "putBudget",
    request_body = PutBudget,
    responses((status = 200, description = "Every limit", body = Envelope<BudgetsView>)),
)]
pub(super) async fn put(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Json(body): Json<PutBudget>,
) -> Result<BudgetsView> {
    let limit = body.limit()?;
    // Internally, an empty name means the project.
    if body.agent.as_deref().is_some_and(|name| name.trim().is_empty()) {
        return Err(ApiError::invalid("agent", "is empty"));
    }
    ok(app.dispatcher.set_budget(actor.project, body.agent, limit).await?)
}
