//! Limits the memory of rows that were read for requests.
//!
//! What a request reads stays in memory until its answer is built, and many requests for a large row can be at that
//! point at once, and so can many event streams. So the rows of a request are counted until it ends, by its requester.
//! While a requester has as much in memory as it may, its other requests wait before they read. A request that has rows in memory never waits: it
//! could be the one that the others wait for.

use std::{collections::HashMap, pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::{
    error::{Error, Result},
    requester::Requester,
};

/// Smaller reads are not counted: the limit of requests is sufficient for them.
const MIN_COUNTED_BYTES: usize = 64 << 10;
/// Reads from this size on make answers that take milliseconds to build.
const LARGE_BYTES: usize = 1 << 20;
/// The least that is counted for a read while it is under way.
const MIN_EXPECTED_BYTES: usize = 256 << 10;
/// How long a request waits until others have ended.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The bytes of rows in memory, in total and by requester.
pub struct ReadMemory {
    max_total: usize,
    max_own: usize,
    used: Mutex<UsedBytes>,
    released: Notify,
}

#[derive(Default)]
struct UsedBytes {
    total: usize,
    by_requester: HashMap<Requester, usize>,
    /// What the next read of a requester may be as large as: its largest one, and less with each smaller one. Nobody
    /// knows the size of a read that is under way, and as many as there are connections could be large at the same
    /// moment. Requesters whose reads are small are not included.
    expected: HashMap<Requester, usize>,
}

impl UsedBytes {
    fn expected(&self, requester: Requester) -> usize {
        self.expected.get(&requester).copied().unwrap_or(MIN_EXPECTED_BYTES)
    }

    fn learn(&mut self, requester: Requester, read_bytes: usize) {
        let expected = self.expected(requester);
        let expected = read_bytes.max(expected - expected / 8);
        if expected > MIN_EXPECTED_BYTES {
            self.expected.insert(requester, expected);
        } else {
            self.expected.remove(&requester);
        }
    }

    fn add(&mut self, requester: Requester, bytes: usize) {
        self.total += bytes;
        *self.by_requester.entry(requester).or_default() += bytes;
    }

    fn remove(&mut self, requester: Requester, bytes: usize) {
        self.total -= bytes;
        if let Some(own) = self.by_requester.get_mut(&requester) {
            *own -= bytes;
            if *own == 0 {
                self.by_requester.remove(&requester);
            }
        }
    }
}

/// The rows of one request. They are counted until the last clone is dropped.
pub struct RequestRows {
    memory: Arc<ReadMemory>,
    requester: Requester,
    /// The bytes of its largest read. A request mostly has one large result in memory at a time, and one that reads
    /// many pages does not hold them all.
    bytes: Mutex<usize>,
}

tokio::task_local! {
    static CURRENT: Arc<RequestRows>;
}

/// The rows of the request that the current task handles; `None` for the server's own work.
pub(crate) fn current() -> Option<Arc<RequestRows>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Whether the current request has read so much that building its answer takes long.
pub fn has_large_rows() -> bool {
    current().is_some_and(|rows| *rows.bytes.lock() >= LARGE_BYTES)
}

/// Ends the count of what the current request has read so far. A request that waits for a long time calls it, when it
/// has dropped what it read.
pub fn release_rows() {
    if let Some(rows) = current() {
        rows.release();
    }
}

impl ReadMemory {
    /// One requester may use a quarter of the total.
    pub fn new(max_total: usize) -> Arc<Self> {
        Arc::new(Self { max_total, max_own: max_total / 4, used: Mutex::default(), released: Notify::new() })
    }

    /// Runs a request. What it reads is counted until it ends. Tasks that it spawns are not included.
    pub fn count_for<F: Future>(
        self: &Arc<Self>,
        requester: Requester,
        request: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let rows = RequestRows { memory: Arc::clone(self), requester, bytes: Mutex::default() };
        CURRENT.scope(Arc::new(rows), request)
    }

    /// Like [`ReadMemory::count_for`], for a stream that is polled after its request has ended. What it reads is counted
    /// until it becomes an item: hundreds of followers of one large event may have read it, and wait for their turn to
    /// send it.
    pub fn count_for_stream<S>(
        self: &Arc<Self>,
        requester: Requester,
        items: S,
    ) -> impl Stream<Item = S::Item> + Send + 'static + use<S>
    where
        S: Stream + Send + 'static,
    {
        let rows = Arc::new(RequestRows { memory: Arc::clone(self), requester, bytes: Mutex::default() });
        let mut items: Pin<Box<S>> = Box::pin(items);
        stream::poll_fn(move |context| {
            let item = CURRENT.sync_scope(Arc::clone(&rows), || items.as_mut().poll_next(context));
            if item.is_ready() {
                rows.release();
            }
            item
        })
    }

    /// Whether the requester may read. One that has nothing in memory always may: others cannot keep it from
    /// reading, whatever they have in memory.
    fn has_capacity(&self, requester: Requester) -> bool {
        self.admits(&self.used.lock(), requester)
    }

    fn admits(&self, used: &UsedBytes, requester: Requester) -> bool {
        let own = used.by_requester.get(&requester).copied().unwrap_or_default();
        own == 0 || (own < self.max_own && used.total < self.max_total)
    }
}

impl RequestRows {
    /// Whether this request may read now.
    pub(crate) fn may_read(&self) -> bool {
        *self.bytes.lock() > 0 || self.memory.has_capacity(self.requester)
    }

    /// Counts a read that is under way until the guard is dropped; `None` if this request may not read now.
    pub(crate) fn begin(&self) -> Option<Reading<'_>> {
        let has_rows = *self.bytes.lock() > 0;
        let mut used = self.memory.used.lock();
        if !has_rows && !self.memory.admits(&used, self.requester) {
            return None;
        }
        let bytes = used.expected(self.requester);
        used.add(self.requester, bytes);
        Some(Reading { rows: self, bytes })
    }

    /// Waits until this request may read.
    pub(crate) async fn wait(&self, deadline: Instant) -> Result<()> {
        let mut released = std::pin::pin!(self.memory.released.notified());
        loop {
            // A release after this is not missed, although the check comes first.
            released.as_mut().enable();
            if self.may_read() {
                return Ok(());
            }
            if tokio::time::timeout_at(deadline, released.as_mut()).await.is_err() {
                return Err(Error::TooManyRows { limit: self.memory.max_own, waited: MAX_WAIT });
            }
            released.set(self.memory.released.notified());
        }
    }

    /// Counts what a read has returned.
    pub(crate) fn count(&self, read_bytes: usize) {
        self.memory.used.lock().learn(self.requester, read_bytes);
        let mut bytes = self.bytes.lock();
        if read_bytes < MIN_COUNTED_BYTES || read_bytes <= *bytes {
            return;
        }
        let further = read_bytes - std::mem::replace(&mut *bytes, read_bytes);
        self.memory.used.lock().add(self.requester, further);
    }

    fn release(&self) {
        let bytes = std::mem::take(&mut *self.bytes.lock());
        if bytes == 0 {
            return;
        }
        self.memory.used.lock().remove(self.requester, bytes);
        self.memory.released.notify_waiters();
    }
}

