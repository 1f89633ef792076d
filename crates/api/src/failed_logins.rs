//! Limits how often one address is told that a token is unknown. Guessing tokens then takes longer, and the
//! status 429 makes it visible. Valid tokens are not limited.

use std::{net::IpAddr, time::Duration};

use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The maximum number of unknown tokens of one address in one window.
pub(crate) const MAX_FAILURES: usize = 100;
/// How long failures are counted, from the first one on.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// With more addresses than this, the one that failed longest ago starts again at zero.
const MAX_ADDRESSES: usize = 10_000;

/// The failures of recent addresses.
pub(crate) struct FailedLogins {
    windows: Mutex<LruCache<IpAddr, Window>>,
    length: Duration,
}

struct Window {
    since: Instant,
    failures: usize,
}

impl Default for FailedLogins {
    fn default() -> Self {
        Self { windows: Mutex::new(LruCache::new(MAX_ADDRESSES)), length: WINDOW }
    }
}

impl FailedLogins {
    /// Returns how long this address has to wait; `None` if it may present a token now.
    pub(crate) fn must_wait(&self, address: IpAddr) -> Option<Duration> {
        let mut windows = self.windows.lock();
        let window = windows.get(&address)?;
        let remaining = self.length.checked_sub(window.since.elapsed())?;
        (window.failures >= MAX_FAILURES).then_some(remaining)
    }

    /// Counts one failure of this address.
    pub(crate) fn record(&self, address: IpAddr) {
        let mut windows = self.windows.lock();
        let now = Instant::now();
        match windows.get_mut(&address) {
            Some(window) if window.since.elapsed() < self.length => window.failures += 1,
            _ => {
                windows.insert(address, Window { since: now, failures: 1 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_fails_too_often_waits_and_others_do_not() {
        let (attacker, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let logins = FailedLogins { length: Duration::from_millis(500), ..FailedLogins::default() };
        for _ in 0..MAX_FAILURES {
            assert_eq!(logins.must_wait(attacker), None);
            logins.record(attacker);
        }
        assert!(logins.must_wait(attacker).is_some_and(|wait| wait <= logins.length));
        assert_eq!(logins.must_wait(other), None);
        std::thread::sleep(logins.length);
        assert_eq!(logins.must_wait(attacker), None);
    }
}
