//! Writes the full-text index: one row for each live object and each chunk, in the same transaction as the
//! object or chunk.

use emergent_domain::{ids::ProjectId, indexed_text::IndexedText, text_query};

use super::postgres::without_accents;
use crate::{engine::Engine, error::Result, params, tx::Tx, value::Param};

/// PostgreSQL rejects a `tsvector` of more than 1 MB. These limits keep every text well below it, and
/// both engines index the same part.
const MAX_NAME_BYTES: usize = 16 << 10;
const MAX_BODY_BYTES: usize = 200 << 10;
/// On PostgreSQL, this many texts are inserted by one statement. Even texts of the maximum size fit.
const INSERT_BATCH: usize = 100;
/// The end of an insert on PostgreSQL that replaces the text of a row.
const REPLACE: &str = "ON CONFLICT (no) DO UPDATE SET tsv = excluded.tsv";

/// Selects the index of objects or that of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchIndex {
    Objects,
    Chunks,
}

/// One row of an index: the number of the object or chunk, and its text.
pub struct Entry<'a> {
    pub no: i64,
    pub text: &'a IndexedText,
}

/// Adds texts to an index.
pub fn insert(tx: &mut Tx<'_>, index: SearchIndex, project: ProjectId, entries: &[Entry<'_>]) -> Result<()> {
    match tx.engine() {
        Engine::Sqlite => entries.iter().try_for_each(|entry| sqlite_insert(tx, index, entry)),
        Engine::Postgres => {
            entries.chunks(INSERT_BATCH).try_for_each(|batch| postgres_insert(tx, index, project, batch, ""))
        }
    }
}

/// Replaces the indexed text of a row.
pub fn replace(tx: &mut Tx<'_>, index: SearchIndex, project: ProjectId, entry: &Entry<'_>) -> Result<()> {
    let entries = std::slice::from_ref(entry);
    if tx.engine() == Engine::Postgres {
        return postgres_insert(tx, index, project, entries, REPLACE);
    }
    remove(tx, index, entry.no)?;
    insert(tx, index, project, entries)
}

/// Removes the text of a row from an index.
pub fn remove(tx: &mut Tx<'_>, index: SearchIndex, no: i64) -> Result<()> {
    if let Some(buffer) = tx.fts_buffer() {
        buffer.remove(index, no);
        return Ok(());
    }
    let sql = match (tx.engine(), index) {
        (Engine::Sqlite, _) => delete_sql(index),
        (Engine::Postgres, SearchIndex::Objects) => "DELETE FROM graph_objects_fts WHERE no = $1",
        (Engine::Postgres, SearchIndex::Chunks) => "DELETE FROM document_chunks_fts WHERE no = $1",
    };
    tx.execute_later(sql, params![no])
}

fn sqlite_insert(tx: &mut Tx<'_>, index: SearchIndex, entry: &Entry<'_>) -> Result<()> {
    let (name, body) =
        (truncate(&entry.text.name, MAX_NAME_BYTES), truncate(&entry.text.body, MAX_BODY_BYTES));
    match tx.fts_buffer() {
        Some(buffer) => buffer.insert(index, entry.no, name, body),
        None => {
            tx.execute(insert_sql(index), params![entry.no, name, body])?;
        }
    }
    Ok(())
}

/// The statement that adds a text on SQLite.
pub(super) fn insert_sql(index: SearchIndex) -> &'static str {
    match index {
        SearchIndex::Objects => "INSERT INTO graph_objects_fts (rowid, name, body) VALUES ($1, $2, $3)",
        SearchIndex::Chunks => "INSERT INTO document_chunks_fts (rowid, name, body) VALUES ($1, $2, $3)",
    }
}

/// The statement that removes a text on SQLite.
pub(super) fn delete_sql(index: SearchIndex) -> &'static str {
    match index {
        SearchIndex::Objects => "DELETE FROM graph_objects_fts WHERE rowid = $1",
        SearchIndex::Chunks => "DELETE FROM document_chunks_fts WHERE rowid = $1",
    }
}

fn postgres_insert(
    tx: &mut Tx<'_>,
    index: SearchIndex,
    project: ProjectId,
    entries: &[Entry<'_>],
    tail: &str,
) -> Result<()> {
    let table = match index {
        SearchIndex::Objects => "graph_objects_fts",
        SearchIndex::Chunks => "document_chunks_fts",
    };
    let sql = format!(
        "INSERT INTO {table} (no, project_id, tsv)
         SELECT e.no, $1::uuid,
             setweight(to_tsvector('english', e.name), 'A') || setweight(to_tsvector('english', e.body), 'B')
         FROM unnest($2::bigint[], $3::text[], $4::text[]) AS e (no, name, body) {tail}"
    );
    let texts = |text: fn(&IndexedText) -> &str, max: usize| {
        Param::Array(
            entries.iter().map(|entry| split_words(truncate(text(entry.text), max)).into()).collect(),
        )
    };
    let params = [
        Param::from(project),
        Param::Array(entries.iter().map(|entry| entry.no.into()).collect()),
        texts(|text| &text.name, MAX_NAME_BYTES),
        texts(|text| &text.body, MAX_BODY_BYTES),
    ];
    tx.execute_later(&sql, &params)
}

/// The words of a text without accents, separated by spaces, as queries are split. The parser of PostgreSQL
/// treats `node.js` or `src/main.rs` as one word; queries and FTS5 do not.
fn split_words(text: &str) -> String {
    without_accents(&text_query::words(text).collect::<Vec<_>>().join(" "))
}

/// The first bytes of a text, at most `max`, ending between two characters.
fn truncate(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
