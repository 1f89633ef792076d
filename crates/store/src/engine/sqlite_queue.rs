//! The queue of the SQLite writer. Leases and health checks are taken first: otherwise the renewal of a lease
//! would wait for every write that came before it, and several slow ones would make it late. Then the requester
//! is served that has used the least of the writer's time (`writer_time.rs`), and within a requester the write
//! that came first. A project that has just had a long write waits for a while, although the writer may be free then:
//! otherwise the short writes of others would wait for its next one. A write whose caller no longer waits is not started.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::{
    engine::writer_time::WriterTime,
    error::{Error, Result},
    requester::Requester,
};

/// The most writes of one project, or of the operator, that wait at once. The server's own writes are not
/// limited here: the runs and jobs that make them are.
pub(super) const MAX_WAITING_WRITES: usize = 512;
/// When the writes of a requester that wait become a multiple of this, those without a caller are removed, so
/// that clients that give up and try again do not fill the memory.
const PURGE_INTERVAL: usize = 32;

/// Something that waits in the queue.
pub(super) trait Queued {
    fn requester(&self) -> Requester;
    /// Whether nobody waits for its result any more.
    fn is_abandoned(&self) -> bool;
}

/// The end with which callers add to the queue. Dropping it closes the queue.
pub(super) struct WriteSender<T>(Arc<Shared<T>>);

/// The end that belongs to the writer thread.
pub(super) struct WriteQueue<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    urgent: VecDeque<T>,
    /// What waits for each requester, with a number that increases in the order of arrival.
    waiting: HashMap<Requester, VecDeque<(u64, T)>>,
    next_ticket: u64,
    time: WriterTime,
    is_closed: bool,
}

/// Creates a queue.
pub(super) fn write_queue<T: Queued>() -> (WriteSender<T>, WriteQueue<T>) {
    let state = State {
        urgent: VecDeque::new(),
        waiting: HashMap::new(),
        next_ticket: 0,
        time: WriterTime::new(now()),
        is_closed: false,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    (WriteSender(Arc::clone(&shared)), WriteQueue(shared))
}

impl<T: Queued> WriteSender<T> {
    /// Adds an item. Fails if as many of its requester wait as may.
    pub(super) fn send(&self, item: T) -> Result<()> {
        // What is dropped may own the last handle of the database, which closes the queue: never under the lock.
        let mut abandoned = Vec::new();
        let refused = {
            let mut state = self.0.state.lock();
            state.push(item, &mut abandoned)
        };
        drop(abandoned);
        if refused.is_some() {
            return Err(Error::TooManyWrites { limit: MAX_WAITING_WRITES });
        }
        self.0.changed.notify_one();
        Ok(())
    }
}

impl<T> Drop for WriteSender<T> {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.changed.notify_one();
    }
}

impl<T: Queued> WriteQueue<T> {
    /// Takes the next item, and waits for one. Returns `None` when the queue is empty and closed.
    pub(super) fn take(&mut self) -> Option<T> {
        loop {
            let mut abandoned = Vec::new();
            let mut state = self.0.state.lock();
            let taken = state.pop(None, &mut abandoned);
            if taken.is_some() || !abandoned.is_empty() {
                drop(state);
                drop(abandoned);
                match taken {
                    Some(item) => return Some(item),
                    None => continue,
                }
            }
            match state.pause_end() {
                Some(end) => {
                    let _ = self.0.changed.wait_until(&mut state, end);
                }
                None if state.is_closed => return None,
                None => self.0.changed.wait(&mut state),
            }
        }
    }

    /// Takes the next item if there is one that is expected to take no longer than `max_time`.
    pub(super) fn try_take(&mut self, max_time: Duration) -> Option<T> {
        let mut abandoned = Vec::new();
        let taken = self.0.state.lock().pop(Some(max_time), &mut abandoned);
        drop(abandoned);
        taken
    }

    /// Counts the time of a write for its requester.
    pub(super) fn count_write(&self, requester: Requester, time: Duration) {
        self.0.state.lock().time.count_write(requester, time, now());
    }

    /// Counts the time of what follows a commit, such as passing on a large result.
    pub(super) fn count_reply(&self, requester: Requester, time: Duration) {
        self.0.state.lock().time.count(requester, time, now());
    }

