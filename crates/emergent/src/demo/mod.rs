//! The walkthrough: what is asked for, who plays it, and the graph it leaves.

mod graph;

use emergent_wire::{
    dispatch::{Dispatch, DispatchResponse},
    mcp_server::{McpServerView, UpdateMcpServer},
    product::{InstallProduct, OutcomeView, ProductView},
    workflow::WorkflowSummaryView,
};

use crate::{
    client::Client,
    error::{Error, Result},
};

pub use graph::{load_graph, tree_lines};

/// What the user asks for.
pub const REQUEST: &str = "Break down and implement a document tagging system for the knowledge base";
/// Where it is played unless a folder is named.
pub const DEFAULT_FOLDER: &str = "emergent-demo";
/// The script that stands for every model.
pub const SCRIPT: (&str, &str) = ("walkthrough", include_str!("walkthrough.yaml"));
pub const MODEL: &str = "rehearsal/walkthrough";

const PRODUCTS: [&str; 2] = ["emergent.research", "emergent.code"];

/// The workflow of an earlier start, if there was one.
pub async fn find_workflow(client: &Client) -> Result<Option<String>> {
    let all: Vec<WorkflowSummaryView> = client.get_all_pages("/api/coordination/workflows").await?;
    let ours = all.into_iter().find(|workflow| workflow.description == REQUEST);
    Ok(ours.map(|workflow| workflow.id.to_string()))
}

/// Installs who is needed, and asks for it.
pub async fn start(client: &Client) -> Result<String> {
    let installed: Vec<ProductView> = client.get_all_pages("/api/products").await?;
    for product in emergent_products::builtin::ALL.iter().filter(|one| PRODUCTS.contains(&one.name)) {
        if installed.iter().any(|one| one.name == product.name) {
            continue;
        }
        let manifest = serde_json::from_str(product.manifest)
            .map_err(|error| Error::Unexpected(format!("{}: {error}", product.name)))?;
        let body = InstallProduct { manifest: Some(manifest), source: None, dry_run: false };
        client.post("/api/products/install", &body).await?.data::<OutcomeView>().await?;
    }
    // Nobody searches the web here, and there are no keys to do it with.
    for server in client.get_all_pages::<McpServerView>("/api/admin/mcp-servers").await? {
        let path = format!("/api/admin/mcp-servers/{}", server.id);
        let off = UpdateMcpServer { enabled: Some(false), ..UpdateMcpServer::default() };
        client.patch(&path, &off).await?.data::<McpServerView>().await?;
    }
    let asked = Dispatch { description: Some(REQUEST.to_owned()), ..Dispatch::default() };
    match client.post("/api/coordination/dispatch", &asked).await?.data().await? {
        DispatchResponse::Started(started) => Ok(started.workflow_id.to_string()),
        DispatchResponse::Checked(_) => Err(Error::Unexpected("the workflow was not started".to_owned())),
    }
}
