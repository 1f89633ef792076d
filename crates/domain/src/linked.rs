//! Linked search: a second question to the texts that share a name with the best hits.
//!
//! "Where was the founder of X born?" is answered by two texts: one says who founded X, the other where that person
//! was born. The second one has few words of the question, but the first one names it. A linked search therefore takes
//! the best hits of the plain search as seeds, and ranks the texts that share a name with a seed by what they add to
//! it: the words of the question that the seed lacks.
//!
//! This module decides, and does no search itself: the caller finds the plain hits, the names of the seeds and the
//! texts with these names.

use std::{cmp::Ordering, collections::HashMap, hash::Hash};

/// The number of best hits whose names are followed.
pub const MAX_SEEDS: usize = 10;
/// A name that more texts have says nothing about two of them.
pub const MAX_TEXTS_OF_NAME: usize = 300;
/// The best plain hits, with what the question names, that keep their places, so that a link never displaces the obvious
/// answer. Keeping those of a hybrid search instead was measured to be worse: it ranks texts with all words first, and
/// the object that the question names is often the one that leads to the answer.
const KEPT_PLACES: usize = 2;
/// What a hit is worth more when the question has its name.
const NAMED_BONUS: f64 = 0.4;
/// The parts of the score of a linked text: the seed, the plain score of the text itself, the words of the question
/// that it adds, and the rarity of the name.
const SEED_WEIGHT: f64 = 0.6;
const PLAIN_WEIGHT: f64 = 0.6;
const ADDED_WORDS_WEIGHT: f64 = 0.8;
const NAME_WEIGHT: f64 = 0.4;
/// The smallest weight of a word, so that a word that all hits have still counts.
const MIN_RARITY: f64 = 1e-6;

/// A hit of the plain search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlainHit<Id> {
    pub id: Id,
    /// Greater than 0.
    pub score: f64,
    /// The words of the question that the text has, one bit for each.
    pub words: u32,
    /// Whether the question contains the name of this object.
    pub is_named: bool,
    /// Whether the filter of the search allows to return it. A hit that may not be returned still leads to others: the
    /// text that names the answer may be of another type than the answer.
    pub is_findable: bool,
}

/// A name of seeds, and all texts that have it.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedName<Id> {
    pub name: String,
    pub seeds: Vec<Id>,
    /// More than [`MAX_TEXTS_OF_NAME`] mean that the name is not followed.
    pub texts: Vec<Id>,
}

/// The seed and the name through which a text was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Link<Id> {
    pub from: Id,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LinkedHit<Id> {
    pub id: Id,
    pub score: f64,
    /// `None` for a hit that no link raised.
    pub link: Option<Link<Id>>,
}

/// The plain hits in the order of a linked search, with what it needs to know of them.
#[derive(Debug, Clone)]
pub struct PlainRanking<Id> {
    /// The best first. The best score is 1, or more with a bonus.
    hits: Vec<PlainHit<Id>>,
    by_id: HashMap<Id, usize>,
    /// The best score before it became 1.
    best_score: f64,
    /// The rarity of each word of the question among the hits, as a part of the whole question.
    rarities: Vec<f64>,
}

impl<Id: Ord + Copy + Hash> PlainRanking<Id> {
    pub fn new(mut hits: Vec<PlainHit<Id>>) -> Self {
        let best_score = hits.iter().map(|hit| hit.score).fold(f64::MIN_POSITIVE, f64::max);
        for hit in &mut hits {
            hit.score = hit.score / best_score + if hit.is_named { NAMED_BONUS } else { 0.0 };
        }
        hits.sort_by(|a, b| best_first((a.score, a.id), (b.score, b.id)));
        let by_id = hits.iter().enumerate().map(|(index, hit)| (hit.id, index)).collect();
        let rarities = rarities(&hits);
        Self { hits, by_id, best_score, rarities }
    }

    /// The hits whose names are followed, the best first.
    pub fn seeds(&self) -> impl Iterator<Item = Id> {
        self.hits.iter().take(MAX_SEEDS).map(|hit| hit.id)
    }

