//! Documents: texts that were read, and the passages a search finds in them.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    cursor::Page,
    document::{Chunk, NewDocument},
    ids::DocumentId,
    query::{Hit, SearchMode},
};
use emergent_graph::{Error, documents};
use emergent_store::{Tx, documents as rows};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    define::{CallResult, graph_change, read_tool, refuse, write_tool},
    schema,
    search::{add_embedding_notice, hit_json},
    view::{FieldSelection, page_json},
};
use crate::{Tool, ToolContext, ToolError};

mod chunks;

const FIELDS: &str = "`title`, `mimeType`, `sourceUrl`, `metadata`, `textBytes`, `chunkCount`, `createdAt`";
const DEFAULT_PART_BYTES: usize = 20_000;
const MAX_CONTENT_BYTES: usize = 2_000_000;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        read_tool(
            "documents_list",
            "Lists the documents of this project, newest first. To find something in them use documents_search. Returns \
             `documents`, and `nextCursor` when there are more.",
            schema::object(
                &[],
                schema::merge_properties(schema::paging(20), &[schema::fields_schema(FIELDS)]),
            ),
            list,
        ),
        read_tool(
            "documents_get",
            "Reads a document: what is known about it, and its `text` from a place on. A long text comes in parts: go on \
             with `offset` set to `nextOffset`. The `start` of a passage that documents_search found is such a place.",
            schema::object(
                &["id"],
                schema::merge_properties(
                    json!({
                        "id": schema::uuid("The document's id"),
                        "offset": { "type": "integer", "description": "The byte of the text to begin at; 0 when absent.", "minimum": 0 },
                        "maxBytes": schema::count("How much text at most; 0 for none:", 0, 50_000, DEFAULT_PART_BYTES),
                    }),
                    &[schema::fields_schema(FIELDS)],
                ),
            ),
            get,
        ),
        chunks::tool(),
        read_tool(
            "documents_search",
            "Finds passages in documents by words and meaning. Use it to answer from sources. Returns `hits`, the best \
             first, each with its `score` and the `chunk`: its `text`, `heading`, the document's `title` and \
             `documentId`, and the offsets `start` and `end`.",
            schema::object(
                &["query"],
                schema::merge_properties(
                    json!({
                        "query": schema::text("What to look for.", 2_500),
                        "mode": {
                            "type": "string",
                            "description": "By words and meaning (when absent), by words only, or by meaning only.",
                            "enum": ["hybrid", "text", "vector"],
                        },
                        "documentId": schema::uuid("Only in this document"),
                        "limit": schema::count("How many passages at most:", 1, 100, 10),
                    }),
                    &[schema::fields_schema(
                        "`documentId`, `title`, `heading`, `text`, `index`, `start`, `end`",
                    )],
                ),
            ),
            search,
        ),
        write_tool(
            "documents_create",
            "Keeps a text as a document and makes it findable with documents_search. For things with properties use \
             entities_create. The same content again returns the document that is there. Returns the `document`, and \
             whether it was `created`.",
            schema::object(
                &["title", "content"],
                json!({
                    "title": schema::text("The title people find it by.", 1_024),
                    "content": schema::text("The whole text: plain, Markdown or HTML.", MAX_CONTENT_BYTES),
                    "mimeType": {
                        "type": "string",
                        "description": "What the content is; found out when absent.",
                        "enum": ["text/markdown", "text/plain", "text/html"],
                    },
                    "sourceUrl": schema::text("Where it comes from.", 4_096),
                    "metadata": { "type": "object", "description": "Anything else to know about it." },
                }),
            ),
            create,
        ),
    ]
}

