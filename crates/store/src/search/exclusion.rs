//! [`Exclusion`]: the rows that a question excludes, as a condition in SQL or among known rows.

use std::{collections::HashSet, ops::Range};

use emergent_domain::text_query::{MatchMode, Term, TextQuery};

use super::postgres;
use crate::{engine::Engine, error::Result, page, params, tx::Tx, value::Param};

/// On SQLite, up to this many rows with an excluded word are listed for each row that is tested. Testing a row by
/// itself takes as long as listing so many.
const LISTED_PER_ROW: usize = 200;

/// What a question excludes.
#[derive(Debug, Clone, PartialEq)]
pub struct Exclusion {
    /// A row that has any of these terms is excluded.
    terms: TextQuery,
    /// On SQLite, the rows of the project: those of other projects need not be read.
    rows: Option<Range<i64>>,
}

impl Exclusion {
    pub(super) fn new(terms: TextQuery) -> Self {
        Self { terms, rows: None }
    }

    /// The same among these rows.
    pub(super) fn within(&self, rows: Option<Range<i64>>) -> Self {
        Self { terms: self.terms.clone(), rows }
    }

    /// The condition on a row with the alias `o`, and its parameter.
    pub(super) fn condition(
        &self,
        engine: Engine,
        text_table: &str,
        param: usize,
    ) -> Option<(String, Param<'static>)> {
        match engine {
            // The rows with the terms are listed once for all rows.
            Engine::Sqlite => {
                let range = self
                    .rows
                    .as_ref()
                    .map(|rows| format!(" AND rowid >= {} AND rowid < {}", rows.start, rows.end));
                let sql = format!(
                    " AND o.no NOT IN (SELECT rowid FROM {text_table} WHERE {text_table} MATCH ${param}{})",
                    range.unwrap_or_default()
                );
                Some((sql, Param::from(self.terms.to_fts5(MatchMode::Any)?)))
            }
            // A scalar subquery is a lookup by the row number, whatever PostgreSQL knows of the table.
            Engine::Postgres => {
                let sql = format!(
                    " AND (SELECT CASE WHEN x.tsv @@ to_tsquery('english', ${param}) THEN 1 END
                           FROM {text_table} AS x WHERE x.no = o.no) IS NULL"
                );
                let terms = self.terms.to_tsquery(MatchMode::Any)?;
                Some((sql, Param::from(postgres::without_accents(&terms))))
            }
        }
    }

    /// Those of the rows that are excluded, on SQLite. What it takes depends on the number of rows that are tested: if
    /// many others have a word, not all of them are read.
    pub(super) fn rows_among(&self, tx: &mut Tx<'_>, text_table: &str, nos: &[i64]) -> Result<HashSet<i64>> {
        let mut remaining: HashSet<i64> = nos.iter().copied().collect();
        let mut excluded = HashSet::new();
        for term in self.terms.terms() {
            let found = rows_with_term(tx, text_table, term, &remaining)?;
            remaining.retain(|no| !found.contains(no));
            excluded.extend(found);
        }
        Ok(excluded)
    }
}

/// Those of the rows that have a term.
fn rows_with_term(
    tx: &mut Tx<'_>,
    text_table: &str,
    term: &Term,
    nos: &HashSet<i64>,
) -> Result<HashSet<i64>> {
    let fts_query = TextQuery::from_term(term.clone()).to_fts5(MatchMode::Any);
    let (Some(fts_query), Some(first), Some(last)) = (fts_query, nos.iter().min(), nos.iter().max()) else {
        return Ok(HashSet::new());
    };
    // To test one row for a prefix, FTS5 reads all rows with it, and for a phrase it may read many.
    let is_word = term.words.len() == 1 && !term.prefix;
    let limit = if is_word { nos.len().saturating_mul(LISTED_PER_ROW) } else { usize::MAX };
    let sql = format!(
        "SELECT rowid FROM {text_table} WHERE {text_table} MATCH $1 AND rowid >= $2 AND rowid <= $3 LIMIT $4"
    );
    let (mut found, mut listed) = (HashSet::new(), 0);
    tx.for_each_row(&sql, params![fts_query.as_str(), *first, *last, limit], |row| {
        let no: i64 = row.get(0)?;
        listed += 1;
        if nos.contains(&no) {
            found.insert(no);
        }
        Ok(())
    })?;
    if listed < limit {
        return Ok(found);
    }
    let untested: Vec<i64> = nos.iter().copied().filter(|no| !found.contains(no)).collect();
    for list in page::in_chunks(&untested) {
        // FTS5 looks up each of the rows in the list of the word.
        let sql = format!(
            "SELECT rowid FROM {text_table} WHERE {text_table} MATCH $1 AND rowid IN ({})",
            page::placeholders(2, list.len())
        );
        let mut params = vec![Param::from(fts_query.as_str())];
        params.extend(list.into_iter().map(Param::from));
        found.extend(tx.query(&sql, &params, |row| row.get::<i64>(0))?);
    }
    Ok(found)
}
