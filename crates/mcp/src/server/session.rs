//! The sessions of the legacy era: the capabilities of a client, and its requests in progress.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use uuid::Uuid;

use super::{Fault, SubscribedResources, request_channel::Level};
use crate::message::{Message, RpcError};

/// A session that is unused for this long expires.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// The maximum number of sessions of one caller, and of all callers together.
const MAX_PER_CALLER: usize = 100;
const MAX_TOTAL: usize = 10_000;
/// The capabilities of a client are stored as long as its session, so their size is limited.
const MAX_CAPABILITIES_BYTES: usize = 16 * 1024;

type ClientReply = Result<Value, RpcError>;

pub(super) struct Session {
    pub id: String,
    pub capabilities: Option<Box<RawValue>>,
    pub level: Mutex<Option<Level>>,
    /// The resources the client is subscribed to.
    pub subscribed: watch::Sender<SubscribedResources>,
    used: Mutex<Instant>,
    questions: AtomicU64,
    /// Requests to the client that wait for a response.
    waiting: Mutex<HashMap<String, oneshot::Sender<ClientReply>>>,
    /// Requests of the client in progress. Dropping the sender cancels one.
    running: Mutex<HashMap<String, oneshot::Sender<()>>>,
    /// Closes the stream that the client opened; a session has at most one.
    stream: Mutex<Option<oneshot::Sender<()>>>,
}

impl Session {
    /// Registers a new request to the client. Returns its id and the receiver of the response.
    pub fn new_question(&self) -> (String, oneshot::Receiver<ClientReply>) {
        let id = self.questions.fetch_add(1, Ordering::Relaxed).to_string();
        let (send, receive) = oneshot::channel();
        self.waiting.lock().insert(id.clone(), send);
        (id, receive)
    }

    pub fn resolve_question(&self, message: &Message<'_>) {
        let waiting = message.id.and_then(|id| self.waiting.lock().remove(id.get()));
        let Some(waiting) = waiting else { return };
        let answer = match &message.error {
            Some(error) => Err(error.clone()),
            None => Ok(super::params::to_value(message.result)),
        };
        let _ = waiting.send(answer);
    }

    /// Registers a request as in progress until the guard is dropped. Returns `None` if one with this id is
    /// in progress already, because a cancellation would be ambiguous.
    pub fn start_request(self: &Arc<Self>, id: &RawValue) -> Option<RequestGuard> {
        let mut running = self.running.lock();
        if running.contains_key(id.get()) {
            return None;
        }
        let (cancel, cancelled) = oneshot::channel();
        running.insert(id.get().to_owned(), cancel);
        Some(RequestGuard { session: Arc::clone(self), id: id.get().to_owned(), cancelled })
    }

    pub fn cancel(&self, id: &RawValue) {
        self.running.lock().remove(id.get());
    }

    /// Registers the stream of the client; an older one is closed.
    pub fn listen(self: &Arc<Self>) -> StreamGuard {
        let (end, ended) = oneshot::channel();
        *self.stream.lock() = Some(end);
        StreamGuard { session: Arc::clone(self), ended }
    }

    /// Whether a request is in progress or a stream is open.
    fn is_busy(&self) -> bool {
        let works = !self.running.lock().is_empty();
        works || self.stream.lock().as_ref().is_some_and(|end| !end.is_closed())
    }

    fn is_expired(&self) -> bool {
        let unused = self.used.lock().elapsed();
        unused > IDLE_TIMEOUT && !self.is_busy()
    }

    fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    fn end(&self) {
        self.running.lock().clear();
        self.waiting.lock().clear();
        *self.stream.lock() = None;
    }
}

/// A request in progress.
pub(super) struct RequestGuard {
    session: Arc<Session>,
    id: String,
    /// Resolves when the client cancels the request.
    pub cancelled: oneshot::Receiver<()>,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        // The session is touched before the request is removed; otherwise it would look idle in between.
        self.session.touch();
        let mut running = self.session.running.lock();
        // A cancelled request is no longer registered, and its id may belong to another one by now.
        if self.cancelled.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
            running.remove(&self.id);
        }
    }
}

/// An open stream.
pub(super) struct StreamGuard {
    session: Arc<Session>,
    ended: oneshot::Receiver<()>,
}

impl StreamGuard {
    /// Returns when the stream has to be closed.
    pub async fn ended(mut self) {
        let _ = (&mut self.ended).await;
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.session.touch();
    }
}

/// All sessions by creator and id.
pub(super) struct Sessions<C>(Mutex<HashMap<C, HashMap<String, Arc<Session>>>>);

impl<C> Default for Sessions<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Eq + Hash> Sessions<C> {
    /// Creates a session. A caller at its limit loses the session that was idle the longest; busy sessions
    /// and those of other callers are not affected.
    pub fn start(&self, caller: C, capabilities: Option<&RawValue>) -> Result<Arc<Session>, Fault> {
        if capabilities.is_some_and(|all| all.get().len() > MAX_CAPABILITIES_BYTES) {
            let limit = MAX_CAPABILITIES_BYTES / 1024;
            return Err(Fault::invalid(format!("`params.capabilities` must not be longer than {limit} KiB")));
        }
        let mut all = self.0.lock();
        remove_expired(&mut all);
        let total: usize = all.values().map(HashMap::len).sum();
        let own = all.get(&caller).map_or(0, HashMap::len);
        if own >= MAX_PER_CALLER || total >= MAX_TOTAL {
            let idle = all.get_mut(&caller).and_then(take_idle);
            let Some(idle) = idle else {
                let reason = if own >= MAX_PER_CALLER {
                    format!("all {MAX_PER_CALLER} sessions of this token are busy: end one first")
                } else {
                    "this server has too many sessions; try again later".to_owned()
                };
                return Err(Fault::LimitReached { why: reason });
            };
            idle.end();
        }
        let session = Arc::new(Session {
            id: Uuid::now_v7().to_string(),
            capabilities: capabilities.map(ToOwned::to_owned),
            level: Mutex::default(),
            subscribed: watch::Sender::default(),
            used: Mutex::new(Instant::now()),
            questions: AtomicU64::new(1),
            waiting: Mutex::default(),
            running: Mutex::default(),
            stream: Mutex::default(),
        });
        all.entry(caller).or_default().insert(session.id.clone(), Arc::clone(&session));
        Ok(session)
    }

