//! What `emergent serve --sample` adds: a graph with a few people, machines and ideas of early computing, and the
//! default agents, one of which answers questions about it.

use emergent_domain::{author::Author, cursor::Page, query::ObjectFilter};
use emergent_graph::{Actor, Graph};
use emergent_products::Products;
use tracing::warn;

use crate::error::Result;

const SAMPLE: &str = include_str!("sample.ndjson");

/// Imports the sample into the default project, unless the project has objects.
pub async fn import_sample(graph: &Graph) -> Result<()> {
    let project = graph.ensure_default_project().await?.id;
    let existing = graph.list_objects(project, ObjectFilter::default(), Page::first(1)).await?;
    if !existing.items.is_empty() {
        return Ok(());
    }
    let actor = Actor { project, author: Author::System };
    let lines = SAMPLE.lines().enumerate().map(|(index, line)| (index as u64 + 1, line.to_owned())).collect();
    graph.import_batch(actor, lines).await?;
    Ok(())
}

/// Installs the default agents in the default project. A project in which they cannot be installed, for example because
/// a name is taken, goes on without them.
pub async fn install_default_agents(graph: &Graph, products: &Products) -> Result<()> {
    let project = graph.ensure_default_project().await?.id;
    let actor = Actor { project, author: Author::System };
    if let Err(error) = products.install_default_agents(actor).await {
        warn!("the default agents were not installed: {error}");
    }
    Ok(())
}
