use axum::extract::State;
use emergent_domain::{cursor::Paged, ids::ProjectId};

use super::must_see;
use crate::{
    App,
    answer::{Envelope, Result, ok, page},
    auth::Caller,
    extract::{Paging, Path, Query},
    views::project::ProjectView,
};

/// The projects this token may see, newest first.
#[utoipa::path(
    get, path = "/api/projects", tag = "projects", operation_id = "listProjects", params(Paging),
    responses((status = 200, description = "A page of projects", body = Envelope<Vec<ProjectView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(paging): Query<Paging>,
) -> Result<Vec<ProjectView>> {
    let wanted = paging.page()?;
    match caller.bound_to() {
        None => page(app.graph.list_projects(wanted).await?),
        Some(own) => page(Paged { items: vec![app.graph.get_project(own).await?], next: None }),
    }
}

/// One project.
#[utoipa::path(
    get, path = "/api/projects/{id}", tag = "projects", operation_id = "getProject",
    params(("id" = Uuid, Path)),
    responses((status = 200, description = "The project", body = Envelope<ProjectView>)),
)]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<ProjectId>,
) -> Result<ProjectView> {
    must_see(&caller, id)?;
    ok(app.graph.get_project(id).await?)
}