    pub fn get(&self, id: &str, caller: &C) -> Option<Arc<Session>> {
        let mut all = self.0.lock();
        let own = all.get_mut(caller)?;
        let session = Arc::clone(own.get(id)?);
        if session.is_expired() {
            own.remove(id);
            session.end();
            return None;
        }
        session.touch();
        Some(session)
    }

    pub fn end(&self, session: &Session, caller: &C) {
        let mut all = self.0.lock();
        if let Some(own) = all.get_mut(caller) {
            own.remove(&session.id);
            if own.is_empty() {
                all.remove(caller);
            }
        }
        session.end();
    }
}

/// Removes the sessions of clients that left without ending them.
fn remove_expired<C: Eq + Hash>(all: &mut HashMap<C, HashMap<String, Arc<Session>>>) {
    all.retain(|_, own| {
        own.retain(|_, session| !session.is_expired());
        !own.is_empty()
    });
}

/// Removes the session that was idle the longest among those that are not busy.
fn take_idle(own: &mut HashMap<String, Arc<Session>>) -> Option<Arc<Session>> {
    let idle = own.values().filter(|session| !session.is_busy());
    let oldest = Arc::clone(idle.min_by_key(|session| *session.used.lock())?);
    own.remove(&oldest.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_session_is_its_makers_until_it_ends() {
        let sessions = Sessions::default();
        let session = sessions.start("ada", None).unwrap();
        assert!(sessions.get(&session.id, &"ada").is_some());
        assert!(sessions.get(&session.id, &"eve").is_none());
        assert!(sessions.get("another", &"ada").is_none());
        sessions.end(&session, &"ada");
        assert!(sessions.get(&session.id, &"ada").is_none());
        assert!(sessions.0.lock().is_empty());
    }

    #[test]
    fn a_caller_with_too_many_sessions_loses_its_own_idle_ones_and_nobody_elses() {
        let sessions = Sessions::default();
        let other = sessions.start("eve", None).unwrap();
        let (working, listening) =
            (sessions.start("ada", None).unwrap(), sessions.start("ada", None).unwrap());
        let (mut running, _open) = (working.start_request(&id("1")).unwrap(), listening.listen());
        let idle = sessions.start("ada", None).unwrap();
        for _ in 0..2 * MAX_PER_CALLER {
            sessions.start("ada", None).unwrap();
        }
        assert_eq!(sessions.0.lock()["ada"].len(), MAX_PER_CALLER);
        assert!(sessions.get(&idle.id, &"ada").is_none());
        for (session, creator) in [(&other, "eve"), (&working, "ada"), (&listening, "ada")] {
            assert!(sessions.get(&session.id, &creator).is_some());
        }
        assert_eq!(running.cancelled.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn a_caller_whose_sessions_are_all_at_work_gets_no_other() {
        let sessions = Sessions::default();
        let all: Vec<_> = (0..MAX_PER_CALLER).map(|_| sessions.start("ada", None).unwrap()).collect();
        let mut running: Vec<_> =
            all.iter().map(|session| session.start_request(&id("1")).unwrap()).collect();
        assert!(
            matches!(sessions.start("ada", None), Err(Fault::LimitReached { why }) if why.contains("100"))
        );
        assert!(sessions.start("eve", None).is_ok(), "other callers are not affected");
        running.pop();
        assert!(sessions.start("ada", None).is_ok());
    }

    #[test]
    fn sessions_nobody_came_back_to_are_swept_out_and_those_at_work_stay() {
        let Some(long_ago) = Instant::now().checked_sub(2 * IDLE_TIMEOUT) else { return };
        let sessions = Sessions::default();
        let (left, working) = (sessions.start("ada", None).unwrap(), sessions.start("ada", None).unwrap());
        let running = working.start_request(&id("1")).unwrap();
        for session in [&left, &working] {
            *session.used.lock() = long_ago;
        }
        sessions.start("eve", None).unwrap();
        assert_eq!(sessions.0.lock()["ada"].keys().collect::<Vec<_>>(), [&working.id]);
        drop(running);
        assert!(sessions.get(&working.id, &"ada").is_some(), "the timeout starts when the request ends");
    }

    #[test]
    fn what_a_client_takes_back_is_cancelled_and_nothing_else_is() {
        let session = Sessions::default().start((), None).unwrap();
        let (mut first, mut second) =
            (session.start_request(&id("1")).unwrap(), session.start_request(&id("\"1\"")).unwrap());
        session.cancel(&id("1"));
        assert_eq!(first.cancelled.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(second.cancelled.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn an_id_is_one_requests_while_it_is_worked_on() {
        let session = Sessions::default().start((), None).unwrap();
        let first = session.start_request(&id("1")).unwrap();
        assert!(session.start_request(&id("1")).is_none());
        session.cancel(&id("1"));
        let mut second = session.start_request(&id("1")).expect("the first was cancelled");
        drop(first);
        assert_eq!(second.cancelled.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        drop(second);
        assert!(session.start_request(&id("1")).is_some());
    }
}
