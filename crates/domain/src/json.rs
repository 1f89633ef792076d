//! JSON values that are stored as text and rarely inspected. Reading a row and writing a response
//! then cost a copy instead of parsing and serialising.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use crate::{plain_value::with_renamed_keys, reserved_keys::has_reserved_key, stored_json};

/// The text of a value. No reserved key is stored, wherever the value came from and however deeply it is nested.
#[expect(clippy::expect_used, reason = "a JSON value always serialises")]
fn to_text(value: &impl Serialize) -> Box<RawValue> {
    let text = to_raw_value(value).expect("a JSON value serialises");
    if !has_reserved_key(text.get().as_bytes()) {
        return text;
    }
    let value = serde_json::to_value(value).expect("a JSON value serialises");
    to_raw_value(&with_renamed_keys(value)).expect("a JSON value serialises")
}

/// A JSON object, stored as its text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonObject(Box<RawValue>);

impl JsonObject {
    pub fn empty() -> Self {
        Self::from_map(&Map::new())
    }

    pub fn from_map(map: &Map<String, Value>) -> Self {
        Self(to_text(map))
    }

    /// Wraps a text from the database, which only stores objects in these columns.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The entries. Reserved keys have other names, and values that are nested too deeply are texts.
    pub fn to_map(&self) -> Map<String, Value> {
        stored_json::entries(self.0.get())
    }
}

impl PartialEq for JsonObject {
    /// Compares the values rather than the texts, because PostgreSQL reorders keys and whitespace.
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str() || self.to_map() == other.to_map()
    }
}

impl std::fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Any JSON value, stored as its text. What many readers hold at once costs its text, and not the hundred times that a
/// text of small maps can take as a value.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    pub fn to_value(&self) -> Value {
        stored_json::from_str(self.0.get()).unwrap_or_default()
    }
}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        Self(to_text(value))
    }
}

impl PartialEq for JsonText {
    /// Compares the values rather than the texts, because PostgreSQL reorders keys and whitespace.
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str() || self.to_value() == other.to_value()
    }
}

impl std::fmt::Debug for JsonText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A JSON schema. Its original text is passed on unchanged, and its parsed value is available for
/// inspection. Clones share both.
#[derive(Clone)]
pub struct Schema(Arc<(Box<RawValue>, Value)>);

impl Schema {
    pub fn from_raw(text: Box<RawValue>) -> Result<Self, serde_json::Error> {
        let value = stored_json::from_str(text.get())?;
        Ok(Self(Arc::new((text, value))))
    }

    pub fn as_str(&self) -> &str {
        self.0.0.get()
    }

    pub fn as_value(&self) -> &Value {
        &self.0.1
    }

    /// Returns the memory address of the shared value. It is the same for all clones, and unique
    /// while at least one of them exists, so it can serve as a cache key.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl From<Value> for Schema {
    fn from(value: Value) -> Self {
        let text = to_text(&value);
        Self(Arc::new((text, value)))
    }
}

impl Serialize for Schema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.0.serialize(serializer)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.as_value() == other.as_value()
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_reserved_key_is_written_however_deeply_it_is_nested() {
        let key = "$serde_json::private::RawValue";
        let nested = (0..500).fold(json!({ key: "[1]" }), |inner, _| json!([inner]));
        let map = Map::from_iter([(key.to_owned(), json!(1)), ("a".to_owned(), nested.clone())]);
        for text in [JsonObject::from_map(&map).as_str(), JsonText::from(&nested).as_str()] {
            assert!(!has_reserved_key(text.as_bytes()) && text.contains("reserved:$serde_json"), "{text}");
        }
        let plain = json!({ "a": key });
        assert_eq!(JsonText::from(&plain).as_str(), plain.to_string());
    }
}
