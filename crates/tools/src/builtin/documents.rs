//! The tools that list, read, search and create documents.

use std::sync::Arc;

use emergent_domain::{
    arrangement::MAX_BUDGET_TOKENS,
    document::{Chunk, NewDocument},
    ids::DocumentId,
    query::{Hit, SearchMode},
};
use emergent_graph::{Error, arrangement::arrange_chunks, documents};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    define::{CallResult, graph_change, read_tool, refuse, write_tool},
    input::{Count, OneOf, Paging, Uuid, Words},
    search::{HitCount, add_embedding_notice, found_json, hit_json, hit_limit},
    view::{FieldSelection, page_json},
};
use crate::{Tool, ToolContext, ToolError};

mod chunks;

/// How many bytes of text `documents_get` returns by default.
const DEFAULT_PART_BYTES: usize = 20_000;
const MAX_CONTENT_CHARS: usize = 2_000_000;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        read_tool(
            "documents_list",
            "Lists the documents of this project, newest first; documents_search finds text in them. Returns `documents`.",
            list,
        ),
        read_tool(
            "documents_get",
            "Reads a document and its `text` from `offset` on. If `nextOffset` is returned, there is more text: continue \
             there. `start` of a documents_search hit is an offset, too.",
            get,
        ),
        chunks::tool(),
        read_tool(
            "documents_search",
            "Finds passages in documents by words and meaning, to answer from sources. Returns `hits`, best first, with \
             `score` and `chunk`: `text`, `heading`, `title`, `documentId`, offsets `start` and `end`.",
            search,
        ),
        write_tool(
            "documents_create",
            "Stores a text as a document that documents_search finds; use entities_create for things with properties. The \
             same content again returns the existing document. Returns `document` and `created`.",
            create,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    #[serde(flatten)]
    paging: Paging,
    /// Return only these fields, such as title; default: all.
    #[serde(default)]
    fields: FieldSelection,
}

async fn list(context: ToolContext, input: ListInput) -> Result<Value, ToolError> {
    let page = input.paging.page().map_err(Error::from)?;
    let page_of_documents = context.graph.list_documents(context.project, page).await?;
    let documents =
        page_of_documents.items.iter().map(|document| input.fields.document_json(document)).collect();
    Ok(page_json("documents", documents, page_of_documents.next))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GetInput {
    /// Id of the document.
    #[schemars(with = "Uuid")]
    id: DocumentId,
    /// Byte of the text to start at.
    #[serde(default)]
    offset: usize,
    /// Most bytes of text to return; 0 for none.
    #[serde(default)]
    max_bytes: Count<DEFAULT_PART_BYTES, 0, 50_000>,
    /// Return only these fields, such as title; default: all.
    #[serde(default)]
    fields: FieldSelection,
}

async fn get(context: ToolContext, input: GetInput) -> Result<Value, ToolError> {
    let (project, id) = (context.project, input.id);
    let document = context.graph.get_document(project, id).await?;
    let mut answer = json!({ "document": input.fields.document_json(&document) });
    let max_bytes = input.max_bytes.get();
    if max_bytes == 0 {
        return Ok(answer);
    }
    let text = context.graph.document_text(project, id).await?;
    let offset = input.offset;
    if offset > text.len() {
        return Err(refuse(format!("`offset`: {offset} is past the end, the text has {} bytes", text.len())));
    }
    let start = text.floor_char_boundary(offset);
    let mut end = text.floor_char_boundary(start.saturating_add(max_bytes));
    if end == start && start < text.len() {
        // A limit below the size of the next character would return the same offset for ever.
        end = text.ceil_char_boundary(start + 1);
    }
    answer["text"] = Value::from(&text[start..end]);
    answer["offset"] = json!(start);
    if end < text.len() {
        answer["nextOffset"] = json!(end);
    }
    Ok(answer)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SearchInput {
    /// What to search for.
    #[schemars(length(min = 1, max = 2_500))]
    query: String,
    /// `text`: by words; `vector`: by meaning.
    #[serde(default = "super::search::auto_mode")]
    #[schemars(with = "OneOf<SearchMode>")]
    mode: SearchMode,
    /// Only in this document.
    #[schemars(with = "Option<Uuid>")]
    document_id: Option<DocumentId>,
    /// Number of hits.
    limit: Option<HitCount>,
    /// Drops matches by meaning below this cosine.
    #[schemars(range(min = -1, max = 1))]
    min_similarity: Option<f64>,
    /// Groups passages by document.
    #[schemars(with = "Option<OneOf<ChunkGroup>>")]
    group: Option<ChunkGroup>,
    /// Only the first passages that have so many tokens together; `limit` is then 1,000.
    #[schemars(range(min = 1, max = MAX_BUDGET_TOKENS))]
    budget_tokens: Option<usize>,
    /// Return only these fields, such as text; default: all.
    #[serde(default)]
    fields: FieldSelection,
}

/// By what passages are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChunkGroup {
    Document,
}

impl Words for ChunkGroup {
    fn words() -> Vec<&'static str> {
        vec!["document"]
    }
}

async fn search(context: ToolContext, input: SearchInput) -> Result<Value, ToolError> {
    let SearchInput { query, mode, document_id, limit, min_similarity, group, budget_tokens, fields } = input;
    let (graph, project) = (&context.graph, context.project);
    if let Some(id) = document_id {
        graph.get_document(project, id).await?;
    }
    let limit = hit_limit(limit, budget_tokens);
    let result = graph.search_chunks(project, &query, mode, limit, document_id, min_similarity).await?;
    let result = arrange_chunks(result, group == Some(ChunkGroup::Document), budget_tokens)?;
    let ids = result.hits.iter().map(|hit| hit.item.document).collect();
    let titles = graph.document_titles(project, ids).await?;
    let chunk_hit_json = |hit: &Hit<Chunk>| {
        let chunk = &hit.item;
        let all_fields = json!({
            "id": chunk.id,
            "documentId": chunk.document,
            "title": titles.get(&chunk.document),
            "index": chunk.index,
            "start": chunk.start,
            "end": chunk.end,
            "heading": chunk.heading,
            "text": chunk.text,
        });
        hit_json(hit, "chunk", fields.select(all_fields))
    };
    let hits: Vec<Value> = result.hits.iter().map(chunk_hit_json).collect();
    Ok(add_embedding_notice(found_json(hits, result.truncated), result.embedding, mode))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateInput {
    /// Title of the document.
    #[schemars(length(min = 1, max = 1_024))]
    title: String,
    /// The whole text.
    #[schemars(length(min = 1, max = MAX_CONTENT_CHARS))]
    content: String,
    /// Detected when absent.
    #[schemars(with = "Option<OneOf<TextFormat>>")]
    mime_type: Option<String>,
    /// Where it comes from.
    #[schemars(length(min = 1, max = 4_096))]
    source_url: Option<String>,
    /// Anything else about it.
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// The formats that a document can be created in from a tool.
struct TextFormat;

impl Words for TextFormat {
    fn words() -> Vec<&'static str> {
        vec!["text/markdown", "text/plain", "text/html"]
    }
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
