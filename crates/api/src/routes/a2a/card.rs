//! Cards, which need no token, and extended cards, which need one.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use emergent_domain::{agent::Agent, ids::ProjectId};
use emergent_store::requester::{Requester, on_behalf_of};
use emergent_surfaces::a2a::{
    card::{self, AgentCard},
    error::{A2aError, ErrorKind},
};

use super::agent_call::AgentCall;
use crate::{ApiError, App, auth::DEFAULT_PROJECT, etag, extract::Path, routes::mcp::base_url};

const SUFFIX: &str = "/.well-known/agent-card.json";
/// A changed definition is seen by others after this time.
const CACHE_CONTROL: &str = "public, max-age=60";
/// How much of a name an error repeats.
const MAX_NAME_CHARS: usize = 100;

/// Returns the A2A card of an external agent of the default project that describes itself (`acp`): its default agent, or
/// else the oldest.
#[utoipa::path(
    get, path = "/.well-known/agent-card.json", tag = "a2a", operation_id = "getDefaultA2aCard",
    responses(
        (status = 200, description = "The card", body = AgentCard),
        (status = 304, description = "The card is the one of `If-None-Match`"),
        (status = 404, description = "`not_found`: no agent has a card", body = crate::error::Failure),
    ),
)]
pub(super) async fn default_card(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    let project = app.project(DEFAULT_PROJECT).await?;
    let agents =
        on_behalf_of(Requester::Project(project), app.executor.list_external_agents(project)).await?;
    let no_card = || {
        ApiError::absent(format!(
            "no agent of the project `{DEFAULT_PROJECT}` has a card: none of them is external and has `acp`"
        ))
    };
    let agent = card::default_agent(&agents).ok_or_else(no_card)?;
    let path = format!("/a2a/{DEFAULT_PROJECT}/{}", agent.definition.name);
    respond(&app, &headers, agent, &path).transpose().unwrap_or_else(|| Err(no_card()))
}

/// Returns the A2A card of an external agent that describes itself (`acp`). Others are not found.
#[utoipa::path(
    get, path = "/a2a/{project}/{agent}/.well-known/agent-card.json", tag = "a2a", operation_id = "getA2aCard",
    params(
        ("project" = String, Path, description = "The id or the name of a project"),
        ("agent" = String, Path, description = "The id or the name of an agent"),
    ),
    responses(
        (status = 200, description = "The card", body = AgentCard),
        (status = 304, description = "The card is the one of `If-None-Match`"),
        (status = 404, description = "`not_found`: no such agent, or it has no card", body = crate::error::Failure),
    ),
)]
pub(super) async fn agent_card(
    State(app): State<App>,
    Path((project, named)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Nobody finds out the names of projects and of agents that have no card.
    let project = app.project(&project).await.map_err(|error| absent(error, || no_card(&named)))?;
    let agent = find_agent(&app, project, &named).await?;
    let path = uri.path().strip_suffix(SUFFIX).unwrap_or(uri.path()).to_owned();
    respond(&app, &headers, &agent, &path).transpose().unwrap_or_else(|| Err(no_card(&named)))
}

/// Returns the extended card of an agent that the caller may invoke.
pub(super) fn extended(call: &AgentCall) -> Result<AgentCard, A2aError> {
    let card = card::extended_card(&call.agent, &call.endpoint, call.app.invoke_rate.max_per_minute());
    card.ok_or_else(|| {
        let message = "this agent has no card: its definition does not say how it is described (`acp`)";
        A2aError::new(ErrorKind::ExtendedCardNotConfigured, message)
    })
}

async fn find_agent(app: &App, project: ProjectId, named: &str) -> Result<Agent, ApiError> {
    if named.contains('\0') {
        return Err(no_card(named));
    }
    let found = on_behalf_of(Requester::Project(project), app.executor.find_agent(project, named)).await;
    match found {
        Err(emergent_executor::Error::NotFound { .. }) => Err(no_card(named)),
        found => Ok(found?),
    }
}

/// `None` if the agent has no card.
fn respond(app: &App, headers: &HeaderMap, agent: &Agent, path: &str) -> Result<Option<Response>, ApiError> {
    let endpoint = format!("{}{path}", base_url(headers, app.listen_address.is_tls()));
    let Some(card) = card::agent_card(agent, &endpoint) else { return Ok(None) };
    let body = serde_json::to_vec(&card).map_err(|error| ApiError::internal_text(&error.to_string()))?;
    let tag = etag::content_tag(&body);
    let is_known = etag::is_known(headers, &tag);
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => body.into_response(),
    };
    let fields = response.headers_mut();
    if !is_known {
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL));
    // The address in the card is the one that the client used.
    fields.insert(header::VARY, HeaderValue::from_static("host, x-forwarded-proto"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        fields.insert(header::ETAG, tag);
    }
    Ok(Some(response))
}

/// The same sentence for an agent that has no card and for a name that no agent has. It repeats what the request named.
fn no_card(named: &str) -> ApiError {
    let named: String = named.chars().take(MAX_NAME_CHARS).collect();
    ApiError::absent(format!(
        "agent `{named}` has no card: it is not external, has no `acp`, or does not exist"
    ))
}

/// Replaces an error about something that does not exist.
fn absent(error: ApiError, by: impl FnOnce() -> ApiError) -> ApiError {
    if error.status == StatusCode::NOT_FOUND { by() } else { error }
}
