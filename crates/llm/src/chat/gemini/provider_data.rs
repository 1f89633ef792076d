//! What Gemini wants to see again, in the `provider` of the part it came on.
//!
//! Under a key of our own: a conversation may go on with another model, and its tags must not be
//! taken for Gemini's.

use serde_json::{Map, Value, json};

const NAMESPACE: &str = "gemini";
const SIGNATURE: &str = "thought_signature";
const ID: &str = "id";

/// The tag of a part as it came over the wire; `None` when there is nothing to keep.
pub fn from_part(part: &Value) -> Option<Value> {
    let kept = [(SIGNATURE, &part["thoughtSignature"]), (ID, &part["functionCall"]["id"])];
    let given = kept.into_iter().filter(|(_, value)| value.as_str().is_some_and(|text| !text.is_empty()));
    let tag: Map<_, _> = given.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    (!tag.is_empty()).then(|| json!({ NAMESPACE: tag }))
}

pub fn signature(provider: &Option<Value>) -> Option<&str> {
    provider.as_ref()?[NAMESPACE][SIGNATURE].as_str()
}

/// The id that Gemini gave a call; it often gives none.
pub fn id(provider: &Option<Value>) -> Option<&str> {
    provider.as_ref()?[NAMESPACE][ID].as_str()
}
