//! Documents and their chunks.
//!
//! A deleted document keeps its rows, so that the number of a chunk is never used again. A vector that is
//! still being computed for a deleted chunk is then dropped, and cannot be stored for another text. The
//! caller removes the chunks from the full-text index and their vectors.
//!
//! A document with `purge_after` is hidden: it is being ingested, or it was deleted and its chunks are still
//! in the indexes. Both count as deleted, so no query for live documents finds them. One that was never
//! visible has the same `deleted_at` and `created_at`, and its rows are deleted in the end.

use std::collections::HashMap;

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

/// Inserts a document that nobody sees yet: it counts as deleted until it is published, or removed after
/// `purge_after`.
pub fn insert_hidden(
    tx: &mut Tx<'_>,
    document: &Document,
    text: &str,
    author: Author,
    purge_after: Timestamp,
) -> Result<()> {
    let [token, run, tool_call] = author::params(author);
    let extra_columns = [
        ("content", Param::from(text)),
        ("author_token", token),
        ("author_run", run),
        ("author_tool_call", tool_call),
        ("deleted_at", Param::from(document.created_at)),
        ("purge_after", Param::from(purge_after)),
    ];
    tx.insert_row(document, extra_columns, "")?;
    Ok(())
}

/// The `purge_after` of a document that is being removed. From then on it is neither kept nor published.
fn being_purged() -> Timestamp {
    Timestamp::from_micros(0)
}

/// Keeps a hidden document until another time; false when it was removed meanwhile, or is being removed.
pub fn keep_hidden(tx: &mut Tx<'_>, id: DocumentId, purge_after: Timestamp) -> Result<bool> {
    let sql = "UPDATE documents SET purge_after = $2 WHERE id = $1 AND purge_after > $3";
    Ok(tx.execute(sql, params![id, purge_after, being_purged()])? == 1)
}

/// Makes a hidden document visible; false when it was removed meanwhile, or is being removed. Fails with
/// [`crate::Error::Duplicate`] when a live document of the project has the same content.
pub fn publish(tx: &mut Tx<'_>, id: DocumentId, now: Timestamp) -> Result<bool> {
    let sql = "UPDATE documents SET deleted_at = NULL, purge_after = NULL, created_at = $2
               WHERE id = $1 AND purge_after > $3 AND deleted_at = created_at";
    Ok(tx.execute(sql, params![id, now, being_purged()])? == 1)
}

/// Marks a deleted document, whose chunks are still in the indexes.
pub fn mark_purgeable(tx: &mut Tx<'_>, id: DocumentId, now: Timestamp) -> Result<()> {
    let sql = "UPDATE documents SET purge_after = $2 WHERE id = $1 AND deleted_at IS NOT NULL";
    tx.execute(sql, params![id, now])?;
    Ok(())
}

/// Starts to remove a hidden document; with `due`, only if it may be removed at that time. Returns false if there
/// is no such document: it was published, or kept for longer.
pub fn begin_purge(tx: &mut Tx<'_>, id: DocumentId, due: Option<Timestamp>) -> Result<bool> {
    let (condition, due) = match due {
        Some(due) => ("purge_after <= $3", due),
        None => ("purge_after >= $3", being_purged()),
    };
    let sql = format!("UPDATE documents SET purge_after = $2 WHERE id = $1 AND {condition}");
    Ok(tx.execute(&sql, params![id, being_purged(), due])? == 1)
}

/// A document that is not visible, and whose chunks may be in the indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HiddenDocument {
    pub project: ProjectId,
    /// It was not ingested to its end.
    pub was_never_visible: bool,
}

/// Locks a hidden document; `None` when there is no such document.
pub fn lock_hidden(tx: &mut Tx<'_>, id: DocumentId) -> Result<Option<HiddenDocument>> {
    let sql = format!(
        "SELECT project_id, deleted_at = created_at FROM documents
         WHERE id = $1 AND purge_after IS NOT NULL{}",
        tx.for_update()
    );
    tx.query_opt(&sql, params![id], |row| {
        Ok(HiddenDocument { project: row.get(0)?, was_never_visible: row.get(1)? })
    })
}

/// The hidden documents that may be removed now. Those whose removal has begun come last.
pub fn list_purgeable(tx: &mut Tx<'_>, now: Timestamp, limit: usize) -> Result<Vec<DocumentId>> {
    tx.query(
        "SELECT id FROM documents WHERE purge_after IS NOT NULL AND purge_after <= $1 ORDER BY purge_after DESC LIMIT $2",
        params![now, limit],
        |row| row.get(0),
    )
}

/// The hidden documents of a project. Usually there are none.
pub fn list_hidden(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<DocumentId>> {
    tx.query(
        "SELECT id FROM documents WHERE project_id = $1 AND purge_after IS NOT NULL",
        params![project],
        |row| row.get(0),
    )
}

/// The titles of those of the documents that are live.
pub fn titles(
    tx: &mut Tx<'_>,
    project: ProjectId,
    ids: &[DocumentId],
) -> Result<HashMap<DocumentId, String>> {
    let mut titles = HashMap::new();
    for list in page::in_chunks(ids) {
        let sql = format!(
            "SELECT id, title FROM documents WHERE id IN ({}) AND {}",
            page::placeholders(2, list.len()),
            page::on_row("project_id = $1 AND deleted_at IS NULL")
        );
        let mut params = vec![Param::from(project)];
        params.extend(list.into_iter().map(Param::from));
        titles.extend(tx.query(&sql, &params, |row| Ok((row.get::<DocumentId>(0)?, row.get::<String>(1)?)))?);
    }
    Ok(titles)
}

/// The index and the row number of a document's chunks from an index on, in their order.
pub fn chunk_numbers_from(
    tx: &mut Tx<'_>,
    id: DocumentId,
    from: i64,
    limit: usize,
) -> Result<Vec<(i64, i64)>> {
    tx.query(
        "SELECT idx, no FROM document_chunks WHERE document_id = $1 AND idx >= $2 ORDER BY idx LIMIT $3",
        params![id, from, limit],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Deletes the rows of chunks that were never visible.
pub fn delete_chunks(tx: &mut Tx<'_>, numbers: &[i64]) -> Result<()> {
    for list in page::in_chunks(numbers) {
        let sql = format!("DELETE FROM document_chunks WHERE no IN ({})", page::placeholders(1, list.len()));
        tx.execute(&sql, &list.into_iter().map(Param::from).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Ends the removal of a hidden document. The row of one that was never visible is deleted.
pub fn finish_purge(tx: &mut Tx<'_>, id: DocumentId, was_never_visible: bool) -> Result<()> {
    let sql = match was_never_visible {
        true => "DELETE FROM documents WHERE id = $1 AND purge_after IS NOT NULL",
        false => "UPDATE documents SET purge_after = NULL WHERE id = $1",
    };
    tx.execute(sql, params![id])?;
    Ok(())
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
