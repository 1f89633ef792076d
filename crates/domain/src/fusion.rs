//! Fusion: merges the ranked lists of the text and the vector channel into one.
//!
//! A text score and a cosine have no common scale. By default each is divided by the best of its channel,
//! and the vector channel counts as much as its embedder is worth beside words ([`ScoreFusion`]); vectors that
//! are worth less than words only add what the words did not find ([`Fusion::TextFirst`]). A caller that sets
//! [`Weights`] gets reciprocal rank fusion, in which only the ranks count.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::Hash;

use crate::invalid::{Invalid, Problem};

/// The share of a hit that is exactly at the floor, so that it is not lost.
const MIN_SHARE: f64 = 1e-6;

/// One hit of one channel. Its rank is its index in the list, best first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedHit<Id> {
    pub id: Id,
    /// The channel's own score. It is never compared with a score of the other channel.
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

/// How the two channels are joined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fusion {
    /// The hits of the text channel in their order, then those that only the vector channel found. The result
    /// is therefore never worse than that of the text channel.
    TextFirst,
    Scores(ScoreFusion),
    Ranks(Weights),
}

impl Fusion {
    /// The score of the best hit that was found as this one was: by words, or by its vector alone.
    pub fn best_score_like<Id>(self, hit: &FusedHit<Id>) -> f64 {
        let (text, vector) = match self {
            Fusion::TextFirst => (1.0, MIN_SHARE),
            Fusion::Scores(fusion) => (1.0, fusion.vector_weight),
            Fusion::Ranks(weights) => (weights.text / (weights.k + 1.0), weights.vector / (weights.k + 1.0)),
        };
        if hit.text.is_some() { text } else { vector }
    }
}

/// Fusion by scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreFusion {
    /// What the best hit of the vector channel is worth beside the best hit of the text channel, which is
    /// worth 1.
    pub vector_weight: f64,
    /// The cosine that is worth nothing: hits below it are not similar.
    pub floor: f64,
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

/// Larger weights say nothing more, and their sums would exceed what a score can be.
const MAX_WEIGHT: f64 = 1e6;

