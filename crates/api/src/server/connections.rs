//! Limits the number of open connections, in total and per address.
//!
//! A client that opens connections and sends nothing must not lock out others. So a new connection is not
//! refused as long as there is an idle one: the connection that has been idle the longest is closed instead.
//! If the address of the new connection is at its limit, one of its own connections is closed, otherwise one
//! of the address with the most connections.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// The number of connections that are reserved for health checks and for tokens that span projects.
const RESERVED: usize = 32;
/// The maximum number of connections, however many files may be opened.
const MAX_TOTAL: usize = 10_000;

/// The maximum numbers of open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub total: usize,
    pub per_address: usize,
}

impl ConnectionLimits {
    /// Returns the limits for a process that may open this many files. A quarter of them is left for the
    /// database, programs and outgoing connections.
    pub fn for_open_files(files: u64) -> Self {
        let total = usize::try_from(files / 4 * 3).unwrap_or(usize::MAX).clamp(RESERVED * 2, MAX_TOTAL);
        Self { total, per_address: total - total / 4 }
    }
}

/// The open connections of a server.
pub(super) struct Connections {
    limits: ConnectionLimits,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    next_id: u64,
    connections: HashMap<u64, Arc<State>>,
    per_address: HashMap<IpAddr, usize>,
}

/// The state of one connection.
struct State {
    address: IpAddr,
    /// The number of requests in progress.
    requests: AtomicUsize,
    /// When the last request ended, or the connection was opened.
    idle_since: Mutex<Instant>,
    /// Whether there was a request.
    is_used: AtomicBool,
    /// The responses that the client has not accepted completely, and since when their last part waits.
    sending: Mutex<HashMap<u64, Instant>>,
    next_response: AtomicU64,
    /// Notified when the connection has to be closed.
    close: Notify,
}

/// The decision about a new connection.
pub(super) enum Admission {
    Admitted(Connection),
    /// The limit is reached, and every connection has a request in progress.
    Refused,
}

/// An open connection; it is counted until it is dropped.
pub(super) struct Connection {
    id: u64,
    state: Arc<State>,
    reserved: bool,
    open: Arc<Mutex<Open>>,
}

/// A request in progress; it is counted until this is dropped.
pub(super) struct Busy {
    state: Arc<State>,
    /// Identifies the response while the client has to accept a part of it.
    sending: Option<u64>,
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Self {
        Self { limits, open: Arc::default() }
    }

    /// Decides about a new connection, and closes an idle one if a limit is reached.
    pub fn admit(&self, address: IpAddr) -> Admission {
        let mut open = self.open.lock();
        let open_limit = self.limits.total - RESERVED;
        if open.count(address) >= self.limits.per_address {
            open.close_longest_idle(address);
        } else if open.connections.len() >= open_limit {
            let largest = open.per_address.iter().max_by_key(|(_, count)| **count);
            let largest = largest.map_or(address, |(largest, _)| *largest);
            open.close_longest_idle(largest);
        }
        let reserved = open.connections.len() >= open_limit || open.count(address) >= self.limits.per_address;
        if reserved && open.connections.len() >= self.limits.total {
            return Admission::Refused;
        }
        let state = Arc::new(State {
            address,
            requests: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
            is_used: AtomicBool::new(false),
            sending: Mutex::default(),
            next_response: AtomicU64::new(0),
            close: Notify::new(),
        });
        let id = open.next_id;
        open.next_id += 1;
        open.connections.insert(id, Arc::clone(&state));
        *open.per_address.entry(address).or_default() += 1;
        Admission::Admitted(Connection { id, state, reserved, open: Arc::clone(&self.open) })
    }
}

impl Open {
    /// Returns the number of open connections of an address.
    fn count(&self, address: IpAddr) -> usize {
        self.per_address.get(&address).copied().unwrap_or_default()
    }

    /// Closes the connection of this address that has been idle the longest, if one is idle.
    fn close_longest_idle(&mut self, address: IpAddr) {
        let idle = self.connections.iter().filter(|(_, state)| state.address == address && state.is_idle());
        let longest = idle.min_by_key(|(_, state)| *state.idle_since.lock()).map(|(id, _)| *id);
        if let Some(closed) = longest.and_then(|id| self.remove(id)) {
            closed.close.notify_one();
        }
    }

    fn remove(&mut self, id: u64) -> Option<Arc<State>> {
        let removed = self.connections.remove(&id)?;
        if let Some(count) = self.per_address.get_mut(&removed.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&removed.address);
            }
        }
        Some(removed)
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }
}

impl Connection {
    pub fn address(&self) -> IpAddr {
        self.state.address
    }

    /// Whether this is one of the reserved connections, which may serve only health checks and operators.
    pub fn is_reserved(&self) -> bool {
        self.reserved
    }

    pub fn begin_request(&self) -> Busy {
        self.state.requests.fetch_add(1, Ordering::Relaxed);
        self.state.is_used.store(true, Ordering::Relaxed);
        Busy { state: Arc::clone(&self.state), sending: None }
    }

