//! JSON values that are stored as text and rarely inspected. Reading a row and writing a response
//! then cost a copy instead of parsing and serialising.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

/// A JSON object, stored as its text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonObject(Box<RawValue>);

impl JsonObject {
    pub fn empty() -> Self {
        Self::from_map(&Map::new())
    }

    #[expect(clippy::expect_used, reason = "a map of JSON values always serialises")]
    pub fn from_map(map: &Map<String, Value>) -> Self {
        Self(serde_json::value::to_raw_value(map).expect("a JSON map serialises"))
    }

    /// Wraps a text from the database, which only stores objects in these columns.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    pub fn to_map(&self) -> Map<String, Value> {
        serde_json::from_str(self.0.get()).unwrap_or_default()
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
        serde_json::from_str(self.0.get()).unwrap_or_default()
    }
}

impl From<&Value> for JsonText {
    #[expect(clippy::expect_used, reason = "a JSON value always serialises")]
    fn from(value: &Value) -> Self {
        Self(serde_json::value::to_raw_value(value).expect("a JSON value serialises"))
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
        let value = serde_json::from_str(text.get())?;
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
    #[expect(clippy::expect_used, reason = "a JSON value always serialises")]
    fn from(value: Value) -> Self {
        let text = serde_json::value::to_raw_value(&value).expect("a JSON value serialises");
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
