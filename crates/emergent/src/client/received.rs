//! A value of a response in both forms: the JSON as the server sent it, and the deserialized type.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, de::Error as _};
use serde_json::Value;

/// A value received from the API. It serializes as the server sent it, so that `--json` shows fields that
/// this client does not know, and dereferences to its type for the views that people read.
#[derive(Debug, Clone)]
pub struct Received<T> {
    raw: Value,
    typed: T,
}

impl<T> Received<T> {
    /// The JSON as the server sent it.
    pub fn into_raw(self) -> Value {
        self.raw
    }
}

impl<T> Deref for Received<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.typed
    }
}

impl<T> Serialize for Received<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Received<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Value::deserialize(deserializer)?;
        let typed = T::deserialize(&raw).map_err(D::Error::custom)?;
        Ok(Self { raw, typed })
    }
}

#[cfg(test)]
mod tests {
    use emergent_wire::run::StartedRun;
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_still_serialized() {
        let sent =
            json!({ "runId": "0198c0de-0000-7000-8000-000000000000", "status": "queued", "priority": 3 });
        let received: Received<StartedRun> = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(received.status.as_str(), "queued");
        assert_eq!(serde_json::to_value(&received).unwrap(), sent);
    }
}
