//! Who has used the time of the SQLite writer lately, and whose turn is next.
//!
//! There is one writer. The requester that has used the least of its time comes first, so a project with many or
//! expensive writes delays mostly its own. Used time counts for less the longer ago it was: a project that was
//! busy alone is not made to wait for long when another one begins. Up to half of the time, the server's own work
//! comes before projects, because the runs of all of them need it; beyond that it counts like a project.
//!
//! A write that is under way is not interrupted for others, so that order alone does not help them if one project always
//! has a write that takes seconds: each of theirs would wait for one. So a long write pauses its project, for a time
//! that grows with the square of what it took, while others write as well.

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

/// A write that takes less than this does not pause its project.
const LONG_WRITE: Duration = Duration::from_millis(500);
/// The longest pause of a project. The requests that wait have to be answered within their time limit.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The time that each requester has used, in seconds.
pub(super) struct WriterTime {
    uses: HashMap<Requester, Use>,
    total: f64,
    decayed_at: Instant,
    /// The projects that are paused, and until when.
    paused: HashMap<Requester, Instant>,
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
        Self { uses: HashMap::new(), total: 0.0, decayed_at: now, paused: HashMap::new() }
    }

    /// Counts a write of a requester that has just ended, also one that failed.
    pub(super) fn count_write(&mut self, requester: Requester, time: Duration, now: Instant) {
        self.count(requester, time, now);
        if let Some(used) = self.uses.get_mut(&requester) {
            used.typical = (used.typical + time.as_secs_f64()) / 2.0;
        }
    }

    /// Counts other time of the writer, such as that of a commit, for a requester.
    pub(super) fn count(&mut self, requester: Requester, time: Duration, now: Instant) {
        let seconds = time.as_secs_f64();
        self.uses.entry(requester).or_default().seconds += seconds;
        self.total += seconds;
        if time >= LONG_WRITE && matches!(requester, Requester::Project(_)) {
            let until = self.paused.get(&requester).map_or(now, |until| now.max(*until));
            self.paused.insert(requester, (until + pause_after(time)).min(now + MAX_PAUSE));
        }
    }

    /// Until when the writes of a requester wait although the writer is free; `None` if they may begin. A project that is
    /// the only one to write waits for nobody.
    pub(super) fn paused_until(&self, requester: Requester, now: Instant) -> Option<Instant> {
        let until = self.paused.get(&requester).copied().filter(|until| *until > now)?;
        let is_other = |other: &Requester| {
            let has_writes = match other {
                Requester::Server | Requester::AllProjects | Requester::Project(_) => true,
                // Single rows, also on behalf of this project.
                Requester::Priority | Requester::Authentication | Requester::DoubtedAuthentication => false,
            };
            has_writes && *other != requester
        };
        self.uses.keys().any(is_other).then_some(until)
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
        self.paused.retain(|_, until| *until > now);
        self.total = self.uses.values().map(|used| used.seconds).sum();
    }
}

/// How long a project is paused after a write that took this long: as long as a write of half a second, and five times
/// as long as one of 2.5 seconds.
fn pause_after(time: Duration) -> Duration {
    time.mul_f64(time.as_secs_f64() / LONG_WRITE.as_secs_f64())
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
        let now = Instant::now();
        let mut time = WriterTime::new(now);
        time.count_write(one, Duration::from_millis(800), now);
        time.count_write(other, Duration::from_millis(100), now);
        assert!(comes_first(&time, other, one));
        time.decay(now + HALF_LIFE);
        time.count_write(other, Duration::from_millis(300), now);
        assert!(comes_first(&time, other, one), "350 ms of 400 ms");
        time.count_write(other, Duration::from_millis(100), now);
        assert!(comes_first(&time, one, other), "the earlier use counts half");
        time.decay(now + HALF_LIFE * 60);
        assert!(time.uses.is_empty(), "requesters without a recent write use no memory");
    }

    #[test]
    fn the_server_comes_first_up_to_half_of_the_time() {
        let (one, other) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let now = Instant::now();
        let mut time = WriterTime::new(now);
        assert!(comes_first(&time, Requester::Server, one));
        time.count_write(one, Duration::from_millis(300), now);
        time.count_write(Requester::Server, Duration::from_millis(300), now);
        assert!(comes_first(&time, Requester::Server, other), "half of the time");
        time.count_write(Requester::Server, Duration::from_millis(100), now);
        assert!(comes_first(&time, other, Requester::Server));
        assert!(comes_first(&time, one, Requester::Server));
        assert!(comes_first(&time, Requester::Priority, other));
    }

    #[test]
    fn a_long_write_pauses_its_project_while_others_write() {
        let (one, other) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let now = Instant::now();
        let mut time = WriterTime::new(now);
        time.count_write(one, Duration::from_secs(1), now);
        assert_eq!(time.paused_until(one, now), None, "nobody else writes");
        time.count_write(Requester::Priority, Duration::from_millis(1), now);
        assert_eq!(time.paused_until(one, now), None, "leases and health checks are not counted");
        time.count_write(other, Duration::from_millis(400), now);
        assert_eq!(time.paused_until(other, now), None, "short writes pause nobody");
        assert_eq!(time.paused_until(one, now), Some(now + Duration::from_secs(2)));
        assert_eq!(time.paused_until(one, now + Duration::from_secs(2)), None);
        // The pause of each write is added to what is left, up to a limit.
        time.count_write(one, Duration::from_secs(1), now + Duration::from_secs(1));
        assert_eq!(time.paused_until(one, now), Some(now + Duration::from_secs(4)));
        time.count_write(one, Duration::from_secs(30), now);
        assert_eq!(time.paused_until(one, now), Some(now + MAX_PAUSE));
        // The server's own work and that of the operator is not paused.
        for requester in [Requester::Server, Requester::AllProjects, Requester::Authentication] {
            time.count_write(requester, Duration::from_secs(2), now);
            assert_eq!(time.paused_until(requester, now), None);
        }
        time.decay(now + HALF_LIFE * 60);
        assert!(time.paused.is_empty());
    }
}