impl Weights {
    pub fn new(text: f64, vector: f64, k: f64) -> Result<Self, Invalid> {
        let mut problems: Vec<Problem> = [("text", text), ("vector", vector), ("k", k)]
            .into_iter()
            .filter(|(_, number)| !(0.0..=MAX_WEIGHT).contains(number))
            .map(|(field, number)| {
                Problem::new(field, format!("{number} is not a number from 0 to {MAX_WEIGHT}"))
            })
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

/// Joins the channels and sorts the best first.
///
/// [`Fusion::TextFirst`] scores a text hit by `text / best text`, and all others below. Fusion by scores adds `text / best text` and `weight · (cosine − floor) / (best cosine − floor)`. Fusion
/// by ranks adds `weight / (k + rank)` of the channels that found a hit.
///
/// The order is deterministic: equal scores are ordered by the better of the two ranks, then by id.
/// If one channel lists an id twice, its first occurrence counts. A channel with weight 0 adds no
/// hits of its own.
pub fn fuse<Id: Ord + Copy + Hash>(
    text: &[RankedHit<Id>],
    vector: &[RankedHit<Id>],
    fusion: Fusion,
) -> Vec<FusedHit<Id>> {
    let mut hits: HashMap<Id, (Option<ChannelRank>, Option<ChannelRank>)> = HashMap::new();
    for (rank, hit) in ranks(text).zip(text) {
        hits.entry(hit.id).or_default().0.get_or_insert(rank);
    }
    for (rank, hit) in ranks(vector).zip(vector) {
        hits.entry(hit.id).or_default().1.get_or_insert(rank);
    }

    let best = |list: &[RankedHit<Id>]| list.iter().map(|hit| hit.score).fold(f64::MIN, f64::max);
    let (best_text, best_vector) = (best(text), best(vector));
    let score = |text: Option<ChannelRank>, vector: Option<ChannelRank>| match fusion {
        Fusion::TextFirst => match (text, vector) {
            (Some(hit), _) => share(hit.score, 0.0, best_text),
            (None, Some(hit)) => MIN_SHARE * share(hit.score, 0.0, best_vector),
            (None, None) => 0.0,
        },
        Fusion::Scores(ScoreFusion { vector_weight, floor }) => {
            text.map_or(0.0, |hit| share(hit.score, 0.0, best_text))
                + vector.map_or(0.0, |hit| vector_weight * share(hit.score, floor, best_vector))
        }
        Fusion::Ranks(weights) => {
            let part = |weight: f64, hit: ChannelRank| weight / (weights.k + hit.rank as f64);
            text.map_or(0.0, |hit| part(weights.text, hit))
                + vector.map_or(0.0, |hit| part(weights.vector, hit))
        }
    };
    let mut fused: Vec<_> = hits
        .into_iter()
        .map(|(id, (text, vector))| FusedHit { id, score: score(text, vector), text, vector })
        .filter(|hit| hit.score > 0.0)
        .collect();
    match fusion {
        Fusion::TextFirst => sort_text_first(&mut fused),
        Fusion::Scores(_) | Fusion::Ranks(_) => fused.sort_unstable_by(better),
    }
    fused
}

/// Sorts by the ranks of the text channel, then by those of the vector channel. The text channel ranks rows with all
/// words first, whatever their scores are: a score is raised to that of the hits below, so that it agrees with the
/// order.
fn sort_text_first<Id: Ord>(fused: &mut [FusedHit<Id>]) {
    let rank = |channel: Option<ChannelRank>| channel.map_or(usize::MAX, |hit| hit.rank);
    fused.sort_unstable_by_key(|hit| (rank(hit.text), rank(hit.vector)));
    let mut floor: f64 = 0.0;
    for hit in fused.iter_mut().rev() {
        floor = floor.max(hit.score);
        hit.score = floor;
    }
}

/// The part of the way from `floor` to `best` at which a score lies. A channel whose scores are all equal
/// gives each hit the whole, and a score at the floor still counts as found.
fn share(score: f64, floor: f64, best: f64) -> f64 {
    let way = best - floor;
    if way > f64::EPSILON { ((score - floor) / way).clamp(MIN_SHARE, 1.0) } else { 1.0 }
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
        let order: String =
            fuse(&list(text), &list(vector), Fusion::Ranks(weights)).iter().map(|hit| hit.id).collect();
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
        let fused = fuse(&list("aba"), &[], Fusion::Ranks(Weights::default()));
        assert_eq!(fused.len(), 2);
        assert_eq!(fused[0].text.unwrap().rank, 1);
        assert_eq!(fused[0].score, 1.0 / 61.0);
    }

    #[test]
    fn a_hit_keeps_rank_and_score_of_each_channel() {
        let fused = fuse(&list("ab"), &list("b"), Fusion::Ranks(Weights::default()));
        let b = fused.iter().find(|hit| hit.id == 'b').unwrap();
        assert_eq!(b.text, Some(ChannelRank { rank: 2, score: 99.0 }));
        assert_eq!(b.vector, Some(ChannelRank { rank: 1, score: 100.0 }));
        assert_eq!(b.score, 1.0 / 62.0 + 1.0 / 61.0);
    }

    fn check_scores(text: &[(char, f64)], vector: &[(char, f64)], vector_weight: f64, expected: &str) {
        let list = |hits: &[(char, f64)]| -> Vec<RankedHit<char>> {
            hits.iter().map(|(id, score)| RankedHit { id: *id, score: *score }).collect()
        };
        let fusion = Fusion::Scores(ScoreFusion { vector_weight, floor: 0.2 });
        let order: String = fuse(&list(text), &list(vector), fusion).iter().map(|hit| hit.id).collect();
        assert_eq!(order, expected, "{text:?} {vector:?} {vector_weight}");
    }

    #[test]
    fn a_clear_winner_by_words_stays_first_and_a_close_one_is_overtaken() {
        let near = [('b', 0.6), ('c', 0.4)];
        check_scores(&[('a', 12.0), ('b', 4.0)], &near, 0.2, "abc");
        check_scores(&[('a', 12.0), ('b', 11.0)], &near, 0.2, "bac");
        check_scores(&[('a', 12.0), ('b', 4.0)], &near, 1.0, "bac");
        check_scores(&[('a', 12.0)], &near, 0.0, "a");
    }

    #[test]
    fn one_channel_alone_keeps_its_order_also_by_scores() {
        check_scores(&[('c', 3.0), ('a', 2.0), ('b', 2.0)], &[], 0.2, "cab");
        check_scores(&[], &[('c', 0.5), ('a', 0.3), ('b', 0.2)], 0.2, "cab");
        // A caller may lower the floor below zero, or to the only score there is.
        check_scores(&[], &[('a', 0.2)], 0.2, "a");
        check_scores(&[('a', 0.0)], &[], 0.2, "a");
    }

    #[test]
    fn text_first_keeps_the_order_of_the_text_and_adds_the_rest() {
        let hits = |hits: &[(char, f64)]| -> Vec<RankedHit<char>> {
            hits.iter().map(|(id, score)| RankedHit { id: *id, score: *score }).collect()
        };
        // The second text hit has the better score, but the first one has all words.
        let text = hits(&[('a', 4.0), ('b', 8.0), ('c', 1.0)]);
        let fused = fuse(&text, &hits(&[('x', 0.9), ('c', 0.8), ('y', 0.5)]), Fusion::TextFirst);
        assert_eq!(fused.iter().map(|hit| hit.id).collect::<String>(), "abcxy");
        assert_eq!(fused[0].score, 1.0);
        assert!(fused.windows(2).all(|pair| pair[0].score >= pair[1].score), "{fused:?}");
        assert_eq!(fused[2].vector, Some(ChannelRank { rank: 2, score: 0.8 }));
        let alone: String = fuse(&[], &hits(&[('b', 0.3), ('a', -0.1)]), Fusion::TextFirst)
            .iter()
            .map(|hit| hit.id)
            .collect();
        assert_eq!(alone, "ba");
    }

    #[test]
    fn a_hit_just_above_the_floor_adds_next_to_nothing() {
        check_scores(&[('a', 10.0), ('b', 9.9)], &[('x', 0.9), ('b', 0.201)], 0.2, "abx");
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
            "`text`: -1 is not a number from 0 to 1000000"
        );
    }
}
