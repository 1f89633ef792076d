//! What a server says without being asked: questions, notices, progress. None of it may cost more
//! than a little.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing::debug;

use super::{Error, Progress};
use crate::message::{Kind, Message, Response, RpcError, code};

/// Messages nobody asked for, in one second. An honest server sends a handful.
pub const MAX_MESSAGES_PER_SECOND: usize = 5_000;
/// Answers on their way at once, each of which may be a connection of its own.
const MAX_CONCURRENT_REPLIES: usize = 16;

/// Who answers what a server asks of its client (`elicitation/create` and the like). `None`: nobody.
pub trait RequestHandler: Send + Sync {
    fn capabilities(&self) -> Value {
        json!({})
    }

    fn answer(&self, method: &str, params: &Value) -> Option<Value>;
}

/// Nobody is there to be asked, and no server is told otherwise.
pub struct NoRequestHandler;

impl RequestHandler for NoRequestHandler {
    fn answer(&self, _: &str, _: &Value) -> Option<Value> {
        None
    }
}

pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

pub struct Inbox {
    pub handler: Arc<dyn RequestHandler>,
    tools_changed: watch::Sender<u64>,
    progress: Mutex<HashMap<u64, OnProgress>>,
    rate_window: Mutex<(Instant, usize)>,
    answering: Arc<Semaphore>,
}

impl Inbox {
    pub fn new(handler: Arc<dyn RequestHandler>) -> Self {
        Self {
            handler,
            tools_changed: watch::channel(0).0,
            progress: Mutex::default(),
            rate_window: Mutex::new((Instant::now(), 0)),
            answering: Arc::new(Semaphore::new(MAX_CONCURRENT_REPLIES)),
        }
    }

    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.tools_changed.subscribe()
    }

    /// Progress with this token goes there, until the guard is dropped.
    pub fn subscribe_progress(self: &Arc<Self>, token: u64, progress: OnProgress) -> ProgressGuard {
        self.progress.lock().insert(token, progress);
        ProgressGuard { inbox: Arc::clone(self), token }
    }

    /// Takes a request or notification; what is returned is to be sent back. The error is the
    /// connection's: a server that floods is left.
    pub fn handle(&self, message: &Message<'_>) -> Result<Option<Vec<u8>>, Error> {
        self.check_rate()?;
        let Some(method) = message.method.as_deref() else { return Ok(None) };
        match (message.kind(), message.id) {
            (Kind::Request, Some(id)) => {
                let params = message.params.and_then(|raw| serde_json::from_str(raw.get()).ok());
                let answer = match method {
                    "ping" => Some(json!({})),
                    _ => self.handler.answer(method, &params.unwrap_or_default()),
                };
                let refusal =
                    RpcError::new(code::METHOD_NOT_FOUND, format!("`{method}` is not offered here"));
                let text = match answer {
                    Some(answer) => Response::result(id, answer).to_bytes(),
                    None => Response::error(Some(id), &refusal).to_bytes(),
                };
                return Ok(text.ok());
            }
            _ => self.handle_notification(method, message),
        }
        Ok(None)
    }

    /// A place for an answer that is sent apart; held until it is sent. `None`: the server asks faster
    /// than it takes answers, and goes without this one.
    pub fn try_reply_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.answering).try_acquire_owned().ok()
    }

    fn handle_notification(&self, method: &str, message: &Message<'_>) {
        match method {
            "notifications/tools/list_changed" => self.tools_changed.send_modify(|count| *count += 1),
            "notifications/progress" => {
                let progress =
                    message.params.and_then(|raw| serde_json::from_str::<ProgressParams>(raw.get()).ok());
                let Some(told) = progress else { return };
                let follower = told.token().and_then(|token| self.progress.lock().get(&token).cloned());
                if let Some(follower) = follower {
                    follower(Progress { progress: told.progress, total: told.total, message: told.message });
                }
            }
            // A server's own log; at trace level, since it may hold anything.
            "notifications/message" => tracing::trace!("a server logs something"),
            other => debug!(method = other, "a server sent a notice that nobody needs"),
        }
    }

    fn check_rate(&self) -> Result<(), Error> {
        let mut second = self.rate_window.lock();
        if second.0.elapsed() > Duration::from_secs(1) {
            *second = (Instant::now(), 0);
        }
        second.1 += 1;
        if second.1 > MAX_MESSAGES_PER_SECOND {
            Err(Error::TooManyMessages(MAX_MESSAGES_PER_SECOND))
        } else {
            Ok(())
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams {
    progress_token: Value,
    #[serde(default)]
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl ProgressParams {
    fn token(&self) -> Option<u64> {
        self.progress_token.as_u64()
    }
}

pub struct ProgressGuard {
    inbox: Arc<Inbox>,
    token: u64,
}

impl Drop for ProgressGuard {
    fn drop(&mut self) {
        self.inbox.progress.lock().remove(&self.token);
    }
}
