//! Limits how many logins one token makes. Each of them writes a session and an entry of the audit log, which nobody
//! deletes.

use std::time::Duration;

use emergent_domain::ids::TokenId;
use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The maximum number of logins and login codes of one token in one window.
pub(crate) const MAX_LOGINS: usize = 30;
/// How long logins are counted, from the first one on.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// With more tokens than this, the one that logged in longest ago starts again at zero.
const MAX_TOKENS: usize = 10_000;

/// The logins of recent tokens.
pub(crate) struct LoginRate {
    windows: Mutex<LruCache<TokenId, Window>>,
    length: Duration,
}

struct Window {
    since: Instant,
    logins: usize,
}

impl Default for LoginRate {
    fn default() -> Self {
        Self { windows: Mutex::new(LruCache::new(MAX_TOKENS)), length: WINDOW }
    }
}

impl LoginRate {
    /// Counts a login of this token. The error says how long the token has to wait; then nothing is counted.
    pub(crate) fn take(&self, token: TokenId) -> Result<(), Duration> {
        let mut windows = self.windows.lock();
        match windows.get_mut(&token) {
            Some(window) if window.since.elapsed() < self.length => {
                if window.logins >= MAX_LOGINS {
                    return Err(self.length.saturating_sub(window.since.elapsed()));
                }
                window.logins += 1;
            }
            _ => {
                windows.insert(token, Window { since: Instant::now(), logins: 1 });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_logs_in_too_often_waits_and_others_do_not() {
        let (busy, other) = (TokenId::new(), TokenId::new());
        let rate = LoginRate { length: Duration::from_millis(500), ..LoginRate::default() };
        for _ in 0..MAX_LOGINS {
            assert_eq!(rate.take(busy), Ok(()));
        }
        assert!(rate.take(busy).is_err_and(|wait| wait <= rate.length));
        assert_eq!(rate.take(other), Ok(()));
        std::thread::sleep(rate.length);
        assert_eq!(rate.take(busy), Ok(()));
    }
}