#[derive(Deserialize)]
struct ListInput {
    limit: Option<i64>,
    cursor: Option<String>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn list(context: ToolContext, input: ListInput) -> Result<Value, ToolError> {
    let wanted = Page::new(Some(input.limit.unwrap_or(20)), input.cursor.as_deref()).map_err(Error::from)?;
    let found = context.graph.list_documents(context.project, wanted).await?;
    let documents = found.items.iter().map(|document| input.fields.document_json(document)).collect();
    Ok(page_json("documents", documents, found.next))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GetInput {
    id: DocumentId,
    offset: Option<usize>,
    max_bytes: Option<usize>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn get(context: ToolContext, input: GetInput) -> Result<Value, ToolError> {
    let (project, id) = (context.project, input.id);
    let document = context.graph.get_document(project, id).await?;
    let mut answer = json!({ "document": input.fields.document_json(&document) });
    let most = input.max_bytes.unwrap_or(DEFAULT_PART_BYTES);
    if most == 0 {
        return Ok(answer);
    }
    let text = context.graph.document_text(project, id).await?;
    let offset = input.offset.unwrap_or(0);
    if offset > text.len() {
        return Err(refuse(format!("`offset`: {offset} is past the end, the text has {} bytes", text.len())));
    }
    let start = text.floor_char_boundary(offset);
    let mut end = text.floor_char_boundary(start.saturating_add(most));
    if end == start && start < text.len() {
        // Room for less than a character would never get on.
        end = text.ceil_char_boundary(start + 1);
    }
    answer["text"] = Value::from(&text[start..end]);
    answer["offset"] = json!(start);
    if end < text.len() {
        answer["nextOffset"] = json!(end);
    }
    Ok(answer)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SearchInput {
    query: String,
    #[serde(default)]
    mode: SearchMode,
    document_id: Option<DocumentId>,
    limit: Option<usize>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn search(context: ToolContext, input: SearchInput) -> Result<Value, ToolError> {
    let SearchInput { query, mode, document_id, limit, fields } = input;
    let (graph, project) = (&context.graph, context.project);
    if let Some(id) = document_id {
        graph.get_document(project, id).await?;
    }
    let found = graph.search_chunks(project, &query, mode, limit.unwrap_or(10), document_id).await?;
    let ids: Vec<DocumentId> = found.hits.iter().map(|hit| hit.item.document).collect();
    let titles = graph.db().read(move |tx| load_titles(tx, project, ids)).await?;
    let view = |hit: &Hit<Chunk>| {
        let chunk = &hit.item;
        let whole = json!({
            "id": chunk.id,
            "documentId": chunk.document,
            "title": titles.get(&chunk.document),
            "index": chunk.index,
            "start": chunk.start,
            "end": chunk.end,
            "heading": chunk.heading,
            "text": chunk.text,
        });
        hit_json(hit, "chunk", fields.select(whole))
    };
    let hits: Vec<Value> = found.hits.iter().map(view).collect();
    Ok(add_embedding_notice(json!({ "hits": hits }), found.embedding, mode))
}

/// A passage is cited by the document it stands in.
fn load_titles(
    tx: &mut Tx<'_>,
    project: emergent_domain::ids::ProjectId,
    ids: Vec<DocumentId>,
) -> Result<HashMap<DocumentId, String>, Error> {
    let mut titles = HashMap::new();
    for id in ids {
        if !titles.contains_key(&id)
            && let Some(document) = rows::get(tx, project, id)?
        {
            titles.insert(id, document.title);
        }
    }
    Ok(titles)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreateInput {
    title: String,
    content: String,
    mime_type: Option<String>,
    source_url: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

async fn create(context: ToolContext, input: CreateInput) -> CallResult {
    let CreateInput { title, content, mime_type, source_url, metadata } = input;
    let new = NewDocument { title, content: content.into_bytes(), mime_type, source_url, metadata };
    let prepared = context.graph.prepare_document(context.project, new).await?;
    graph_change(move |tx, writer| {
        let (document, created) = documents::create(tx, writer, &prepared)?;
        Ok(json!({ "document": FieldSelection::default().document_json(&document), "created": created }))
    })
}