    /// Ranks the findable plain hits and the texts with the names of the seeds, the best first. Texts that are no plain
    /// hits are included, so the caller filters those.
    pub fn rank(&self, names: &[SharedName<Id>]) -> Vec<LinkedHit<Id>> {
        let best = self.hits.first().map_or(1.0, |hit| hit.score);
        let findable = self.hits.iter().filter(|hit| hit.is_findable);
        let mut found: HashMap<Id, (f64, Option<(Id, usize)>)> =
            findable.map(|hit| (hit.id, (hit.score, None))).collect();
        for (index, name) in names.iter().enumerate() {
            if name.texts.len() > MAX_TEXTS_OF_NAME {
                continue;
            }
            let rarity = (1.0 / (1.0 + name.texts.len() as f64).ln()).min(1.0);
            for seed in name.seeds.iter().filter_map(|seed| self.hit(*seed)) {
                for text in name.texts.iter().filter(|text| **text != seed.id) {
                    let plain = self.hit(*text);
                    if plain.is_some_and(|plain| !plain.is_findable) {
                        continue;
                    }
                    let added_words = plain.map_or(0, |plain| plain.words & !seed.words);
                    let score = SEED_WEIGHT * seed.score / best
                        + PLAIN_WEIGHT * plain.map_or(0.0, |plain| plain.score) / best
                        + ADDED_WORDS_WEIGHT * self.weight(added_words)
                        + NAME_WEIGHT * rarity;
                    let entry = found.entry(*text).or_insert((0.0, None));
                    if score > entry.0 {
                        *entry = (score, Some((seed.id, index)));
                    }
                }
            }
        }
        self.in_order(found, names)
    }

    /// Sorts the hits, except those that keep their places.
    fn in_order(
        &self,
        found: HashMap<Id, (f64, Option<(Id, usize)>)>,
        names: &[SharedName<Id>],
    ) -> Vec<LinkedHit<Id>> {
        // The order is the one without the filter, so a seed that may not be returned leaves no place to others.
        let kept: Vec<&PlainHit<Id>> =
            self.hits.iter().take(KEPT_PLACES).filter(|hit| hit.is_findable).collect();
        let is_kept = |id: &Id| kept.iter().any(|hit| hit.id == *id);
        let mut others: Vec<_> = found.iter().filter(|(id, _)| !is_kept(id)).collect();
        others.sort_by(|(a, (a_score, _)), (b, (b_score, _))| best_first((*a_score, **a), (*b_score, **b)));
        let others = others.into_iter().map(|(id, (score, link))| LinkedHit {
            id: *id,
            score: *score,
            link: link.map(|(from, name)| Link { from, name: names[name].name.clone() }),
        });
        // The scores of the kept places are not below those that follow, so that a list by score has the same order.
        let others: Vec<_> = others.collect();
        let floor = others.first().map_or(0.0, |hit| hit.score);
        let kept = kept.iter();
        let kept = kept.map(|hit| LinkedHit { id: hit.id, score: hit.score.max(floor), link: None });
        let mut hits: Vec<_> = kept.chain(others).collect();
        // The best score is that of the best plain hit: chat sorts the hits of several searches by their scores, and one
        // of them may be linked while another is hybrid. A seed that may not be returned counts as well, so that a hit
        // does not become good for being the only one.
        let best_plain = self.hits.first().map_or(0.0, |hit| hit.score);
        let scale = hits.first().map_or(1.0, |hit| self.best_score / hit.score.max(best_plain));
        hits.iter_mut().for_each(|hit| hit.score *= scale);
        hits
    }

    fn hit(&self, id: Id) -> Option<&PlainHit<Id>> {
        self.by_id.get(&id).map(|index| &self.hits[*index])
    }

    /// The part of the question that these words are.
    fn weight(&self, words: u32) -> f64 {
        let has = |bit: usize| words & (1 << bit) != 0;
        self.rarities.iter().enumerate().filter(|(bit, _)| has(*bit)).map(|(_, rarity)| rarity).sum()
    }
}

/// The rarity of each word among the hits (the IDF of BM25), divided by the sum of all.
fn rarities<Id>(hits: &[PlainHit<Id>]) -> Vec<f64> {
    let total = hits.len() as f64;
    let rarity = |bit: u32| {
        let count = hits.iter().filter(|hit| hit.words & (1 << bit) != 0).count() as f64;
        if count > 0.0 { (1.0 + (total - count) / (count + 0.5)).ln().max(MIN_RARITY) } else { 0.0 }
    };
    let rarities: Vec<f64> = (0..u32::BITS).map(rarity).collect();
    let sum = rarities.iter().sum::<f64>().max(MIN_RARITY);
    rarities.into_iter().map(|rarity| rarity / sum).collect()
}

