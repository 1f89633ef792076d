//! The demo of `emergent demo`: its request, its scripted model, its start, and the resulting graph.

mod graph;
mod project;

use emergent_domain::foreign_json;
use emergent_wire::{
    dispatch::{Dispatch, DispatchResponse},
    mcp_server::{McpServerView, UpdateMcpServer},
    product::{Accept, InstallProduct, OutcomeView, ProductView},
    project::ProjectView,
    workflow::WorkflowSummaryView,
};

use crate::{
    client::Client,
    error::{Error, Result},
};

pub use graph::{load_graph, tree_lines};
pub use project::{FIRST_PROJECT, choose_first, create as create_project};

/// The description of the demo workflow, which also identifies it.
pub const REQUEST: &str = "Break down and implement a document tagging system for the knowledge base";
/// The data folder of the demo unless `--data-dir` names another.
pub const DEFAULT_FOLDER: &str = "emergent-demo";
/// The name and content of the rehearsal script that replaces every model.
pub const SCRIPT: (&str, &str) = ("walkthrough", include_str!("walkthrough.yaml"));
/// The scripted model, as `provider/name`.
pub const MODEL: &str = "rehearsal/walkthrough";

/// The products whose agents the demo needs.
const PRODUCTS: [&str; 2] = ["emergent.research", "emergent.code"];

/// A demo that an earlier start dispatched.
pub struct PlayedDemo {
    /// Counts from 1.
    pub number: u32,
    pub workflow: String,
    /// Whether it goes on by itself. One that waits for a person does not, and can be played afresh.
    pub is_active: bool,
}

/// The newest demo of the data folder, if there is one, and the client in its project.
pub async fn find_newest(mut client: Client) -> Result<(Client, Option<PlayedDemo>)> {
    let projects: Vec<ProjectView> = client.get_all_pages("/api/projects").await?;
    let mut numbered: Vec<(u32, String)> = projects
        .into_iter()
        .filter_map(|project| Some((project::demo_number(&project.name)?, project.name)))
        .collect();
    numbered.sort_unstable();
    for (number, project) in numbered.into_iter().rev() {
        client = client.in_project(&project);
        let workflows: Vec<WorkflowSummaryView> = client.get_all_pages("/api/coordination/workflows").await?;
        if let Some(demo) = workflows.into_iter().find(|workflow| workflow.description == REQUEST) {
            let workflow = demo.id.to_string();
            let is_active = demo.status.is_active();
            return Ok((client, Some(PlayedDemo { number, workflow, is_active })));
        }
    }
    Ok((client.in_project(FIRST_PROJECT), None))
}

/// Installs the demo's products and dispatches `REQUEST`; returns the workflow's id.
pub async fn start(client: &Client) -> Result<String> {
    let installed: Vec<ProductView> = client.get_all_pages("/api/products").await?;
    for product in emergent_products::builtin::ALL.iter().filter(|product| PRODUCTS.contains(&product.name)) {
        if installed.iter().any(|other| other.name == product.name) {
            continue;
        }
        let manifest = foreign_json::from_str(product.manifest)
            .map_err(|error| Error::Unexpected(format!("{}: {error}", product.name)))?;
        // The servers that the products bring are disabled below.
        let accept = Some(Accept::Everything(true));
        let body = InstallProduct { manifest: Some(manifest), accept, ..InstallProduct::default() };
        client.post("/api/products/install", &body).await?.data::<OutcomeView>().await?;
    }
    // The products bring MCP servers for web search. The demo does not use them and has no keys for them.
    let servers: Vec<McpServerView> = client.get_all_pages("/api/admin/mcp-servers").await?;
    let is_brought =
        |server: &McpServerView| server.product.as_deref().is_some_and(|name| PRODUCTS.contains(&name));
    for server in servers.into_iter().filter(is_brought) {
        let path = format!("/api/admin/mcp-servers/{}", server.id);
        let disable = UpdateMcpServer { enabled: Some(false), ..UpdateMcpServer::default() };
        client.patch(&path, &disable).await?.data::<McpServerView>().await?;
    }
    let dispatch = Dispatch { description: Some(REQUEST.to_owned()), ..Dispatch::default() };
    match client.post("/api/coordination/dispatch", &dispatch).await?.data().await? {
        DispatchResponse::Started(started) => Ok(started.workflow_id.to_string()),
        DispatchResponse::Checked(_) => Err(Error::Unexpected("the workflow was not started".to_owned())),
    }
}
