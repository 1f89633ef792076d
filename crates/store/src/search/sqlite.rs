//! Vector search on SQLite, with the indexes in memory of `vectors`, and the registration of its SQL functions.

use emergent_domain::{fusion::RankedHit, ids::ProjectId};
use rusqlite::Connection;

use super::{
    SearchTarget, VectorQuery,
    embeddings::VectorTable,
    project_no,
    quantised::Quantised,
    rank, sqlite_text,
    vectors::{Key, VectorIndexes, row_in_project},
};
use crate::{engine::Engine, error::Result, page, params, row_numbers, tx::Tx, value::Param};

/// The vector index is approximate. This many more rows than requested are read from it and compared exactly.
const MIN_VECTOR_SURPLUS: usize = 10;
/// With a filter, this many times as many rows are read, since some of them will not match.
const FILTER_FACTOR: usize = 4;
/// If these do not suffice either, so many of the nearest rows are filtered before the filter is applied to the whole
/// project, which reads every object.
const MAX_FILTERED: usize = 4_000;
/// How far the score of a vector in the index may be from the exact one.
const INDEX_ERROR: f64 = 0.01;

/// The number of rows that are filtered by one statement.
const FILTER_BATCH: usize = 256;

/// Registers the SQL functions that searches need.
pub(crate) fn register(conn: &Connection) -> Result<()> {
    rank::register(conn)
}

/// The rows with the nearest vectors, in no order, and possibly more than requested.
pub(super) fn search_vectors(
    tx: &mut Tx<'_>,
    indexes: &VectorIndexes,
    project: ProjectId,
    target: &SearchTarget,
    query: &VectorQuery<'_>,
) -> Result<Vec<RankedHit<i64>>> {
    let Some(project_no) = project_no(tx, project)? else { return Ok(Vec::new()) };
    let first_no = row_numbers::range(project_no).start;
    let key = Key { index: target.index().into(), project, model: query.model, dims: query.vector.len() };
    let search_index = |tx: &mut Tx<'_>, limit: usize, rows: Option<&[u32]>| -> Result<Candidates> {
        let rows_and_scores = indexes.with_index(
            key,
            // All searches of the project need the index, and loading it takes longer the more vectors it has.
            |index| tx.without_time_limit(|tx| load_index(tx, key, first_no, index)),
            |index| index.search(query.vector, limit, rows),
        )?;
        Ok(Candidates::new(rows_and_scores, limit, query.min_score, first_no))
    };
    let (conditions, values) = target.conditions(Engine::Sqlite, 2);

    // The surplus also replaces rows that were deleted meanwhile or do not match the filter.
    let limit = query.limit + query.limit / 2 + MIN_VECTOR_SURPLUS;
    let limit = if conditions.is_empty() { limit } else { limit * FILTER_FACTOR };
    let candidates = search_index(tx, limit, None)?;
    let hits = exact_scores(tx, target, query, key.index, &candidates.nos)?;
    if hits.len() >= query.limit || candidates.is_complete {
        return Ok(hits);
    }
    if limit < MAX_FILTERED && !conditions.is_empty() {
        let candidates = search_index(tx, MAX_FILTERED, None)?;
        let matching = nearest_matching(tx, target, &candidates.nos, query.limit + MIN_VECTOR_SURPLUS)?;
        if matching.len() >= query.limit || candidates.is_complete {
            return exact_scores(tx, target, query, key.index, &matching);
        }
    }
    // Few rows match the filter, or many were just deleted: only the matching rows are searched.
    let sql = format!(
        "SELECT o.no FROM {} AS o WHERE o.project_id = $1{}{conditions}",
        target.table(),
        target.live_sql()
    );
    let mut params = vec![Param::from(project)];
    params.extend(values);
    let rows: Vec<u32> =
        tx.query(&sql, &params, |row| row.get(0))?.into_iter().filter_map(row_in_project).collect();
    let candidates = search_index(tx, limit, Some(&rows))?;
    exact_scores(tx, target, query, key.index, &candidates.nos)
}

/// The nearest rows of an index, the best first.
pub(super) struct Candidates {
    pub(super) nos: Vec<i64>,
    /// Whether these are all rows of the index that can be hits.
    pub(super) is_complete: bool,
}

