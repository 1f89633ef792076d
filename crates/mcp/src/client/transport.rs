//! The interface of a transport: stdio, HTTP or server-sent events.

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::Error;
use crate::message::{Message, RpcError};

/// A request to send. Only HTTP uses more than its text.
pub struct Request {
    pub id: u64,
    pub text: Bytes,
    pub method: String,
    /// The version for the header; `None` before one is agreed on.
    pub version: Option<String>,
    /// Modern requests repeat part of their content in headers.
    pub modern: bool,
    /// Further headers of a modern request.
    pub headers: Vec<(String, String)>,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status, which in some cases is more precise than the error; `None` for other transports.
    pub status: Option<u16>,
    pub outcome: Result<Box<RawValue>, RpcError>,
}

/// Extracts the response from a message; fails if it has neither a result nor an error.
pub fn reply_from(message: &Message<'_>, status: Option<u16>) -> Result<Reply, Error> {
    let outcome = match (&message.error, message.result) {
        (Some(error), _) => Err(error.clone()),
        (None, Some(result)) => Ok(result.to_owned()),
        (None, None) => {
            return Err(Error::InvalidMessage("a response with neither a result nor an error".into()));
        }
    };
    Ok(Reply { status, outcome })
}

/// A connection that carries requests and responses.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends a request and waits for its response. Dropping the future abandons the response.
    async fn request(&self, request: Request) -> Result<Reply, Error>;

    /// Sends a message without a response: a notification, or our response to a request.
    async fn send(&self, text: Bytes, version: Option<&str>) -> Result<(), Error>;

    /// Whether dropping a modern request is enough to cancel it.
    fn cancels_on_drop(&self) -> bool {
        false
    }

    /// Called after the response to `initialize`: from now on there is a session.
    async fn on_initialized(&self, _version: &str) {}

    /// Prepares for a new session: everything about the old one is discarded.
    fn reset_session(&self) {}

    /// Waits until the connection is lost. Never returns for a transport without a connection.
    async fn closed(&self) -> Error;

    /// Closes the connection and everything started for it.
    async fn close(&self);
}
