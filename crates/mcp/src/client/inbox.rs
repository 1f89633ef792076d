//! Messages that a server sends on its own: requests, notifications and progress. All of them are
//! bounded in number.

use std::{collections::HashMap, sync::Arc, time::Duration};

use emergent_domain::foreign_json;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use tracing::debug;

use super::{Error, Progress, input, open_calls::OpenCalls};
use crate::message::{Kind, Message, Response, RpcError, code};

/// The maximum number of unsolicited messages per second. A well-behaved server sends a handful.
pub const MAX_MESSAGES_PER_SECOND: usize = 5_000;
/// The maximum number of responses that are sent concurrently, each of which may need its own
/// connection.
const MAX_CONCURRENT_REPLIES: usize = 16;

/// Answers requests of a server to its client that need no person. Requests for input that it refuses go to the
/// person behind the tool call ([`super::InputHandler`]).
pub trait RequestHandler: Send + Sync {
    /// The capabilities that are declared to servers.
    fn capabilities(&self) -> Value {
        json!({})
    }

    /// Returns the result of a request; `None` refuses it.
    fn answer(&self, method: &str, params: &Value) -> Option<Value>;
}

/// Refuses all requests of servers, and declares no capabilities to them.
pub struct NoRequestHandler;

impl RequestHandler for NoRequestHandler {
    fn answer(&self, _: &str, _: &Value) -> Option<Value> {
        None
    }
}

/// Is called with each progress notification of a call.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// The response to a request of a server.
pub enum ServerReply {
    Ready(Vec<u8>),
    /// It needs a person. `None` if the server no longer waits for it.
    Later(BoxFuture<'static, Option<Vec<u8>>>),
}

/// Handles the unsolicited messages of one connection.
pub struct Inbox {
    pub handler: Arc<dyn RequestHandler>,
    /// The tool calls in progress.
    pub calls: Arc<OpenCalls>,
    tools_changed: watch::Sender<u64>,
    /// The callbacks for progress, by progress token.
    progress: Mutex<HashMap<u64, OnProgress>>,
    /// When the current second started, and the number of messages since then.
    rate_window: Mutex<(Instant, usize)>,
    reply_permits: Arc<Semaphore>,
}

impl Inbox {
    pub fn new(handler: Arc<dyn RequestHandler>) -> Self {
        Self {
            handler,
            calls: Arc::default(),
            tools_changed: watch::channel(0).0,
            progress: Mutex::default(),
            rate_window: Mutex::new((Instant::now(), 0)),
            reply_permits: Arc::new(Semaphore::new(MAX_CONCURRENT_REPLIES)),
        }
    }

    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.tools_changed.subscribe()
    }

    /// Passes progress with this token to `progress` until the guard is dropped.
    pub fn subscribe_progress(self: &Arc<Self>, token: u64, progress: OnProgress) -> ProgressGuard {
        self.progress.lock().insert(token, progress);
        ProgressGuard { inbox: Arc::clone(self), token }
    }

    /// Handles a request or notification and returns the response to send, if any. `stream_of` is the request on
    /// whose stream the message arrived. An error concerns the whole connection, which is closed if the server
    /// floods it.
    pub fn handle(
        &self,
        message: &Message<'_>,
        stream_of: Option<u64>,
    ) -> Result<Option<ServerReply>, Error> {
        self.check_rate()?;
        let Some(method) = message.method.as_deref() else { return Ok(None) };
        match (message.kind(), message.id) {
            (Kind::Request, Some(id)) => {
                let params = message.params.and_then(|raw| foreign_json::from_str(raw.get()).ok());
                let params = params.unwrap_or_default();
                let answer = match method {
                    "ping" => Some(json!({})),
                    _ => self.handler.answer(method, &params),
                };
                let refusal = RpcError::new(code::METHOD_NOT_FOUND, format!("`{method}` is not supported"));
                let outcome = match answer {
                    Some(answer) => Ok(answer),
                    None if method == input::METHOD => {
                        return Ok(Some(self.answer_later(id.to_owned(), params, stream_of)));
                    }
                    None => Err(refusal),
                };
                return Ok(response_text(id, outcome).map(ServerReply::Ready));
            }
            _ => self.handle_notification(method, message),
        }
        Ok(None)
    }

    fn answer_later(&self, id: Box<RawValue>, params: Value, stream_of: Option<u64>) -> ServerReply {
        let calls = Arc::clone(&self.calls);
        ServerReply::Later(Box::pin(async move {
            let outcome = calls.answer(&id, params, stream_of).await?;
            response_text(&id, outcome)
        }))
    }

    /// Returns a permit for a response that is sent in its own task. The caller holds it until
    /// the response is sent.
    /// `None` means that the server asks faster than it accepts responses, so this one is dropped.
    pub fn try_reply_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.reply_permits).try_acquire_owned().ok()
    }

    fn handle_notification(&self, method: &str, message: &Message<'_>) {
        match method {
            "notifications/tools/list_changed" => self.tools_changed.send_modify(|count| *count += 1),
            "notifications/progress" => {
                let progress =
                    message.params.and_then(|raw| foreign_json::from_str::<ProgressParams>(raw.get()).ok());
                let Some(progress) = progress else { return };
                let callback = progress.token().and_then(|token| self.progress.lock().get(&token).cloned());
                if let Some(callback) = callback {
                    callback(Progress {
                        progress: progress.progress,
                        total: progress.total,
                        message: progress.message,
                    });
                }
            }
            "notifications/cancelled" => {
                let cancelled = message
                    .params
                    .and_then(|raw| foreign_json::from_str::<CancelledParams<'_>>(raw.get()).ok());
                if let Some(cancelled) = cancelled {
                    self.calls.cancel_request(cancelled.request_id);
                }
            }
            // Server logs appear only at trace level, because they may contain anything.
            "notifications/message" => tracing::trace!("a server sent a log message"),
            other => debug!(method = other, "ignored a notification of a server"),
        }
    }

    /// Counts one message. Fails if the server sends more than the maximum per second.
    fn check_rate(&self) -> Result<(), Error> {
        let mut window = self.rate_window.lock();
        if window.0.elapsed() > Duration::from_secs(1) {
            *window = (Instant::now(), 0);
        }
        window.1 += 1;
        if window.1 > MAX_MESSAGES_PER_SECOND {
            Err(Error::TooManyMessages(MAX_MESSAGES_PER_SECOND))
        } else {
            Ok(())
        }
    }
}

/// Returns the text of a response.
fn response_text(id: &RawValue, outcome: Result<Value, RpcError>) -> Option<Vec<u8>> {
    match outcome {
        Ok(result) => Response::result(id, result).to_bytes().ok(),
        Err(error) => Response::error(Some(id), &error).to_bytes().ok(),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelledParams<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
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
    /// Returns the token if it is one of ours, which are numbers.
    fn token(&self) -> Option<u64> {
        self.progress_token.as_u64()
    }
}

/// Ends the subscription to a call's progress when it is dropped.
pub struct ProgressGuard {
    inbox: Arc<Inbox>,
    token: u64,
}

impl Drop for ProgressGuard {
    fn drop(&mut self) {
        self.inbox.progress.lock().remove(&self.token);
    }
}
