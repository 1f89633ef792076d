//! The dates of rows that were found: those of their properties, and when they were written.

use std::collections::{BTreeMap, HashMap};

use emergent_domain::{dates::ItemDates, ids::ProjectId, time::Timestamp};

use super::{SearchTarget, write::SearchIndex};
use crate::{engine::Engine, error::Result, page, tx::Tx, value::Param};

/// The most dates that are read at once, about 20 for each row. Only objects with a great many dates have more; what is
/// left out counts as no date.
const MAX_DATES: usize = 4096;

/// The dates of rows of an index: of live objects, or of the documents of chunks. Only texts that begin with four digits
/// are read, so a large object costs the database the reading of its JSON, and this process nothing.
pub fn load_dates(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    nos: &[i64],
) -> Result<HashMap<i64, ItemDates>> {
    let mut found: HashMap<i64, ItemDates> = HashMap::with_capacity(nos.len());
    for list in page::in_chunks(nos) {
        let sql = dates_sql(tx.engine(), target.index(), list.len());
        let mut params = vec![Param::from(project)];
        params.extend(list.into_iter().map(Param::from));
        let rows = tx.query(&sql, &params, |row| {
            let created_at: Option<Timestamp> = row.get(1)?;
            let (name, text): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
            Ok((row.get::<i64>(0)?, created_at, name.zip(text)))
        })?;
        for (no, created_at, property) in rows {
            // The document of a chunk may have been removed in the meantime.
            let Some(created_at) = created_at else { continue };
            let new = || ItemDates { created_at, properties: BTreeMap::new() };
            found.entry(no).or_insert_with(new).properties.extend(property);
        }
    }
    Ok(found)
}

/// A row for each property whose text may be a date, and one without a property for rows that have none. The document of
/// a chunk is looked up by subqueries, so that no plan reads all documents.
fn dates_sql(engine: Engine, index: SearchIndex, count: usize) -> String {
    let numbers = page::placeholders(2, count);
    let rows = match index {
        SearchIndex::Objects => format!(
            "SELECT no, created_at, properties AS fields FROM graph_objects WHERE {} AND no IN ({numbers})",
            page::on_row("project_id = $1 AND deleted_at IS NULL")
        ),
        SearchIndex::Chunks => format!(
            "SELECT c.no, (SELECT d.created_at FROM documents AS d WHERE d.id = c.document_id) AS created_at,
                    (SELECT d.metadata FROM documents AS d WHERE d.id = c.document_id) AS fields
             FROM document_chunks AS c WHERE {} AND c.no IN ({numbers})",
            page::on_row("c.project_id = $1")
        ),
    };
    let (text, properties) = match engine {
        Engine::Sqlite => (
            "p.value",
            "json_each(o.fields) AS p ON p.type = 'text' AND length(p.value) <= 40
                 AND p.value GLOB '[0-9][0-9][0-9][0-9]*'",
        ),
        Engine::Postgres => (
            "p.value #>> '{}'",
            "LATERAL jsonb_each(o.fields) AS p ON jsonb_typeof(p.value) = 'string'
                 AND length(p.value #>> '{}') <= 40 AND (p.value #>> '{}') ~ '^[0-9]{4}'",
        ),
    };
    format!(
        "SELECT o.no, o.created_at, p.key, {text} FROM ({rows}) AS o LEFT JOIN {properties}
         ORDER BY o.no, p.key LIMIT {MAX_DATES}"
    )
}
