//! What a linked search reads: the words of the question that a hit has, the texts with a name, and which of them the
//! search may find: those that match its filter and have nothing that the question excludes.
//!
//! Links are not stored. A text with a name is found in the full-text index, which every write changes in its own
//! transaction, so links follow deletes, renames and reverts, and never lead to another project.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    fusion::RankedHit,
    ids::ProjectId,
    text_query::{MatchMode, TextQuery},
};

use super::{SearchTarget, postgres, project_no, score_words, sqlite_text};
use crate::{engine::Engine, error::Result, page, row_numbers, tx::Tx, value::Param};

/// The words of the query that each hit of [`super::search_text`] has, one bit for each word.
pub fn matched_words(
    tx: &mut Tx<'_>,
    target: &SearchTarget,
    query: &TextQuery,
    hits: &[RankedHit<i64>],
) -> Result<HashMap<i64, u32>> {
    match tx.engine() {
        Engine::Sqlite => Ok(hits.iter().map(|hit| (hit.id, score_words::words(hit.score))).collect()),
        Engine::Postgres => {
            let query = query.without_stop_words();
            let words: Vec<String> = query
                .terms()
                .iter()
                .filter(|term| !term.excluded)
                .filter_map(|term| TextQuery::from_term(term.clone()).to_tsquery(MatchMode::All))
                .collect();
            let nos: Vec<i64> = hits.iter().map(|hit| hit.id).collect();
            postgres::matched_words(tx, target, &words, &nos)
        }
    }
}

/// For each name, the rows whose text has it as a phrase, at most `max`. A name is in the normal form of
/// [`emergent_domain::mentions`]. The result may contain rows that the target excludes.
pub fn texts_with_names(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    names: &[String],
    max: usize,
) -> Result<Vec<Vec<i64>>> {
    match tx.engine() {
        Engine::Sqlite => {
            let Some(project_no) = project_no(tx, project)? else { return Ok(vec![Vec::new(); names.len()]) };
            let rows = row_numbers::range(project_no);
            names.iter().map(|name| sqlite_text::texts_with_name(tx, &rows, target, name, max)).collect()
        }
        Engine::Postgres => postgres::texts_with_names(tx, project, target, names, max),
    }
}

/// The rows that a linked search may find. It is made once for all of its rows.
pub struct FindableRows {
    project: ProjectId,
    target: SearchTarget,
}

impl FindableRows {
    pub fn new(
        tx: &mut Tx<'_>,
        project: ProjectId,
        target: &SearchTarget,
        query: &TextQuery,
    ) -> Result<Self> {
        let target = target.clone().without_exclusions_of(query);
        let target = target.resolve(tx, project)?.into_owned();
        Ok(Self { project, target })
    }

    /// Those of the rows that the search may find.
    pub fn among(&self, tx: &mut Tx<'_>, nos: &[i64]) -> Result<HashSet<i64>> {
        let mut found = HashSet::with_capacity(nos.len());
        for list in page::in_chunks(nos) {
            let placeholders = page::placeholders(2, list.len());
            let mut params = vec![Param::from(self.project)];
            params.extend(list.into_iter().map(Param::from));
            let (conditions, values) = self.target.candidate_conditions(tx.engine(), params.len() + 1);
            params.extend(values);
            let live = self.target.live_sql();
            let sql = format!(
                "SELECT o.no FROM {} AS o WHERE o.no IN ({placeholders}) AND {}",
                self.target.table(),
                page::on_row(&format!("o.project_id = $1{live}{conditions}"))
            );
            found.extend(tx.query(&sql, &params, |row| row.get::<i64>(0))?);
        }
        let candidates: Vec<i64> = found.iter().copied().collect();
        let excluded = self.target.excluded_among(tx, &candidates)?;
        found.retain(|no| !excluded.contains(no));
        Ok(found)
    }
}
