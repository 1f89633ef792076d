//! Lists and returns projects.

use axum::extract::State;
use emergent_domain::cursor::ResultPage;

use crate::{
    App,
    auth::Caller,
    extract::{Paging, ProjectPath, Query},
    response::{Envelope, Result, ok, page},
    views::project::ProjectView,
};

/// Lists the projects that this token can access, newest first.
#[utoipa::path(
    get, path = "/api/projects", tag = "projects", operation_id = "listProjects", params(Paging),
    responses((status = 200, description = "A page of projects", body = Envelope<Vec<ProjectView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(paging): Query<Paging>,
) -> Result<Vec<ProjectView>> {
    let requested = paging.page()?;
    match caller.bound_project() {
        None => page(app.graph.list_projects(requested).await?),
        Some(own) => page(ResultPage { items: vec![app.graph.get_project(own).await?], next: None }),
    }
}

/// Returns one project.
#[utoipa::path(
    get, path = "/api/projects/{id}", tag = "projects", operation_id = "getProject",
    params(("id" = String, Path, description = "The id or the name of the project")),
    responses((status = 200, description = "The project", body = Envelope<ProjectView>)),
)]
pub(super) async fn get(State(app): State<App>, ProjectPath(id): ProjectPath) -> Result<ProjectView> {
    ok(app.graph.get_project(id).await?)
}