    /// Resolves when the client has not accepted a part of a response for `timeout`.
    pub async fn stalled(&self, timeout: Duration) {
        loop {
            let oldest = self.state.sending.lock().values().min().copied();
            let check_at = oldest.map_or_else(|| Instant::now() + timeout / 4, |since| since + timeout);
            tokio::time::sleep_until(check_at).await;
            if self.state.sending.lock().values().any(|since| since.elapsed() >= timeout) {
                return;
            }
        }
    }

    /// Resolves when the connection has to be closed: another one needs its place, no request came within
    /// `first_timeout`, or it was idle for `idle_timeout` after one.
    pub async fn unneeded(&self, first_timeout: Duration, idle_timeout: Duration) {
        loop {
            let since = *self.state.idle_since.lock();
            let is_used = self.state.is_used.load(Ordering::Relaxed);
            let idle_timeout = if is_used { idle_timeout } else { first_timeout };
            tokio::select! {
                () = self.state.close.notified() => {}
                () = tokio::time::sleep_until(since + idle_timeout) => {
                    if *self.state.idle_since.lock() != since
                        || self.state.is_used.load(Ordering::Relaxed) != is_used
                    {
                        continue;
                    }
                    if !self.state.is_idle() {
                        // A request is in progress. Its end sets a new `idle_since`, so it is sufficient to
                        // check again later.
                        tokio::time::sleep(idle_timeout).await;
                        continue;
                    }
                }
            }
            return;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.lock().remove(self.id);
    }
}

impl Busy {
    /// A part of the response waits to be accepted by the client, from now on.
    pub fn begin_sending(&mut self) {
        let new_id = || self.state.next_response.fetch_add(1, Ordering::Relaxed);
        let id = *self.sending.get_or_insert_with(new_id);
        self.state.sending.lock().insert(id, Instant::now());
    }

    /// The client has accepted all parts of the response so far.
    pub fn end_sending(&mut self) {
        if let Some(id) = self.sending.take() {
            self.state.sending.lock().remove(&id);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.end_sending();
        if self.state.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            *self.state.idle_since.lock() = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn admit(connections: &Connections, address: IpAddr) -> Connection {
        match connections.admit(address) {
            Admission::Admitted(connection) => connection,
            Admission::Refused => panic!("refused"),
        }
    }

    async fn was_closed(connection: &Connection) -> bool {
        let hour = Duration::from_secs(3600);
        let closed = connection.unneeded(hour, hour);
        tokio::time::timeout(Duration::from_millis(1), closed).await.is_ok()
    }

    #[tokio::test]
    async fn an_address_at_its_limit_closes_its_own_longest_idle_connection() {
        let connections = Connections::new(ConnectionLimits { total: 100, per_address: 3 });
        let other = admit(&connections, TWO);
        let (first, second, third) =
            (admit(&connections, ONE), admit(&connections, ONE), admit(&connections, ONE));
        let _busy = first.begin_request();
        let fourth = admit(&connections, ONE);
        assert!(!fourth.is_reserved());
        assert!(was_closed(&second).await, "the longest idle one is closed");
        assert!(!was_closed(&first).await && !was_closed(&third).await && !was_closed(&other).await);
        drop((second, fourth));
        assert!(!admit(&connections, ONE).is_reserved());
    }

    #[tokio::test]
    async fn at_the_total_limit_a_connection_of_the_address_with_the_most_is_closed() {
        let connections = Connections::new(ConnectionLimits { total: RESERVED + 4, per_address: 100 });
        let many: Vec<_> = (0..3).map(|_| admit(&connections, ONE)).collect();
        let (own, next) = (admit(&connections, TWO), admit(&connections, TWO));
        assert!(was_closed(&many[0]).await);
        assert!(!was_closed(&own).await && !was_closed(&next).await);
    }

    #[tokio::test]
    async fn when_all_connections_are_busy_only_the_reserved_ones_are_left() {
        let connections = Connections::new(ConnectionLimits { total: RESERVED + 2, per_address: 2 });
        let (first, second) = (admit(&connections, ONE), admit(&connections, ONE));
        let _busy = (first.begin_request(), second.begin_request());
        let admit_busy = |_| {
            let connection = admit(&connections, TWO);
            let request = connection.begin_request();
            (connection, request)
        };
        let reserved: Vec<_> = (0..RESERVED).map(admit_busy).collect();
        assert!(reserved.iter().all(|(connection, _)| connection.is_reserved()));
        assert!(matches!(connections.admit(TWO), Admission::Refused));
    }

    #[test]
    fn limits_stay_below_the_open_files() {
        for files in [256, 1_024, 65_536, u64::MAX] {
            let limits = ConnectionLimits::for_open_files(files);
            assert!(limits.total as u64 <= files / 4 * 3 && limits.per_address < limits.total, "{limits:?}");
        }
    }
}
