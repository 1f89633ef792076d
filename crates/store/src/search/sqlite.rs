//! Search on SQLite: FTS5 with its own ranking function, and vectors in memory.

use emergent_domain::{fusion::RankedHit, ids::ProjectId};
use rusqlite::Connection;

use super::{
    SearchTarget, VectorQuery, embeddings, project_no,
    quantised::Quantised,
    rank,
    vectors::{Key, VectorIndexes, row_in_project},
};
use crate::{engine::Engine, error::Result, page, params, row_numbers, tx::Tx, value::Param};

/// Registers the functions that searches need.
pub(crate) fn register(conn: &Connection) -> Result<()> {
    rank::register(conn)
}

pub(super) fn search_text(
    tx: &mut Tx<'_>,
    project: ProjectId,
    among: &SearchTarget,
    words: &str,
    limit: usize,
) -> Result<Vec<RankedHit<i64>>> {
    let Some(project) = project_no(tx, project)? else { return Ok(Vec::new()) };
    let rows = row_numbers::range(project);
    let texts = among.text_table();
    let mut params = vec![words.into(), rows.start.into(), rows.end.into(), limit.into()];
    let (conditions, values) = among.conditions(Engine::Sqlite, params.len() + 1);
    params.extend(values);
    // Without conditions no row is loaded, and the ranking may skip rows that cannot be among the best.
    // With conditions SQLite decides whether a row is ranked before or after it is filtered, so all
    // rows are ranked.
    let (from, rank_all) = match conditions.as_str() {
        "" => (texts.to_owned(), "$4"),
        _ => (format!("{texts} CROSS JOIN {} AS o ON o.no = {texts}.rowid", among.table()), "0"),
    };
    let sql = format!(
        "SELECT {texts}.rowid AS no, relevance({texts}, {rank_all}, '{texts}', $1) AS score FROM {from}
         WHERE {texts} MATCH $1 AND {texts}.rowid >= $2 AND {texts}.rowid < $3{conditions}
         ORDER BY score, no LIMIT $4"
    );
    tx.query(&sql, &params, |row| Ok(RankedHit { id: row.get(0)?, score: -row.get::<f64>(1)? }))
}

pub(super) fn search_vectors(
    tx: &mut Tx<'_>,
    indexes: &VectorIndexes,
    project: ProjectId,
    among: &SearchTarget,
    nearest: &VectorQuery<'_>,
) -> Result<Vec<RankedHit<i64>>> {
    let Some(project_no) = project_no(tx, project)? else { return Ok(Vec::new()) };
    let first = row_numbers::range(project_no).start;
    let key = Key { index: among.index(), project, model: nearest.model, dims: nearest.vector.len() };
    let ask = |tx: &mut Tx<'_>, limit: usize, rows: Option<&[u32]>| -> Result<Vec<i64>> {
        let found = indexes.with_index(
            key,
            |index| load_index(tx, key, first, index),
            |index| index.search(nearest.vector, limit, rows),
        )?;
        Ok(found.into_iter().map(|(row, _)| first + i64::from(row)).collect())
    };
    let (conditions, values) = among.conditions(Engine::Sqlite, 2);

    // The index is approximate: it returns more rows than requested, and these are compared exactly. The
    // surplus also replaces rows that were deleted meanwhile or do not match the filter.
    let limit = nearest.limit + nearest.limit / 2 + 10;
    let limit = if conditions.is_empty() { limit } else { limit * 4 };
    let found = ask(tx, limit, None)?;
    let hits = exact_scores(tx, among, nearest, &found)?;
    if hits.len() >= nearest.limit || found.len() < limit {
        return Ok(hits);
    }
    // Few rows match the filter, or many were just deleted: only the matching rows are searched.
    let sql = format!(
        "SELECT o.no FROM {} AS o WHERE o.project_id = $1{}{conditions}",
        among.table(),
        among.live_sql()
    );
    let mut params = vec![Param::from(project)];
    params.extend(values);
    let rows: Vec<u32> =
        tx.query(&sql, &params, |row| row.get(0))?.into_iter().filter_map(row_in_project).collect();
    let found = ask(tx, limit, Some(&rows))?;
    exact_scores(tx, among, nearest, &found)
}

/// Loads the vectors of a project into an index.
fn load_index(tx: &mut Tx<'_>, key: Key<'_>, first: i64, index: &mut Quantised) -> Result<()> {
    let table = embeddings::table(key.index);
    let range = params![first, first + row_numbers::range(0).end, key.model];
    let count: Option<i64> = tx.query_opt(
        &format!("SELECT count(*) FROM {table} WHERE no >= $1 AND no < $2 AND model = $3"),
        range,
        |row| row.get(0),
    )?;
    index.reserve(usize::try_from(count.unwrap_or(0)).unwrap_or(0));
    let sql = format!("SELECT no, vector FROM {table} WHERE no >= $1 AND no < $2 AND model = $3");
    tx.for_each_row(&sql, range, |row| {
        if let Some(place) = row_in_project(row.get(0)?) {
            index.load(place, &row.get::<Vec<f32>>(1)?);
        }
        Ok(())
    })
}

/// The exact scores of the rows that exist and match.
fn exact_scores(
    tx: &mut Tx<'_>,
    among: &SearchTarget,
    nearest: &VectorQuery<'_>,
    nos: &[i64],
) -> Result<Vec<RankedHit<i64>>> {
    let mut hits = Vec::with_capacity(nos.len());
    for list in page::in_chunks(nos) {
        let mut params = vec![Param::from(nearest.model)];
        let places = page::placeholders(2, list.len());
        params.extend(list.into_iter().map(Param::from));
        let (conditions, values) = among.conditions(Engine::Sqlite, params.len() + 1);
        params.extend(values);
        let join = match conditions.as_str() {
            "" => String::new(),
            _ => format!(" JOIN {} AS o ON o.no = e.no", among.table()),
        };
        let sql = format!(
            "SELECT e.no, e.vector FROM {} AS e{join} WHERE e.no IN ({places}) AND e.model = $1{conditions}",
            embeddings::table(among.index())
        );
        hits.extend(tx.query(&sql, &params, |row| {
            Ok(RankedHit { id: row.get(0)?, score: cosine(nearest.vector, &row.get::<Vec<f32>>(1)?) })
        })?);
    }
    Ok(hits)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return 0.0;
    }
    let (mut dot, mut a_squares, mut b_squares) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (f64::from(*a), f64::from(*b));
        dot += a * b;
        a_squares += a * a;
        b_squares += b * b;
    }
    let lengths = f64::sqrt(a_squares * b_squares);
    if lengths > 0.0 { dot / lengths } else { 0.0 }
}
