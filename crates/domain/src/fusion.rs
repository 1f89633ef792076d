//! Reciprocal rank fusion: merges two ranked lists into one.
//!
//! Only the ranks count. A text score and a vector distance have no common scale, so adding them
//! would let the engine with the larger numbers win.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hash;

use crate::invalid::{Invalid, Problem};

/// One hit of one channel. Its rank is its index in the list, best first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedHit<Id> {
    pub id: Id,
    /// The channel's own score. It is displayed, but never compared across channels.
    pub score: f64,
}

/// The rank and score that a channel gave a hit. `rank` counts from 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelRank {
    pub rank: usize,
    pub score: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusedHit<Id> {
    pub id: Id,
    pub score: f64,
    pub text: Option<ChannelRank>,
    pub vector: Option<ChannelRank>,
}

/// The weight of each channel, and the constant `k`: the larger `k` is, the smaller the advantage
/// of the first ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    text: f64,
    vector: f64,
    k: f64,
}

impl Default for Weights {
    /// Returns equal weights and the `k` of the original paper.
    fn default() -> Self {
        Self { text: 1.0, vector: 1.0, k: 60.0 }
    }
}

impl Weights {
    pub fn new(text: f64, vector: f64, k: f64) -> Result<Self, Invalid> {
        let mut problems: Vec<Problem> = [("text", text), ("vector", vector), ("k", k)]
            .into_iter()
            .filter(|(_, number)| !number.is_finite() || *number < 0.0)
            .map(|(field, number)| Problem::new(field, format!("{number} is not a number of 0 or more")))
            .collect();
        if text == 0.0 && vector == 0.0 {
            problems.push(Problem::new("", "one of `text` and `vector` must be above 0"));
        }
        Invalid::if_any(problems)?;
        Ok(Self { text, vector, k })
    }

    pub fn text(&self) -> f64 {
        self.text
    }

    pub fn vector(&self) -> f64 {
        self.vector
    }

    pub fn k(&self) -> f64 {
        self.k
    }
}

/// Scores each hit with the sum of `weight / (k + rank)` over the channels that found it, and sorts
/// the best first.
///
/// The order is deterministic: equal scores are ordered by the better of the two ranks, then by id.
/// If one channel lists an id twice, its first occurrence counts. A channel with weight 0 adds no
/// hits of its own.
pub fn fuse<Id: Ord + Copy + Hash>(
    text: &[RankedHit<Id>],
    vector: &[RankedHit<Id>],
    weights: Weights,
) -> Vec<FusedHit<Id>> {
    let mut hits: HashMap<Id, (Option<ChannelRank>, Option<ChannelRank>)> = HashMap::new();
    for (rank, hit) in ranks(text).zip(text) {
        hits.entry(hit.id).or_default().0.get_or_insert(rank);
    }
    for (rank, hit) in ranks(vector).zip(vector) {
        hits.entry(hit.id).or_default().1.get_or_insert(rank);
    }

    let part = |weight: f64, ranked: Option<ChannelRank>| {
        ranked.map_or(0.0, |ranked| weight / (weights.k + ranked.rank as f64))
    };
    let mut fused: Vec<_> = hits
        .into_iter()
        .map(|(id, (text, vector))| FusedHit {
            id,
            score: part(weights.text, text) + part(weights.vector, vector),
            text,
            vector,
        })
        .filter(|hit| hit.score > 0.0)
        .collect();
    fused.sort_unstable_by(better);
    fused
}

fn ranks<Id>(list: &[RankedHit<Id>]) -> impl Iterator<Item = ChannelRank> {
    list.iter().enumerate().map(|(index, hit)| ChannelRank { rank: index + 1, score: hit.score })
}

fn better<Id: Ord>(a: &FusedHit<Id>, b: &FusedHit<Id>) -> Ordering {
    let best_rank = |hit: &FusedHit<Id>| hit.text.into_iter().chain(hit.vector).map(|p| p.rank).min();
    b.score.total_cmp(&a.score).then_with(|| best_rank(a).cmp(&best_rank(b))).then_with(|| a.id.cmp(&b.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ids: &str) -> Vec<RankedHit<char>> {
        let score = |index: usize| 100.0 - index as f64;
        ids.chars().enumerate().map(|(index, id)| RankedHit { id, score: score(index) }).collect()
    }

    fn check(text: &str, vector: &str, weights: Weights, expected: &str) {
        let order: String = fuse(&list(text), &list(vector), weights).iter().map(|hit| hit.id).collect();
        assert_eq!(order, expected, "text {text}, vector {vector}");
    }

    #[test]
    fn what_both_channels_find_comes_before_what_one_finds() {
        check("abc", "cde", Weights::default(), "cabde");
    }

    #[test]
    fn one_channel_alone_keeps_its_order() {
        check("cab", "", Weights::default(), "cab");
        check("", "cab", Weights::default(), "cab");
        check("", "", Weights::default(), "");
    }

    #[test]
    fn equal_scores_go_by_best_rank_and_then_by_id() {
        check("b", "a", Weights::default(), "ab");
        // The mirrored ranks tie exactly: 1 and 2 against 2 and 1.
        check("ba", "ab", Weights::default(), "ab");
        // With k = 0, two second ranks score the same as one first rank; the first rank wins.
        let equal = Weights::new(1.0, 1.0, 0.0).unwrap();
        check("za", "xa", equal, "xza");
    }

    #[test]
    fn weights_tip_the_balance() {
        check("a", "b", Weights::new(1.0, 2.0, 60.0).unwrap(), "ba");
        check("a", "b", Weights::new(2.0, 1.0, 60.0).unwrap(), "ab");
        check("ab", "cb", Weights::new(1.0, 0.0, 60.0).unwrap(), "ab");
    }

    #[test]
    fn an_id_listed_twice_counts_where_it_stands_first() {
        let fused = fuse(&list("aba"), &[], Weights::default());
        assert_eq!(fused.len(), 2);
        assert_eq!(fused[0].text.unwrap().rank, 1);
        assert_eq!(fused[0].score, 1.0 / 61.0);
    }

    #[test]
    fn a_hit_keeps_rank_and_score_of_each_channel() {
        let fused = fuse(&list("ab"), &list("b"), Weights::default());
        let b = fused.iter().find(|hit| hit.id == 'b').unwrap();
        assert_eq!(b.text, Some(ChannelRank { rank: 2, score: 99.0 }));
        assert_eq!(b.vector, Some(ChannelRank { rank: 1, score: 100.0 }));
        assert_eq!(b.score, 1.0 / 62.0 + 1.0 / 61.0);
    }

    #[test]
    fn weights_that_make_no_sense_are_refused() {
        for (text, vector, k) in [
            (-1.0, 1.0, 60.0),
            (f64::NAN, 1.0, 60.0),
            (1.0, f64::INFINITY, 60.0),
            (1.0, 1.0, -1.0),
            (0.0, 0.0, 60.0),
        ] {
            assert!(Weights::new(text, vector, k).is_err(), "{text} {vector} {k}");
        }
        assert_eq!(
            Weights::new(-1.0, 1.0, 60.0).unwrap_err().to_string(),
            "`text`: -1 is not a number of 0 or more"
        );
    }
}
