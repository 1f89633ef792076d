//! The sample graph of `emergent serve --sample`: a few people, machines and ideas of early computing.

use emergent_domain::{author::Author, cursor::Page, query::ObjectFilter};
use emergent_graph::{Actor, Graph};

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
