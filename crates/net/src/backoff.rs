//! Exponential backoff: the delay before the next attempt doubles after each failure, up to a maximum.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Computes the delays between attempts. It has no state: the caller counts the failures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    /// The range of factors by which [`Backoff::jittered`] multiplies a delay.
    jitter: (f64, f64),
}

impl Backoff {
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, jitter: (1.0, 1.0) }
    }

    /// Multiplies delays by a factor between `from` and `to`, such as 0.5 and 1.0, so that clients that
    /// failed at the same time do not retry at the same time.
    pub const fn with_jitter(self, from: f64, to: f64) -> Self {
        Self { jitter: (from, to), ..self }
    }

    /// Returns the delay without jitter: `base` doubled `doublings` times, at most `max`.
    pub fn delay(&self, doublings: u32) -> Duration {
        self.base.saturating_mul(2_u32.saturating_pow(doublings)).min(self.max)
    }

    /// Returns the delay with jitter. `spread` is the position in the jitter's range, from 0 to 1; it comes
    /// from [`random_spread`] or [`spread_of`].
    pub fn jittered(&self, doublings: u32, spread: f64) -> Duration {
        let (from, to) = self.jitter;
        self.delay(doublings).mul_f64(from + (to - from) * spread)
    }
}

/// Returns a random number from 0 to 1. Each `RandomState` has new random keys, so hashing any value with it
/// yields a random number, without another dependency.
pub fn random_spread() -> f64 {
    RandomState::new().hash_one(()) as f64 / u64::MAX as f64
}

/// Returns a number from 0 to 1 that is always the same for the same id and attempt. The bits of `id` must be
/// random.
pub fn spread_of(id: u64, attempt: u64) -> f64 {
    // 2^64 divided by the golden ratio (Fibonacci hashing); the upper 24 bits of the product are well mixed.
    let mixed = (id ^ attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as f64 / (1_u64 << 24) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

    #[test]
    fn delays_double_up_to_the_maximum() {
        let delays: Vec<u128> = (0..9).map(|doublings| BACKOFF.delay(doublings).as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(BACKOFF.delay(u32::MAX), Duration::from_secs(5));
        let unlimited = Backoff::new(Duration::from_secs(1), Duration::MAX);
        assert!(unlimited.delay(u32::MAX) > Duration::from_secs(1 << 31));
    }

    #[test]
    fn jitter_stays_within_its_range() {
        let backoff = BACKOFF.with_jitter(0.5, 1.0);
        assert_eq!(backoff.jittered(0, 0.0), Duration::from_millis(25));
        assert_eq!(backoff.jittered(0, 1.0), Duration::from_millis(50));
        for _ in 0..100 {
            assert!((0.0..=1.0).contains(&random_spread()));
        }
    }

    #[test]
    fn the_spread_of_an_id_is_always_the_same() {
        for attempt in 0..100 {
            let spread = spread_of(0x1234_5678_9ABC_DEF0, attempt);
            assert!((0.0..1.0).contains(&spread), "{spread}");
            assert_eq!(spread, spread_of(0x1234_5678_9ABC_DEF0, attempt));
        }
        assert_ne!(spread_of(7, 1), spread_of(7, 2));
    }
}
