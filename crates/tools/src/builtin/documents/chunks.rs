//! `documents_chunks`: a document passage by passage, each with the id by which it is cited.

use std::sync::Arc;

use emergent_domain::{document::Chunk, ids::DocumentId};
use emergent_graph::Error;
use emergent_store::{Tx, documents as rows};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{define::read_tool, schema};
use crate::{Tool, ToolContext, ToolError};

const DEFAULT_CHUNKS: usize = 10;
const MAX_CHUNKS: usize = 50;
/// Bytes of text in one answer. It ends before a chunk that would not fit: a text that the guard
/// cuts short has lost its end, while the next page has all of it.
const MAX_OUTPUT_BYTES: usize = 40_000;

pub(super) fn tool() -> Arc<dyn Tool> {
    read_tool(
        "documents_chunks",
        "Reads a document passage by passage, in the order of the text. Use it to go through a whole document, as for \
         taking entities out of it; the `id` of a chunk is what `source` of entities_create and relationships_create \
         takes. Neighbouring chunks overlap a little. Returns `chunks`, each with `id`, `index`, `heading` and `text`, \
         and `next`, the `from` to go on with, when there are more.",
        schema::object(
            &["id"],
            json!({
                "id": schema::uuid("The document's id"),
                "from": { "type": "integer", "description": "The index of the chunk to begin with; 0 when absent.", "minimum": 0 },
                "limit": schema::count("How many chunks at most:", 1, MAX_CHUNKS, DEFAULT_CHUNKS),
            }),
        ),
        chunks,
    )
}

#[derive(Deserialize)]
struct Input {
    id: DocumentId,
    from: Option<i64>,
    limit: Option<usize>,
}

async fn chunks(context: ToolContext, input: Input) -> Result<Value, ToolError> {
    let Input { id, from, limit } = input;
    let (project, from, limit) = (context.project, from.unwrap_or(0), limit.unwrap_or(DEFAULT_CHUNKS));
    let read = move |tx: &mut Tx<'_>| {
        let not_found = || Error::NotFound { what: "document", id: id.to_string() };
        let document = rows::get(tx, project, id)?.ok_or_else(not_found)?;
        Ok::<_, Error>((document.chunk_count, rows::list_chunks_from(tx, id, from, limit)?))
    };
    let (count, found) = context.graph.db().snapshot(read).await?;
    let shown = take_fitting(&found);
    let mut answer = json!({ "chunks": shown.iter().map(chunk_json).collect::<Vec<_>>() });
    if let Some(last) = shown.last().filter(|last| last.index + 1 < count) {
        answer["next"] = json!(last.index + 1);
    }
    Ok(answer)
}

/// As many as one answer has room for, and at least one.
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
