//! Which words of a query a row has, kept in the last bits of its score.
//!
//! The ranking function of SQLite looks at every word of every row, and returns one number. The last bits of that number
//! hold which words were there, so that a linked search needs no second pass over the index. A score changes by less
//! than one part in a billion, and the same words change it in the same way.

/// The number of words that are kept. Further ones are not known.
const BITS: u32 = 20;
const MASK: u64 = (1 << BITS) - 1;

/// The score with the words, one bit for each.
pub(super) fn encode(score: f64, words: u32) -> f64 {
    f64::from_bits((score.to_bits() & !MASK) | (u64::from(words) & MASK))
}

/// A score that none with the same digits exceeds, whatever its words are.
pub(super) fn upper_bound(score: f64) -> f64 {
    encode(score, u32::MAX)
}

/// The words of an encoded score.
pub(super) fn words(score: f64) -> u32 {
    u32::try_from(score.to_bits() & MASK).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_keeps_its_value_and_gives_back_its_words() {
        for score in [1e-9, 0.37, 12.5, 4_000.0] {
            let encoded = encode(score, 0b1010);
            assert!((encoded - score).abs() < score * 1e-9, "{encoded}");
            assert_eq!(words(encoded), 0b1010);
            assert!(encoded <= upper_bound(score));
        }
    }
}
