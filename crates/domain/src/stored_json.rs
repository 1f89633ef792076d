//! Parses JSON that this server stored. Rows of earlier versions can have reserved keys ([`crate::reserved_keys`]):
//! these get the prefix `reserved:`, and mean nothing. So such a row can be shown, changed and deleted.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::{Error, Map, Value, value::RawValue};

use crate::{
    foreign_json::parse_str,
    plain_value::{PlainValue, renamed},
    reserved_keys::has_reserved_key,
};

/// Parses a stored text.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    match has_reserved_key(text.as_bytes()) {
        true => parse_str(&rename_keys(text)?),
        false => parse_str(text),
    }
}

#[expect(clippy::disallowed_methods, reason = "each key is renamed while it is parsed")]
fn rename_keys(text: &str) -> Result<String, Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = PlainValue::Renamed.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value.to_string())
}

/// The entries of a stored object. A value that is nested too deeply to be parsed is there as its text: whoever checks
/// whether an object has a property must not find it missing. What is no object has no entries.
pub(crate) fn entries(text: &str) -> Map<String, Value> {
    if let Ok(map) = from_str(text) {
        return map;
    }
    let values: BTreeMap<String, Box<RawValue>> = parse_str(text).unwrap_or_default();
    let parsed = |text: &RawValue| from_str(text.get()).unwrap_or_else(|_| Value::from(text.get()));
    values.into_iter().map(|(key, value)| (renamed(key), parsed(&value))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reserved_key_is_an_ordinary_one_with_another_name() {
        let text = r#"{"$serde_json::private::RawValue":"no","a":[{"\u0024serde_json::private::Number":{"b":1}}],"z":1}"#;
        let expected = json!({
            "reserved:$serde_json::private::RawValue": "no",
            "a": [{ "reserved:$serde_json::private::Number": { "b": 1 } }],
            "z": 1,
        });
        assert_eq!(from_str::<Value>(text).unwrap(), expected);
        assert_eq!(Value::Object(entries(text)), expected);
        assert!(from_str::<Value>("{").is_err());
    }

    #[test]
    fn a_property_that_is_nested_too_deeply_is_not_missing() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let found =
            entries(&format!(r#"{{"workflow_id":"w","deep":{deep},"$serde_json::private::RawValue":"no"}}"#));
        assert_eq!(found["workflow_id"], "w");
        assert_eq!(found["deep"], deep);
        assert_eq!(found["reserved:$serde_json::private::RawValue"], "no");
        assert!(entries("[1]").is_empty());
    }
}
