//! `project_info`: which project an agent works in, and what it contains.

use std::sync::Arc;

use emergent_graph::Error;
use emergent_store::{Tx, counts, packs};
use serde_json::{Value, json};

use super::{
    define::read_tool,
    input::NoInput,
    types::{get_project, pack_names},
};
use crate::{Tool, ToolContext, ToolError};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![read_tool(
        "project_info",
        "Describes this project: name, number of entities and relationships by type, documents, assigned template packs, \
         embedding progress. Call it first.",
        info,
    )]
}

async fn info(context: ToolContext, _: NoInput) -> Result<Value, ToolError> {
    let id = context.project;
    let read = move |tx: &mut Tx<'_>| {
        let project = get_project(tx, id)?;
        let packs = packs::list_assigned(tx, id)?;
        let total_and_counts = |counts: Vec<(String, i64)>| -> (i64, Value) {
            let total = counts.iter().map(|(_, count)| count).sum();
            (
                total,
                counts
                    .into_iter()
                    .map(|(name, count)| (name, json!(count)))
                    .collect::<serde_json::Map<_, _>>()
                    .into(),
            )
        };
        let (objects, object_types) = total_and_counts(counts::count_object_types(tx, id)?);
        let (relationships, relationship_types) = total_and_counts(counts::count_relationship_types(tx, id)?);
        Ok::<_, Error>(json!({
            "project": { "id": project.id, "name": project.name, "strict": project.strict, "createdAt": project.created_at },
            "objects": objects,
            "objectsByType": object_types,
            "relationships": relationships,
            "relationshipsByType": relationship_types,
            "documents": counts::count_documents(tx, id)?,
            "packs": pack_names(&packs),
        }))
    };
    let mut answer = context.graph.db().snapshot(read).await?;
    let progress = context.graph.embedding_progress(id).await?;
    answer["embeddings"] =
        json!({ "model": progress.model, "done": progress.done, "pending": progress.pending });
    Ok(answer)
}
