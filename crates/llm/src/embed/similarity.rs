//! How similar texts are to queries under an embedder: measured on a fixed set of passages, queries that one
//! of them answers, and queries without meaning. From this follows where a vector search has to stop.

use super::{EmbedTask, Embedder};
use crate::Error;

/// The value of [`Embedder::min_similarity`] for models that were not measured. It is low: with most sentence
/// models, texts without anything in common are below it, and an answer to a query is above it.
pub const DEFAULT_MIN_SIMILARITY: f64 = 0.15;

/// The part of [`Embedder::min_similarity`] from which on a passage of a document counts, for models whose floor for
/// passages was not measured: a question concerns a few words of a passage, so its similarity to the question is
/// lower than that of a sentence.
pub const DEFAULT_PASSAGE_PART: f64 = 0.5;

const SET: &str = include_str!("similarity_set.tsv");
const PASSAGE_SET: &str = include_str!("passage_set.tsv");

/// The result of [`measure_similarity`].
#[derive(Debug, Clone, PartialEq)]
pub struct SimilarityReport {
    /// For each query without meaning, the cosine of the nearest passage, in ascending order.
    pub nonsense: Vec<f64>,
    /// For each query that a passage answers, the cosine of that passage, in ascending order.
    pub related: Vec<f64>,
}

impl SimilarityReport {
    /// How many of the queries without meaning would find a passage with this lower limit.
    pub fn nonsense_above(&self, min: f64) -> usize {
        self.nonsense.iter().filter(|cosine| **cosine >= min).count()
    }

    /// How many of the queries that a passage answers would find it.
    pub fn related_above(&self, min: f64) -> usize {
        self.related.iter().filter(|cosine| **cosine >= min).count()
    }

    /// The lowest limit, in hundredths, with which no query without meaning finds anything.
    pub fn suggestion(&self) -> f64 {
        let highest = self.nonsense.last().copied().unwrap_or(0.0);
        ((highest * 100.0).floor() + 1.0) / 100.0
    }
}

/// The lines of one kind in a set, with their keys.
fn lines(set: &'static str, kind: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    set.lines().filter_map(move |line| {
        let mut fields = line.splitn(3, '\t');
        let (found, key, text) = (fields.next()?, fields.next()?, fields.next()?);
        (found == kind).then_some((key, text))
    })
}

/// Embeds about a hundred short texts, and compares.
pub async fn measure_similarity(embedder: &dyn Embedder) -> Result<SimilarityReport, Error> {
    measure(embedder, SET).await
}

/// Like [`measure_similarity`], with passages that are as long as the chunks of documents.
pub async fn measure_passage_similarity(embedder: &dyn Embedder) -> Result<SimilarityReport, Error> {
    measure(embedder, PASSAGE_SET).await
}

async fn measure(embedder: &dyn Embedder, set: &'static str) -> Result<SimilarityReport, Error> {
    let passages: Vec<(&str, &str)> = lines(set, "passage").collect();
    let texts: Vec<String> = passages.iter().map(|(_, text)| (*text).to_owned()).collect();
    let vectors = embedder.embed(&texts, EmbedTask::Document).await?;
    let embed_queries = async |set, kind| {
        let queries: Vec<(&str, String)> =
            lines(set, kind).map(|(key, text)| (key, text.to_owned())).collect();
        let texts: Vec<String> = queries.iter().map(|(_, text)| text.clone()).collect();
        let vectors = embedder.embed(&texts, EmbedTask::Query).await?;
        Ok::<_, Error>(queries.into_iter().map(|(key, _)| key).zip(vectors).collect::<Vec<_>>())
    };
    let nearest = |query: &[f32]| {
        vectors.iter().map(|passage| cosine(query, passage)).max_by(f64::total_cmp).unwrap_or(0.0)
    };
    let mut nonsense: Vec<f64> =
        embed_queries(SET, "nonsense").await?.iter().map(|(_, query)| nearest(query)).collect();
    let answer = |(key, query): &(&str, Vec<f32>)| {
        let index = passages.iter().position(|(name, _)| name == key)?;
        Some(cosine(query, vectors.get(index)?))
    };
    let mut related: Vec<f64> = embed_queries(set, "related").await?.iter().filter_map(answer).collect();
    nonsense.sort_by(f64::total_cmp);
    related.sort_by(f64::total_cmp);
    Ok(SimilarityReport { nonsense, related })
}

/// The vectors of an embedder have length one.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::builtin::Builtin;

    #[test]
    fn every_query_of_the_set_names_a_passage() {
        for (set, queries, passages) in [(SET, 30, 20), (PASSAGE_SET, 20, 8)] {
            let keys: Vec<&str> = lines(set, "passage").map(|(key, _)| key).collect();
            assert!(lines(set, "related").all(|(key, _)| keys.contains(&key)));
            assert!(lines(set, "related").count() >= queries && keys.len() >= passages);
        }
        assert!(lines(SET, "nonsense").count() >= 30);
        assert!(lines(PASSAGE_SET, "passage").all(|(_, text)| text.len() > 900), "as long as chunks");
    }

    #[tokio::test]
    async fn the_floor_for_passages_lets_no_nonsense_through_and_was_measured_with_whole_chunks() {
        let report = measure_passage_similarity(&Builtin).await.unwrap();
        let min = Builtin.min_passage_similarity();
        assert_eq!(report.nonsense_above(min), 0, "{:?}", report.nonsense);
        assert!(report.suggestion() <= min && min - report.suggestion() < 0.05, "{}", report.suggestion());
        let kept = report.related_above(min) * 100 / report.related.len();
        assert!(kept >= 60, "{kept} % of {:?}", report.related);
    }

    #[tokio::test]
    async fn the_floor_of_the_built_in_embedder_lets_no_nonsense_through() {
        let report = measure_similarity(&Builtin).await.unwrap();
        let min = Builtin.min_similarity();
        assert_eq!(report.nonsense_above(min), 0, "{:?}", report.nonsense);
        let kept = report.related_above(min) * 100 / report.related.len();
        assert!(kept >= 80, "{kept} % of {:?}", report.related);
        assert!(report.suggestion() <= min && min - report.suggestion() < 0.05, "{}", report.suggestion());
    }
}
