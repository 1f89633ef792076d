//! The external agents of the project as models.

use axum::{Json, extract::State};
use emergent_domain::{agent::Agent, ids::ProjectId};
use emergent_surfaces::openai::models::{Model, ModelList, model, model_list};

use crate::{ApiError, App, auth::InProject, extract::Path, routes::external::invoke::check_external};

/// Lists the external agents of the project as models.
#[utoipa::path(
    get, path = "/v1/models", tag = "openai", operation_id = "listModels",
    responses((status = 200, description = "The models", body = ModelList)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
) -> Result<Json<ModelList>, ApiError> {
    Ok(Json(model_list(&app.executor.list_external_agents(project).await?)))
}

/// Returns one external agent as a model.
#[utoipa::path(
    get, path = "/v1/models/{model}", tag = "openai", operation_id = "getModel",
    params(("model" = String, Path, description = "The name of an external agent")),
    responses((status = 200, description = "The model", body = Model)),
)]
pub(super) async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(name): Path<String>,
) -> Result<Json<Model>, ApiError> {
    Ok(Json(model(&find_model(&app, project, &name).await?)))
}

/// Returns the external agent with this name.
pub(super) async fn find_model(app: &App, project: ProjectId, name: &str) -> Result<Agent, ApiError> {
    let found = match name.contains('\0') {
        true => None,
        false => match app.executor.find_agent(project, name).await {
            Err(emergent_executor::Error::NotFound { .. }) => None,
            found => Some(found?),
        },
    };
    let agent =
        found.ok_or_else(|| ApiError::not_found("model", name.chars().take(100).collect::<String>()))?;
    check_external(agent.definition.visibility, &agent.definition.name)?;
    Ok(agent)
}
