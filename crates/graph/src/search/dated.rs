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

/// Raises the hits of the periods that the question names, and returns by which of their dates they are of them.
///
/// It costs one or two statements, which look up at most [`MAX_DATED_HITS`] rows by their numbers and return only what
/// may be a date. A question that names no period costs nothing, and its hits stay as they are.
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
    let matches = dates_by_no
        .into_iter()
        .filter_map(|(no, item_dates)| Some((no, dates::find_match(&item_dates, &question.periods)?)));
    let matches: HashMap<i64, DateMatch> = matches.collect();
    let by_creation = matches.values().filter(|found| found.source == DateSource::Creation).count();
    let is_same_for_all = matches.len() == nos.len() && (by_creation == 0 || by_creation == nos.len());
    if !is_same_for_all {
        dates::raise(hits, fusion, &matches);
        return Ok(matches);
    }
    // What all hits have says nothing about any of them. A bonus for all would change the order nevertheless: what words
    // have found gets more than what only vectors have found, and the links of a linked search count less beside it.
    // After an import, all hits were written on the same day, which is not worth mentioning either.
    Ok(if by_creation == 0 { matches } else { HashMap::new() })
}
