//! The dates of rows that were found: those of their properties, and when they were written.

use std::collections::{BTreeMap, HashMap};

use emergent_domain::{
    dates::{ItemDates, VALID_FROM, VALID_TO},
    ids::{DocumentId, ProjectId},
    time::Timestamp,
};

use super::{SearchTarget, write::SearchIndex};
use crate::{
    engine::Engine,
    error::Result,
    page,
    tx::Tx,
    value::{Param, Row},
};

/// The most dates of a row that are read. Only objects with a great many dates have more; what is left out counts as no
/// date. `validFrom` and `validTo` are the first.
const MAX_ROW_DATES: usize = 20;
/// JSON that is stored in more bytes is not read, so that reading the dates of all hits is quick whatever they are.
const MAX_JSON_BYTES: usize = 64 << 10;

/// The name of a property and its text, which may be a date.
type DateProperty = (String, String);

/// The dates of rows of an index: of live objects, or of the documents of chunks. Rows whose JSON is larger than 64 KiB
/// are left out: nothing is known of their dates, and when they were written would be a guess.
pub fn load_dates(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    nos: &[i64],
) -> Result<HashMap<i64, ItemDates>> {
    match target.index() {
        SearchIndex::Objects => load_object_dates(tx, project, nos),
        SearchIndex::Chunks => load_chunk_dates(tx, project, nos),
    }
}

fn load_object_dates(tx: &mut Tx<'_>, project: ProjectId, nos: &[i64]) -> Result<HashMap<i64, ItemDates>> {
    let mut found: HashMap<i64, ItemDates> = HashMap::with_capacity(nos.len());
    let (is_small, is_live) =
        (is_small(tx.engine(), "properties"), page::on_row("project_id = $1 AND deleted_at IS NULL"));
    for list in page::in_chunks(nos) {
        let numbers = page::placeholders(2, list.len());
        // SQLite stores the columns behind large properties far away, so the size is checked first.
        let rows = format!(
            "SELECT no, created_at, properties AS fields FROM graph_objects
             WHERE no IN ({numbers}) AND {is_small} AND {is_live}"
        );
        let sql = dates_sql(tx.engine(), "no", "created_at", &rows);
        let read = |row: &Row<'_>| Ok((row.get::<i64>(0)?, row.get::<Timestamp>(1)?, read_property(row)?));
        for (no, created_at, property) in tx.query(&sql, &params(project, list), read)? {
            let new = || ItemDates { created_at, properties: BTreeMap::new() };
            found.entry(no).or_insert_with(new).properties.extend(property);
        }
    }
    Ok(found)
}

/// A passage was written when its document was added. The time is that of the chunk: that of the document is stored
/// behind its whole text, which SQLite would read for it.
fn load_chunk_dates(tx: &mut Tx<'_>, project: ProjectId, nos: &[i64]) -> Result<HashMap<i64, ItemDates>> {
    let mut chunks: Vec<(i64, Timestamp, DocumentId)> = Vec::with_capacity(nos.len());
    let is_own = page::on_row("project_id = $1");
    for list in page::in_chunks(nos) {
        let numbers = page::placeholders(2, list.len());
        let sql = format!(
            "SELECT no, created_at, document_id FROM document_chunks WHERE no IN ({numbers}) AND {is_own}"
        );
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        chunks.extend(tx.query(&sql, &params(project, list), read)?);
    }
    // Many chunks are of the same document.
    let mut documents: Vec<DocumentId> = chunks.iter().map(|(_, _, document)| *document).collect();
    documents.sort_unstable();
    documents.dedup();
    let properties = load_document_properties(tx, project, &documents)?;
    let dated = chunks.into_iter().filter_map(|(no, created_at, document)| {
        // The document may have been removed in the meantime.
        let properties = properties.get(&document)?.clone();
        Some((no, ItemDates { created_at, properties }))
    });
    Ok(dated.collect())
}

fn load_document_properties(
    tx: &mut Tx<'_>,
    project: ProjectId,
    documents: &[DocumentId],
) -> Result<HashMap<DocumentId, BTreeMap<String, String>>> {
    let mut found: HashMap<DocumentId, BTreeMap<String, String>> = HashMap::with_capacity(documents.len());
    let (is_small, is_own) = (is_small(tx.engine(), "metadata"), page::on_row("project_id = $1"));
    for list in page::in_chunks(documents) {
        let ids = page::placeholders(2, list.len());
        let rows = format!(
            "SELECT id, metadata AS fields FROM documents WHERE id IN ({ids}) AND {is_small} AND {is_own}"
        );
        let sql = dates_sql(tx.engine(), "id", "NULL", &rows);
        let read = |row: &Row<'_>| Ok((row.get::<DocumentId>(0)?, read_property(row)?));
        for (id, property) in tx.query(&sql, &params(project, list), read)? {
            found.entry(id).or_default().extend(property);
        }
    }
    Ok(found)
}

fn params<'a, T: Into<Param<'a>>>(project: ProjectId, list: Vec<T>) -> Vec<Param<'a>> {
    let mut params = vec![Param::from(project)];
    params.extend(list.into_iter().map(Into::into));
    params
}

fn read_property(row: &Row<'_>) -> Result<Option<DateProperty>> {
    let (name, text): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
    Ok(name.zip(text))
}

/// Whether JSON is small enough to be read. Neither engine reads it to find out.
fn is_small(engine: Engine, column: &str) -> String {
    let size = match engine {
        Engine::Sqlite => "octet_length",
        Engine::Postgres => "pg_column_size",
    };
    format!("{size}({column}) <= {MAX_JSON_BYTES}")
}

/// A row for each property that may be a date, and one without a property for rows that have none. `rows` is a statement
/// with the columns `fields`, `id` and `time`, as they are called here.
fn dates_sql(engine: Engine, id: &str, time: &str, rows: &str) -> String {
    let validity = format!("p.key IN ('{VALID_FROM}', '{VALID_TO}')");
    let (key, text, properties) = match engine {
        Engine::Sqlite => (
            "p.key",
            "CAST(p.value AS text)",
            format!(
                "json_each(o.fields) AS p
                 ON (p.type = 'text' AND length(p.value) <= 40
                     AND p.value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]*')
                 OR ({validity} AND p.type IN ('text', 'integer')
                     AND CAST(p.value AS text) GLOB '[0-9][0-9][0-9][0-9]')"
            ),
        ),
        Engine::Postgres => (
            "p.key COLLATE \"C\"",
            "p.value #>> '{}'",
            format!(
                "LATERAL jsonb_each(o.fields) AS p
                 ON (jsonb_typeof(p.value) = 'string' AND length(p.value #>> '{{}}') <= 40
                     AND (p.value #>> '{{}}') ~ '^[0-9]{{4}}-[0-9]{{2}}')
                 OR ({validity} AND jsonb_typeof(p.value) IN ('string', 'number')
                     AND (p.value #>> '{{}}') ~ '^[0-9]{{4}}$')"
            ),
        ),
    };
    format!(
        "SELECT id, time, name, text FROM (
             SELECT o.{id} AS id, {time} AS time, p.key AS name, {text} AS text,
                    row_number() OVER (PARTITION BY o.{id} ORDER BY {validity} DESC, {key}) AS place
             FROM ({rows}) AS o LEFT JOIN {properties}
         ) AS dates WHERE place <= {MAX_ROW_DATES}"
    )
}
