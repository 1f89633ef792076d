//! Search: full text and vectors, over objects and over chunks of documents.
//!
//! Each channel returns row numbers, the best first, so that two channels can be fused before any row is
//! loaded. Code that differs between the engines is in `sqlite` and `postgres`, function for function.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    document::Chunk,
    fusion::RankedHit,
    ids::{DocumentId, ObjectId, ProjectId},
    object::Object,
    query::ObjectFilter,
    text_query::{MatchMode, TextQuery},
};

use crate::{
    engine::Engine,
    error::Result,
    filter, page, params,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

pub mod embeddings;
pub(crate) mod fts_buffer;
pub(crate) mod postgres;
mod quantised;
mod rank;
pub(crate) mod sqlite;
pub mod vectors;
pub mod write;

use vectors::VectorIndexes;
use write::SearchIndex;

/// Which rows a search may find.
#[derive(Debug, Clone)]
pub enum SearchTarget {
    /// Live objects that match a filter.
    Objects(ObjectFilter),
    /// Chunks of one document or of all documents.
    Chunks(Option<DocumentId>),
}

impl SearchTarget {
    fn index(&self) -> SearchIndex {
        match self {
            SearchTarget::Objects(_) => SearchIndex::Objects,
            SearchTarget::Chunks(_) => SearchIndex::Chunks,
        }
    }

    fn table(&self) -> &'static str {
        match self {
            SearchTarget::Objects(_) => "graph_objects",
            SearchTarget::Chunks(_) => "document_chunks",
        }
    }

    /// The rows that can have a vector.
    fn live_sql(&self) -> &'static str {
        match self {
            SearchTarget::Objects(_) => " AND o.deleted_at IS NULL",
            SearchTarget::Chunks(_) => "",
        }
    }

    fn text_table(&self) -> &'static str {
        match self {
            SearchTarget::Objects(_) => "graph_objects_fts",
            SearchTarget::Chunks(_) => "document_chunks_fts",
        }
    }

    /// The conditions on a row with the alias `o`; empty when every row matches. The index holds only
    /// live rows, so that needs no condition.
    fn conditions(&self, engine: Engine, first_param: usize) -> (String, Vec<Param<'static>>) {
        match self {
            SearchTarget::Objects(object_filter) => {
                filter::object_conditions(engine, object_filter, "o", first_param)
            }
            SearchTarget::Chunks(Some(document)) => {
                (format!(" AND o.document_id = ${first_param}"), vec![Param::from(*document)])
            }
            SearchTarget::Chunks(None) => (String::new(), Vec::new()),
        }
    }
}

/// How many hits a channel returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitLimits {
    /// The maximum.
    pub max: usize,
    /// With fewer rows than this that contain all words, rows that contain any of them follow.
    pub enough: usize,
}

/// Full-text search: first the rows that contain all words, then those that contain any, each by relevance.
pub fn search_text(
    tx: &mut Tx<'_>,
    project: ProjectId,
    among: &SearchTarget,
    query: &TextQuery,
    limits: HitLimits,
) -> Result<Vec<RankedHit<i64>>> {
    tx.flush_fts()?;
    let query = &query.without_stop_words();
    let mut hits = search_text_mode(tx, project, among, query, MatchMode::All, limits.max)?;
    let words = query.terms().iter().filter(|term| !term.excluded).count();
    if hits.len() < limits.enough && words > 1 {
        let hit_ids: HashSet<i64> = hits.iter().map(|hit| hit.id).collect();
        let any = search_text_mode(tx, project, among, query, MatchMode::Any, limits.max + hits.len())?;
        hits.extend(any.into_iter().filter(|hit| !hit_ids.contains(&hit.id)));
        hits.truncate(limits.max);
    }
    Ok(hits)
}

fn search_text_mode(
    tx: &mut Tx<'_>,
    project: ProjectId,
    among: &SearchTarget,
    query: &TextQuery,
    mode: MatchMode,
    limit: usize,
) -> Result<Vec<RankedHit<i64>>> {
    match tx.engine() {
        Engine::Sqlite => match query.to_fts5(mode) {
            Some(words) => sqlite::search_text(tx, project, among, &words, limit),
            None => Ok(Vec::new()),
        },
        Engine::Postgres => match query.to_tsquery(mode) {
            Some(words) => postgres::search_text(tx, project, among, &words, limit),
            None => Ok(Vec::new()),
        },
    }
}

/// Vector search: the rows whose vectors of this model are nearest, scored by cosine.
///
/// Call it with [`crate::Db::read`] on SQLite, whose index follows the commits, and with
/// [`crate::Db::snapshot`] on PostgreSQL, where the parameters of the index scan are set for a
/// transaction.
pub fn search_vectors(
    tx: &mut Tx<'_>,
    indexes: &VectorIndexes,
    project: ProjectId,
    among: &SearchTarget,
    nearest: &VectorQuery<'_>,
) -> Result<Vec<RankedHit<i64>>> {
    let mut hits = match tx.engine() {
        Engine::Sqlite => sqlite::search_vectors(tx, indexes, project, among, nearest)?,
        Engine::Postgres => postgres::search_vectors(tx, project, among, nearest)?,
    };
    hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    hits.truncate(nearest.limit);
    Ok(hits)
}

/// The query of a vector search.
#[derive(Debug, Clone, Copy)]
pub struct VectorQuery<'a> {
    pub model: &'a str,
    pub vector: &'a [f32],
    pub limit: usize,
}

/// The row number of a live object.
pub fn object_no(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Option<i64>> {
    tx.query_opt(
        "SELECT no FROM graph_objects WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL",
        params![id, project],
        |row| row.get(0),
    )
}

/// Live objects by their row numbers.
pub fn load_objects(tx: &mut Tx<'_>, project: ProjectId, nos: &[i64]) -> Result<HashMap<i64, Object>> {
    let sql = format!(
        "SELECT no, {} FROM graph_objects WHERE project_id = $1 AND deleted_at IS NULL AND no IN",
        Object::COLUMNS
    );
    load(tx, &sql, project, nos, |row| Ok((row.get(0)?, Object::from_row_at(row, 1)?)))
}

/// Chunks by their row numbers.
pub fn load_chunks(tx: &mut Tx<'_>, project: ProjectId, nos: &[i64]) -> Result<HashMap<i64, Chunk>> {
    let sql = format!("SELECT no, {} FROM document_chunks WHERE project_id = $1 AND no IN", Chunk::COLUMNS);
    load(tx, &sql, project, nos, |row| Ok((row.get(0)?, Chunk::from_row_at(row, 1)?)))
}

fn load<T>(
    tx: &mut Tx<'_>,
    sql: &str,
    project: ProjectId,
    nos: &[i64],
    mut read: impl FnMut(&Row<'_>) -> Result<(i64, T)>,
) -> Result<HashMap<i64, T>> {
    let mut found = HashMap::with_capacity(nos.len());
    for list in page::in_chunks(nos) {
        let sql = format!("{sql} ({})", page::placeholders(2, list.len()));
        let mut params = vec![Param::from(project)];
        params.extend(list.into_iter().map(Param::from));
        found.extend(tx.query(&sql, &params, &mut read)?);
    }
    Ok(found)
}

/// The number of a project; `None` when it was deleted.
fn project_no(tx: &mut Tx<'_>, project: ProjectId) -> Result<Option<i64>> {
    tx.query_opt("SELECT no FROM projects WHERE id = $1 AND deleted_at IS NULL", params![project], |row| {
        row.get(0)
    })
}
