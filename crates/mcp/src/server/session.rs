//! Sessions of the old era: what a client said when it came, and what is under way with it.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde_json::{Value, value::RawValue};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use super::{Fault, SubscribedResources, request_channel::Level};
use crate::message::{Message, RpcError};

/// A session that nobody used for so long is over.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// How many sessions a caller has at most, and all callers together.
const MAX_PER_CALLER: usize = 100;
const MAX_TOTAL: usize = 10_000;
/// What a client says it can do is kept as long as its session: it must be short.
const MAX_CAPABILITIES_BYTES: usize = 16 * 1024;

type ClientReply = Result<Value, RpcError>;

pub(super) struct Session {
    pub id: String,
    pub capabilities: Option<Box<RawValue>>,
    pub level: Mutex<Option<Level>>,
    /// The resources it wants to hear of.
    pub subscribed: watch::Sender<SubscribedResources>,
    used: Mutex<Instant>,
    questions: AtomicU64,
    /// Questions to the client that wait for an answer.
    waiting: Mutex<HashMap<String, oneshot::Sender<ClientReply>>>,
    /// Requests of the client that are being worked on. Dropping the sender cancels one.
    running: Mutex<HashMap<String, oneshot::Sender<()>>>,
    /// Ends the stream that the client opened; there is one at a time.
    stream: Mutex<Option<oneshot::Sender<()>>>,
}

impl Session {
    /// A new question: its id, and where the answer comes.
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

    /// Notes that a request is being worked on, until the answer is dropped. `None` when one with
    /// this id already is: taking back either would mean both.
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

    /// The one stream the client listens on: an older one ends.
    pub fn listen(self: &Arc<Self>) -> StreamGuard {
        let (end, ended) = oneshot::channel();
        *self.stream.lock() = Some(end);
        StreamGuard { session: Arc::clone(self), ended }
    }

    /// Whether a request is being worked on, or a stream is open.
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

/// A request that is being worked on.
pub(super) struct RequestGuard {
    session: Arc<Session>,
    id: String,
    /// Resolves when the client no longer wants it.
    pub cancelled: oneshot::Receiver<()>,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        // Before it is forgotten: in between, the session would look long unused.
        self.session.touch();
        let mut running = self.session.running.lock();
        // One that was taken back is no longer noted, and its id may be another's by now.
        if self.cancelled.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
            running.remove(&self.id);
        }
    }
}

/// A stream that is open.
pub(super) struct StreamGuard {
    session: Arc<Session>,
    ended: oneshot::Receiver<()>,
}

impl StreamGuard {
    /// Comes back when the stream is to end.
    pub async fn ended(mut self) {
        let _ = (&mut self.ended).await;
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.session.touch();
    }
}

/// Every session, by its maker and its id.
pub(super) struct Sessions<C>(Mutex<HashMap<C, HashMap<String, Arc<Session>>>>);

impl<C> Default for Sessions<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Eq + Hash> Sessions<C> {
    /// A new session. A caller that has as many as it may loses the one it used least lately; what
    /// others have, and what is at work, is left alone.
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
                let why = if own >= MAX_PER_CALLER {
                    format!("each of the {MAX_PER_CALLER} sessions of this token is at work: end one first")
                } else {
                    "there are too many sessions on this server: try again later".to_owned()
                };
                return Err(Fault::LimitReached { why });
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

/// Clients that went without a word leave their sessions behind.
fn remove_expired<C: Eq + Hash>(all: &mut HashMap<C, HashMap<String, Arc<Session>>>) {
    all.retain(|_, own| {
        own.retain(|_, session| !session.is_expired());
        !own.is_empty()
    });
}

/// Takes out the session that was unused the longest, of those with nothing at work.
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
        for (kept, maker) in [(&other, "eve"), (&working, "ada"), (&listening, "ada")] {
            assert!(sessions.get(&kept.id, &maker).is_some());
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
        assert!(sessions.start("eve", None).is_ok(), "others are not kept out");
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
        assert!(sessions.get(&working.id, &"ada").is_some(), "the hour begins when the work ends");
    }

    #[test]
    fn what_a_client_takes_back_is_cancelled_and_nothing_else_is() {
        let session = Sessions::default().start((), None).unwrap();
        let (mut one, mut two) =
            (session.start_request(&id("1")).unwrap(), session.start_request(&id("\"1\"")).unwrap());
        session.cancel(&id("1"));
        assert_eq!(one.cancelled.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(two.cancelled.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn an_id_is_one_requests_while_it_is_worked_on() {
        let session = Sessions::default().start((), None).unwrap();
        let first = session.start_request(&id("1")).unwrap();
        assert!(session.start_request(&id("1")).is_none());
        session.cancel(&id("1"));
        let mut second = session.start_request(&id("1")).expect("the first was taken back");
        drop(first);
        assert_eq!(second.cancelled.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        drop(second);
        assert!(session.start_request(&id("1")).is_some());
    }
}
