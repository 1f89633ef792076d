//! Who has used the time of the SQLite writer lately, and whose turn is next.
//!
//! There is one writer. The requester that has used the least of its time comes first, so a project with many or
//! expensive writes delays mostly its own. Used time counts for less the longer ago it was: a project that was
//! busy alone is not made to wait for long when another one begins. Up to half of the time, the server's own work
//! comes before projects, because the runs of all of them need it; beyond that it counts like a project.

use std::{
    cmp::Ordering,
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::requester::Requester;

/// After this time, used time counts half.
const HALF_LIFE: Duration = Duration::from_secs(2);
/// How often the used times are decreased.
const DECAY_INTERVAL: Duration = Duration::from_millis(50);
/// A requester that has used less than this, in seconds, is no longer remembered.
const NEGLIGIBLE: f64 = 0.000_05;
/// The part of the used time up to which the server's own work comes first.
const SHARE_OF_SERVER: f64 = 0.5;

/// The time that each requester has used, in seconds.
pub(super) struct WriterTime {
    uses: HashMap<Requester, Use>,
    total: f64,
    decayed_at: Instant,
}

#[derive(Default)]
struct Use {
    seconds: f64,
    /// How long one of its writes took lately.
    typical: f64,
}

/// The position of a requester among others: the least is next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rank {
    class: u8,
    seconds: f64,
}

impl Rank {
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.class.cmp(&other.class).then(self.seconds.total_cmp(&other.seconds))
    }
}

impl WriterTime {
    pub(super) fn new(now: Instant) -> Self {
        Self { uses: HashMap::new(), total: 0.0, decayed_at: now }
    }

    /// Counts a write of a requester.
    pub(super) fn count_write(&mut self, requester: Requester, time: Duration) {
        self.count(requester, time);
        if let Some(used) = self.uses.get_mut(&requester) {
            used.typical = (used.typical + time.as_secs_f64()) / 2.0;
        }
    }

    /// Counts other time of the writer, such as that of a commit, for a requester.
    pub(super) fn count(&mut self, requester: Requester, time: Duration) {
        let seconds = time.as_secs_f64();
        self.uses.entry(requester).or_default().seconds += seconds;
        self.total += seconds;
    }

    pub(super) fn rank(&self, requester: Requester) -> Rank {
        let seconds = self.uses.get(&requester).map_or(0.0, |used| used.seconds);
        let class = match requester {
            Requester::Priority => 0,
            Requester::Server if seconds <= self.total * SHARE_OF_SERVER => 1,
            Requester::Server
            | Requester::AllProjects
            | Requester::Project(_)
            | Requester::Authentication
            | Requester::DoubtedAuthentication => 2,
        };
        Rank { class, seconds }
    }

    /// How long a write of this requester is expected to take.
    pub(super) fn typical_write(&self, requester: Requester) -> Duration {
        Duration::from_secs_f64(self.uses.get(&requester).map_or(0.0, |used| used.typical))
    }

    /// Makes the used times count for less, by the time that has passed.
    pub(super) fn decay(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.decayed_at);
        if passed < DECAY_INTERVAL {
            return;
        }
        self.decayed_at = now;
        let factor = 0.5_f64.powf(passed.as_secs_f64() / HALF_LIFE.as_secs_f64());
        for used in self.uses.values_mut() {
            used.seconds *= factor;
        }
        self.uses.retain(|_, used| used.seconds > NEGLIGIBLE);
        self.total = self.uses.values().map(|used| used.seconds).sum();
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::ids::ProjectId;

    use super::*;

    fn comes_first(time: &WriterTime, one: Requester, other: Requester) -> bool {
        time.rank(one).compare(&time.rank(other)) == Ordering::Less
    }

    #[test]
    fn the_requester_that_used_the_least_time_comes_first_and_use_is_forgotten() {
        let (one, other) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let start = Instant::now();
        let mut time = WriterTime::new(start);
        time.count_write(one, Duration::from_millis(800));
        time.count_write(other, Duration::from_millis(100));
        assert!(comes_first(&time, other, one));
        time.decay(start + HALF_LIFE);
        time.count_write(other, Duration::from_millis(300));
        assert!(comes_first(&time, other, one), "350 ms of 400 ms");
        time.count_write(other, Duration::from_millis(100));
        assert!(comes_first(&time, one, other), "the earlier use counts half");
        time.decay(start + HALF_LIFE * 60);
        assert!(time.uses.is_empty(), "requesters without a recent write use no memory");
    }

    #[test]
    fn the_server_comes_first_up_to_half_of_the_time() {
        let (one, other) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let mut time = WriterTime::new(Instant::now());
        assert!(comes_first(&time, Requester::Server, one));
        time.count_write(one, Duration::from_millis(300));
        time.count_write(Requester::Server, Duration::from_millis(300));
        assert!(comes_first(&time, Requester::Server, other), "half of the time");
        time.count_write(Requester::Server, Duration::from_millis(100));
        assert!(comes_first(&time, other, Requester::Server));
        assert!(comes_first(&time, one, Requester::Server));
        assert!(comes_first(&time, Requester::Priority, other));
    }
}
