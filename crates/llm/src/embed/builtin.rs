//! The default embedder: no download, no network, a few microseconds per text.
//!
//! It measures how many words, pairs of neighbouring words and parts of words two texts share. It does
//! not understand meaning: "car" and "automobile" are unrelated, "tagged" and "tagging" are similar.
//! For meaning, choose a sentence model; this one makes search tolerant of word forms and typing
//! errors, and works before a model is chosen.
//!
//! Each feature is hashed to a few of 384 positions with a sign, so unrelated features cancel out on
//! average and no vocabulary is needed. The vectors are stored, so the same text has to give the same
//! bits on every machine and in every release: the hash is our own, and the arithmetic uses only
//! operations that IEEE 754 defines exactly (which includes the square root, but not the logarithm that
//! is usual for word counts). A change here needs a new name.

use async_trait::async_trait;
use tokio::task::yield_now;

use super::{
    EmbedTask, Embedder, normalize,
    words::{Words, is_stop_word},
};
use crate::Error;

const NAME: &str = "builtin/hash-384-v1";
const DIMS: usize = 384;

// Part of `v1`, like everything that affects the vectors. The parts of a word together weigh a little
// more than the word, a pair of neighbours less than either.
const PART_WEIGHT: f32 = 1.2;
const PAIR_WEIGHT: f32 = 0.6;
const STOP_WORD_WEIGHT: f32 = 0.15;
/// Measured with `emergent embeddings measure`: of 32 queries without meaning none reaches it. Not part of `v1`,
/// because it does not affect the vectors.
const MIN_SIMILARITY: f64 = 0.2;
/// Like [`MIN_SIMILARITY`], for passages of documents.
const MIN_PASSAGE_SIMILARITY: f64 = 0.16;
const PART_LENGTHS: std::ops::RangeInclusive<usize> = 3..=4;

pub struct Builtin;

#[async_trait]
impl Embedder for Builtin {
    fn model(&self) -> &str {
        NAME
    }

    fn dims(&self) -> Option<usize> {
        Some(DIMS)
    }

    fn min_similarity(&self) -> f64 {
        MIN_SIMILARITY
    }

    fn measured_passage_similarity(&self) -> Option<f64> {
        Some(MIN_PASSAGE_SIMILARITY)
    }

    /// Shared parts of words say less than shared words: on the sets of `docs/retrieval.md`, every weight above 0 made
    /// a search worse than words alone on at least one of them.
    fn fusion_weight(&self) -> Option<f64> {
        None
    }

    fn max_batch(&self) -> usize {
        256
    }

    async fn embed(&self, texts: &[String], _: EmbedTask) -> Result<Vec<Vec<f32>>, Error> {
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            vectors.push(embed(text));
            // A long list must not block other tasks of this thread.
            yield_now().await;
        }
        Ok(vectors)
    }
}

fn embed(text: &str) -> Vec<f32> {
    let words = Words::split(text);
    let mut vector = vec![0.0; DIMS];
    let hashes: Vec<u64> = words.iter().map(|word| hash(FeatureKind::Word, word)).collect();
    let weights: Vec<f32> =
        words.iter().map(|word| if is_stop_word(word) { STOP_WORD_WEIGHT } else { 1.0 }).collect();

    for (first, repeats) in occurrences(&hashes) {
        // The weight grows sub-linearly: the tenth occurrence says less than the first.
        let weight = weights[first] * repeats.sqrt();
        add(&mut vector, hashes[first], weight);
        add_parts(&mut vector, words.get(first), weight * PART_WEIGHT);
    }

    let pairs: Vec<u64> = hashes.windows(2).map(|pair| mix(pair[0].rotate_left(17) ^ pair[1])).collect();
    for (first, repeats) in occurrences(&pairs) {
        let weight = (weights[first] * weights[first + 1]).sqrt();
        add(&mut vector, pairs[first], PAIR_WEIGHT * weight * repeats.sqrt());
    }

    if !normalize(&mut vector) {
        // A text without words gets one fixed direction, far from all other texts.
        add(&mut vector, hash(FeatureKind::Nothing, &[]), 1.0);
        normalize(&mut vector);
    }
    vector
}

/// Returns the first index of each distinct hash, and how often it occurs.
fn occurrences(hashes: &[u64]) -> Vec<(usize, f32)> {
    let mut positions: Vec<(u64, u32)> = hashes.iter().copied().zip(0..).collect();
    positions.sort_unstable();
    positions.chunk_by(|a, b| a.0 == b.0).map(|same| (same[0].1 as usize, same.len() as f32)).collect()
}

