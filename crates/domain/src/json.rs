//! JSON that is carried, not looked into: kept as its text, so that reading a row and answering
//! a request costs a copy and not a parse.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

/// A JSON object as text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonObject(Box<RawValue>);

impl JsonObject {
    pub fn empty() -> Self {
        Self::from_map(&Map::new())
    }

    pub fn from_map(map: &Map<String, Value>) -> Self {
        // A map of values always has a JSON text.
        Self(serde_json::value::to_raw_value(map).expect("a JSON map serialises"))
    }

    /// Text that a database returned, which only ever got objects.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    pub fn to_map(&self) -> Map<String, Value> {
        serde_json::from_str(self.0.get()).unwrap_or_default()
    }

    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }
}

impl PartialEq for JsonObject {
    /// Equal as values: PostgreSQL reorders keys and spaces.
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str() || self.to_map() == other.to_map()
    }
}

impl std::fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
/// A JSON schema as it was given: passed on as its text, unchanged, and there to look into as a
/// value. Whoever has a copy shares it.
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

    /// Where it stands in memory: the same for all copies, and for nothing else while one is there.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl From<Value> for Schema {
    fn from(value: Value) -> Self {
        // A value always has a JSON text.
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
