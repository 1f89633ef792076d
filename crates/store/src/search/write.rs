//! Keeping the full-text index true: a row for each living object and each chunk, written in the
//! transaction that changes it.

use emergent_domain::{ids::ProjectId, text_query, words::IndexedText};

use super::postgres::without_accents;
use crate::{engine::Engine, error::Result, params, tx::Tx, value::Param};

/// PostgreSQL refuses a `tsvector` over 1 MB; these bounds keep the worst text well under it, and
/// both engines index the same part.
const NAME: usize = 16 << 10;
const BODY: usize = 200 << 10;

/// Which index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    Objects,
    Chunks,
}

/// One row of an index: the number of the object or chunk, and its text.
pub struct Entry<'a> {
    pub no: i64,
    pub text: &'a IndexedText,
}

/// Adds rows that are not there yet.
pub fn insert(tx: &mut Tx<'_>, index: Index, project: ProjectId, entries: &[Entry<'_>]) -> Result<()> {
    match tx.engine() {
        Engine::Sqlite => entries.iter().try_for_each(|entry| sqlite_insert(tx, index, entry)),
        // A hundred texts of the largest size still make a statement of bearable size.
        Engine::Postgres => {
            entries.chunks(100).try_for_each(|some| postgres_insert(tx, index, project, some))
        }
    }
}

/// Puts a text in the place of what was indexed before.
pub fn replace(tx: &mut Tx<'_>, index: Index, project: ProjectId, entry: &Entry<'_>) -> Result<()> {
    remove(tx, index, entry.no)?;
    insert(tx, index, project, std::slice::from_ref(entry))
}

pub fn remove(tx: &mut Tx<'_>, index: Index, no: i64) -> Result<()> {
    if let Some(late) = tx.late() {
        late.remove(index, no);
        return Ok(());
    }
    let sql = match (tx.engine(), index) {
        (Engine::Sqlite, _) => delete_sql(index),
        (Engine::Postgres, Index::Objects) => "DELETE FROM graph_objects_fts WHERE no = $1",
        (Engine::Postgres, Index::Chunks) => "DELETE FROM document_chunks_fts WHERE no = $1",
    };
    tx.execute(sql, params![no])?;
    Ok(())
}

fn sqlite_insert(tx: &mut Tx<'_>, index: Index, entry: &Entry<'_>) -> Result<()> {
    let (name, body) = (cut(&entry.text.name, NAME), cut(&entry.text.body, BODY));
    match tx.late() {
        Some(late) => late.insert(index, entry.no, name, body),
        None => {
            tx.execute(insert_sql(index), params![entry.no, name, body])?;
        }
    }
    Ok(())
}

/// In the embedded engine.
pub(super) fn insert_sql(index: Index) -> &'static str {
    match index {
        Index::Objects => "INSERT INTO graph_objects_fts (rowid, name, body) VALUES ($1, $2, $3)",
        Index::Chunks => "INSERT INTO document_chunks_fts (rowid, name, body) VALUES ($1, $2, $3)",
    }
}

pub(super) fn delete_sql(index: Index) -> &'static str {
    match index {
        Index::Objects => "DELETE FROM graph_objects_fts WHERE rowid = $1",
        Index::Chunks => "DELETE FROM document_chunks_fts WHERE rowid = $1",
    }
}

fn postgres_insert(tx: &mut Tx<'_>, index: Index, project: ProjectId, entries: &[Entry<'_>]) -> Result<()> {
    let table = match index {
        Index::Objects => "graph_objects_fts",
        Index::Chunks => "document_chunks_fts",
    };
    let mut values = Vec::with_capacity(entries.len());
    let mut params = vec![Param::from(project)];
    for entry in entries {
        let no = params.len() + 1;
        values.push(format!(
            "(${no}, $1, setweight(to_tsvector('english', ${}), 'A') || setweight(to_tsvector('english', ${}), 'B'))",
            no + 1,
            no + 2
        ));
        params.push(Param::from(entry.no));
        params.push(Param::from(spaced(cut(&entry.text.name, NAME))));
        params.push(Param::from(spaced(cut(&entry.text.body, BODY))));
    }
    let sql = format!("INSERT INTO {table} (no, project_id, tsv) VALUES {}", values.join(", "));
    tx.execute(&sql, &params)?;
    Ok(())
}

/// PostgreSQL's parser keeps `node.js` or `src/main.rs` as one word, queries and FTS5 do not: what
/// is indexed is split as queries are.
fn spaced(text: &str) -> String {
    without_accents(&text_query::words(text).collect::<Vec<_>>().join(" "))
}

/// The first bytes of a text, at most `max`, ending between two characters.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
