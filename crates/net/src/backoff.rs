//! How long to wait before the next attempt: twice as long after each failure, up to a limit.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    /// The shares of a wait between which [`Backoff::jittered`] chooses.
    jitter: (f64, f64),
}

impl Backoff {
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, jitter: (1.0, 1.0) }
    }

    /// Spreads waits between two shares of their length, `0.5` and `1.0` for example, so that those
    /// who failed together do not come back together.
    pub const fn with_jitter(self, from: f64, to: f64) -> Self {
        Self { jitter: (from, to), ..self }
    }

    /// The wait when `doublings` waits went before it.
    pub fn delay(&self, doublings: u32) -> Duration {
        self.base.saturating_mul(2_u32.saturating_pow(doublings)).min(self.max)
    }

    /// The same with jitter; `spread` in 0..1 comes from [`random_spread`] or [`spread_of`].
    pub fn jittered(&self, doublings: u32, spread: f64) -> Duration {
        let (from, to) = self.jitter;
        self.delay(doublings).mul_f64(from + (to - from) * spread)
    }
}

/// A number in 0..1. Each `RandomState` has fresh keys, which is all the randomness a wait needs.
pub fn random_spread() -> f64 {
    RandomState::new().hash_one(()) as f64 / u64::MAX as f64
}

/// A number in 0..1 that is the same for the same id and attempt. The bits of `id` must be random.
pub fn spread_of(id: u64, attempt: u64) -> f64 {
    let mixed = (id ^ attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as f64 / (1_u64 << 24) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

    #[test]
    fn waits_double_up_to_the_limit() {
        let waits: Vec<u128> = (0..9).map(|doublings| BACKOFF.delay(doublings).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert_eq!(BACKOFF.delay(u32::MAX), Duration::from_secs(5));
        let unlimited = Backoff::new(Duration::from_secs(1), Duration::MAX);
        assert!(unlimited.delay(u32::MAX) > Duration::from_secs(1 << 31));
    }

    #[test]
    fn jitter_stays_between_its_shares() {
        let spread = BACKOFF.with_jitter(0.5, 1.0);
        assert_eq!(spread.jittered(0, 0.0), Duration::from_millis(25));
        assert_eq!(spread.jittered(0, 1.0), Duration::from_millis(50));
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
