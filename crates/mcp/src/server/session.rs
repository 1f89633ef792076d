//! The sessions of the legacy era. A session stores a client's capabilities, its subscriptions, and the
//! requests in progress in both directions.

use std::{
    cmp::Reverse,
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
use crate::message::RpcError;

/// A session that is unused for this long expires.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// The maximum number of sessions of one caller.
const MAX_PER_CALLER: usize = 100;
/// The maximum number of sessions of all callers of one project together. A project can make any number of tokens.
const MAX_PER_PROJECT: usize = 2_500;
/// The maximum number of sessions of all callers together.
const MAX_TOTAL: usize = 10_000;
/// Expired sessions are removed after so many starts, and at each start while there are no more sessions.
const CLEANUP_STARTS: usize = 100;
/// The capabilities of a client are stored as long as its session, so their size is limited.
const MAX_CAPABILITIES_BYTES: usize = 16 * 1024;

/// The client's response to a request of this server.
pub(super) type ClientReply = Result<Value, RpcError>;

pub(super) struct Session {
    pub id: String,
    pub capabilities: Option<Box<RawValue>>,
    /// The lowest level of log messages for the client; `None` means no logs.
    pub level: Mutex<Option<Level>>,
    /// The resources the client is subscribed to.
    pub subscribed: watch::Sender<SubscribedResources>,
    last_used: Mutex<Instant>,
    /// The id of the next request to the client.
    next_question: AtomicU64,
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
        let id = self.next_question.fetch_add(1, Ordering::Relaxed).to_string();
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().insert(id.clone(), sender);
        (id, receiver)
    }

    /// Passes a response of the client to the request that waits for it.
    pub fn resolve_question(&self, id: &RawValue, reply: ClientReply) {
        let sender = self.waiting.lock().remove(id.get());
        if let Some(sender) = sender {
            let _ = sender.send(reply);
        }
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

    /// Cancels a request of the client; an unknown id is ignored.
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
        let has_requests = !self.running.lock().is_empty();
        has_requests || self.stream.lock().as_ref().is_some_and(|end| !end.is_closed())
    }

    fn is_expired(&self) -> bool {
        let idle = self.last_used.lock().elapsed();
        idle > IDLE_TIMEOUT && !self.is_busy()
    }

    fn touch(&self) {
        *self.last_used.lock() = Instant::now();
    }

    /// Cancels everything in progress, and closes the stream.
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

/// The sessions of one caller by id.
struct CallerSessions {
    project: Uuid,
    by_id: HashMap<String, Arc<Session>>,
}

impl CallerSessions {
    /// When the session was last used that has been idle the longest; `None` if all are busy.
    fn idle_since(&self) -> Option<Instant> {
        let idle = self.by_id.values().filter(|session| !session.is_busy());
        idle.map(|session| *session.last_used.lock()).min()
    }

    /// Removes the session that was idle the longest among those that are not busy.
    fn take_idle(&mut self) -> Option<Arc<Session>> {
        let idle = self.by_id.values().filter(|session| !session.is_busy());
        let oldest = Arc::clone(idle.min_by_key(|session| *session.last_used.lock())?);
        self.by_id.remove(&oldest.id)
    }
}

/// All sessions by creator.
pub(super) struct Sessions<C> {
    by_caller: Mutex<HashMap<C, CallerSessions>>,
    /// How many sessions were started.
    starts: AtomicU64,
}

impl<C> Default for Sessions<C> {
    fn default() -> Self {
        Self { by_caller: Mutex::default(), starts: AtomicU64::new(0) }
    }
}

impl<C: Eq + Hash> Sessions<C> {
    /// Creates a session. A caller at its limit loses the session that was idle the longest. At the limit of a project,
    /// the caller of it with the most sessions loses one that is idle; at that of the server, one of the project with
    /// the most. So many tokens of one project cannot keep others out. Busy sessions are not affected.
    pub fn start(
        &self,
        caller: C,
        project: Uuid,
        capabilities: Option<&RawValue>,
    ) -> Result<Arc<Session>, Fault> {
        if capabilities.is_some_and(|text| text.get().len() > MAX_CAPABILITIES_BYTES) {
            let limit = MAX_CAPABILITIES_BYTES / 1024;
            return Err(Fault::invalid(format!("`params.capabilities` must not be longer than {limit} KiB")));
        }
        let mut sessions = self.by_caller.lock();
        self.clean_up(&mut sessions, &caller, project);
        make_room(&mut sessions, &caller, project)?;
        let session = Arc::new(Session {
            id: Uuid::now_v7().to_string(),
            capabilities: capabilities.map(ToOwned::to_owned),
            level: Mutex::default(),
            subscribed: watch::Sender::default(),
            last_used: Mutex::new(Instant::now()),
            next_question: AtomicU64::new(1),
            waiting: Mutex::default(),
            running: Mutex::default(),
            stream: Mutex::default(),
        });
        let own = sessions.entry(caller).or_insert_with(|| CallerSessions { project, by_id: HashMap::new() });
        own.by_id.insert(session.id.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Removes expired sessions. That inspects all sessions, so it does not happen at every start if there are many;
    /// but at the limit of the project or the server, an expired session must not cost another caller one of its own.
    fn clean_up(&self, sessions: &mut HashMap<C, CallerSessions>, caller: &C, project: Uuid) {
        let is_turn = self
            .starts
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(CLEANUP_STARTS.try_into().unwrap_or(1));
        let total = count_sessions(sessions.values());
        let is_full = total >= MAX_TOTAL || count_in_project(sessions, project) >= MAX_PER_PROJECT;
        let takes_from_others =
            is_full && sessions.get(caller).is_none_or(|own| own.by_id.len() < MAX_PER_CALLER);
        if is_turn || takes_from_others || total <= CLEANUP_STARTS {
            remove_expired(sessions);
        }
    }

    /// Returns the caller's session with this id; `None` if there is none, or it has expired.
    pub fn get(&self, id: &str, caller: &C) -> Option<Arc<Session>> {
        let mut sessions = self.by_caller.lock();
        let own = sessions.get_mut(caller)?;
        let session = Arc::clone(own.by_id.get(id)?);
        if session.is_expired() {
            own.by_id.remove(id);
            session.end();
            return None;
        }
        session.touch();
        Some(session)
    }

    pub fn end(&self, session: &Session, caller: &C) {
        let mut sessions = self.by_caller.lock();
        if let Some(own) = sessions.get_mut(caller) {
            own.by_id.remove(&session.id);
            if own.by_id.is_empty() {
                sessions.remove(caller);
            }
        }
        session.end();
    }
}

fn count_sessions<'a>(callers: impl Iterator<Item = &'a CallerSessions>) -> usize {
    callers.map(|own| own.by_id.len()).sum()
}

fn count_in_project<C>(sessions: &HashMap<C, CallerSessions>, project: Uuid) -> usize {
    count_sessions(sessions.values().filter(|own| own.project == project))
}

/// Removes the sessions of clients that left without ending them.
fn remove_expired<C: Eq + Hash>(sessions: &mut HashMap<C, CallerSessions>) {
    sessions.retain(|_, own| {
        own.by_id.retain(|_, session| !session.is_expired());
        !own.by_id.is_empty()
    });
}

/// Ends an idle session if a limit is reached. Fails if all that may end are busy.
fn make_room<C: Eq + Hash>(
    sessions: &mut HashMap<C, CallerSessions>,
    caller: &C,
    project: Uuid,
) -> Result<(), Fault> {
    let own_count = sessions.get(caller).map_or(0, |own| own.by_id.len());
    let (idle, why) = if own_count >= MAX_PER_CALLER {
        let why = format!("all {MAX_PER_CALLER} sessions of this token are busy: end one first");
        (sessions.get_mut(caller).and_then(CallerSessions::take_idle), why)
    } else if count_in_project(sessions, project) >= MAX_PER_PROJECT {
        let why = format!("all {MAX_PER_PROJECT} sessions of this project are busy: end one first");
        let of_project = sessions.values_mut().filter(|own| own.project == project);
        (take_idle_from(of_project, |own| own.by_id.len()), why)
    } else if count_sessions(sessions.values()) >= MAX_TOTAL {
        let why = "this server has too many sessions; try again later".to_owned();
        (take_idle_from_largest(sessions, own_count, project), why)
    } else {
        return Ok(());
    };
    idle.ok_or(Fault::LimitReached { why })?.end();
    Ok(())
}

/// Removes the session that was idle the longest from a caller of the project with the most sessions, and more than
/// this project has; or from a caller of this project that has more than `own_count`.
fn take_idle_from_largest<C: Eq + Hash>(
    sessions: &mut HashMap<C, CallerSessions>,
    own_count: usize,
    project: Uuid,
) -> Option<Arc<Session>> {
    let mut by_project: HashMap<Uuid, usize> = HashMap::new();
    for own in sessions.values() {
        *by_project.entry(own.project).or_default() += own.by_id.len();
    }
    let count = |project: Uuid| by_project.get(&project).copied().unwrap_or(0);
    let has_more = |own: &CallerSessions| match own.project == project {
        true => own.by_id.len() > own_count,
        false => count(own.project) > count(project),
    };
    let candidates = sessions.values_mut().filter(|own| has_more(own));
    take_idle_from(candidates, |own| (count(own.project), own.by_id.len()))
}

/// Removes an idle session of the caller with the most, and of several the one that was idle the longest.
fn take_idle_from<'a, K: Ord>(
    callers: impl Iterator<Item = &'a mut CallerSessions>,
    count: impl Fn(&CallerSessions) -> K,
) -> Option<Arc<Session>> {
    let with_idle = callers.filter_map(|own| Some(((count(own), Reverse(own.idle_since()?)), own)));
    let (_, own) = with_idle.max_by(|(a, _), (b, _)| a.cmp(b))?;
    own.take_idle()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: Uuid = Uuid::nil();

    fn project(number: usize) -> Uuid {
        Uuid::from_u128(number as u128 + 1)
    }

    fn id(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_session_is_accessible_only_to_its_creator_and_only_until_it_ends() {
        let sessions = Sessions::default();
        let session = sessions.start("ada", PROJECT, None).unwrap();
        assert!(sessions.get(&session.id, &"ada").is_some());
        assert!(sessions.get(&session.id, &"eve").is_none());
        assert!(sessions.get("another", &"ada").is_none());
        sessions.end(&session, &"ada");
        assert!(sessions.get(&session.id, &"ada").is_none());
        assert!(sessions.by_caller.lock().is_empty());
    }

    #[test]
    fn a_caller_above_the_limit_loses_only_its_own_idle_sessions() {
        let sessions = Sessions::default();
        let other = sessions.start("eve", PROJECT, None).unwrap();
        let (working, listening) =
            (sessions.start("ada", PROJECT, None).unwrap(), sessions.start("ada", PROJECT, None).unwrap());
        let (mut running, _open) = (working.start_request(&id("1")).unwrap(), listening.listen());
        let idle = sessions.start("ada", PROJECT, None).unwrap();
        for _ in 0..2 * MAX_PER_CALLER {
            sessions.start("ada", PROJECT, None).unwrap();
        }
        assert_eq!(sessions.by_caller.lock()["ada"].by_id.len(), MAX_PER_CALLER);
        assert!(sessions.get(&idle.id, &"ada").is_none());
        for (session, creator) in [(&other, "eve"), (&working, "ada"), (&listening, "ada")] {
            assert!(sessions.get(&session.id, &creator).is_some());
        }
        assert_eq!(running.cancelled.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn a_caller_whose_sessions_are_all_busy_gets_no_further_one() {
        let sessions = Sessions::default();
        let started: Vec<_> =
            (0..MAX_PER_CALLER).map(|_| sessions.start("ada", PROJECT, None).unwrap()).collect();
        let mut running: Vec<_> =
            started.iter().map(|session| session.start_request(&id("1")).unwrap()).collect();
        assert!(
            matches!(sessions.start("ada", PROJECT, None), Err(Fault::LimitReached { why }) if why.contains("100"))
        );
        assert!(sessions.start("eve", PROJECT, None).is_ok(), "other callers are not affected");
        running.pop();
        assert!(sessions.start("ada", PROJECT, None).is_ok());
    }

    #[test]
    fn many_projects_with_idle_sessions_do_not_keep_others_out() {
        let sessions = Sessions::default();
        for caller in 0..MAX_TOTAL / MAX_PER_CALLER {
            for _ in 0..MAX_PER_CALLER {
                sessions.start(caller, project(caller), None).unwrap();
            }
        }
        let newcomer =
            sessions.start(999, project(999), None).expect("an idle session of another project ends");
        assert!(sessions.get(&newcomer.id, &999).is_some());
        assert_eq!(count_sessions(sessions.by_caller.lock().values()), MAX_TOTAL);
        for _ in 0..MAX_TOTAL {
            let _ = sessions.start(7, project(7), None);
        }
        assert!(sessions.get(&newcomer.id, &999).is_some(), "those with fewer sessions keep theirs");
    }

    #[test]
    fn many_tokens_of_one_project_take_no_session_of_another() {
        let sessions = Sessions::default();
        let kept: Vec<_> =
            (0..MAX_PER_CALLER).map(|_| sessions.start(0, project(0), None).unwrap()).collect();
        let first = sessions.start(1, project(1), None).unwrap();
        for caller in 2..MAX_PER_PROJECT + 500 {
            sessions.start(caller, project(1), None).unwrap();
        }
        assert_eq!(count_in_project(&sessions.by_caller.lock(), project(1)), MAX_PER_PROJECT);
        assert!(sessions.get(&first.id, &1).is_none(), "it was idle the longest");
        assert!(kept.iter().all(|session| sessions.get(&session.id, &0).is_some()));
    }

    #[test]
    fn idle_sessions_expire_and_busy_ones_do_not() {
        let Some(long_ago) = Instant::now().checked_sub(2 * IDLE_TIMEOUT) else { return };
        let sessions = Sessions::default();
        let (idle, working) =
            (sessions.start("ada", PROJECT, None).unwrap(), sessions.start("ada", PROJECT, None).unwrap());
        let running = working.start_request(&id("1")).unwrap();
        for session in [&idle, &working] {
            *session.last_used.lock() = long_ago;
        }
        sessions.start("eve", PROJECT, None).unwrap();
        assert_eq!(sessions.by_caller.lock()["ada"].by_id.keys().collect::<Vec<_>>(), [&working.id]);
        drop(running);
        assert!(sessions.get(&working.id, &"ada").is_some(), "the timeout starts when the request ends");
    }

    #[test]
    fn a_cancellation_ends_the_request_with_exactly_this_id() {
        let session = Sessions::default().start((), PROJECT, None).unwrap();
        let (mut first, mut second) =
            (session.start_request(&id("1")).unwrap(), session.start_request(&id("\"1\"")).unwrap());
        session.cancel(&id("1"));
        assert_eq!(first.cancelled.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(second.cancelled.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn an_id_cannot_be_used_again_while_its_request_is_in_progress() {
        let session = Sessions::default().start((), PROJECT, None).unwrap();
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
