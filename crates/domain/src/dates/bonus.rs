//! What a date is worth in the score of a hit.

use std::{collections::HashMap, hash::Hash};

use super::{DateMatch, DateSource};
use crate::fusion::{FusedHit, Fusion};

/// What a hit of a period that the question names is worth more, as a part of what the best hit is worth. It is half of
/// what a name in the question is worth: many things happen in a month, and few have the same name.
const PROPERTY_BONUS: f64 = 0.2;
/// The same if only the time of the writing says so, which need not be the time that the text is about.
const CREATION_BONUS: f64 = 0.1;

/// Raises the hits that match, and sorts the best first. Hits with equal scores keep their order.
pub fn raise<Id: Copy + Eq + Hash>(
    hits: &mut [FusedHit<Id>],
    fusion: Fusion,
    matches: &HashMap<Id, DateMatch>,
) {
    for hit in hits.iter_mut() {
        let part = match matches.get(&hit.id).map(|found| found.source) {
            Some(DateSource::Property) => PROPERTY_BONUS,
            Some(DateSource::Creation) => CREATION_BONUS,
            None => continue,
        };
        let bonus = part * fusion.best_score_like(hit);
        hit.score += bonus;
    }
    // Vectors that are worth less than words stay below all that words have found.
    let is_below = |hit: &FusedHit<Id>| fusion == Fusion::TextFirst && hit.text.is_none();
    hits.sort_by(|a, b| is_below(a).cmp(&is_below(b)).then_with(|| b.score.total_cmp(&a.score)));
    let mut floor: f64 = 0.0;
    for hit in hits.iter_mut().rev() {
        floor = floor.max(hit.score);
        hit.score = floor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dates::Period,
        fusion::{RankedHit, ScoreFusion, fuse},
    };

    fn list(hits: &[(char, f64)]) -> Vec<RankedHit<char>> {
        hits.iter().map(|(id, score)| RankedHit { id: *id, score: *score }).collect()
    }

    fn raised(
        text: &[(char, f64)],
        vector: &[(char, f64)],
        fusion: Fusion,
        matches: &str,
        source: DateSource,
    ) -> Vec<FusedHit<char>> {
        let mut hits = fuse(&list(text), &list(vector), fusion);
        let period = Period { from: None, to: None };
        let found = |id| (id, DateMatch { property: "date".to_owned(), period, source });
        raise(&mut hits, fusion, &matches.chars().map(found).collect());
        assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "{hits:?}");
        hits
    }

    fn order(hits: &[FusedHit<char>]) -> String {
        hits.iter().map(|hit| hit.id).collect()
    }

    #[test]
    fn a_match_comes_before_hits_that_are_a_little_better() {
        let text = [('a', 10.0), ('b', 9.0), ('c', 8.5), ('d', 2.0)];
        let order = |matches: &str, source| order(&raised(&text, &[], Fusion::TextFirst, matches, source));
        assert_eq!(order("", DateSource::Property), "abcd");
        assert_eq!(order("c", DateSource::Property), "cabd");
        assert_eq!(order("c", DateSource::Creation), "acbd");
        assert_eq!(
            order("d", DateSource::Property),
            "abcd",
            "a date does not make up for a much lower score"
        );
        assert_eq!(order("abcd", DateSource::Property), "abcd", "what all have changes nothing");
    }

    #[test]
    fn without_a_match_hits_stay_as_they_were() {
        let text = [('a', 4.0), ('b', 8.0), ('c', 1.0)];
        let vector = [('x', 0.9), ('c', 0.8)];
        for fusion in [Fusion::TextFirst, Fusion::Scores(ScoreFusion { vector_weight: 0.5, floor: 0.2 })] {
            let hits = fuse(&list(&text), &list(&vector), fusion);
            assert_eq!(raised(&text, &vector, fusion, "", DateSource::Property), hits);
        }
    }

    #[test]
    fn what_only_vectors_found_stays_where_the_fusion_puts_it() {
        // One word is in every text, so its score is next to nothing.
        let (text, vector) = ([('a', 10.0), ('b', 1e-6)], [('x', 0.9), ('y', 0.8)]);
        let hits = raised(&text, &vector, Fusion::TextFirst, "y", DateSource::Property);
        assert_eq!(order(&hits), "abyx");
        let fusion = Fusion::Scores(ScoreFusion { vector_weight: 0.5, floor: 0.2 });
        let hits = raised(&text, &vector, fusion, "y", DateSource::Property);
        assert_eq!(order(&hits), "ayxb");
    }
}
