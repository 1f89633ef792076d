//! `/api/template-packs`: sets of type schemas, and which of them a project uses.

use axum::extract::State;
use emergent_domain::{
    ids::PackId,
    token::Scope::{GraphRead, GraphWrite},
};

use crate::{
    App,
    access::Routes,
    auth::InProject,
    endpoint::routes,
    extract::{Json, Paging, Path, Query},
    response::{Envelope, Result, created, ok, page},
    views::pack::{CreatePack, PackView},
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(GraphRead, routes!(list))
        .scoped(GraphWrite, routes!(create))
        .scoped(GraphRead, routes!(get))
        // They answer with the pack, and an own pack would tell what objects contain: a write says whether it conforms.
        .scoped_both(GraphWrite, GraphRead, routes!(delete))
        .scoped_both(GraphWrite, GraphRead, routes!(assign))
        .scoped_both(GraphWrite, GraphRead, routes!(unassign))
}

/// Lists the template packs that this project can use, newest first.
#[utoipa::path(
    get, path = "/api/template-packs", tag = "template packs", operation_id = "listTemplatePacks",
    params(Paging),
    responses((status = 200, description = "A page of packs", body = Envelope<Vec<PackView>>)),
)]
async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(paging): Query<Paging>,
) -> Result<Vec<PackView>> {
    page(app.graph.list_packs(project, paging.page()?).await?)
}

/// Stores a template pack. Writes are validated against it only after it is assigned.
#[utoipa::path(
    post, path = "/api/template-packs", tag = "template packs", operation_id = "createTemplatePack",
    request_body = CreatePack,
    responses((status = 201, description = "The pack", body = Envelope<PackView>)),
)]
async fn create(
    State(app): State<App>,
    InProject(project): InProject,
    Json(body): Json<CreatePack>,
) -> Result<PackView> {
    created(app.graph.create_pack(project, body.into()).await?)
}

/// Returns one template pack.
#[utoipa::path(
    get, path = "/api/template-packs/{id}", tag = "template packs", operation_id = "getTemplatePack",
    params(("id" = Uuid, Path)),
    responses((status = 200, description = "The pack", body = Envelope<PackView>)),
)]
async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<PackId>,
) -> Result<PackView> {
    ok(app.graph.get_pack(project, id).await?)
}

/// Deletes a template pack that is not assigned.
#[utoipa::path(
    delete, path = "/api/template-packs/{id}", tag = "template packs", operation_id = "deleteTemplatePack",
    params(("id" = Uuid, Path)),
    responses((status = 200, description = "The deleted pack", body = Envelope<PackView>)),
)]
async fn delete(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<PackId>,
) -> Result<PackView> {
    let pack = app.graph.get_pack(project, id).await?;
    app.graph.delete_pack(project, id).await?;
    ok(pack)
}

/// Validates this project's writes against a template pack from now on. Another version of an assigned
/// pack replaces it.
#[utoipa::path(
    post, path = "/api/template-packs/{id}/assign", tag = "template packs",
    operation_id = "assignTemplatePack", params(("id" = Uuid, Path)),
    responses((status = 200, description = "The pack, assigned", body = Envelope<PackView>)),
)]
async fn assign(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<PackId>,
) -> Result<PackView> {
    ok(app.graph.assign_pack(project, id).await?)
}

/// Stops validating this project's writes against a template pack.
#[utoipa::path(
    delete, path = "/api/template-packs/{id}/assign", tag = "template packs",
    operation_id = "unassignTemplatePack", params(("id" = Uuid, Path)),
    responses((status = 200, description = "The pack, no longer assigned", body = Envelope<PackView>)),
)]
async fn unassign(
    State(app): State<App>,
    InProject(project): InProject,
    Path(id): Path<PackId>,
) -> Result<PackView> {
    ok(app.graph.unassign_pack(project, id).await?)
}
