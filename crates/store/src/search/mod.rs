//! Search: full text and vectors, over objects and over chunks of documents.
//!
//! Both kinds of search return row numbers with scores, the best first, so that their results can be fused
//! before any row is loaded. Code that differs between the engines is in `sqlite`, `sqlite_text` and `postgres`,
//! which have the same functions.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    document::Chunk,
    fusion::RankedHit,
    ids::{ObjectId, ProjectId},
    object::Object,
    text_query::{MatchMode, TextQuery},
};

use crate::{
    engine::Engine,
    error::Result,
    page, params,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

mod common_names;
mod dates;
pub mod embeddings;
mod exclusion;
pub(crate) mod fts_buffer;
pub mod links;
pub mod parts;
pub(crate) mod postgres;
mod quantised;
mod rank;
mod rarity_cache;
mod score_words;
pub(crate) mod sqlite;
mod sqlite_text;
mod target;
pub mod vector_index;
pub mod vectors;
pub mod write;

pub use common_names::are_common_names;
pub use dates::load_dates;
pub use exclusion::Exclusion;
pub use target::SearchTarget;
use vectors::VectorIndexes;
use write::SearchIndex;

/// How many hits a full-text search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitLimits {
    /// The most hits.
    pub max: usize,
    /// If fewer rows than this contain all words, rows that contain any of the words are added.
    pub enough: usize,
}

/// Full-text search: first the rows that contain all words, then those that contain any, each by relevance.
///
/// The scores of one result are comparable with each other, so a row with some of the words can have a higher
/// score than one with all of them.
pub fn search_text(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    query: &TextQuery,
    limits: HitLimits,
) -> Result<Vec<RankedHit<i64>>> {
    tx.flush_fts()?;
    let visible = target.resolve(tx, project)?;
    let target = visible.as_ref();
    let query = &query.without_stop_words();
    let mut hits = search_text_mode(tx, project, target, query, MatchMode::All, limits.max)?;
    let word_count = query.terms().iter().filter(|term| !term.excluded).count();
    if hits.len() < limits.enough && word_count > 1 {
        let any_word_hits =
            search_text_mode(tx, project, target, query, MatchMode::Any, limits.max + hits.len())?;
        let hit_ids: HashSet<i64> = hits.iter().map(|hit| hit.id).collect();
        hits.extend(any_word_hits.into_iter().filter(|hit| !hit_ids.contains(&hit.id)));
        hits.truncate(limits.max);
    }
    Ok(hits)
}

/// One full-text search. A query without words finds nothing.
fn search_text_mode(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    query: &TextQuery,
    mode: MatchMode,
    limit: usize,
) -> Result<Vec<RankedHit<i64>>> {
    match tx.engine() {
        Engine::Sqlite => match query.to_fts5(mode) {
            Some(fts_query) => sqlite_text::search_text(tx, project, target, &fts_query, limit),
            None => Ok(Vec::new()),
        },
        // The score of PostgreSQL depends on the form of the query. All scores have the form with any word, so that they
        // are comparable. They are without the exclusions: an exclusion makes the whole an `&`, of which `ts_rank` scores
        // pairs of words, so that a text with one of the words would have next to no score.
        Engine::Postgres => {
            match (query.to_tsquery(mode), query.without_exclusions().to_tsquery(MatchMode::Any)) {
                (Some(matched), Some(ranked)) => {
                    postgres::search_text(tx, project, target, &matched, &ranked, limit)
                }
                _ => Ok(Vec::new()),
            }
        }
    }
}

/// Vector search: the rows whose vectors of this model are nearest, scored by cosine.
///
/// On SQLite, call it with [`crate::Db::read`], because the index in memory holds the newest commits and not
/// a snapshot. On PostgreSQL, call it with [`crate::Db::snapshot`], because the settings of the index scan
/// need a transaction.
pub fn search_vectors(
    tx: &mut Tx<'_>,
    indexes: &VectorIndexes,
    project: ProjectId,
    target: &SearchTarget,
    query: &VectorQuery<'_>,
) -> Result<Vec<RankedHit<i64>>> {
    let visible = target.resolve(tx, project)?;
    let target = visible.as_ref();
    let mut hits = match tx.engine() {
        Engine::Sqlite => sqlite::search_vectors(tx, indexes, project, target, query)?,
        Engine::Postgres => postgres::search_vectors(tx, project, target, query)?,
    };
    if target.index() == SearchIndex::Objects && query.compared == ComparedVectors::AllParts {
        let parts = parts::search(tx, indexes, project, target, query)?;
        if !parts.is_empty() {
            hits = best_of_each(hits.into_iter().chain(parts));
        }
    }
    hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    hits.truncate(query.limit);
    Ok(hits)
}

