//! Calls that wait for their responses on a shared connection.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::{Error, transport::Reply};

/// The waiting calls of one connection, by the id of their request.
pub struct PendingReplies {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Reply, Error>>>>,
    /// The reason why the connection was closed, once it is.
    closed_with: watch::Sender<Option<Error>>,
}

impl PendingReplies {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::default(), closed_with: watch::channel(None).0 })
    }

    /// Registers a wait for the response to `id`. The caller registers before it sends the request;
    /// dropping the value removes the entry.
    pub fn register(self: &Arc<Self>, id: u64) -> Result<PendingReply, Error> {
        let (sender, response) = oneshot::channel();
        self.waiting.lock().insert(id, sender);
        let pending_reply = PendingReply { pending: Arc::clone(self), id, response };
        // This is checked after the entry is registered, so that a close in between is not missed.
        if let Some(error) = self.closed_with.borrow().clone() {
            return Err(error);
        }
        Ok(pending_reply)
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// Passes a response to the call that waits for it; a response without a waiting call is dropped.
    pub fn resolve(&self, id: Option<u64>, reply: Result<Reply, Error>) {
        let sender = id.and_then(|id| self.waiting.lock().remove(&id));
        if let Some(sender) = sender {
            let _ = sender.send(reply);
        }
    }

    /// Fails all waiting calls and all later ones with `error`. If the connection was closed before, later
    /// calls still fail with the first error.
    pub fn close_with(&self, error: &Error) {
        self.closed_with.send_if_modified(|closed_with| {
            let first_close = closed_with.is_none();
            closed_with.get_or_insert_with(|| error.clone());
            first_close
        });
        let waiting: Vec<_> = self.waiting.lock().drain().collect();
        for (_, sender) in waiting {
            let _ = sender.send(Err(error.clone()));
        }
    }

    /// Returns the reason why the connection was closed; `None` while it is open.
    pub fn close_error(&self) -> Option<Error> {
        self.closed_with.borrow().clone()
    }

    /// Waits until the connection is closed, and returns the reason.
    pub async fn closed(&self) -> Error {
        let mut closed_with = self.closed_with.subscribe();
        let error = closed_with.wait_for(Option::is_some).await;
        error.ok().and_then(|error| error.clone()).unwrap_or_else(connection_closed)
    }
}

fn connection_closed() -> Error {
    Error::Lost("the connection was closed".into())
}

/// A registered wait for one response.
pub struct PendingReply {
    pending: Arc<PendingReplies>,
    id: u64,
    response: oneshot::Receiver<Result<Reply, Error>>,
}

impl PendingReply {
    /// Waits for the response, or for the end of the connection.
    pub async fn wait(mut self) -> Result<Reply, Error> {
        match (&mut self.response).await {
            Ok(response) => response,
            Err(_) => Err(self.pending.close_error().unwrap_or_else(connection_closed)),
        }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.pending.waiting.lock().remove(&self.id);
    }
}
