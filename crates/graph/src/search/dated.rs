//! Raises the hits of the periods that a question names.

use std::collections::HashMap;

use emergent_domain::{
    dates::{self, DateMatch, DateSource},
    fusion::{FusedHit, Fusion},
};
use emergent_store::{Tx, search};

use super::SearchRequest;

/// The dates of only so many of the best hits are read. A hit further down is not raised.
const MAX_DATED_HITS: usize = 200;

/// Raises the hits of the periods that the question names, and returns by which of their dates.
///
/// It costs one statement, which looks up at most [`MAX_DATED_HITS`] rows by their numbers and returns only what may be a
/// date. A question that names no period costs nothing, and its hits stay as they are.
pub(super) fn raise(
    tx: &mut Tx<'_>,
    question: &SearchRequest,
    fusion: Fusion,
    hits: &mut [FusedHit<i64>],
) -> emergent_store::Result<HashMap<i64, DateMatch>> {
    if question.periods.is_empty() || hits.is_empty() {
        return Ok(HashMap::new());
    }
    let nos: Vec<i64> = hits.iter().take(MAX_DATED_HITS).map(|hit| hit.id).collect();
    let dates_by_no = search::load_dates(tx, question.project, &question.among, &nos)?;
    let row_count = dates_by_no.len();
    let matches = dates_by_no
        .into_iter()
        .filter_map(|(no, item_dates)| Some((no, dates::find_match(&item_dates, &question.periods)?)));
    let matches: HashMap<i64, DateMatch> = matches.collect();
    // After an import, all hits were written on the same day. That says nothing about any of them, and a bonus for all
    // would only make the links of a linked search count less.
    let is_by_creation = |found: &DateMatch| found.source == DateSource::Creation;
    if matches.len() == row_count && matches.values().all(is_by_creation) {
        return Ok(HashMap::new());
    }
    dates::raise(hits, fusion, &matches);
    Ok(matches)
}