/// The best score of each row.
fn best_of_each(hits: impl Iterator<Item = RankedHit<i64>>) -> Vec<RankedHit<i64>> {
    let mut best: HashMap<i64, f64> = HashMap::new();
    for hit in hits {
        let score = best.entry(hit.id).or_insert(hit.score);
        *score = f64::max(*score, hit.score);
    }
    best.into_iter().map(|(id, score)| RankedHit { id, score }).collect()
}

/// The query of a vector search.
#[derive(Debug, Clone, Copy)]
pub struct VectorQuery<'a> {
    pub model: &'a str,
    pub vector: &'a [f32],
    pub limit: usize,
    pub compared: ComparedVectors,
    /// Rows with a lower score need not be found. The caller drops them; a search with a filter looks no further.
    pub min_score: f64,
}

/// With which vectors of a long object the query is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedVectors {
    /// Only that of its beginning. Two objects are similar if their beginnings are: a part that one of them shares with
    /// the beginning of the other does not make them the same thing.
    Beginnings,
    /// Those of all its parts, of which the nearest counts.
    AllParts,
}

/// The row number of a live object; `None` when there is no such object.
pub fn object_no(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Option<i64>> {
    tx.query_opt(
        "SELECT no FROM graph_objects WHERE id = $1 AND coalesce(project_id = $2 AND deleted_at IS NULL, false)",
        params![id, project],
        |row| row.get(0),
    )
}

/// A row with its size in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct SizedRow<T> {
    pub row: T,
    pub bytes: usize,
}

/// Live objects by their row numbers.
pub fn load_objects(
    tx: &mut Tx<'_>,
    project: ProjectId,
    nos: &[i64],
) -> Result<HashMap<i64, SizedRow<Object>>> {
    let sql = format!(
        "SELECT no, {} FROM graph_objects WHERE {} AND no IN",
        Object::COLUMNS,
        page::on_row("project_id = $1 AND deleted_at IS NULL")
    );
    load(tx, &sql, project, nos, |row| Ok((row.get(0)?, Object::from_row_at(row, 1)?)))
}

/// Chunks of live documents by their row numbers.
pub fn load_chunks(
    tx: &mut Tx<'_>,
    project: ProjectId,
    nos: &[i64],
) -> Result<HashMap<i64, SizedRow<Chunk>>> {
    let sql = format!(
        "SELECT no, {} FROM document_chunks WHERE project_id = $1 AND EXISTS (
             SELECT 1 FROM documents AS d WHERE d.id = document_chunks.document_id AND d.deleted_at IS NULL)
         AND no IN",
        Chunk::COLUMNS
    );
    load(tx, &sql, project, nos, |row| Ok((row.get(0)?, Chunk::from_row_at(row, 1)?)))
}

/// Runs a query that ends with `no IN` for many row numbers. `read` returns the row number and the value.
fn load<T>(
    tx: &mut Tx<'_>,
    sql: &str,
    project: ProjectId,
    nos: &[i64],
    mut read: impl FnMut(&Row<'_>) -> Result<(i64, T)>,
) -> Result<HashMap<i64, SizedRow<T>>> {
    let mut values_by_no = HashMap::with_capacity(nos.len());
    for list in page::in_chunks(nos) {
        let sql = format!("{sql} ({})", page::placeholders(2, list.len()));
        let mut params = vec![Param::from(project)];
        params.extend(list.into_iter().map(Param::from));
        values_by_no.extend(tx.query(&sql, &params, |row| {
            let (no, value) = read(row)?;
            Ok((no, SizedRow { row: value, bytes: row.bytes() }))
        })?);
    }
    Ok(values_by_no)
}

/// The number of a project; `None` when it was deleted.
fn project_no(tx: &mut Tx<'_>, project: ProjectId) -> Result<Option<i64>> {
    tx.query_opt("SELECT no FROM projects WHERE id = $1 AND deleted_at IS NULL", params![project], |row| {
        row.get(0)
    })
}
