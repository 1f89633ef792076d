//! [`SearchTarget`]: which rows a search may find, as conditions in SQL.

use std::{borrow::Cow, collections::HashSet};

use emergent_domain::{
    ids::{DocumentId, ProjectId},
    query::ObjectFilter,
    text_query::TextQuery,
};

use super::{exclusion::Exclusion, project_no, write::SearchIndex};
use crate::{
    documents, engine::Engine, error::Result, filter, page, params, row_numbers, tx::Tx, value::Param,
};

/// Which rows a search may find.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchTarget {
    /// Live objects that match a filter.
    Objects(ObjectFilter),
    /// Chunks of one document or of all documents.
    Chunks(Option<DocumentId>),
    /// Chunks of all documents but these, which are hidden.
    ChunksExcept(Vec<DocumentId>),
    /// The rows of another target whose text has nothing of what a question excludes.
    Without(Box<SearchTarget>, Exclusion),
}

impl SearchTarget {
    /// The rows of this target that have nothing of what a query excludes. A text search needs no such target, since
    /// its query excludes by itself.
    #[must_use]
    pub fn without_exclusions_of(self, query: &TextQuery) -> Self {
        match query.exclusions() {
            Some(terms) => SearchTarget::Without(Box::new(self), Exclusion::new(terms)),
            None => self,
        }
    }

    pub(super) fn index(&self) -> SearchIndex {
        match self {
            SearchTarget::Objects(_) => SearchIndex::Objects,
            SearchTarget::Chunks(_) | SearchTarget::ChunksExcept(_) => SearchIndex::Chunks,
            SearchTarget::Without(target, _) => target.index(),
        }
    }

    pub(super) fn table(&self) -> &'static str {
        match self {
            SearchTarget::Objects(_) => "graph_objects",
            SearchTarget::Chunks(_) | SearchTarget::ChunksExcept(_) => "document_chunks",
            SearchTarget::Without(target, _) => target.table(),
        }
    }

    /// The condition for rows that can have a vector.
    pub(super) fn live_sql(&self) -> &'static str {
        match self {
            SearchTarget::Objects(_) => " AND o.deleted_at IS NULL",
            SearchTarget::Chunks(_) | SearchTarget::ChunksExcept(_) => "",
            SearchTarget::Without(target, _) => target.live_sql(),
        }
    }

    pub(super) fn text_table(&self) -> &'static str {
        match self {
            SearchTarget::Objects(_) => "graph_objects_fts",
            SearchTarget::Chunks(_) | SearchTarget::ChunksExcept(_) => "document_chunks_fts",
            SearchTarget::Without(target, _) => target.text_table(),
        }
    }

    /// The conditions on a row with the alias `o`; empty when every row matches. The index holds only
    /// live rows, so that needs no condition.
    pub(super) fn conditions(&self, engine: Engine, first_param: usize) -> (String, Vec<Param<'static>>) {
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
            SearchTarget::Without(target, exclusion) => {
                let (mut conditions, mut values) = target.conditions(engine, first_param);
                let param = first_param + values.len();
                if let Some((condition, value)) = exclusion.condition(engine, target.text_table(), param) {
                    conditions.push_str(&condition);
                    values.push(value);
                }
                (conditions, values)
            }
        }
    }

    /// The conditions as [`SearchTarget::conditions`] has them, for rows that are few and known. On SQLite they are
    /// without the exclusion: the caller leaves out the rows of [`SearchTarget::excluded_among`].
    pub(super) fn candidate_conditions(
        &self,
        engine: Engine,
        first_param: usize,
    ) -> (String, Vec<Param<'static>>) {
        match (self, engine) {
            (SearchTarget::Without(target, _), Engine::Sqlite) => target.conditions(engine, first_param),
            _ => self.conditions(engine, first_param),
        }
    }

    /// Those of the rows that the exclusion leaves out and [`SearchTarget::candidate_conditions`] does not.
    pub(super) fn excluded_among(&self, tx: &mut Tx<'_>, nos: &[i64]) -> Result<HashSet<i64>> {
        match (self, tx.engine()) {
            (SearchTarget::Without(target, exclusion), Engine::Sqlite) => {
                exclusion.rows_among(tx, target.text_table(), nos)
            }
            _ => Ok(HashSet::new()),
        }
    }

    /// Whether the only conditions are the types of objects, of which there is an index.
    pub(super) fn is_by_type(&self) -> bool {
        match self {
            SearchTarget::Objects(filter) => {
                let types = ObjectFilter { types: filter.types.clone(), ..ObjectFilter::default() };
                !filter.types.is_empty() && *filter == types
            }
            SearchTarget::Chunks(_) | SearchTarget::ChunksExcept(_) | SearchTarget::Without(..) => false,
        }
    }

    /// Leaves out the chunks of hidden documents, of which there are usually none, and excludes only the
    /// types that the project has. Without conditions a search is much faster.
    pub(super) fn resolve(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<Cow<'_, Self>> {
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
            SearchTarget::Without(target, exclusion) => {
                let target = target.resolve(tx, project)?.into_owned();
                let rows = match tx.engine() {
                    Engine::Sqlite => project_no(tx, project)?.map(row_numbers::range),
                    Engine::Postgres => None,
                };
                return Ok(Cow::Owned(SearchTarget::Without(Box::new(target), exclusion.within(rows))));
            }
            _ => {}
        }
        Ok(Cow::Borrowed(self))
    }
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
