//! Sessions of the old era: what a client said when it came, and what is under way with it.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde_json::{Value, value::RawValue};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::link::Level;
use crate::message::{Message, RpcError};

/// A session that nobody used for so long is over.
const IDLE: Duration = Duration::from_secs(3600);
const MOST: usize = 10_000;

type Answer = Result<Value, RpcError>;

pub(super) struct Session {
    pub id: String,
    pub capabilities: Option<Box<RawValue>>,
    pub level: Mutex<Option<Level>>,
    used: Mutex<Instant>,
    questions: AtomicU64,
    /// Questions to the client that wait for an answer.
    waiting: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
    /// Requests of the client that are being worked on. Dropping the sender cancels one.
    running: Mutex<HashMap<String, oneshot::Sender<()>>>,
    /// Ends the stream that the client opened; there is one at a time.
    stream: Mutex<Option<oneshot::Sender<()>>>,
}

impl Session {
    /// A new question: its id, and where the answer comes.
    pub fn question(&self) -> (String, oneshot::Receiver<Answer>) {
        let id = self.questions.fetch_add(1, Ordering::Relaxed).to_string();
        let (send, receive) = oneshot::channel();
        self.waiting.lock().insert(id.clone(), send);
        (id, receive)
    }

    pub fn answered(&self, message: &Message<'_>) {
        let waiting = message.id.and_then(|id| self.waiting.lock().remove(id.get()));
        let Some(waiting) = waiting else { return };
        let answer = match &message.error {
            Some(error) => Err(error.clone()),
            None => Ok(super::params::value(message.result)),
        };
        let _ = waiting.send(answer);
    }

    /// Notes that a request is being worked on, until the answer is dropped.
    pub fn begin(self: &Arc<Self>, id: &RawValue) -> Running {
        let (cancel, cancelled) = oneshot::channel();
        self.running.lock().insert(id.get().to_owned(), cancel);
        Running { session: Arc::clone(self), id: id.get().to_owned(), cancelled }
    }

    pub fn cancel(&self, id: &RawValue) {
        self.running.lock().remove(id.get());
    }

    /// The one stream the client listens on: an older one ends. Comes back when this one is to end.
    pub fn listen(&self) -> oneshot::Receiver<()> {
        let (end, ended) = oneshot::channel();
        *self.stream.lock() = Some(end);
        ended
    }

    fn end(&self) {
        self.running.lock().clear();
        self.waiting.lock().clear();
        *self.stream.lock() = None;
    }
}

/// A request that is being worked on.
pub(super) struct Running {
    session: Arc<Session>,
    id: String,
    /// Resolves when the client no longer wants it.
    pub cancelled: oneshot::Receiver<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.session.running.lock().remove(&self.id);
    }
}

/// Every session, each with its maker.
pub(super) struct Sessions<C>(Mutex<HashMap<String, (C, Arc<Session>)>>);

impl<C> Default for Sessions<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: PartialEq> Sessions<C> {
    pub fn start(&self, caller: C, capabilities: Option<&RawValue>) -> Arc<Session> {
        let session = Arc::new(Session {
            id: Uuid::now_v7().to_string(),
            capabilities: capabilities.map(ToOwned::to_owned),
            level: Mutex::default(),
            used: Mutex::new(Instant::now()),
            questions: AtomicU64::new(1),
            waiting: Mutex::default(),
            running: Mutex::default(),
            stream: Mutex::default(),
        });
        let mut all = self.0.lock();
        if all.len() >= MOST {
            make_room(&mut all);
        }
        all.insert(session.id.clone(), (caller, Arc::clone(&session)));
        session
    }

    pub fn get(&self, id: &str, caller: &C) -> Option<Arc<Session>> {
        let mut all = self.0.lock();
        let (_, session) = all.get(id).filter(|(maker, _)| maker == caller)?;
        let session = Arc::clone(session);
        let mut used = session.used.lock();
        if used.elapsed() > IDLE {
            all.remove(id);
            session.end();
            return None;
        }
        *used = Instant::now();
        drop(used);
        Some(session)
    }

    pub fn end(&self, session: &Session) {
        self.0.lock().remove(&session.id);
        session.end();
    }
}

/// Clients that went without a word leave their sessions behind: the longest unused go first.
fn make_room<C>(all: &mut HashMap<String, (C, Arc<Session>)>) {
    let mut ages: Vec<_> = all.values().map(|(_, session)| *session.used.lock()).collect();
    let half = ages.len() / 2;
    let (_, median, _) = ages.select_nth_unstable(half);
    let oldest = *median;
    all.retain(|_, (_, session)| {
        let keep = *session.used.lock() > oldest;
        if !keep {
            session.end();
        }
        keep
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_its_makers_until_it_ends() {
        let sessions = Sessions::default();
        let session = sessions.start("ada", None);
        assert!(sessions.get(&session.id, &"ada").is_some());
        assert!(sessions.get(&session.id, &"eve").is_none());
        assert!(sessions.get("another", &"ada").is_none());
        sessions.end(&session);
        assert!(sessions.get(&session.id, &"ada").is_none());
    }

    #[test]
    fn sessions_nobody_came_back_to_make_room() {
        let sessions = Sessions::default();
        let first = sessions.start("ada", None);
        for _ in 0..MOST {
            sessions.start("ada", None);
        }
        assert!(sessions.get(&first.id, &"ada").is_none());
        assert!(sessions.0.lock().len() <= MOST);
    }

    #[test]
    fn what_a_client_takes_back_is_cancelled_and_nothing_else_is() {
        let session = Sessions::default().start((), None);
        let id = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let (mut one, mut two) = (session.begin(&id("1")), session.begin(&id("\"1\"")));
        session.cancel(&id("1"));
        assert!(one.cancelled.try_recv().is_err_and(|why| why == oneshot::error::TryRecvError::Closed));
        assert!(two.cancelled.try_recv().is_err_and(|why| why == oneshot::error::TryRecvError::Empty));
    }
}
