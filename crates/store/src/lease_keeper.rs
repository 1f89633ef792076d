//! Renews leases in time, and tells their owner when it must stop working.
//!
//! The owner of a lease may work only while no other process can claim the same work. Another process
//! compares the stored end of a lease with its own wall clock. The owner cannot rely on that clock, so the
//! keeper measures the time since it started the last successful renewal with the monotonic clock. It gives
//! up a margin before the lease ends, because the clocks of two servers may differ a little. A fence protects
//! what is written to the database; only stopping in time protects calls to external tools.
//!
//! A renewal is the first transaction that the database runs next, but it waits for the one that is under way.
//! There are therefore several attempts within a lease, and two of the longest writes of SQLite end before the
//! keeper gives up.
//!
//! Runners (one lease for all runs), dispatchers (one per workflow) and workers (one per job) follow the
//! same rule. It also applies with SQLite, where no other process can claim anything: after a stall, the
//! work continues from its record.

use std::{borrow::Cow, fmt::Display, future::Future, time::Duration};

use emergent_domain::time::{Clock, Timestamp};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::warn;

use crate::requester::{Requester, on_behalf_of};

/// Which part of a lease passes before it is renewed.
const RENEWALS_PER_LEASE: u32 = 6;
/// The maximum time between giving up and the end of the lease.
const MAX_MARGIN: Duration = Duration::from_secs(3);

/// Renews the leases of one owner. A clone renews other leases that were acquired at the same time.
#[derive(Debug, Clone)]
pub struct LeaseKeeper {
    name: Cow<'static, str>,
    clock: Clock,
    lease: Duration,
    /// When the last successful renewal was started.
    renewed_at: Instant,
    next_attempt: Instant,
}

/// The leases could not be renewed in time. Their owner must stop working on what they cover.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the lease of {name} was not renewed within {} ms: its work stops here, and continues when it is claimed again",
    .after.as_millis()
)]
pub struct LeaseExpired {
    name: Cow<'static, str>,
    after: Duration,
}

impl LeaseKeeper {
    /// Creates a keeper for leases that are acquired from now on, until `clock.now() + lease`. It must be
    /// created before they are acquired. `name` says whose leases they are, in messages.
    pub fn new(name: impl Into<Cow<'static, str>>, clock: &Clock, lease: Duration) -> Self {
        let now = Instant::now();
        Self {
            name: name.into(),
            clock: clock.clone(),
            lease,
            renewed_at: now,
            next_attempt: now + lease / RENEWALS_PER_LEASE,
        }
    }

    /// Waits until a sixth of the lease has passed, then calls `renewal` with the new end of the leases.
    /// Returns `None` if the renewal failed; the next call tries again soon. Returns an error when the owner
    /// must stop: the renewals failed for too long, one did not return, or the process was suspended.
    pub async fn renew<T, E, F>(
        &mut self,
        renewal: impl FnOnce(Timestamp) -> F,
    ) -> Result<Option<T>, LeaseExpired>
    where
        E: Display,
        F: Future<Output = Result<T, E>>,
    {
        let give_up_at = self.renewed_at + self.time_to_give_up();
        sleep_until(self.next_attempt.min(give_up_at)).await;
        let started_at = Instant::now();
        if started_at >= give_up_at {
            return Err(self.expired());
        }
        let renewal = on_behalf_of(Requester::Priority, renewal(self.clock.now() + self.lease));
        match timeout_at(give_up_at, renewal).await {
            Ok(Ok(renewed)) => {
                self.renewed_at = started_at;
                self.next_attempt = started_at + self.lease / RENEWALS_PER_LEASE;
                Ok(Some(renewed))
            }
            Ok(Err(error)) => {
                warn!(error = %error, "could not renew the lease of {}, trying again", self.name);
                self.next_attempt = Instant::now() + self.lease / 9;
                Ok(None)
            }
            Err(_) => Err(self.expired()),
        }
    }

    /// How long after the last successful renewal the owner must stop.
    fn time_to_give_up(&self) -> Duration {
        self.lease - (self.lease / 3).min(MAX_MARGIN)
    }

    fn expired(&self) -> LeaseExpired {
        LeaseExpired { name: self.name.clone(), after: self.time_to_give_up() }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::advance;

    use super::*;

    const LEASE: Duration = Duration::from_secs(9);

    fn keeper() -> (LeaseKeeper, Instant) {
        (LeaseKeeper::new("a test", &Clock::system(), LEASE), Instant::now())
    }

    fn seconds_since(start: Instant) -> u64 {
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_after_a_sixth_of_its_time() {
        let (mut keeper, start) = keeper();
        for sixth in 1..=5 {
            let renewed = keeper.renew(|_| ready(Ok::<_, String>("renewed"))).await;
            assert_eq!(renewed.unwrap(), Some("renewed"));
            assert_eq!(start.elapsed(), LEASE * sixth / 6);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn renewals_that_wait_for_the_longest_writes_of_sqlite_are_in_time() {
        let (mut keeper, _) = keeper();
        let longest = crate::limits::SQLITE_WRITE_TIME + Duration::from_millis(400);
        for _ in 0..5 {
            let renewal = |_| async move {
                tokio::time::sleep(longest).await;
                Ok::<_, String>(())
            };
            assert_eq!(keeper.renew(renewal).await.unwrap(), Some(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_has_priority_over_other_work() {
        let (mut keeper, _) = keeper();
        let renewed = keeper.renew(|_| async { Ok::<_, String>(crate::requester::current()) }).await;
        assert_eq!(renewed.unwrap(), Some(Requester::Priority));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_retried_until_the_owner_must_stop() {
        let (mut keeper, start) = keeper();
        let mut attempts = Vec::new();
        while let Ok(renewed) = keeper.renew(|_| ready(Err::<(), _>("no database"))).await {
            assert_eq!(renewed, None);
            attempts.push(seconds_since(start));
        }
        assert_eq!(
            (attempts, seconds_since(start)),
            (vec![1, 2, 3, 4, 5], 6),
            "three seconds before the lease ends"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_succeeds_after_failures_keeps_the_lease() {
        let (mut keeper, start) = keeper();
        keeper.renew(|_| ready(Err::<(), _>("no database"))).await.unwrap();
        keeper.renew(|_| ready(Ok::<_, String>(()))).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(2_500));
        while keeper.renew(|_| ready(Err::<(), _>("no database"))).await.is_ok() {}
        assert_eq!(start.elapsed(), Duration::from_millis(8_500), "six seconds after the renewal");
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_does_not_return_ends_in_time() {
        let (mut keeper, start) = keeper();
        let renewed = keeper.renew(|_| pending::<Result<(), String>>()).await;
        assert_eq!(
            renewed.unwrap_err().to_string(),
            "the lease of a test was not renewed within 6000 ms: its work stops here, and continues when it is claimed again"
        );
        assert_eq!(seconds_since(start), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_was_suspended_for_too_long_does_not_renew() {
        let (mut keeper, _) = keeper();
        advance(Duration::from_secs(7)).await;
        let renewed = keeper
            .renew(|_| async { panic!("an expired lease must not be renewed") as Result<(), String> })
            .await;
        assert!(renewed.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_margin_of_a_long_lease_is_three_seconds() {
        let mut keeper = LeaseKeeper::new("a test", &Clock::system(), Duration::from_secs(60));
        let start = Instant::now();
        while keeper.renew(|_| ready(Err::<(), _>("no database"))).await.is_ok() {}
        assert_eq!(seconds_since(start), 57);
    }
}