/// Adds the parts of `<word`. A beginning is marked, since it says most about a word. An ending is not
/// marked, since it mostly shows the word form.
fn add_parts(vector: &mut [f32], word: &[char], weight: f32) {
    let mut marked = Vec::with_capacity(word.len() + 1);
    marked.push('<');
    marked.extend_from_slice(word);
    let count: usize = PART_LENGTHS.map(|length| (marked.len() + 1).saturating_sub(length)).sum();
    // A long word with its many parts has no more weight than a short one.
    let weight = weight / (count.max(1) as f32).sqrt();
    for start in 0..marked.len() {
        let mut state = FeatureKind::Part as u64;
        for (at, &c) in marked[start..].iter().take(*PART_LENGTHS.end()).enumerate() {
            state = hash_step(state, c);
            if PART_LENGTHS.contains(&(at + 1)) {
                add(vector, mix(state), weight);
            }
        }
    }
}

/// Each feature has three positions, so two features that share one still differ in two.
fn add(vector: &mut [f32], hash: u64, weight: f32) {
    for copy in 0..3 {
        let bits = (hash >> (16 * copy)) & 0xffff;
        let position = (bits as usize * DIMS) >> 16;
        let negative = (hash >> (48 + copy)) & 1 == 1;
        vector[position] += if negative { -weight } else { weight };
    }
}

/// Distinguishes the word "abc" from the part "abc".
#[derive(Clone, Copy)]
#[repr(u64)]
enum FeatureKind {
    Word = 0x9e37_79b9_7f4a_7c15,
    Part = 0xc2b2_ae3d_27d4_eb4f,
    Nothing = 0x1656_67b1_9e37_79f9,
}

fn hash(kind: FeatureKind, word: &[char]) -> u64 {
    mix(word.iter().fold(kind as u64, |state, &c| hash_step(state, c)))
}

fn hash_step(state: u64, c: char) -> u64 {
    (state ^ c as u64).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
}

/// The finaliser of SplitMix64: every input bit affects every position.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(a: &str, b: &str) -> f32 {
        embed(a).iter().zip(embed(b)).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn the_bits_of_a_stored_vector_never_change() {
        let print = |text| {
            let bits = embed(text).iter().fold(0, |state: u64, x| mix(state ^ u64::from(x.to_bits())));
            format!("{bits:016x}")
        };
        let prints =
            ["", "Knowledge graphs", "to be or not to be, to be", "Müller straße", "知識グラフ"].map(print);
        let expected = [
            "ceb44b37fa899855",
            "fcc5a854201e9e16",
            "c618fb1c2fbef3ac",
            "1d84f5de7e3a632f",
            "cbd8b4a9652be773",
        ];
        assert_eq!(prints, expected);
    }

    #[test]
    fn every_vector_has_length_one() {
        for text in ["", " \n", "!?", "a", "the the the", "a graph of objects", "🦀"] {
            let vector = embed(text);
            assert_eq!(vector.len(), DIMS);
            let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!((length - 1.0).abs() < 1e-5, "`{text}` has length {length}");
        }
    }

    #[test]
    fn word_forms_and_typing_errors_stay_close() {
        for (a, b) in [
            ("tagging", "tagged"),
            ("organization", "organizations"),
            ("relationships", "relationship"),
            ("embedding", "embeding"),
            ("Straße", "Straßen"),
        ] {
            assert!(likeness(a, b) > 0.25, "{a} {b}: {}", likeness(a, b));
            assert!(likeness(a, b) > likeness(a, "purple giraffes") + 0.2);
        }
    }

    #[test]
    fn case_accents_and_spacing_do_not_matter() {
        assert!(likeness("Café  Zürich", "cafe zurich") > 0.999);
        assert!(likeness("cafe\u{301}", "café") > 0.999);
    }

    #[test]
    fn the_text_that_shares_the_rare_words_wins_over_the_one_that_shares_the_common() {
        let query = "how is the agent pool limited";
        let right = "Limits: a pool of agents has a limit on how many agents run at once.";
        let wrong = "How is the weather, and is the beach the place to be?";
        assert!(likeness(query, right) > likeness(query, wrong) + 0.1);
    }

    #[test]
    fn the_order_of_words_counts_a_little() {
        let same = likeness("blue car red house", "blue car red house");
        let other = likeness("blue car red house", "red car blue house");
        assert!(other < same - 0.05 && other > 0.7, "{other}");
    }

    #[test]
    fn languages_without_spaces_share_their_signs() {
        assert!(likeness("知識グラフの検索", "グラフ検索") > 0.4);
        assert!(likeness("知識グラフの検索", "天気予報") < 0.3);
    }

    #[test]
    fn strangers_are_far_apart() {
        let a = "Invoices are paid within thirty days of delivery.";
        let b = "Penguins breed on frozen coasts during winter.";
        assert!(likeness(a, b).abs() < 0.25, "{}", likeness(a, b));
    }
}
