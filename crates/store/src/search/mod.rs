//! Search: full text and vectors, over objects and over chunks of documents.
//!
//! Each channel answers with row numbers, the best first, so that two can be joined before
//! anything is loaded. What differs between the engines is side by side in `sqlite` and
//! `postgres`, function for function.

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
    /// Live objects that pass a filter.
    Objects(ObjectFilter),
    /// Chunks, of one document or of all.
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

    /// Of the rows, those that can have a vector.
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

    /// What a row, called `o`, must meet; empty when every row does. The index holds live rows
    /// only, so that needs no condition.
    fn conditions(&self, engine: Engine, first_param: usize) -> (String, Vec<Param<'static>>) {
        match self {
            SearchTarget::Objects(wanted) => filter::object_conditions(engine, wanted, "o", first_param),
            SearchTarget::Chunks(Some(document)) => {
                (format!(" AND o.document_id = ${first_param}"), vec![Param::from(*document)])
            }
            SearchTarget::Chunks(None) => (String::new(), Vec::new()),
        }
    }
}

/// How many hits a channel gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitLimits {
    /// At most so many.
    pub max: usize,
    /// With fewer than this that have all the words, those that have any of them follow.
    pub enough: usize,
}

/// By text: first what has all the words, then what has any, each by how well it answers.
pub fn search_text(
    tx: &mut Tx<'_>,
    project: ProjectId,
    among: &SearchTarget,
    query: &TextQuery,
    wanted: HitLimits,
) -> Result<Vec<RankedHit<i64>>> {
    tx.flush_fts()?;
    let query = &query.without_stop_words();
    let mut hits = search_text_mode(tx, project, among, query, MatchMode::All, wanted.max)?;
    let words = query.terms().iter().filter(|term| !term.excluded).count();
    if hits.len() < wanted.enough && words > 1 {
        let known: HashSet<i64> = hits.iter().map(|hit| hit.id).collect();
        let any = search_text_mode(tx, project, among, query, MatchMode::Any, wanted.max + hits.len())?;
        hits.extend(any.into_iter().filter(|hit| !known.contains(&hit.id)));
        hits.truncate(wanted.max);
    }
    Ok(hits)
}

fn search_text_mode(
    tx: &mut Tx<'_>,
    project: ProjectId,
    among: &SearchTarget,
    query: &TextQuery,
    mode: MatchMode,
    most: usize,
) -> Result<Vec<RankedHit<i64>>> {
    match tx.engine() {
        Engine::Sqlite => match query.to_fts5(mode) {
            Some(words) => sqlite::search_text(tx, project, among, &words, most),
            None => Ok(Vec::new()),
        },
        Engine::Postgres => match query.to_tsquery(mode) {
            Some(words) => postgres::search_text(tx, project, among, &words, most),
            None => Ok(Vec::new()),
        },
    }
}

/// By vector: the `most` rows whose vectors of this model are nearest, scored by cosine.
///
/// The embedded engine must be asked with [`crate::Db::read`], PostgreSQL with
/// [`crate::Db::snapshot`]: one keeps its index from what is committed, the other sets how far
/// its index looks for the length of a transaction.
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

/// What vectors are compared with.
#[derive(Debug, Clone, Copy)]
pub struct VectorQuery<'a> {
    pub model: &'a str,
    pub vector: &'a [f32],
    pub limit: usize,
}

/// The number of a live object.
pub fn object_no(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Option<i64>> {
    tx.query_opt(
        "SELECT no FROM graph_objects WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL",
        params![id, project],
        |row| row.get(0),
    )
}

/// Live objects by their numbers.
pub fn load_objects(tx: &mut Tx<'_>, project: ProjectId, nos: &[i64]) -> Result<HashMap<i64, Object>> {
    let sql = format!(
        "SELECT no, {} FROM graph_objects WHERE project_id = $1 AND deleted_at IS NULL AND no IN",
        Object::COLUMNS
    );
    load(tx, &sql, project, nos, |row| Ok((row.get(0)?, Object::from_row_at(row, 1)?)))
}

/// Chunks by their numbers.
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

/// A project's number; `None` when it is gone.
fn project_no(tx: &mut Tx<'_>, project: ProjectId) -> Result<Option<i64>> {
    tx.query_opt("SELECT no FROM projects WHERE id = $1 AND deleted_at IS NULL", params![project], |row| {
        row.get(0)
    })
}