/// A read that is under way.
pub(crate) struct Reading<'a> {
    rows: &'a RequestRows,
    bytes: usize,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let RequestRows { memory, requester, .. } = self.rows;
        memory.used.lock().remove(*requester, self.bytes);
        memory.released.notify_waiters();
    }
}

impl Drop for RequestRows {
    fn drop(&mut self) {
        self.release();
    }
}

/// When a read that starts to wait now gives up.
pub(crate) fn wait_deadline() -> Instant {
    Instant::now() + MAX_WAIT
}

#[cfg(test)]
mod tests {
    use emergent_domain::ids::ProjectId;

    use super::*;

    fn request(memory: &Arc<ReadMemory>, requester: Requester) -> RequestRows {
        RequestRows { memory: Arc::clone(memory), requester, bytes: Mutex::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_while_others_of_its_project_have_too_much_in_memory() {
        let memory = ReadMemory::new(16 * MIN_COUNTED_BYTES);
        let (one, two) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let (first, second, third) = (request(&memory, one), request(&memory, one), request(&memory, one));
        first.count(100);
        assert!(third.may_read(), "small reads are not counted");
        first.count(2 * MIN_COUNTED_BYTES);
        second.count(2 * MIN_COUNTED_BYTES);
        second.count(MIN_COUNTED_BYTES);
        assert!(!third.may_read());
        assert!(first.may_read(), "others may wait for this one");
        let refused = third.wait(wait_deadline()).await.unwrap_err();
        assert!(matches!(refused, Error::TooManyRows { .. }), "{refused}");
        let other = request(&memory, two);
        assert!(other.may_read(), "another project does not wait");
        let (done, ()) = tokio::join!(third.wait(wait_deadline()), async { drop(second) });
        done.unwrap();
        drop((first, other));
        assert!(memory.used.lock().by_requester.is_empty() && memory.used.lock().total == 0);
    }

    #[test]
    fn reads_that_are_under_way_are_counted_as_the_largest_one_before() {
        let memory = ReadMemory::new(4 * 6 * MIN_EXPECTED_BYTES);
        let (one, two) = (Requester::Project(ProjectId::new()), Requester::Project(ProjectId::new()));
        let requests: Vec<RequestRows> = (0..8).map(|_| request(&memory, one)).collect();
        let begin = || requests.iter().filter_map(RequestRows::begin).collect::<Vec<_>>();
        assert_eq!(begin().len(), 6, "nothing is known of them");
        request(&memory, one).count(3 * MIN_EXPECTED_BYTES);
        let reading = begin();
        assert_eq!(reading.len(), 2, "they may be as large");
        assert!(request(&memory, two).begin().is_some(), "another project does not wait");
        drop(reading);
        for _ in 0..20 {
            request(&memory, one).count(0);
        }
        assert_eq!(begin().len(), 6, "the others were small");
        let used = memory.used.lock();
        assert!(used.by_requester.is_empty() && used.expected.is_empty() && used.total == 0);
    }

    #[tokio::test]
    async fn a_project_with_nothing_in_memory_reads_although_others_have_used_up_all() {
        let memory = ReadMemory::new(2 * MIN_COUNTED_BYTES);
        let full: Vec<_> = (0..4)
            .map(|_| {
                let rows = request(&memory, Requester::Project(ProjectId::new()));
                rows.count(MIN_COUNTED_BYTES);
                rows
            })
            .collect();
        let project = Requester::Project(ProjectId::new());
        let (first, second) = (request(&memory, project), request(&memory, project));
        assert!(first.may_read());
        first.count(MIN_COUNTED_BYTES);
        assert!(!second.may_read(), "one at a time");
        drop(full);
        assert!(!second.may_read(), "it has its own share in memory");
        drop(first);
        assert!(second.may_read());
    }
}
