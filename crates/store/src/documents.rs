//! Documents and their chunks.
//!
//! A deleted document keeps its rows: a chunk's number is never given twice, so a vector that was
//! being made for it can only be dropped, never end up on another text. Its chunks leave the
//! full-text index and the vectors.

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
    params,
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

/// Adds a document with its text; false when a live one of the project has the same content.
pub fn insert(tx: &mut Tx<'_>, document: &Document, text: &str, author: Author) -> Result<bool> {
    let [token, run, tool_call] = author::params(author);
    let more = [
        ("content", Param::from(text)),
        ("author_token", token),
        ("author_run", run),
        ("author_tool_call", tool_call),
    ];
    let unless_there = "ON CONFLICT (project_id, content_hash) WHERE deleted_at IS NULL DO NOTHING";
    let added = tx.insert_row(document, more, unless_there)?;
    Ok(added == 1)
}

/// Adds a document's chunks under these numbers, one for each.
pub fn insert_chunks(tx: &mut Tx<'_>, project: ProjectId, numbers: &[i64], chunks: &[Chunk]) -> Result<()> {
    let more = |index: usize| [Param::from(numbers[index]), Param::from(project)];
    tx.insert_rows(chunks, ["no", "project_id"], more, "")?;
    Ok(())
}

/// The live document with this content.
pub fn find_by_hash(tx: &mut Tx<'_>, project: ProjectId, hash: &str) -> Result<Option<Document>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM documents WHERE project_id = $1 AND content_hash = $2 AND deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![project, hash], Document::from_row)
}

pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: DocumentId) -> Result<Option<Document>> {
    let sql =
        format!("SELECT {COLUMNS} FROM documents WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL");
    tx.query_opt(&sql, params![id, project], Document::from_row)
}

/// The text that was read from it.
pub fn get_text(tx: &mut Tx<'_>, project: ProjectId, id: DocumentId) -> Result<Option<String>> {
    tx.query_opt(
        "SELECT content FROM documents WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL",
        params![id, project],
        |row| row.get(0),
    )
}

/// The project's documents, newest first.
pub fn list(tx: &mut Tx<'_>, project: ProjectId, page: Page) -> Result<ResultPage<Document>> {
    let mut sql = format!("SELECT {COLUMNS} FROM documents WHERE project_id = $1 AND deleted_at IS NULL");
    let mut params: Vec<Param<'_>> = vec![project.into(), (page.limit + 1).into()];
    if let Some(after) = page.after {
        params.extend([after.created_at.into(), after.id.into()]);
        sql.push_str(" AND (created_at, id) < ($3, $4)");
    }
    sql.push_str(" ORDER BY created_at DESC, id DESC LIMIT $2");
    let rows = tx.query(&sql, &params, Document::from_row)?;
    Ok(ResultPage::from_rows(rows, page.limit, |document| Cursor {
        created_at: document.created_at,
        id: document.id.0,
    }))
}

/// Marks a document as deleted; `None` when no live one has this id.
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

/// The numbers of a document's chunks.
pub fn chunk_numbers(tx: &mut Tx<'_>, id: DocumentId) -> Result<Vec<i64>> {
    tx.query("SELECT no FROM document_chunks WHERE document_id = $1 ORDER BY idx", params![id], |row| {
        row.get(0)
    })
}

/// A document's chunks in their order. The cursor is the last chunk seen.
pub fn list_chunks(tx: &mut Tx<'_>, document: DocumentId, page: Page) -> Result<ResultPage<Chunk>> {
    let mut sql = format!("SELECT {} FROM document_chunks WHERE document_id = $1", Chunk::COLUMNS);
    let mut params: Vec<Param<'_>> = vec![document.into(), (page.limit + 1).into()];
    if let Some(after) = page.after {
        params.push(ChunkId(after.id).into());
        sql.push_str(" AND idx > (SELECT idx FROM document_chunks WHERE id = $3 AND document_id = $1)");
    }
    sql.push_str(" ORDER BY idx LIMIT $2");
    let rows = tx.query(&sql, &params, Chunk::from_row)?;
    Ok(ResultPage::from_rows(rows, page.limit, |chunk| Cursor {
        created_at: chunk.created_at,
        id: chunk.id.0,
    }))
}

/// A document's chunks in their order, from one on.
pub fn list_chunks_from(tx: &mut Tx<'_>, document: DocumentId, from: i64, most: usize) -> Result<Vec<Chunk>> {
    let sql = format!(
        "SELECT {} FROM document_chunks WHERE document_id = $1 AND idx >= $2 ORDER BY idx LIMIT $3",
        Chunk::COLUMNS
    );
    tx.query(&sql, params![document, from, most], Chunk::from_row)
}
