//! A message that a client posted, parsed completely: what follows takes no time that depends on its size.

use serde_json::{Value, value::RawValue};

use super::{
    params::{self, Params},
    session::ClientReply,
};
use crate::message::{Kind, Message, RpcError, code};

/// A parsed message, or the error to answer with.
pub struct PostedMessage(pub(super) Result<ParsedMessage, RpcError>);

pub(super) struct ParsedMessage {
    pub kind: Kind,
    pub id: Option<Box<RawValue>>,
    pub method: Option<String>,
    pub params: Params,
    pub params_error: Option<RpcError>,
    /// All parameters of `completion/complete`, which the host interprets; null for other methods.
    pub completion: Value,
    /// What a response answers to a request of this server.
    pub reply: ClientReply,
}

impl PostedMessage {
    /// Parses a body. This takes long for a large one.
    pub fn parse(body: &[u8]) -> Self {
        Self(ParsedMessage::parse(body))
    }
}

impl ParsedMessage {
    fn parse(body: &[u8]) -> Result<Self, RpcError> {
        let message = Message::parse(body)?;
        if let Some(id) = message.id
            && !id.get().starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
        {
            return Err(RpcError::new(code::INVALID_REQUEST, "`id` must be a string or a number"));
        }
        let (params, params_error) = match Params::parse(message.params.map(RawValue::get)) {
            Ok(params) => (params, None),
            Err(error) => (Params::default(), Some(error)),
        };
        let kind = message.kind();
        let completion = match message.method.as_deref() {
            Some("completion/complete") => params::to_value(message.params),
            _ => Value::Null,
        };
        let reply = match (kind, message.error) {
            (Kind::Response, Some(error)) => Err(error),
            (Kind::Response, None) => Ok(params::to_value(message.result)),
            (Kind::Request | Kind::Notification, _) => Ok(Value::Null),
        };
        Ok(Self {
            kind,
            id: message.id.map(ToOwned::to_owned),
            method: message.method.map(|method| method.into_owned()),
            params,
            params_error,
            completion,
            reply,
        })
    }
}
