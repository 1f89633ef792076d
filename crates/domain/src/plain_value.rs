//! Parses values in which each key is only a key. The parser of `serde_json` gives reserved keys a meaning
//! ([`crate::reserved_keys`]).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::reserved_keys::{REASON, is_reserved};

/// What happens to reserved keys.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlainValue {
    /// The value is an error.
    Refused,
    /// They get a name that means nothing to anybody.
    Renamed,
}

/// What is put before a reserved key that is renamed.
const RENAMED: &str = "reserved:";

/// The key under which an entry is kept whose key is reserved.
pub(crate) fn renamed(key: String) -> String {
    if is_reserved(&key) { format!("{RENAMED}{key}") } else { key }
}

/// The value with other names for its reserved keys, at any depth.
pub(crate) fn with_renamed_keys(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(with_renamed_keys).collect()),
        Value::Object(fields) => {
            let entries = fields.into_iter().map(|(key, value)| (renamed(key), with_renamed_keys(value)));
            Value::Object(entries.collect())
        }
        other => other,
    }
}

impl<'de> DeserializeSeed<'de> for PlainValue {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PlainValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let key = match self {
                Self::Refused if is_reserved(&key) => return Err(A::Error::custom(REASON)),
                Self::Refused => key,
                Self::Renamed => renamed(key),
            };
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(Value::Object(map))
    }
}
