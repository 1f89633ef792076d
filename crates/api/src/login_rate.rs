//! Limits how many logins one token makes. Each of them writes a session and an entry of the audit log, which nobody
//! deletes.

use std::time::Duration;

use emergent_domain::ids::TokenId;

use crate::rate_limit::RateLimit;

/// The maximum number of logins and login codes of one token in one window.
pub(crate) const MAX_LOGINS: usize = 30;
/// How long logins are counted, from the first one on.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

/// Returns the limit of logins per token.
pub(crate) fn login_rate() -> RateLimit<TokenId> {
    RateLimit::new(MAX_LOGINS, WINDOW)
}
