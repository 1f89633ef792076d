//! Calls that wait for their answers on a connection they share.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::{
    Error,
    transport::{Reply, reply_of},
};
use crate::message::Message;

pub struct Pending {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Reply, Error>>>>,
    /// Why the connection ended, once it has.
    over: watch::Sender<Option<Error>>,
}

impl Pending {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::default(), over: watch::channel(None).0 })
    }

    /// A place for the answer to `id`. Taken before the request is sent, left when it is dropped.
    pub fn expect(self: &Arc<Self>, id: u64) -> Result<Expected, Error> {
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().insert(id, sender);
        let expected = Expected { pending: Arc::clone(self), id, answer };
        // Looked at after the place is taken, so that an end in between is not missed.
        if let Some(error) = self.over.borrow().clone() {
            return Err(error);
        }
        Ok(expected)
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// Hands a response to whoever waits for it; one that nobody waits for (any more) is dropped.
    pub fn answer(&self, message: &Message<'_>) {
        let id = message.id.and_then(|id| id.get().parse::<u64>().ok());
        let waiting = id.and_then(|id| self.waiting.lock().remove(&id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(reply_of(message, None));
        }
    }

    /// The connection is over: for everybody who waits, and for whoever comes later.
    pub fn end(&self, error: &Error) {
        self.over.send_if_modified(|over| {
            let first = over.is_none();
            over.get_or_insert_with(|| error.clone());
            first
        });
        let waiting: Vec<_> = self.waiting.lock().drain().collect();
        for (_, sender) in waiting {
            let _ = sender.send(Err(error.clone()));
        }
    }

    pub fn ended(&self) -> Option<Error> {
        self.over.borrow().clone()
    }

    pub async fn closed(&self) -> Error {
        let mut over = self.over.subscribe();
        let ended = over.wait_for(Option::is_some).await;
        ended.ok().and_then(|over| over.clone()).unwrap_or_else(|| Error::Lost("it was closed".into()))
    }
}

pub struct Expected {
    pending: Arc<Pending>,
    id: u64,
    answer: oneshot::Receiver<Result<Reply, Error>>,
}

impl Expected {
    pub async fn answer(mut self) -> Result<Reply, Error> {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            Err(_) => Err(self.pending.ended().unwrap_or_else(|| Error::Lost("it was closed".into()))),
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.pending.waiting.lock().remove(&self.id);
    }
}
