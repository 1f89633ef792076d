//! The interface of a transport: stdio, HTTP or server-sent events.

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    Error, HeldMessage, body,
    inbox::{Inbox, ServerReply},
};
use crate::message::{Kind, Message, RpcError};

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
    /// The place in memory of a large result.
    pub held: Option<HeldMessage>,
}

/// Extracts the response from a message; fails if it has neither a result nor an error.
pub fn reply_from(message: &Message<'_>, status: Option<u16>) -> Result<Reply, Error> {
    let outcome = match (&message.error, message.result) {
        (Some(error), _) => Err(RpcError { message: body::quoted(error.message.clone()), ..error.clone() }),
        (None, Some(result)) => Ok(result.to_owned()),
        (None, None) => {
            return Err(Error::InvalidMessage("a response with neither a result nor an error".into()));
        }
    };
    Ok(Reply { status, outcome, held: None })
}

/// What a message of a server is.
pub enum Incoming {
    /// The response to the request with this id. An error without an id is about a request that the server
    /// could not read.
    Response { id: Option<u64>, reply: Result<Reply, Error> },
    /// A request or a notification, which was handled, with the response to send, if there is one.
    Handled(Result<Option<ServerReply>, Error>),
}

/// Parses a message, and handles a request or a notification. `stream_of` is the request on whose stream the message
/// arrived, if it has a stream of its own. The error says why it is not a message.
pub fn receive(
    text: &[u8],
    inbox: &Inbox,
    status: Option<u16>,
    stream_of: Option<u64>,
) -> Result<Incoming, String> {
    let message = Message::parse(text).map_err(|error| body::quoted(error.message))?;
    if message.kind() != Kind::Response {
        return Ok(Incoming::Handled(inbox.handle(&message, stream_of)));
    }
    let id = message.id.and_then(|id| id.get().parse::<u64>().ok());
    Ok(Incoming::Response { id, reply: reply_from(&message, status) })
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
