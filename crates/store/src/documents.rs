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
    tx::Tx,
    value::{Param, Row},
};

const COLUMNS: &str = "id, project_id, title, mime_type, source_url, metadata, content_hash, text_bytes, chunk_count, \
                       created_at";

fn document_from_row(row: &Row<'_>) -> Result<Document> {
    Ok(Document {
        id: row.get(0)?,
        project: row.get(1)?,
        title: row.get(2)?,
        mime_type: row.get(3)?,
        source_url: row.get(4)?,
        metadata: row.get(5)?,
        content_hash: row.get(6)?,
        text_bytes: row.get(7)?,
        chunk_count: row.get(8)?,
        created_at: row.get(9)?,
    })
}

/// Adds a document with its text; false when a living one of the project has the same content.
pub fn insert(tx: &mut Tx<'_>, document: &Document, text: &str, author: Author) -> Result<bool> {
    let [token, run, tool_call] = author::params(author);
    let added = tx.execute(
        "INSERT INTO documents (id, project_id, title, mime_type, source_url, metadata, content_hash, content,
                                text_bytes, chunk_count, created_at, author_token, author_run, author_tool_call)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         ON CONFLICT (project_id, content_hash) WHERE deleted_at IS NULL DO NOTHING",
        &[
            document.id.into(),
            document.project.into(),
            (&document.title).into(),
            (&document.mime_type).into(),
            document.source_url.as_deref().into(),
            (&document.metadata).into(),
            (&document.content_hash).into(),
            text.into(),
            document.text_bytes.into(),
            document.chunk_count.into(),
            document.created_at.into(),
            token,
            run,
            tool_call,
        ],
    )?;
    Ok(added == 1)
}

/// Adds a document's chunks under these numbers, one for each.
pub fn insert_chunks(tx: &mut Tx<'_>, project: ProjectId, numbers: &[i64], chunks: &[Chunk]) -> Result<()> {
    let rows: Vec<Vec<Param<'_>>> = numbers
        .iter()
        .zip(chunks)
        .map(|(no, chunk)| {
            vec![
                (*no).into(),
                chunk.id.into(),
                project.into(),
                chunk.document.into(),
                chunk.index.into(),
                chunk.start.into(),
                chunk.end.into(),
                chunk.tokens.into(),
                chunk.heading.as_deref().into(),
                (&chunk.text).into(),
                chunk.created_at.into(),
            ]
        })
        .collect();
    tx.insert_many(
        "INSERT INTO document_chunks (no, id, project_id, document_id, idx, start_offset, end_offset, tokens, heading,
                                      text, created_at) VALUES",
        11,
        &rows,
        "",
    )?;
    Ok(())
}

/// The living document with this content.
pub fn find_by_hash(tx: &mut Tx<'_>, project: ProjectId, hash: &str) -> Result<Option<Document>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM documents WHERE project_id = $1 AND content_hash = $2 AND deleted_at IS NULL"
    );
    tx.query_opt(&sql, params![project, hash], document_from_row)
}

pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: DocumentId) -> Result<Option<Document>> {
    let sql =
        format!("SELECT {COLUMNS} FROM documents WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL");
    tx.query_opt(&sql, params![id, project], document_from_row)
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
    let rows = tx.query(&sql, &params, document_from_row)?;
    Ok(ResultPage::from_rows(rows, page.limit, |document| Cursor {
        created_at: document.created_at,
        id: document.id.0,
    }))
}

/// Marks a document as deleted; `None` when no living one has this id.
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
    tx.query_opt(&sql, params![id, project, now], document_from_row)
}

/// The numbers of a document's chunks.
pub fn chunk_numbers(tx: &mut Tx<'_>, id: DocumentId) -> Result<Vec<i64>> {
    tx.query("SELECT no FROM document_chunks WHERE document_id = $1 ORDER BY idx", params![id], |row| {
        row.get(0)
    })
}

pub(crate) const CHUNK_COLUMNS: &str =
    "id, document_id, idx, start_offset, end_offset, tokens, heading, text, created_at";

pub(crate) fn chunk_from_row(row: &Row<'_>) -> Result<Chunk> {
    Ok(Chunk {
        id: row.get(0)?,
        document: row.get(1)?,
        index: row.get(2)?,
        start: row.get(3)?,
        end: row.get(4)?,
        tokens: row.get(5)?,
        heading: row.get(6)?,
        text: row.get(7)?,
        created_at: row.get(8)?,
    })
}

/// A document's chunks in their order. The cursor is the last chunk seen.
pub fn list_chunks(tx: &mut Tx<'_>, document: DocumentId, page: Page) -> Result<ResultPage<Chunk>> {
    let mut sql = format!("SELECT {CHUNK_COLUMNS} FROM document_chunks WHERE document_id = $1");
    let mut params: Vec<Param<'_>> = vec![document.into(), (page.limit + 1).into()];
    if let Some(after) = page.after {
        params.push(ChunkId(after.id).into());
        sql.push_str(" AND idx > (SELECT idx FROM document_chunks WHERE id = $3 AND document_id = $1)");
    }
    sql.push_str(" ORDER BY idx LIMIT $2");
    let rows = tx.query(&sql, &params, chunk_from_row)?;
    Ok(ResultPage::from_rows(rows, page.limit, |chunk| Cursor {
        created_at: chunk.created_at,
        id: chunk.id.0,
    }))
}

/// A document's chunks in their order, from one on.
pub fn list_chunks_from(tx: &mut Tx<'_>, document: DocumentId, from: i64, most: usize) -> Result<Vec<Chunk>> {
    let sql = format!(
        "SELECT {CHUNK_COLUMNS} FROM document_chunks WHERE document_id = $1 AND idx >= $2 ORDER BY idx LIMIT $3"
    );
    tx.query(&sql, params![document, from, most], chunk_from_row)
}
