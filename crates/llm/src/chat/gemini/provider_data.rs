//! Data that Gemini expects back, stored in the `provider` field of its part.
//!
//! It is stored under our own key: a conversation may continue with another model, whose data must not
//! be mistaken for Gemini's.

use serde_json::{Map, Value, json};

const NAMESPACE: &str = "gemini";
const SIGNATURE: &str = "thought_signature";
const ID: &str = "id";

/// Returns the data of a part as it was received; `None` if there is none to store.
pub fn from_part(part: &Value) -> Option<Value> {
    let fields = [(SIGNATURE, &part["thoughtSignature"]), (ID, &part["functionCall"]["id"])];
    let present = fields.into_iter().filter(|(_, value)| value.as_str().is_some_and(|text| !text.is_empty()));
    let tag: Map<_, _> = present.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    (!tag.is_empty()).then(|| json!({ NAMESPACE: tag }))
}

pub fn signature(provider: &Option<Value>) -> Option<&str> {
    provider.as_ref()?[NAMESPACE][SIGNATURE].as_str()
}

/// Returns the id that Gemini gave to a call; it often gives none.
pub fn id(provider: &Option<Value>) -> Option<&str> {
    provider.as_ref()?[NAMESPACE][ID].as_str()
}
