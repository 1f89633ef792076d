//! The walkthrough: what is asked for, who plays it, and the graph it leaves.

mod graph;

use serde_json::{Value, json};

use crate::{client::Client, commands::encode, error::Result};

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
    let all = client.get_all_pages("/api/coordination/workflows").await?;
    let ours = all.into_iter().find(|workflow| workflow["description"] == REQUEST);
    Ok(ours.and_then(|workflow| workflow["id"].as_str().map(str::to_owned)))
}

/// Installs who is needed, and asks for it.
pub async fn start(client: &Client) -> Result<String> {
    let installed = client.get_all_pages("/api/products").await?;
    for product in emergent_products::builtin::ALL.iter().filter(|one| PRODUCTS.contains(&one.name)) {
        if installed.iter().any(|one| one["name"] == product.name) {
            continue;
        }
        let manifest: Value = serde_json::from_str(product.manifest)
            .map_err(|error| crate::error::Error::Unexpected(format!("{}: {error}", product.name)))?;
        client.post("/api/products/install", &json!({ "manifest": manifest })).await?.data::<Value>().await?;
    }
    // Nobody searches the web here, and there are no keys to do it with.
    for server in client.get_all_pages("/api/admin/mcp-servers").await? {
        let path = format!("/api/admin/mcp-servers/{}", encode(server["id"].as_str().unwrap_or_default()));
        client.patch(&path, &json!({ "enabled": false })).await?.data::<Value>().await?;
    }
    let asked = json!({ "description": REQUEST });
    let started: Value = client.post("/api/coordination/dispatch", &asked).await?.data().await?;
    Ok(started["workflowId"].as_str().unwrap_or_default().to_owned())
}