    /// Counts the time of a commit for the requesters of its writes, by the time that each of these took.
    pub(super) fn count_commit(&self, time: Duration, writes: &[(Requester, Duration)]) {
        let total: f64 = writes.iter().map(|(_, time)| time.as_secs_f64()).sum();
        let mut state = self.0.state.lock();
        for (requester, own) in writes {
            let part = if total > 0.0 { own.as_secs_f64() / total } else { 0.0 };
            state.time.count(*requester, time.mul_f64(part), now());
        }
    }
}

impl<T: Queued> State<T> {
    /// Returns the item if it is refused. Adds to `abandoned` what it removed.
    fn push(&mut self, item: T, abandoned: &mut Vec<T>) -> Option<T> {
        let requester = item.requester();
        if requester == Requester::Priority {
            self.urgent.push_back(item);
            return None;
        }
        let waiting = self.waiting.entry(requester).or_default();
        if !waiting.is_empty() && waiting.len().is_multiple_of(PURGE_INTERVAL) {
            let all = std::mem::take(waiting);
            for (ticket, earlier) in all {
                if earlier.is_abandoned() {
                    abandoned.push(earlier);
                } else {
                    waiting.push_back((ticket, earlier));
                }
            }
        }
        if requester != Requester::Server && waiting.len() >= MAX_WAITING_WRITES {
            return Some(item);
        }
        waiting.push_back((self.next_ticket, item));
        self.next_ticket += 1;
        None
    }

    /// Removes the next item. With `max_time`, one that is expected to take longer stays. Adds to `abandoned`
    /// what it removed because nobody waits for it.
    fn pop(&mut self, max_time: Option<Duration>, abandoned: &mut Vec<T>) -> Option<T> {
        while let Some(item) = self.urgent.pop_front() {
            if !item.is_abandoned() {
                return Some(item);
            }
            abandoned.push(item);
        }
        if self.waiting.is_empty() {
            return None;
        }
        let now = now();
        self.time.decay(now);
        loop {
            let requester = self.next_requester(now)?;
            if max_time.is_some_and(|max_time| self.time.typical_write(requester) > max_time) {
                return None;
            }
            let waiting = self.waiting.get_mut(&requester)?;
            let next = waiting.pop_front();
            if waiting.is_empty() {
                self.waiting.remove(&requester);
            }
            let (_, item) = next?;
            if !item.is_abandoned() {
                return Some(item);
            }
            abandoned.push(item);
        }
    }

    /// The requester whose turn is next. When the queue is closed, nobody is paused.
    fn next_requester(&self, now: Instant) -> Option<Requester> {
        let waiting = self.waiting.iter().filter_map(|(requester, items)| {
            let (ticket, _) = items.front()?;
            if !self.is_closed && self.time.paused_until(*requester, now).is_some() {
                return None;
            }
            Some((self.time.rank(*requester), *ticket, *requester))
        });
        let next = waiting.min_by(|one, other| one.0.compare(&other.0).then(one.1.cmp(&other.1)));
        next.map(|(.., requester)| requester)
    }

    /// When the first of those who wait is no longer paused; `None` if nobody waits.
    fn pause_end(&self) -> Option<Instant> {
        let now = now();
        self.waiting.keys().map(|requester| self.time.paused_until(*requester, now).unwrap_or(now)).min()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the writer is a thread outside the runtime, and measures real time"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use emergent_domain::ids::ProjectId;

    use super::*;

    #[derive(Debug)]
    struct Item {
        name: &'static str,
        requester: Requester,
        is_abandoned: bool,
    }

    impl Queued for Item {
        fn requester(&self) -> Requester {
            self.requester
        }

        fn is_abandoned(&self) -> bool {
            self.is_abandoned
        }
    }

    fn item(name: &'static str, requester: Requester) -> Item {
        Item { name, requester, is_abandoned: false }
    }

    fn project() -> Requester {
        Requester::Project(ProjectId::new())
    }

    fn take(queue: &mut WriteQueue<Item>) -> &'static str {
        queue.take().expect("an item").name
    }

    const LONG: Duration = Duration::from_millis(500);

