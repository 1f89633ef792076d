//! Parses JSON and YAML that come from somebody else: requests, files, models and other servers. A text with a reserved
//! key is refused ([`crate::reserved_keys`]). All code that reads such texts uses this file, and not `serde_json`.

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _},
};
use serde_json::{Error, Value};

use crate::{
    plain_value::PlainValue,
    reserved_keys::{REASON, has_reserved_key},
};

/// Parses a text; an error if it has a reserved key.
pub fn from_slice<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Error> {
    check(text)?;
    parse_slice(text)
}

/// Like [`from_slice`].
pub fn from_str<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    check(text.as_bytes())?;
    parse_str(text)
}

/// An error if the text has a reserved key.
pub fn check(text: &[u8]) -> Result<(), Error> {
    if has_reserved_key(text) { Err(Error::custom(REASON)) } else { Ok(()) }
}

/// Parses a text that somebody has checked: the whole text or the one around it.
#[expect(clippy::disallowed_methods, reason = "the text was checked")]
pub fn parse_slice<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(text)
}

/// Like [`parse_slice`].
#[expect(clippy::disallowed_methods, reason = "the text was checked")]
pub fn parse_str<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Error> {
    serde_json::from_str(text)
}

/// The value with which a text begins, whatever follows; `None` if there is none, or if it has a reserved key.
#[expect(clippy::disallowed_methods, reason = "each key is checked while it is parsed")]
pub fn first_value(text: &str) -> Option<Value> {
    PlainValue::Refused.deserialize(&mut serde_json::Deserializer::from_str(text)).ok()
}

/// A value from a format other than JSON, such as YAML, or from one whose text is not at hand; an error if it has a
/// reserved key. Other types are made of it with `serde_json::from_value`.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignValue(pub Value);

impl<'de> Deserialize<'de> for ForeignValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        PlainValue::Refused.deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    /// A reserved key with a text that is nested this many times, with 120 lists at each level.
    fn nested(levels: usize) -> String {
        (0..levels).fold("0".to_owned(), |inner, _| {
            let lists = format!("{}{inner}{}", "[".repeat(120), "]".repeat(120));
            format!(r#"{{"$serde_json::private::RawValue":{}}}"#, Value::from(lists))
        })
    }

    #[test]
    fn a_text_with_a_reserved_key_is_refused() {
        for text in [nested(12), r#"{"z":1,"$serde_json::private::RawValue":"no"}"#.to_owned()] {
            for error in [
                from_str::<Value>(&text).unwrap_err(),
                from_slice::<Map<String, Value>>(text.as_bytes()).unwrap_err(),
                parse_str::<ForeignValue>(&text).unwrap_err(),
            ] {
                let shown = error.to_string();
                assert!(
                    error.is_data() && shown.starts_with("the key `$serde_json::private::RawValue` is"),
                    "{shown}"
                );
            }
            assert_eq!(first_value(&text), None);
        }
    }

    #[test]
    fn other_texts_are_parsed_as_before() {
        let text =
            r#"{"a":[1,-1,1.5,18446744073709551615,true,null,"$serde_json::private::RawValue"],"b":{"":{}}}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(from_str::<Value>(text).unwrap(), expected);
        assert_eq!(from_str::<ForeignValue>(text).unwrap().0, expected);
        assert_eq!(first_value(&format!("{text} and more")), Some(expected));
        assert_eq!(first_value("[1,"), None);
        assert_eq!(first_value(&"[".repeat(100_000)), None);
        assert_eq!(from_str::<Value>(r#"["\u0041"]"#).unwrap(), json!(["A"]));
    }
}
