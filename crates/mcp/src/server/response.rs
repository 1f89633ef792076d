//! Serialises responses: the fields of the host, wrapped as each era requires, without parsing the JSON
//! again.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Era, fault::Fault};
use crate::message::{OutgoingMessage, Response, RpcError, code};

/// The fields of a JSON object as text, without its braces. A list that many clients receive is
/// serialised once and shared.
#[derive(Clone, Debug, Default)]
pub struct JsonFields(Bytes);

impl JsonFields {
    /// Serialises any value that is a JSON object.
    pub fn from_object(value: &impl Serialize) -> Result<Self, Fault> {
        let text = serde_json::to_vec(value).map_err(Fault::internal)?;
        match text.as_slice() {
            [b'{', .., b'}'] => {
                let end = text.len() - 1;
                Ok(Self(Bytes::from(text).slice(1..end)))
            }
            _ => Err(Fault::internal("a result must be an object")),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Whether a client may cache a response, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheTtl {
    /// The response says nothing about caching.
    Unset,
    /// The response may be cached for this token only.
    Millis(u32),
}

/// Serialises a successful response.
pub(super) fn result_text(id: &RawValue, era: Era, ttl: CacheTtl, fields: &JsonFields) -> Bytes {
    // The fields that modern clients expect in every result.
    let era_fields = match (era, ttl) {
        (Era::Legacy, _) => String::new(),
        (Era::Modern, CacheTtl::Unset) => r#""resultType":"complete""#.to_owned(),
        (Era::Modern, CacheTtl::Millis(millis)) => {
            format!(r#""resultType":"complete","ttlMs":{millis},"cacheScope":"private""#)
        }
    };
    let mut text = Vec::with_capacity(64 + id.get().len() + era_fields.len() + fields.0.len());
    text.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    text.extend_from_slice(id.get().as_bytes());
    text.extend_from_slice(br#","result":{"#);
    text.extend_from_slice(era_fields.as_bytes());
    if !era_fields.is_empty() && !fields.0.is_empty() {
        text.push(b',');
    }
    text.extend_from_slice(&fields.0);
    text.extend_from_slice(b"}}");
    text.into()
}

/// Like [`result_text`], for a result that requests input. Its `fields` contain `resultType` already, so
/// nothing is added.
pub(super) fn question_text(id: &RawValue, fields: &JsonFields) -> Bytes {
    result_text(id, Era::Legacy, CacheTtl::Unset, fields)
}

/// Serialises an error response; `id` is missing if the request could not be read.
pub(super) fn error_text(id: Option<&RawValue>, error: &RpcError) -> Bytes {
    // An error consists of a number, a text and a JSON value, so it always serialises.
    Response::error(id, error).to_bytes().unwrap_or_default().into()
}

pub(super) fn notification_text(method: &str, params: &impl Serialize) -> Result<Vec<u8>, Fault> {
    OutgoingMessage::notification(method, Some(params)).to_bytes().map_err(Fault::internal)
}

/// One message of an event stream. Serialised JSON has no line breaks, so it is one line.
pub(super) fn sse_frame(message: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(message.len() + 24);
    text.extend_from_slice(b"event: message\ndata: ");
    text.extend_from_slice(message);
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// Shows proxies and clients that a quiet stream is still alive.
pub(super) const KEEP_ALIVE_FRAME: Bytes = Bytes::from_static(b":\n\n");

/// The body of an error that is not a response to a request: an unknown session, or a method that is
/// not allowed.
pub(super) fn refusal_text(message: &str) -> Bytes {
    error_text(None, &RpcError::new(code::INVALID_REQUEST, message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_modern_result_has_a_type_and_a_ttl_and_a_legacy_one_has_not() {
        let id = RawValue::from_string("\"a\\u0062\"".to_owned()).unwrap();
        let fields = JsonFields::from_object(&json!({ "tools": [] })).unwrap();
        let text = |era, ttl, fields: &JsonFields| {
            String::from_utf8(result_text(&id, era, ttl, fields).to_vec()).unwrap()
        };
        assert_eq!(
            text(Era::Legacy, CacheTtl::Millis(5), &fields),
            r#"{"jsonrpc":"2.0","id":"a\u0062","result":{"tools":[]}}"#
        );
        let modern: Value = serde_json::from_str(&text(Era::Modern, CacheTtl::Millis(5), &fields)).unwrap();
        let expected = json!({ "resultType": "complete", "ttlMs": 5, "cacheScope": "private", "tools": [] });
        assert_eq!(modern["result"], expected);
        assert!(text(Era::Legacy, CacheTtl::Unset, &JsonFields::default()).ends_with(r#""result":{}}"#));
        let empty: Value =
            serde_json::from_str(&text(Era::Modern, CacheTtl::Unset, &JsonFields::default())).unwrap();
        assert_eq!(empty["result"], json!({ "resultType": "complete" }));
        assert!(JsonFields::from_object(&json!([])).is_err());
    }
}
