//! Calls that wait for their responses on a shared connection.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::{
    Error,
    transport::{Reply, reply_from},
};
use crate::message::Message;

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
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(id, sender);
        let expected = PendingReply { pending: Arc::clone(self), id, answer };
        // This is checked after the entry is registered, so that a close in between is not missed.
        if let Some(error) = self.closed_with.borrow().clone() {
            return Err(error);
        }
        Ok(expected)
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// Passes a response to the call that waits for it; a response without a waiting call is dropped.
    pub fn resolve(&self, message: &Message<'_>) {
        let id = message.id.and_then(|id| id.get().parse::<u64>().ok());
        let waiting = id.and_then(|id| self.waiting.lock().remove(&id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(reply_from(message, None));
        }
    }

    /// Closes the connection for all waiting calls and for all later ones.
    pub fn close_with(&self, error: &Error) {
        self.closed_with.send_if_modified(|over| {
            let first = over.is_none();
            over.get_or_insert_with(|| error.clone());
            first
        });
        let waiting: Vec<_> = self.waiting.lock().drain().collect();
        for (_, sender) in waiting {
            let _ = sender.send(Err(error.clone()));
        }
    }

    pub fn close_error(&self) -> Option<Error> {
        self.closed_with.borrow().clone()
    }

    pub async fn closed(&self) -> Error {
        let mut over = self.closed_with.subscribe();
        let ended = over.wait_for(Option::is_some).await;
        ended.ok().and_then(|over| over.clone()).unwrap_or_else(|| Error::Lost("it was closed".into()))
    }
}

pub struct PendingReply {
    pending: Arc<PendingReplies>,
    id: u64,
    answer: oneshot::Receiver<Result<Reply, Error>>,
}

impl PendingReply {
    pub async fn wait(mut self) -> Result<Reply, Error> {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            Err(_) => Err(self.pending.close_error().unwrap_or_else(|| Error::Lost("it was closed".into()))),
        }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.pending.waiting.lock().remove(&self.id);
    }
}
