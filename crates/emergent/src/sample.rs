//! A small graph to look at: a few people, machines and ideas of early computing.

use emergent_domain::{author::Author, cursor::Page, query::ObjectFilter};
use emergent_graph::{Actor, Graph};

use crate::error::Result;

const SAMPLE: &str = include_str!("sample.ndjson");

/// Imports the sample into the default project, unless something is there already.
pub async fn import_sample(graph: &Graph) -> Result<()> {
    let project = graph.ensure_default_project().await?.id;
    let there = graph.list_objects(project, ObjectFilter::default(), Page::first(1)).await?;
    if !there.items.is_empty() {
        return Ok(());
    }
    let actor = Actor { project, author: Author::System };
    let lines = SAMPLE.lines().enumerate().map(|(at, line)| (at as u64 + 1, line.to_owned())).collect();
    graph.import_batch(actor, lines).await?;
    Ok(())
}
