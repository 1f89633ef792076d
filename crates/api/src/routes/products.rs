//! `/api/products`: the installed products of a project.

use axum::{extract::State, http::header, response::IntoResponse};
use emergent_domain::{
    author::Author,
    token::Scope::{AdminRead, AdminWrite},
};
use emergent_graph::Actor;
use emergent_products::ChangeOptions;

use crate::{
    App,
    access::Routes,
    auth::{AsActor, Caller, InProject},
    endpoint::routes,
    extract::{Json, OptionalJson, Path, ProjectPath, Query},
    response::{Envelope, Result, created_if, list as listed, ok},
    views::product::{
        Accept, DryRun, InstallProduct, OutcomeView, ProductDetailView, ProductView, UpdateView,
        UpgradeProduct, consent, install_input, upgrade_input,
    },
};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AdminRead, routes!(list))
        .scoped(AdminWrite, routes!(install))
        .scoped(AdminRead, routes!(check_updates))
        .any_token(routes!(schema))
        .scoped(AdminRead, routes!(get))
        .scoped(AdminWrite, routes!(upgrade))
        .scoped(AdminWrite, routes!(uninstall))
        .scoped(AdminWrite, routes!(install_default_agents))
}

/// Lists the products of the project, in the order of their installation.
#[utoipa::path(
    get, path = "/api/products", tag = "products", operation_id = "listProducts",
    responses((status = 200, description = "Every product", body = Envelope<Vec<ProductView>>)),
)]
async fn list(State(app): State<App>, InProject(project): InProject) -> Result<Vec<ProductView>> {
    listed(app.products.list(project).await?)
}

fn change_options(caller: &Caller, accept: Option<Accept>, dry_run: bool) -> ChangeOptions {
    ChangeOptions { by: caller.configures_as(), consent: consent(accept), dry_run }
}

/// Installs a product completely, or not at all. Errors in a manifest have a JSON pointer to the entry
/// and say what is expected. Programs, hosts, secrets, schedules and events that the product uses have to be
/// accepted: see `accept`, and `uses` of the plan.
#[utoipa::path(
    post, path = "/api/products/install", tag = "products", operation_id = "installProduct",
    request_body = InstallProduct,
    responses(
        (status = 201, description = "It is installed", body = Envelope<OutcomeView>),
        (status = 200, description = "What the installation would do", body = Envelope<OutcomeView>),
    ),
)]
async fn install(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Json(body): Json<InstallProduct>,
) -> Result<OutcomeView> {
    let options = change_options(&caller, body.accept.clone(), body.dry_run);
    let dry_run = body.dry_run;
    let outcome = app.products.install(actor, install_input(body)?, options).await?;
    // A product that is installed with the same manifest is not new: only what was deleted of it is added.
    let is_new = !dry_run && outcome.plan.from.is_none();
    created_if(is_new, outcome)
}

/// Checks the source of each product for a newer version.
#[utoipa::path(
    get, path = "/api/products/check-updates", tag = "products", operation_id = "checkProductUpdates",
    responses((status = 200, description = "Each product", body = Envelope<Vec<UpdateView>>)),
)]
async fn check_updates(State(app): State<App>, InProject(project): InProject) -> Result<Vec<UpdateView>> {
    listed(app.products.check_updates(project).await?)
}

/// Returns the JSON Schema of a manifest, for editors and validators.
#[utoipa::path(
    get, path = "/api/products/manifest.schema.json", tag = "products", operation_id = "productManifestSchema",
    responses((status = 200, description = "JSON Schema 2020-12", body = Object, content_type = "application/json")),
)]
async fn schema() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], emergent_products::schema::SCHEMA_JSON)
}

/// Returns one product, with its manifest and the manual changes of its agents.
#[utoipa::path(
    get, path = "/api/products/{name}", tag = "products", operation_id = "getProduct",
    params(("name" = String, Path)),
    responses((status = 200, description = "The product", body = Envelope<ProductDetailView>)),
)]
async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(name): Path<String>,
) -> Result<ProductDetailView> {
    ok(app.products.get(project, &name).await?)
}

/// Upgrades a product to another version. Its agents, jobs, prompts and servers are overwritten, its
/// packs get a new version, and entries that are no longer in the manifest are removed. Secrets and
/// active runs are not affected. What it uses and did not use before has to be accepted.
#[utoipa::path(
    post, path = "/api/products/{name}/upgrade", tag = "products", operation_id = "upgradeProduct",
    params(("name" = String, Path)), request_body = UpgradeProduct,
    responses((status = 200, description = "What was done, or would be done in a dry run", body = Envelope<OutcomeView>)),
)]
async fn upgrade(
    State(app): State<App>,
    caller: Caller,
    AsActor(actor): AsActor,
    Path(name): Path<String>,
    OptionalJson(body): OptionalJson<UpgradeProduct>,
) -> Result<OutcomeView> {
    let options = change_options(&caller, body.accept.clone(), body.dry_run);
    ok(app.products.upgrade(actor, &name, upgrade_input(body)?, options).await?)
}

/// Uninstalls a product with everything it installed. What its agents wrote stays.
#[utoipa::path(
    delete, path = "/api/products/{name}", tag = "products", operation_id = "uninstallProduct",
    params(("name" = String, Path), DryRun),
    responses((status = 200, description = "What was done, or would be done in a dry run", body = Envelope<OutcomeView>)),
)]
async fn uninstall(
    State(app): State<App>,
    AsActor(actor): AsActor,
    Path(name): Path<String>,
    Query(query): Query<DryRun>,
) -> Result<OutcomeView> {
    ok(app.products.uninstall(actor, &name, query.dry_run).await?)
}

/// Installs the default agents in a project: the product `emergent.memory`, in the version of this
/// server. Repeating it brings back what was deleted of it, and changes nothing else.
#[utoipa::path(
    post, path = "/api/admin/projects/{projectId}/install-default-agents", tag = "products",
    operation_id = "installDefaultAgents", params(("projectId" = String, Path, description = "The id or the name of the project")),
    responses((status = 200, description = "What was done", body = Envelope<OutcomeView>)),
)]
async fn install_default_agents(
    State(app): State<App>,
    caller: Caller,
    ProjectPath(project): ProjectPath,
) -> Result<OutcomeView> {
    let actor = Actor { project, author: Author::Token { id: caller.token.id } };
    ok(app.products.install_default_agents(actor).await?)
}
