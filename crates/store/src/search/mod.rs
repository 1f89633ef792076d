//! Search: full text and vectors, over objects and over chunks of documents.
//!
//! Both kinds of search return row numbers with scores, the best first, so that their results can be fused
//! before any row is loaded. Code that differs between the engines is in `sqlite` and `postgres`, which have
//! the same functions.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use emergent_domain::{
    document::Chunk,
    fusion::RankedHit,
    ids::{DocumentId, ObjectId, ProjectId},
    object::Object,
    query::ObjectFilter,
    text_query::{MatchMode, TextQuery},
};

use crate::{
    documents,
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
mod rarity_cache;
mod score_words;
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
    /// Chunks of all documents but these, which are hidden.
    ChunksExcept(Vec<DocumentId>),
}

impl SearchTarget {
    fn index(&self) -> SearchIndex {
        match self {
            SearchTarget::Objects(_) => SearchIndex::Objects,
            SearchTarget::Chunks(_) | SearchTarget::ChunksExcept(_) => SearchIndex::Chunks,
        }
    }

    fn table(&self) -> &'static str {
        match self {
            SearchTarget::Objects(_) => "graph_objects",
            SearchTarget::Chunks(_) | SearchTarget::ChunksExcept(_) => "document_chunks",
        }
    }

    /// The condition for rows that can have a vector.
    fn live_sql(&self) -> &'static str {
        match self {
            SearchTarget::Objects(_) => " AND o.deleted_at IS NULL",
            SearchTarget::Chunks(_) | SearchTarget::ChunksExcept(_) => "",
        }
    }

    fn text_table(&self) -> &'static str {
        match self {
            SearchTarget::Objects(_) => "graph_objects_fts",
            SearchTarget::Chunks(_) | SearchTarget::ChunksExcept(_) => "document_chunks_fts",
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
            SearchTarget::ChunksExcept(hidden) => (
                format!(" AND o.document_id NOT IN ({})", page::placeholders(first_param, hidden.len())),
                hidden.iter().map(|document| Param::from(*document)).collect(),
            ),
        }
    }

    /// Leaves out the chunks of hidden documents, of which there are usually none, and excludes only the
    /// types that the project has. Without conditions a search is much faster.
    fn resolve(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<Cow<'_, Self>> {
        match self {
            SearchTarget::Chunks(None) => {
                let hidden = documents::list_hidden(tx, project)?;
                if !hidden.is_empty() {
                    return Ok(Cow::Owned(SearchTarget::ChunksExcept(hidden)));
                }
            }
            SearchTarget::Objects(filter) if !filter.excluded_types.is_empty() => {
                let excluded_types = types_in_use(tx, project, &filter.excluded_types)?;
                return Ok(Cow::Owned(SearchTarget::Objects(ObjectFilter {
                    excluded_types,
                    ..filter.clone()
                })));
            }
            _ => {}
        }
        Ok(Cow::Borrowed(self))
    }
}

/// How many hits a full-text search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitLimits {
    /// The most hits.
    pub max: usize,
    /// If fewer rows than this contain all words, rows that contain any of the words are added.
    pub enough: usize,
}

/// Full-text search: first the rows that contain all words, then those that contain any, each by relevance.
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
        let hit_ids: HashSet<i64> = hits.iter().map(|hit| hit.id).collect();
        let any_word_hits =
            search_text_mode(tx, project, target, query, MatchMode::Any, limits.max + hits.len())?;
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
            Some(fts_query) => sqlite::search_text(tx, project, target, &fts_query, limit),
            None => Ok(Vec::new()),
        },
        Engine::Postgres => match query.to_tsquery(mode) {
            Some(tsquery) => postgres::search_text(tx, project, target, &tsquery, limit),
            None => Ok(Vec::new()),
        },
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
    hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
    hits.truncate(query.limit);
    Ok(hits)
}

/// The query of a vector search.
#[derive(Debug, Clone, Copy)]
pub struct VectorQuery<'a> {
    pub model: &'a str,
    pub vector: &'a [f32],
    pub limit: usize,
}

/// The row number of a live object; `None` when there is no such object.
pub fn object_no(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Option<i64>> {
    tx.query_opt(
        "SELECT no FROM graph_objects WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL",
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
        "SELECT no, {} FROM graph_objects WHERE project_id = $1 AND deleted_at IS NULL AND no IN",
        Object::COLUMNS
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

/// Those of the types that live objects of the project have.
fn types_in_use(tx: &mut Tx<'_>, project: ProjectId, types: &[String]) -> Result<Vec<String>> {
    let mut in_use = Vec::new();
    for type_ in types {
        let found: Option<i64> = tx.query_opt(
            "SELECT 1 FROM graph_objects WHERE project_id = $1 AND type = $2 AND deleted_at IS NULL LIMIT 1",
            params![project, type_.as_str()],
            |row| row.get(0),
        )?;
        if found.is_some() {
            in_use.push(type_.clone());
        }
    }
    Ok(in_use)
}

/// The number of a project; `None` when it was deleted.
fn project_no(tx: &mut Tx<'_>, project: ProjectId) -> Result<Option<i64>> {
    tx.query_opt("SELECT no FROM projects WHERE id = $1 AND deleted_at IS NULL", params![project], |row| {
        row.get(0)
    })
}
