//! `/api/admin/mcp-servers`: the external servers whose tools a project's agents can use.

use std::time::Duration;

use axum::extract::State;
use emergent_domain::{
    cursor::ResultPage,
    ids::{McpServerId, ProjectId},
    token::Scope::{AdminRead, AdminWrite},
};
use emergent_tools::{
    NameConflicts,
    remote::{McpServers, ServerWithCounts},
};
use serde::Deserialize;

use crate::{
    ApiError, App,
    access::Routes,
    auth::{Caller, InProject},
    endpoint::routes,
    extract::{Json, OptionalJson, Paging, Path, Query},
    response::{Envelope, Result, created, ok, page},
    views::{
        IntoView,
        mcp_server::{
            AcceptMcpTool, CreateMcpServer, InspectionView, McpServerView, McpToolView, ServerDetails,
            UpdateMcpServer, new_server, server_patch,
        },
    },
};

/// How much longer an inspection may take than connecting: it also lists the tools.
const INSPECT_EXTRA_TIME: Duration = Duration::from_secs(20);
/// The longest timeout of an inspection. It is shorter than the timeout of the request, so that the error names
/// the server that does not respond.
const MAX_INSPECT_TIMEOUT: Duration = Duration::from_secs(600);

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AdminRead, routes!(list))
        .scoped(AdminWrite, routes!(create))
        .scoped(AdminRead, routes!(get))
        .scoped(AdminWrite, routes!(update))
        .scoped(AdminWrite, routes!(delete))
        .waits(AdminWrite, routes!(inspect))
        .scoped(AdminRead, routes!(tools))
        .scoped(AdminWrite, routes!(accept))
}

/// Returns the external servers, or the error if this process runs without them.
fn servers(app: &App) -> std::result::Result<&McpServers, ApiError> {
    app.executor.tools().remote().ok_or_else(ApiError::no_external_servers)
}

/// The id or the name of a server. What looks like an id is an id.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
enum ServerRef {
    Id(McpServerId),
    Name(String),
}

impl From<String> for ServerRef {
    fn from(text: String) -> Self {
        text.parse().map_or(Self::Name(text), Self::Id)
    }
}

impl ServerRef {
    /// Returns the id. An id is not looked up, so that the handler answers for servers that do not exist.
    async fn find(self, app: &App, project: ProjectId) -> std::result::Result<McpServerId, ApiError> {
        match self {
            Self::Id(id) => Ok(id),
            Self::Name(name) => Ok(servers(app)?.find_by_name(project, name).await?),
        }
    }
}

/// Adds the connection status and the conflicts of names to a stored server.
fn server_view(servers: &McpServers, conflicts: &NameConflicts, server: ServerWithCounts) -> McpServerView {
    let details = ServerDetails {
        status: servers.status(&server.0),
        breaker_open_until: servers.breaker_open_until(&server.0),
        warning: servers.address_warning(&server.0),
        conflicts: conflicts.count(server.0.name()),
        server,
    };
    details.into_view()
}

/// Reads one server with everything that is shown of it.
async fn read_server(
    app: &App,
    project: ProjectId,
    id: McpServerId,
) -> std::result::Result<McpServerView, ApiError> {
    let servers = servers(app)?;
    let server = servers.get(project, id).await?;
    Ok(server_view(servers, &app.executor.tools().name_conflicts(project).await, server))
}

/// Lists the project's servers, newest first.
#[utoipa::path(
    get, path = "/api/admin/mcp-servers", tag = "mcp servers", operation_id = "listMcpServers",
    params(Paging),
    responses((status = 200, description = "A page of servers", body = Envelope<Vec<McpServerView>>)),
)]
async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(paging): Query<Paging>,
) -> Result<Vec<McpServerView>> {
    let servers = servers(&app)?;
    let servers_page = servers.list(project, paging.page()?).await?;
    let conflicts = app.executor.tools().name_conflicts(project).await;
    page(ResultPage {
        items: servers_page
            .items
            .into_iter()
            .map(|server| server_view(servers, &conflicts, server))
            .collect(),
        next: servers_page.next,
    })
}

/// Adds a server. It is connected when it is first needed, or with `inspect`. A `stdio` server is a
/// program that this server starts, with the rights of this server: a token that spans projects may add
/// any, and a token of one project those that `EMERGENT_STDIO_PROGRAMS` admits.
#[utoipa::path(
    post, path = "/api/admin/mcp-servers", tag = "mcp servers", operation_id = "createMcpServer",
    request_body = CreateMcpServer,
    responses((status = 201, description = "The server", body = Envelope<McpServerView>)),
)]
async fn create(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Json(body): Json<CreateMcpServer>,
) -> Result<McpServerView> {
    let servers = servers(&app)?;
    let server = servers.create(project, caller.configures_as(), new_server(body)?).await?;
    created(read_server(&app, project, server.id).await?)
}

/// Returns one server.
#[utoipa::path(
    get, path = "/api/admin/mcp-servers/{id}", tag = "mcp servers", operation_id = "getMcpServer",
    params(("id" = String, Path, description = "The id or the name of a server")),
    responses((status = 200, description = "The server", body = Envelope<McpServerView>)),
)]
async fn get(
    State(app): State<App>,
    InProject(project): InProject,
    Path(server): Path<ServerRef>,
) -> Result<McpServerView> {
    let id = server.find(&app, project).await?;
    ok(read_server(&app, project, id).await?)
}

