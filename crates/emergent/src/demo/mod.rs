//! The demo of `emergent demo`: its request, its scripted model, its start, and the resulting graph.

mod graph;

use emergent_wire::{
    dispatch::{Dispatch, DispatchResponse},
    mcp_server::{McpServerView, UpdateMcpServer},
    product::{Accept, InstallProduct, OutcomeView, ProductView},
    workflow::WorkflowSummaryView,
};

use crate::{
    client::Client,
    error::{Error, Result},
};

pub use graph::{load_graph, tree_lines};

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

/// The id of the demo workflow that an earlier start dispatched, if any.
pub async fn find_workflow(client: &Client) -> Result<Option<String>> {
    let workflows: Vec<WorkflowSummaryView> = client.get_all_pages("/api/coordination/workflows").await?;
    let demo = workflows.into_iter().find(|workflow| workflow.description == REQUEST);
    Ok(demo.map(|workflow| workflow.id.to_string()))
}

/// Installs the demo's products and dispatches `REQUEST`; returns the workflow's id.
pub async fn start(client: &Client) -> Result<String> {
    let installed: Vec<ProductView> = client.get_all_pages("/api/products").await?;
    for product in emergent_products::builtin::ALL.iter().filter(|product| PRODUCTS.contains(&product.name)) {
        if installed.iter().any(|other| other.name == product.name) {
            continue;
        }
        let manifest = serde_json::from_str(product.manifest)
            .map_err(|error| Error::Unexpected(format!("{}: {error}", product.name)))?;
        // The servers that the products bring are disabled below.
        let accept = Some(Accept::Everything(true));
        let body = InstallProduct { manifest: Some(manifest), accept, ..InstallProduct::default() };
        client.post("/api/products/install", &body).await?.data::<OutcomeView>().await?;
    }
    // The products bring MCP servers for web search. The demo does not use them and has no keys for them.
    for server in client.get_all_pages::<McpServerView>("/api/admin/mcp-servers").await? {
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
