//! What a connection must be able to do, whatever carries it.

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::Error;
use crate::message::{Message, RpcError};

/// A request on its way. Only HTTP looks at more than its text.
pub struct Request {
    pub id: u64,
    pub text: Bytes,
    pub method: String,
    /// The version for the header; `None` before one was agreed on.
    pub version: Option<String>,
    /// Modern requests repeat some of what they say in headers.
    pub modern: bool,
    pub headers: Vec<(String, String)>,
}

/// A response. HTTP's status says more than the error for some questions.
#[derive(Debug)]
pub struct Reply {
    pub status: Option<u16>,
    pub outcome: Result<Box<RawValue>, RpcError>,
}

/// The response in a message; the error is that it holds neither result nor error.
pub fn reply_from(message: &Message<'_>, status: Option<u16>) -> Result<Reply, Error> {
    let outcome = match (&message.error, message.result) {
        (Some(error), _) => Err(error.clone()),
        (None, Some(result)) => Ok(result.to_owned()),
        (None, None) => return Err(Error::InvalidMessage("an answer with neither result nor error".into())),
    };
    Ok(Reply { status, outcome })
}

#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends a request and waits for its response. Dropping the future gives the answer up.
    async fn request(&self, request: Request) -> Result<Reply, Error>;

    /// Sends what has no answer: a notification, or our answer to a question.
    async fn send(&self, text: Bytes, version: Option<&str>) -> Result<(), Error>;

    /// Whether dropping a modern request is all the cancelling there is.
    fn cancels_on_drop(&self) -> bool {
        false
    }

    /// `initialize` was answered: from now on there is a session.
    async fn on_initialized(&self, _version: &str) {}

    /// Begins a session anew: what was kept of the old one is forgotten.
    fn reset_session(&self) {}

    /// Waits until the connection is over by itself; never, where there is none to lose.
    async fn closed(&self) -> Error;

    /// Ends the connection, and whatever was started for it.
    async fn close(&self);
}
