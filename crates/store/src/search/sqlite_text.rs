//! Full-text search on SQLite: FTS5 with the ranking function of `rank`.
//!
//! A filter is a condition on the object, and reading the object of every row that contains a common word
//! takes much longer than ranking the rows. Rows are therefore ranked first and filtered from the best
//! downwards. Only if the filter leaves too few of them is the whole search repeated with the filter inside.
//! The result is the same.

use std::{collections::HashSet, ops::Range};

use emergent_domain::{fusion::RankedHit, ids::ProjectId};

use super::{SearchTarget, project_no};
use crate::{engine::Engine, error::Result, page, params, row_numbers, tx::Tx, value::Param};

/// With a filter, this many times as many rows are ranked, since some of them will not match.
const OVER_FETCH: usize = 20;
/// No more rows than this are ranked for a filter, unless the search itself asks for half of it.
const MAX_OVER_FETCH: usize = 4_000;
/// The number of ranked rows that are filtered by one statement.
const FILTER_BATCH: usize = 128;

/// The best rows for a query in the syntax of FTS5, with positive scores.
pub(super) fn search_text(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    fts_query: &str,
    limit: usize,
) -> Result<Vec<RankedHit<i64>>> {
    let Some(project_no) = project_no(tx, project)? else { return Ok(Vec::new()) };
    let rows = row_numbers::range(project_no);
    if target.conditions(Engine::Sqlite, 1).0.is_empty() {
        return rank_rows(tx, &rows, target, fts_query, limit);
    }
    let ranked_count = (limit * OVER_FETCH).min(MAX_OVER_FETCH).max(limit * 2);
    let ranked = rank_rows(tx, &rows, target, fts_query, ranked_count)?;
    let mut hits = Vec::with_capacity(limit);
    for batch in ranked.chunks(FILTER_BATCH) {
        let nos: Vec<i64> = batch.iter().map(|hit| hit.id).collect();
        let matching = matching_rows(tx, target, &nos)?;
        hits.extend(batch.iter().filter(|hit| matching.contains(&hit.id)).copied());
        if hits.len() >= limit {
            hits.truncate(limit);
            return Ok(hits);
        }
    }
    if ranked.len() < ranked_count {
        return Ok(hits);
    }
    rank_matching_rows(tx, project, &rows, target, fts_query, limit)
}

/// Ranks all rows that match the query. No object is read, and the ranking may skip rows that cannot be among
/// the best.
fn rank_rows(
    tx: &mut Tx<'_>,
    rows: &Range<i64>,
    target: &SearchTarget,
    fts_query: &str,
    limit: usize,
) -> Result<Vec<RankedHit<i64>>> {
    let (table, last) = (target.text_table(), last_row_sql(target));
    let sql = format!(
        "SELECT {table}.rowid AS no, relevance({table}, $4, '{table}', $1, $2, {last}) AS score FROM {table}
         WHERE {table} MATCH $1 AND {table}.rowid >= $2 AND {table}.rowid < $3
         ORDER BY score, no LIMIT $4"
    );
    tx.query(&sql, params![fts_query, rows.start, rows.end, limit], |row| {
        Ok(RankedHit { id: row.get(0)?, score: -row.get::<f64>(1)? })
    })
}

/// Ranks only the rows that match both the query and the target. SQLite decides whether a row is ranked before
/// or after it is filtered, so the ranking may not skip rows.
fn rank_matching_rows(
    tx: &mut Tx<'_>,
    project: ProjectId,
    rows: &Range<i64>,
    target: &SearchTarget,
    fts_query: &str,
    limit: usize,
) -> Result<Vec<RankedHit<i64>>> {
    let (table, last) = (target.text_table(), last_row_sql(target));
    let mut params: Vec<Param<'_>> =
        vec![fts_query.into(), rows.start.into(), rows.end.into(), limit.into(), project.into()];
    let (conditions, values) = target.conditions(Engine::Sqlite, params.len() + 1);
    params.extend(values);
    let (join, condition) = if target.is_by_type() {
        // An index has the rows of a type, so they are listed once. The plus sign keeps SQLite from searching
        // each of them separately.
        let listed = format!(
            " AND +{table}.rowid IN (SELECT o.no FROM {} AS o WHERE o.project_id = $5{}{conditions})",
            target.table(),
            target.live_sql()
        );
        (String::new(), listed)
    } else {
        let join = format!(" CROSS JOIN {} AS o ON o.no = {table}.rowid", target.table());
        (join, format!(" AND o.project_id = $5{conditions}"))
    };
    let sql = format!(
        "SELECT {table}.rowid AS no, relevance({table}, 0, '{table}', $1, $2, {last}) AS score FROM {table}{join}
         WHERE {table} MATCH $1 AND {table}.rowid >= $2 AND {table}.rowid < $3{condition}
         ORDER BY score, no LIMIT $4"
    );
    tx.query(&sql, &params, |row| Ok(RankedHit { id: row.get(0)?, score: -row.get::<f64>(1)? }))
}

/// The highest row number of a project whose numbers are from `$2` to before `$3`.
fn last_row_sql(target: &SearchTarget) -> String {
    format!("(SELECT max(no) FROM {} WHERE no >= $2 AND no < $3)", target.table())
}

/// Those of the rows that match the target.
pub(super) fn matching_rows(tx: &mut Tx<'_>, target: &SearchTarget, nos: &[i64]) -> Result<HashSet<i64>> {
    let mut matching = HashSet::with_capacity(nos.len());
    for list in page::in_chunks(nos) {
        let placeholders = page::placeholders(1, list.len());
        let mut params: Vec<Param<'_>> = list.into_iter().map(Param::from).collect();
        let (conditions, values) = target.conditions(Engine::Sqlite, params.len() + 1);
        params.extend(values);
        let sql =
            format!("SELECT o.no FROM {} AS o WHERE o.no IN ({placeholders}){conditions}", target.table());
        matching.extend(tx.query(&sql, &params, |row| row.get::<i64>(0))?);
    }
    Ok(matching)
}

/// The rows of a project whose text has a name as a phrase, at most `max`.
pub(super) fn texts_with_name(
    tx: &mut Tx<'_>,
    rows: &Range<i64>,
    target: &SearchTarget,
    name: &str,
    max: usize,
) -> Result<Vec<i64>> {
    let table = target.text_table();
    let sql =
        format!("SELECT rowid FROM {table} WHERE {table} MATCH $1 AND rowid >= $2 AND rowid < $3 LIMIT $4");
    // A name has only letters, digits and spaces, so it cannot end the quotes.
    let phrase = format!("\"{name}\"");
    tx.query(&sql, params![phrase.as_str(), rows.start, rows.end, max], |row| row.get(0))
}