/// Changes a server. Existing connections with the old settings are closed, on all Emergent servers.
#[utoipa::path(
    patch, path = "/api/admin/mcp-servers/{id}", tag = "mcp servers", operation_id = "updateMcpServer",
    params(("id" = String, Path, description = "The id or the name of a server")), request_body = UpdateMcpServer,
    responses((status = 200, description = "The changed server", body = Envelope<McpServerView>)),
)]
async fn update(
    State(app): State<App>,
    caller: Caller,
    InProject(project): InProject,
    Path(server): Path<ServerRef>,
    Json(body): Json<UpdateMcpServer>,
) -> Result<McpServerView> {
    let id = server.find(&app, project).await?;
    servers(&app)?.update(project, caller.configures_as(), id, server_patch(body)).await?;
    ok(read_server(&app, project, id).await?)
}

/// Deletes a server with its tools. A server that a product installed is removed with its product.
#[utoipa::path(
    delete, path = "/api/admin/mcp-servers/{id}", tag = "mcp servers", operation_id = "deleteMcpServer",
    params(("id" = String, Path, description = "The id or the name of a server")),
    responses((status = 200, description = "The deleted server", body = Envelope<McpServerView>)),
)]
async fn delete(
    State(app): State<App>,
    InProject(project): InProject,
    Path(server): Path<ServerRef>,
) -> Result<McpServerView> {
    let id = server.find(&app, project).await?;
    let deleted = read_server(&app, project, id).await?;
    servers(&app)?.delete(project, id).await?;
    ok(deleted)
}

/// Connects to a server now and lists its tools. An unreachable server is not an error of the request:
/// `reachable` is false, and `error` has the reason.
#[utoipa::path(
    post, path = "/api/admin/mcp-servers/{id}/inspect", tag = "mcp servers", operation_id = "inspectMcpServer",
    params(("id" = String, Path, description = "The id or the name of a server")),
    responses((status = 200, description = "What was found", body = Envelope<InspectionView>)),
)]
async fn inspect(
    State(app): State<App>,
    InProject(project): InProject,
    Path(server): Path<ServerRef>,
) -> Result<InspectionView> {
    let id = server.find(&app, project).await?;
    let servers = servers(&app)?;
    let (server, ..) = servers.get(project, id).await?;
    let within = servers.settings().connect_timeout_for(&server) + INSPECT_EXTRA_TIME;
    let within = within.min(MAX_INSPECT_TIMEOUT);
    let inspection = tokio::time::timeout(within, servers.inspect(project, id)).await;
    let inspection = match inspection {
        Ok(inspection) => inspection?,
        Err(_) => emergent_tools::remote::Inspection {
            protocol: None,
            tools: Vec::new(),
            error: Some(format!("gave no answer within {} seconds", within.as_secs())),
            millis: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
        },
    };
    let (server, ..) = servers.get(project, id).await?;
    ok((server, inspection, app.executor.tools().name_conflicts(project).await))
}

/// Lists the tools of a server as they were last listed. `heldBack` marks new and changed tools that wait for
/// somebody to accept them; changed tools include the accepted definition.
#[utoipa::path(
    get, path = "/api/admin/mcp-servers/{id}/tools", tag = "mcp servers", operation_id = "listMcpServerTools",
    params(("id" = String, Path, description = "The id or the name of a server")),
    responses((status = 200, description = "Every tool", body = Envelope<Vec<McpToolView>>)),
)]
async fn tools(
    State(app): State<App>,
    InProject(project): InProject,
    Path(server): Path<ServerRef>,
) -> Result<Vec<McpToolView>> {
    let id = server.find(&app, project).await?;
    let (server, tools) = servers(&app)?.tools(project, id).await?;
    let conflicts = app.executor.tools().name_conflicts(project).await;
    ok(tools.into_iter().map(|tool| (&server, tool, &conflicts).into_view()).collect::<Vec<McpToolView>>())
}

/// Accepts a new or changed tool and pins its definition: the one with the `digest` that you looked at.
#[utoipa::path(
    post, path = "/api/admin/mcp-servers/{id}/tools/{tool}/accept", tag = "mcp servers",
    operation_id = "acceptMcpServerTool", params(("id" = String, Path, description = "The id or the name of a server"), ("tool" = String, Path)),
    request_body = AcceptMcpTool,
    responses((status = 200, description = "The tool, accepted", body = Envelope<McpToolView>)),
)]
async fn accept(
    State(app): State<App>,
    InProject(project): InProject,
    caller: Caller,
    Path((server, tool)): Path<(ServerRef, String)>,
    OptionalJson(body): OptionalJson<AcceptMcpTool>,
) -> Result<McpToolView> {
    let id = server.find(&app, project).await?;
    let servers = servers(&app)?;
    servers.get(project, id).await?;
    // The server may change its tool between the look at it and this request.
    let digest = body.digest.filter(|digest| !digest.is_empty()).ok_or_else(|| {
        ApiError::invalid("digest", "is missing: send the `digest` of the definition that you looked at")
    })?;
    let accepted = servers.accept_tool(project, id, &tool, Some(&digest), Some(caller.token.id)).await?;
    let (server, ..) = servers.get(project, id).await?;
    ok((&server, accepted, &app.executor.tools().name_conflicts(project).await))
}
