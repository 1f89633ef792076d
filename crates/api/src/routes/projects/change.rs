//! Creates, changes and deletes projects.

use axum::extract::State;
use emergent_executor::webhooks;
use emergent_secrets::SecretName;

use crate::{
    ApiError, App,
    auth::Caller,
    extract::{Json, ProjectPath},
    response::{Envelope, Result, created, ok},
    views::project::{CreateProject, ProjectView, UpdateProject},
};

/// Creates a project.
#[utoipa::path(
    post, path = "/api/projects", tag = "projects", operation_id = "createProject",
    request_body = CreateProject,
    responses((status = 201, description = "The project", body = Envelope<ProjectView>)),
)]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<CreateProject>,
) -> Result<ProjectView> {
    caller.require_all_projects("making a project")?;
    created(app.graph.create_project(&body.name, body.strict).await?)
}

/// Renames a project, or changes whether it is strict and how long it keeps what is over. Only a token that
/// spans projects can rename: names are unique on a server, so a name that is taken would reveal another
/// project.
#[utoipa::path(
    patch, path = "/api/projects/{id}", tag = "projects", operation_id = "updateProject",
    params(("id" = String, Path, description = "The id or the name of the project")), request_body = UpdateProject,
    responses((status = 200, description = "The changed project", body = Envelope<ProjectView>)),
)]
pub(super) async fn update(
    State(app): State<App>,
    caller: Caller,
    ProjectPath(id): ProjectPath,
    Json(body): Json<UpdateProject>,
) -> Result<ProjectView> {
    if body.name.is_some() {
        caller.require_all_projects("renaming a project")?;
    }
    if let Some(Some(webhook)) = &body.webhook {
        let allow_private = app.executor.settings().allow_private_hosts;
        webhooks::check_url(&webhook.url, allow_private)
            .map_err(|reason| ApiError::invalid("webhook.url", &reason))?;
        // A name that is none is refused with the other fields.
        if let Ok(name) = webhook.secret.parse::<SecretName>() {
            app.secrets.check_signing_key(id, &name, caller.configures_as()).await?;
        }
    }
    let project = app.graph.update_project_as(id, body.into(), caller.configures_as()).await?;
    app.projects.remove_where(|project| *project == id);
    ok(project)
}

/// Deletes a project: its tokens and secrets, its runs and workflows end at once, and what remains is removed
/// after the retention time of the server. The project `default` cannot be deleted.
#[utoipa::path(
    delete, path = "/api/projects/{id}", tag = "projects", operation_id = "deleteProject",
    params(("id" = String, Path, description = "The id or the name of the project")),
    responses((status = 200, description = "The deleted project", body = Envelope<ProjectView>)),
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    ProjectPath(id): ProjectPath,
) -> Result<ProjectView> {
    caller.require_all_projects("deleting a project")?;
    let project = app.graph.get_project(id).await?;
    app.graph.delete_project(id).await?;
    app.projects.remove_where(|project| *project == id);
    app.logins.remove_where(|login| login.token.project == Some(id));
    ok(project)
}
