//! An answer in both forms: as the server sent it, and as its type.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, de::Error as _};
use serde_json::Value;

/// Prints as the server sent it, so `--json` shows fields that this client does not know; reads as
/// its type, so a person's view fails to compile when a field is renamed.
#[derive(Debug, Clone)]
pub struct Received<T> {
    raw: Value,
    typed: T,
}

impl<T> Received<T> {
    /// As the server sent it.
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
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(to)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Received<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Value::deserialize(from)?;
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
    fn a_field_this_client_does_not_know_is_still_printed() {
        let sent =
            json!({ "runId": "0198c0de-0000-7000-8000-000000000000", "status": "queued", "priority": 3 });
        let received: Received<StartedRun> = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(received.status.as_str(), "queued");
        assert_eq!(serde_json::to_value(&received).unwrap(), sent);
    }
}
