//! `documents_chunks`: a document chunk by chunk, each with the id by which it is cited.

use std::sync::Arc;

use emergent_domain::{document::Chunk, ids::DocumentId};
use emergent_graph::Error;
use emergent_store::{Tx, documents as rows};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{
    define::read_tool,
    input::{Count, Uuid},
};
use crate::{Tool, ToolContext, ToolError};

/// Bytes of text in one answer. The answer ends before a chunk that does not fit: the next page has
/// the whole chunk, whereas the guard would truncate it.
const MAX_OUTPUT_BYTES: usize = 40_000;

pub(super) fn tool() -> Arc<dyn Tool> {
    read_tool(
        "documents_chunks",
        "Reads a whole document chunk by chunk, in order, for example to extract entities; neighbouring chunks overlap. \
         A chunk's `id` is the `source` for entities_create and relationships_create. Returns `chunks` with `id`, \
         `index`, `heading`, `text`; and `next`, the `from` to continue with, if there are more.",
        chunks,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ChunksInput {
    /// Id of the document.
    #[schemars(with = "Uuid")]
    id: DocumentId,
    /// Index of the first chunk.
    #[serde(default)]
    #[schemars(range(min = 0))]
    from: i64,
    /// Number of chunks.
    #[serde(default)]
    limit: Count<10, 1, 50>,
}

async fn chunks(context: ToolContext, input: ChunksInput) -> Result<Value, ToolError> {
    let ChunksInput { id, from, limit } = input;
    let (project, limit) = (context.project, limit.get());
    let read = move |tx: &mut Tx<'_>| {
        let not_found = || Error::NotFound { what: "document", id: id.to_string() };
        let document = rows::get(tx, project, id)?.ok_or_else(not_found)?;
        Ok::<_, Error>((document.chunk_count, rows::list_chunks_from(tx, id, from, limit)?))
    };
    let (chunk_count, chunks) = context.graph.db().snapshot(read).await?;
    let shown = take_fitting(&chunks);
    let mut answer = json!({ "chunks": shown.iter().map(chunk_json).collect::<Vec<_>>() });
    if let Some(last) = shown.last().filter(|last| last.index + 1 < chunk_count) {
        answer["next"] = json!(last.index + 1);
    }
    Ok(answer)
}

/// As many chunks as fit into one answer, and at least one.
fn take_fitting(chunks: &[Chunk]) -> &[Chunk] {
    let mut bytes = 0;
    let mut fits = |chunk: &&Chunk| {
        bytes += chunk.text.len();
        bytes <= MAX_OUTPUT_BYTES
    };
    let count = chunks.iter().take_while(&mut fits).count();
    &chunks[..count.max(1).min(chunks.len())]
}

fn chunk_json(chunk: &Chunk) -> Value {
    let mut view = json!({ "id": chunk.id, "index": chunk.index, "text": chunk.text });
    if let Some(heading) = &chunk.heading {
        view["heading"] = json!(heading);
    }
    view
}
