//! Limits how often one address is told that a token is unknown. Guessing tokens then takes longer, and the
//! status 429 makes it visible. Valid tokens are not limited.

use std::{net::IpAddr, time::Duration};

use crate::rate_limit::RateLimit;

/// The maximum number of unknown tokens of one address in one window.
pub(crate) const MAX_FAILURES: usize = 100;
/// How long failures are counted, from the first one on.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

/// Returns the limit of failed logins per address.
pub(crate) fn failed_logins() -> RateLimit<IpAddr> {
    RateLimit::new(MAX_FAILURES, WINDOW)
}
