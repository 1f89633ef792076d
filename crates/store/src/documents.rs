//! Documents and their chunks.
//!
//! A deleted document keeps its rows, so that the number of a chunk is never used again. A vector that is
//! still being computed for a deleted chunk is then dropped, and cannot be stored for another text. The
//! caller removes the chunks from the full-text index and their vectors.

use emergent_domain::{
    author::Author,
    cursor::{Cursor, Page, ResultPage},
    document::{Chunk, Document},
    ids::{ChunkId, DocumentId, ProjectId},
    time::Timestamp,
};

use crate::{
    author,
    error::Result,
    page, params,
    row::{TableRow, row},
    tx::Tx,
    value::Param,
};

row! {
    Document in "documents" {
        id: "id",
        project: "project_id",
        title: "title",
        mime_type: "mime_type",
        source_url: "source_url",
        metadata: "metadata",
        content_hash: "content_hash",
        text_bytes: "text_bytes",
        chunk_count: "chunk_count",
        created_at: "created_at",
    }
}

const COLUMNS: &str = Document::COLUMNS;

row! {
    Chunk in "document_chunks" {
        id: "id",
        document: "document_id",
        index: "idx",
        start: "start_offset",
        end: "end_offset",
        tokens: "tokens",
        heading: "heading",
        text: "text",
        created_at: "created_at",
    }
}

/// Inserts a document with its text; false when a live document of the project has the same content.
pub fn insert(tx: &mut Tx<'_>, document: &Document, text: &str, author: Author) -> Result<bool> {
    let [token, run, tool_call] = author::params(author);
    let extra_columns = [
        ("content", Param::from(text)),
        ("author_token", token),
        ("author_run", run),
        ("author_tool_call", tool_call),
    ];
    let skip_duplicate = "ON CONFLICT (project_id, content_hash) WHERE deleted_at IS NULL DO NOTHING";
    let inserted = tx.insert_row(document, extra_columns, skip_duplicate)?;
    Ok(inserted == 1)
}

/// Inserts the chunks of a document. `numbers` has the row number of each chunk.
pub fn insert_chunks(tx: &mut Tx<'_>, project: ProjectId, numbers: &[i64], chunks: &[Chunk]) -> Result<()> {
    let extra_values = |index: usize| [Param::from(numbers[index]), Param::from(project)];
    tx.insert_rows(chunks, ["no", "project_id"], extra_values, "")?;
    Ok(())
}

/// The live document whose content has this hash.
pub fn find_by_hash(tx: &mut Tx<'_>, project: ProjectId, hash: &str) -> Result<Option<Document>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM documents WHERE project_id = $1 AND content_hash = $2 AND deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![project, hash], Document::from_row)
}

/// The live document with this id.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: DocumentId) -> Result<Option<Document>> {
    let sql =
        format!("SELECT {COLUMNS} FROM documents WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL");
    tx.query_opt(&sql, params![id, project], Document::from_row)
}

/// The text of a live document.
pub fn get_text(tx: &mut Tx<'_>, project: ProjectId, id: DocumentId) -> Result<Option<String>> {
    tx.query_opt(
        "SELECT content FROM documents WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL",
        params![id, project],
        |row| row.get(0),
    )
}

/// A page of the project's live documents, newest first.
pub fn list(tx: &mut Tx<'_>, project: ProjectId, page: Page) -> Result<ResultPage<Document>> {
    let mut sql = format!("SELECT {COLUMNS} FROM documents WHERE project_id = $1 AND deleted_at IS NULL");
    let mut params: Vec<Param<'_>> = vec![project.into(), (page.limit + 1).into()];
    if let Some(after) = page.after {
        params.extend([after.created_at.into(), after.id.into()]);
        sql.push_str(" AND (created_at, id) < ($3, $4)");
    }
    sql.push_str(" ORDER BY created_at DESC, id DESC LIMIT $2");
    page::query_page(tx, page.limit, &sql, &params, Document::from_row, |document| Cursor {
        created_at: document.created_at,
        id: document.id.0,
    })
}

/// Marks a document as deleted and returns it; `None` when no live document has this id.
pub fn delete(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: DocumentId,
    now: Timestamp,
) -> Result<Option<Document>> {
    let sql = format!(
        "UPDATE documents SET deleted_at = $3 WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL
         RETURNING {COLUMNS}"
    );
    tx.query_opt(&sql, params![id, project, now], Document::from_row)
}

/// The row numbers of a document's chunks, in their order.
pub fn chunk_numbers(tx: &mut Tx<'_>, id: DocumentId) -> Result<Vec<i64>> {
    tx.query("SELECT no FROM document_chunks WHERE document_id = $1 ORDER BY idx", params![id], |row| {
        row.get(0)
    })
}

/// A page of a document's chunks in their order. The cursor is the last chunk of the previous page.
pub fn list_chunks(tx: &mut Tx<'_>, document: DocumentId, page: Page) -> Result<ResultPage<Chunk>> {
    let mut sql = format!("SELECT {} FROM document_chunks WHERE document_id = $1", Chunk::COLUMNS);
    let mut params: Vec<Param<'_>> = vec![document.into(), (page.limit + 1).into()];
    if let Some(after) = page.after {
        params.push(ChunkId(after.id).into());
        sql.push_str(" AND idx > (SELECT idx FROM document_chunks WHERE id = $3 AND document_id = $1)");
    }
    sql.push_str(" ORDER BY idx LIMIT $2");
    page::query_page(tx, page.limit, &sql, &params, Chunk::from_row, |chunk| Cursor {
        created_at: chunk.created_at,
        id: chunk.id.0,
    })
}

/// Up to `limit` chunks of a document in their order, starting with the chunk at index `from`.
pub fn list_chunks_from(
    tx: &mut Tx<'_>,
    document: DocumentId,
    from: i64,
    limit: usize,
) -> Result<Vec<Chunk>> {
    let sql = format!(
        "SELECT {} FROM document_chunks WHERE document_id = $1 AND idx >= $2 ORDER BY idx LIMIT $3",
        Chunk::COLUMNS
    );
    tx.query(&sql, params![document, from, limit], Chunk::from_row)
}