    #[test]
    fn leases_are_taken_first_and_writes_of_one_requester_in_their_order() {
        let (sender, mut queue) = write_queue();
        for item in
            [item("a", Requester::Server), item("b", Requester::Server), item("lease", Requester::Priority)]
        {
            sender.send(item).unwrap();
        }
        assert_eq!(take(&mut queue), "lease");
        assert_eq!(take(&mut queue), "a");
        sender.send(item("check", Requester::Priority)).unwrap();
        assert_eq!(take(&mut queue), "check");
        drop(sender);
        assert_eq!(take(&mut queue), "b");
        assert!(queue.take().is_none());
    }

    #[test]
    fn writes_of_others_come_before_those_of_a_project_that_used_more_time() {
        let (sender, mut queue) = write_queue();
        let (busy, other) = (project(), project());
        for name in ["busy 1", "busy 2", "busy 3"] {
            sender.send(item(name, busy)).unwrap();
        }
        assert_eq!(take(&mut queue), "busy 1");
        queue.count_write(busy, LONG);
        sender.send(item("other 1", other)).unwrap();
        sender.send(item("other 2", other)).unwrap();
        assert_eq!(take(&mut queue), "other 1");
        queue.count_write(other, LONG / 10);
        assert_eq!(take(&mut queue), "other 2");
        queue.count_write(other, LONG * 2);
        assert_eq!(take(&mut queue), "busy 2", "the other one has used more now");
    }

    #[test]
    fn a_write_that_is_expected_to_take_long_does_not_delay_the_commit_of_others() {
        let (sender, mut queue) = write_queue();
        let busy = project();
        queue.count_write(busy, LONG);
        sender.send(item("long", busy)).unwrap();
        assert!(queue.try_take(Duration::from_millis(20)).is_none());
        assert_eq!(take(&mut queue), "long", "it is the first of the next group");
    }

    #[test]
    fn after_a_long_write_its_project_waits_while_others_write() {
        let (sender, mut queue) = write_queue();
        let (busy, other) = (project(), project());
        sender.send(item("first", busy)).unwrap();
        assert_eq!(take(&mut queue), "first");
        queue.count_write(busy, LONG);
        sender.send(item("busy", busy)).unwrap();
        assert!(queue.try_take(LONG * 2).is_some(), "nobody else writes");
        queue.count_write(other, LONG / 100);
        let started = Instant::now();
        sender.send(item("busy", busy)).unwrap();
        sender.send(item("other", other)).unwrap();
        assert_eq!(take(&mut queue), "other");
        assert!(queue.try_take(LONG * 2).is_none());
        assert_eq!(take(&mut queue), "busy");
        assert!(started.elapsed() > LONG / 2, "{:?}", started.elapsed());
        // A server that stops does not wait.
        queue.count_write(busy, LONG * 10);
        sender.send(item("last", busy)).unwrap();
        drop(sender);
        assert_eq!(take(&mut queue), "last");
        assert!(queue.take().is_none());
        assert!(started.elapsed() < LONG * 6, "{:?}", started.elapsed());
    }

    #[test]
    fn a_write_without_a_caller_is_not_taken() {
        let (sender, mut queue) = write_queue();
        let project = project();
        sender.send(Item { is_abandoned: true, ..item("gone", project) }).unwrap();
        sender.send(Item { is_abandoned: true, ..item("gone", Requester::Priority) }).unwrap();
        sender.send(item("waits", project)).unwrap();
        assert_eq!(take(&mut queue), "waits");
    }

    #[test]
    fn one_project_has_a_bounded_number_of_waiting_writes() {
        let (sender, mut queue) = write_queue();
        let (busy, other) = (project(), project());
        for _ in 0..MAX_WAITING_WRITES {
            sender.send(item("write", busy)).unwrap();
        }
        let refused = sender.send(item("surplus", busy));
        assert!(matches!(refused, Err(Error::TooManyWrites { limit: MAX_WAITING_WRITES })));
        for requester in [other, Requester::Server, Requester::Priority] {
            sender.send(item("write", requester)).unwrap();
        }
        assert_eq!(take(&mut queue), "write");
        // Those whose caller gave up make room.
        let (sender, _queue) = write_queue();
        for _ in 0..MAX_WAITING_WRITES * 3 {
            sender.send(Item { is_abandoned: true, ..item("gone", busy) }).unwrap();
        }
        assert!(sender.0.state.lock().waiting[&busy].len() <= PURGE_INTERVAL);
    }
}
