//! Names that many texts have, estimated from a sample: the newest texts with a vector, by their numbers. Names are left
//! out of the question that is compared with vectors, so texts without a vector do not count. The sample is the same on
//! both engines, and the same for every search until something is written.

use std::collections::HashSet;

use emergent_domain::{
    ids::ProjectId,
    question_names,
    text_query::{MatchMode, Term, TextQuery},
};

use super::{SearchTarget, embeddings, postgres, project_no, sqlite_text};
use crate::{engine::Engine, error::Result, params, row_numbers, tx::Tx};

/// From this many texts it is estimated in how many a name is.
const SAMPLE: usize = 500;

/// For each word, whether it is in more than a tenth of the texts of the project, as far as a sample of them shows.
pub fn are_common_names(
    tx: &mut Tx<'_>,
    project: ProjectId,
    target: &SearchTarget,
    words: &[String],
) -> Result<Vec<bool>> {
    let sample = newest_embedded(tx, project, target)?;
    let counts = match tx.engine() {
        Engine::Sqlite => count_sqlite(tx, target, words, &sample)?,
        Engine::Postgres => count_postgres(tx, target, words, &sample)?,
    };
    Ok(counts.into_iter().map(|with_word| question_names::is_common(with_word, sample.len())).collect())
}

/// The numbers of the newest rows with a vector, in descending order.
fn newest_embedded(tx: &mut Tx<'_>, project: ProjectId, target: &SearchTarget) -> Result<Vec<i64>> {
    let table = embeddings::table(target.index());
    match tx.engine() {
        Engine::Sqlite => {
            let Some(project_no) = project_no(tx, project)? else { return Ok(Vec::new()) };
            let rows = row_numbers::range(project_no);
            let sql = format!("SELECT no FROM {table} WHERE no >= $1 AND no < $2 ORDER BY no DESC LIMIT $3");
            tx.query(&sql, params![rows.start, rows.end, SAMPLE], |row| row.get(0))
        }
        Engine::Postgres => {
            let sql = format!("SELECT no FROM {table} WHERE project_id = $1 ORDER BY no DESC LIMIT $2");
            tx.query(&sql, params![project, SAMPLE], |row| row.get(0))
        }
    }
}

/// How many rows of the sample have each word.
fn count_sqlite(
    tx: &mut Tx<'_>,
    target: &SearchTarget,
    words: &[String],
    sample: &[i64],
) -> Result<Vec<usize>> {
    let (Some(last), Some(first)) = (sample.first(), sample.last()) else { return Ok(vec![0; words.len()]) };
    let rows = *first..*last + 1;
    let sampled: HashSet<&i64> = sample.iter().collect();
    let mut counts = Vec::with_capacity(words.len());
    for word in words {
        let with_word = sqlite_text::texts_with_name(tx, &rows, target, word, usize::MAX)?;
        counts.push(with_word.iter().filter(|no| sampled.contains(no)).count());
    }
    Ok(counts)
}

/// Like [`count_sqlite`], by one statement, since each is a round trip.
fn count_postgres(
    tx: &mut Tx<'_>,
    target: &SearchTarget,
    words: &[String],
    sample: &[i64],
) -> Result<Vec<usize>> {
    let term = |word: &String| Term { words: vec![word.clone()], prefix: false, excluded: false };
    let queries: Vec<String> =
        words.iter().filter_map(|word| TextQuery::from_term(term(word)).to_tsquery(MatchMode::All)).collect();
    let matched = postgres::matched_words(tx, target, &queries, sample)?;
    let has = |bits: &u32, bit: usize| bits.checked_shr(bit as u32).unwrap_or(0) & 1 == 1;
    Ok((0..words.len()).map(|bit| matched.values().filter(|bits| has(bits, bit)).count()).collect())
}