impl Candidates {
    /// `found` is what a search for `limit` rows returned.
    pub(super) fn new(found: Vec<(u32, f32)>, limit: usize, min_score: f64, first_no: i64) -> Self {
        let is_too_far = |score: f32| f64::from(score) + INDEX_ERROR < min_score;
        // Further rows of the index have at most the score of the last one.
        let is_complete = found.len() < limit || found.last().is_some_and(|(_, score)| is_too_far(*score));
        let near = found.into_iter().take_while(|(_, score)| !is_too_far(*score));
        Self { nos: near.map(|(row, _)| first_no + i64::from(row)).collect(), is_complete }
    }
}

/// The first `max` of the rows that match the target. The vectors of the others are not read.
fn nearest_matching(tx: &mut Tx<'_>, target: &SearchTarget, nos: &[i64], max: usize) -> Result<Vec<i64>> {
    let mut nearest = Vec::with_capacity(max);
    for batch in nos.chunks(FILTER_BATCH) {
        let matching = sqlite_text::matching_rows(tx, target, batch)?;
        nearest.extend(batch.iter().copied().filter(|no| matching.contains(no)));
        if nearest.len() >= max {
            break;
        }
    }
    Ok(nearest)
}

/// Loads the vectors of a project into an index. `first_no` is the first row number of the project.
pub(super) fn load_index(tx: &mut Tx<'_>, key: Key<'_>, first_no: i64, index: &mut Quantised) -> Result<()> {
    let table = key.index.name();
    let range = params![first_no, first_no + row_numbers::range(0).end, key.model];
    let count: Option<i64> = tx.query_opt(
        &format!("SELECT count(*) FROM {table} WHERE no >= $1 AND no < $2 AND model = $3"),
        range,
        |row| row.get(0),
    )?;
    index.reserve(usize::try_from(count.unwrap_or(0)).unwrap_or(0));
    let sql = format!("SELECT no, vector FROM {table} WHERE no >= $1 AND no < $2 AND model = $3");
    tx.for_each_row(&sql, range, |row| {
        if let Some(row_number) = row_in_project(row.get(0)?) {
            index.load(row_number, &row.get::<Vec<f32>>(1)?);
        }
        Ok(())
    })
}

/// The exact scores of those vectors that still exist and whose rows match the target, in no order. A hit is the row of
/// its vector; an object with several vectors may be in the result several times.
pub(super) fn exact_scores(
    tx: &mut Tx<'_>,
    target: &SearchTarget,
    query: &VectorQuery<'_>,
    table: VectorTable,
    nos: &[i64],
) -> Result<Vec<RankedHit<i64>>> {
    let (row_no, live) = match table {
        VectorTable::Objects | VectorTable::Chunks => ("no", ""),
        VectorTable::ObjectParts => ("object_no", target.live_sql()),
    };
    let mut hits = Vec::with_capacity(nos.len());
    for list in page::in_chunks(nos) {
        let mut params = vec![Param::from(query.model)];
        let placeholders = page::placeholders(2, list.len());
        params.extend(list.into_iter().map(Param::from));
        let (conditions, values) = target.candidate_conditions(Engine::Sqlite, params.len() + 1);
        params.extend(values);
        let join = match (live, conditions.as_str()) {
            ("", "") => String::new(),
            _ => format!(" JOIN {} AS o ON o.no = e.{row_no}", target.table()),
        };
        let sql = format!(
            "SELECT e.{row_no}, e.vector FROM {} AS e{join}
             WHERE e.no IN ({placeholders}) AND e.model = $1{live}{conditions}",
            table.name()
        );
        hits.extend(tx.query(&sql, &params, |row| {
            Ok(RankedHit { id: row.get(0)?, score: cosine(query.vector, &row.get::<Vec<f32>>(1)?) })
        })?);
    }
    let found: Vec<i64> = hits.iter().map(|hit: &RankedHit<i64>| hit.id).collect();
    let excluded = target.excluded_among(tx, &found)?;
    hits.retain(|hit| !excluded.contains(&hit.id));
    Ok(hits)
}

/// The cosine of the angle between two vectors; 0 when their lengths differ or one is all zeros.
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
