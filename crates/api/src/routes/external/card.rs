//! The card of a project.

use axum::{
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use emergent_domain::ids::ProjectId;
use emergent_store::requester::{Requester, on_behalf_of};
use emergent_surfaces::card::card;
use emergent_wire::invoke::AgentCardView;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::{ApiError, App, app::CachedCard, auth::DEFAULT_PROJECT, extract::Query};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct CardQuery {
    /// The id or the name of a project; `default` without it.
    project: Option<String>,
}

/// Lists the agents of a project that the outside may find: external ones that describe themselves (`acp`). Needs no
/// token. A project that lists none is not found, like one that does not exist; only the default project is known to
/// be there.
#[utoipa::path(
    get, path = "/api/agents/card", tag = "external", operation_id = "getAgentCard", params(CardQuery),
    responses(
        (status = 200, description = "The card", body = AgentCardView),
        (status = 404, description = "`not_found`: no such project, or it lists no agent", body = crate::error::Failure),
    ),
)]
pub(super) async fn get(
    State(app): State<App>,
    Query(query): Query<CardQuery>,
) -> Result<Response, ApiError> {
    let named = query.project.as_deref().unwrap_or(DEFAULT_PROJECT);
    let project = app.project(named).await?;
    let card = find_card(&app, project).await?;
    // Otherwise anybody could find out the names of projects.
    if card.is_empty && project != app.project(DEFAULT_PROJECT).await? {
        return Err(ApiError::unknown_project(named));
    }
    Ok(([(CONTENT_TYPE, "application/json")], card.json).into_response())
}

async fn find_card(app: &App, project: ProjectId) -> Result<CachedCard, ApiError> {
    if let Some(cached) = app.cards.get(&project) {
        return Ok(cached);
    }
    let _permit = app.card_reads.acquire().await.map_err(|_| ApiError::internal_text("the server closes"))?;
    if let Some(cached) = app.cards.get(&project) {
        return Ok(cached);
    }
    let pending_read = app.cards.start_read();
    let agents = app.executor.list_external_agents(project);
    let agents = on_behalf_of(Requester::Project(project), agents).await?;
    let card = card(&agents);
    let json = serde_json::to_vec(&card).map_err(|error| ApiError::internal_text(&error.to_string()))?;
    let card = CachedCard { json: json.into(), is_empty: card.agents.is_empty() };
    app.cards.insert(project, card.clone(), pending_read);
    Ok(card)
}