fn best_first<Id: Ord>(a: (f64, Id), b: (f64, Id)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(id: char, score: f64, words: u32) -> PlainHit<char> {
        PlainHit { id, score, words, is_named: false, is_findable: true }
    }

    fn name(name: &str, seeds: &str, texts: &str) -> SharedName<char> {
        SharedName { name: name.to_owned(), seeds: seeds.chars().collect(), texts: texts.chars().collect() }
    }

    fn order(ranked: &[LinkedHit<char>]) -> String {
        ranked.iter().map(|hit| hit.id).collect()
    }

    #[test]
    fn a_text_that_a_seed_names_and_that_adds_words_comes_before_weak_plain_hits() {
        let hits =
            vec![hit('a', 9.0, 0b011), hit('b', 4.0, 0b001), hit('c', 3.0, 0b001), hit('d', 2.0, 0b100)];
        let plain = PlainRanking::new(hits);
        assert_eq!(plain.seeds().collect::<String>(), "abcd");
        assert_eq!(order(&plain.rank(&[])), "abcd", "without links it is the plain order");
        let ranked = plain.rank(&[name("ada", "a", "ad")]);
        assert_eq!(order(&ranked), "abdc");
        assert_eq!(ranked[2].link, Some(Link { from: 'a', name: "ada".to_owned() }));
        assert_eq!(ranked[0].link, None);
        assert_eq!(ranked[0].score, 9.0, "the best score is that of the plain search");
        assert!(ranked.windows(2).all(|pair| pair[0].score >= pair[1].score), "{ranked:?}");
    }

    #[test]
    fn the_two_best_hits_with_what_the_question_names_keep_their_places() {
        let named = PlainHit { is_named: true, ..hit('d', 5.0, 0b100) };
        let hits = vec![hit('a', 9.0, 0b011), hit('b', 4.0, 0b001), hit('c', 8.0, 0b001), named];
        let plain = PlainRanking::new(hits);
        assert_eq!(plain.seeds().collect::<String>(), "adcb");
        let ranked = plain.rank(&[name("ada", "a", "ab")]);
        assert_eq!(order(&ranked), "adbc");
        assert!(ranked.windows(2).all(|pair| pair[0].score >= pair[1].score), "{ranked:?}");
    }

    #[test]
    fn a_text_without_any_word_of_the_question_is_found_by_its_link() {
        let plain = PlainRanking::new(vec![hit('a', 9.0, 1)]);
        assert_eq!(order(&plain.rank(&[name("ada", "a", "az")])), "az");
    }

    #[test]
    fn a_filter_takes_hits_out_of_the_order_without_changing_it() {
        let hits = vec![
            hit('a', 9.0, 0b011),
            hit('e', 8.0, 0b011),
            hit('b', 4.0, 0b001),
            hit('c', 3.0, 0b001),
            hit('d', 2.0, 0b100),
        ];
        let names = [name("ada", "a", "aedz")];
        let all = PlainRanking::new(hits.clone());
        assert_eq!(order(&all.rank(&names)), "aedzbc");
        let some = hits.into_iter().map(|hit| PlainHit { is_findable: !"ae".contains(hit.id), ..hit });
        let some = PlainRanking::new(some.collect());
        assert_eq!(
            some.seeds().collect::<String>(),
            "aebcd",
            "what may not be returned still leads to others"
        );
        let ranked = some.rank(&names);
        assert_eq!(order(&ranked), "dzbc");
        assert_eq!(ranked[0].link, Some(Link { from: 'a', name: "ada".to_owned() }));
        assert!(ranked.windows(2).all(|pair| pair[0].score >= pair[1].score), "{ranked:?}");
        assert_eq!(some.rank(&[])[0].score, 4.0, "a hit does not become better for being the only one");
    }

    #[test]
    fn a_name_that_is_everywhere_links_nothing() {
        let plain = PlainRanking::new(vec![hit('a', 9.0, 1)]);
        let everywhere = SharedName { texts: vec!['z'; MAX_TEXTS_OF_NAME + 1], ..name("ada", "a", "") };
        assert_eq!(order(&plain.rank(&[everywhere])), "a");
    }

    #[test]
    fn an_object_that_the_question_names_becomes_the_first_seed() {
        let named = PlainHit { is_named: true, ..hit('b', 8.0, 1) };
        let plain = PlainRanking::new(vec![hit('a', 9.0, 1), named]);
        assert_eq!(plain.seeds().collect::<String>(), "ba");
    }

    #[test]
    fn nothing_found_stays_nothing() {
        assert_eq!(PlainRanking::new(Vec::<PlainHit<char>>::new()).rank(&[]), Vec::new());
    }
}
