//! Finds the objects that have chunks of a document as their sources.

use std::collections::HashMap;

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    document::{DocumentObject, FoundIn},
    ids::{ChunkId, DocumentId, ObjectId, ProjectId, RunId},
    object::Object,
};

use crate::{
    error::Result,
    page,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

/// The most chunks that are listed for one object.
const MAX_CHUNKS: usize = 50;

/// The live objects that were found in a document, or in one of its chunks, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    document: DocumentId,
    chunk: Option<ChunkId>,
    page: &Page,
) -> Result<ResultPage<DocumentObject>> {
    let mut params = vec![Param::from(project), Param::from(document)];
    let mut in_chunk = "";
    if let Some(chunk) = chunk {
        params.push(Param::from(chunk));
        in_chunk = " AND chunk_id = $3";
    }
    let (after, values) = page::after_cursor_sql(page, "o.created_at", "o.id", params.len() + 1);
    params.extend(values);
    // SQLite keeps the order of a `CROSS JOIN`: a document has few sources, and a project may have many objects.
    let sql = format!(
        "SELECT {}
         FROM (SELECT DISTINCT entity_id FROM graph_sources
               WHERE document_id = $2 AND project_id = $1 AND kind = 'object'{in_chunk}) AS s
         CROSS JOIN graph_objects AS o
         WHERE o.id = s.entity_id AND o.project_id = $1 AND o.deleted_at IS NULL{after}
         ORDER BY o.created_at DESC, o.id DESC{}",
        Object::columns_of("o"),
        page::limit_sql(page)
    );
    let cursor_of = |object: &Object| Cursor { created_at: object.created_at, id: object.id.0 };
    let found = page::query_page(tx, page.limit, &sql, &params, Object::from_row, cursor_of)?;
    let ids: Vec<ObjectId> = found.items.iter().map(|object| object.id).collect();
    let mut chunks = list_chunks(tx, document, chunk, &ids)?;
    Ok(found.map(|object| DocumentObject { found_in: chunks.remove(&object.id).unwrap_or_default(), object }))
}

/// The chunks of a document that are sources of these objects, in the order of the text, at most [`MAX_CHUNKS`] of each.
fn list_chunks(
    tx: &mut Tx<'_>,
    document: DocumentId,
    chunk: Option<ChunkId>,
    objects: &[ObjectId],
) -> Result<HashMap<ObjectId, Vec<FoundIn>>> {
    let mut chunks: HashMap<ObjectId, Vec<FoundIn>> = HashMap::new();
    for list in page::in_chunks(objects) {
        let mut params = vec![Param::from(document), Param::from(MAX_CHUNKS)];
        params.extend(list.iter().map(|id| Param::from(*id)));
        let mut in_chunk = String::new();
        if let Some(chunk) = chunk {
            params.push(Param::from(chunk));
            in_chunk = format!(" AND s.chunk_id = ${}", params.len());
        }
        // The nil UUID stands for all authors that are not runs, see `sources::add`.
        let sql = format!(
            "SELECT entity_id, chunk_id, idx, said_by, author_tool_call FROM (
                 SELECT s.entity_id, s.chunk_id, c.idx, s.said_by, s.author_tool_call,
                     row_number() OVER (PARTITION BY s.entity_id ORDER BY c.idx, s.said_by) AS place
                 FROM graph_sources AS s JOIN document_chunks AS c ON c.id = s.chunk_id
                 WHERE s.document_id = $1 AND s.entity_id IN ({}){in_chunk}
             ) AS found WHERE place <= $2 ORDER BY entity_id, place",
            page::placeholders(3, list.len())
        );
        let read = |row: &Row<'_>| {
            let run: RunId = row.get(3)?;
            let run = Some(run).filter(|run| !run.0.is_nil());
            Ok((row.get(0)?, FoundIn { chunk: row.get(1)?, index: row.get(2)?, run, tool_call: row.get(4)? }))
        };
        for (object, found) in tx.query(&sql, &params, read)? {
            chunks.entry(object).or_default().push(found);
        }
    }
    Ok(chunks)
}
