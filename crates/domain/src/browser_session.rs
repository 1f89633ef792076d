//! Sessions of browsers. A session stands for a token: it has the same rights, and ends with it.

use std::{sync::Arc, time::Duration};

use crate::{
    ids::{BrowserSessionId, TokenId},
    time::Timestamp,
    token::Token,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a session is valid after its last use.
pub const IDLE_LIFETIME: Duration = Duration::from_secs(7 * DAY.as_secs());
/// How long a session is valid at most, however often it is used.
pub const MAX_LIFETIME: Duration = Duration::from_secs(30 * DAY.as_secs());
/// How long a one-time code can be used to log in.
pub const CODE_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// How many sessions of one token are valid at once. A login ends the oldest one beyond that.
pub const MAX_SESSIONS: usize = 20;
/// How many unused codes of one token are valid at once. A new code replaces the oldest one beyond that.
pub const MAX_OPEN_CODES: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BrowserSession {
    pub id: BrowserSessionId,
    pub token: TokenId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

impl BrowserSession {
    pub fn new(token: TokenId, now: Timestamp) -> Self {
        Self { id: BrowserSessionId::new(), token, created_at: now, expires_at: now + IDLE_LIFETIME }
    }

    /// Returns when the session ends if it is used now; `None` if that is not worth a write, because it was
    /// renewed within a day.
    pub fn renewal(&self, now: Timestamp) -> Option<Timestamp> {
        let expires_at = (now + IDLE_LIFETIME).min(self.created_at + MAX_LIFETIME);
        (self.expires_at + DAY <= expires_at).then_some(expires_at)
    }
}

/// Who sent a request: a token, and the session that stands for it if the request came with a cookie.
#[derive(Debug, Clone, PartialEq)]
pub struct Login {
    pub token: Arc<Token>,
    pub session: Option<BrowserSession>,
}

impl Login {
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.token.is_valid(now) && self.session.is_none_or(|session| now < session.expires_at)
    }

    /// Returns when the login ends, if nothing ends it before; `None` for a token without an end.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.session.map(|session| session.expires_at).into_iter().chain(self.token.expires_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_renewed_once_a_day_and_ends_after_its_maximum() {
        let start = Timestamp::from_micros(0);
        let mut session = BrowserSession::new(TokenId::new(), start);
        assert_eq!(session.renewal(start + DAY / 2), None);
        for day in 1..=23 {
            let now = start + DAY * day;
            session.expires_at = session.renewal(now).expect("a day has passed");
            assert_eq!(session.expires_at, now + IDLE_LIFETIME);
        }
        assert_eq!(session.expires_at, start + MAX_LIFETIME);
        assert_eq!(session.renewal(start + DAY * 29), None, "the maximum is reached");
    }
}
