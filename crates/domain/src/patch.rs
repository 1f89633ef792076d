//! Changing properties, and telling whether anything changed.
//!
//! Nothing here recurses, so no document can be nested deeply enough to overflow the stack.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::invalid::Invalid;

/// The properties after an update: each key of the patch replaces the whole value of that key,
/// and a null deletes it. Merging a patch a second time changes nothing.
///
/// Only the top level is merged: `{"metrics": {"llm_calls": 1}}` replaces all of `metrics`.
pub fn apply_patch(current: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = current.clone();
    for (key, value) in patch {
        if value.is_null() {
            merged.remove(key);
        } else {
            merged.insert(key.clone(), value.clone());
        }
    }
    merged
}

/// For `#[serde(default, deserialize_with)]`: tells null (`Some(None)`), which takes a value away,
/// from absent (`None`).
pub fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Whether merging a patch changes nothing.
pub fn is_noop(current: &Map<String, Value>, patch: &Map<String, Value>) -> bool {
    patch.iter().all(|(key, value)| match (current.get(key), value) {
        (None, _) => value.is_null(),
        (Some(before), _) if before == value => true,
        // Texts have one spelling; of all else the same may be written otherwise.
        (Some(Value::String(_)), _) | (_, Value::String(_)) => false,
        (Some(before), _) => !value.is_null() && canonical_json(before) == canonical_json(value),
    })
}

/// One text for every way of writing the same JSON: keys sorted by code point, no whitespace,
/// and one spelling per number. Two values have the same canonical text exactly when they are
/// equal as JSON, so it serves to compare and to hash.
///
/// Numbers are equal when they are the same number: `1`, `1.0` and `1e0` are all `1`, and `-0.0`
/// is `0`. PostgreSQL's `jsonb` says the same, so both engines agree on what is a change.
pub fn canonical_json(value: &Value) -> String {
    enum Piece<'a> {
        Value(&'a Value),
        Key(&'a str),
        Text(char),
    }

    let mut out = String::new();
    let mut rest = vec![Piece::Value(value)];
    while let Some(piece) = rest.pop() {
        match piece {
            Piece::Text(text) => out.push(text),
            Piece::Key(key) => {
                push_string(&mut out, key);
                out.push(':');
            }
            Piece::Value(Value::Null) => out.push_str("null"),
            Piece::Value(Value::Bool(true)) => out.push_str("true"),
            Piece::Value(Value::Bool(false)) => out.push_str("false"),
            Piece::Value(Value::Number(number)) => push_number(&mut out, number),
            Piece::Value(Value::String(text)) => push_string(&mut out, text),
            // What is pushed last comes out first, hence the end before the beginning.
            Piece::Value(Value::Array(items)) => {
                out.push('[');
                rest.push(Piece::Text(']'));
                for (index, item) in items.iter().enumerate().rev() {
                    rest.push(Piece::Value(item));
                    if index > 0 {
                        rest.push(Piece::Text(','));
                    }
                }
            }
            Piece::Value(Value::Object(map)) => {
                out.push('{');
                rest.push(Piece::Text('}'));
                // The map keeps insertion order when any crate asks serde_json for that.
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                for (index, (key, value)) in entries.into_iter().enumerate().rev() {
                    rest.push(Piece::Value(value));
                    rest.push(Piece::Key(key));
                    if index > 0 {
                        rest.push(Piece::Text(','));
                    }
                }
            }
        }
    }
    out
}

fn push_string(out: &mut String, text: &str) {
    out.push_str(&Value::from(text).to_string());
}

fn push_number(out: &mut String, number: &Number) {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

    // A float with no fraction is spelt as the integer it is; the casts are exact in these ranges.
    let text = match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 => {
            if (-TWO_TO_63..TWO_TO_63).contains(&float) {
                (float as i64).to_string()
            } else if (TWO_TO_63..TWO_TO_64).contains(&float) {
                (float as u64).to_string()
            } else {
                number.to_string()
            }
        }
        _ => number.to_string(),
    };
    out.push_str(&text);
}

/// Refuses a value nested deeper than `max`. A scalar has depth 0, `{}` and `[]` have depth 1.
pub fn check_depth(value: &Value, max: usize) -> Result<(), Invalid> {
    let mut rest = vec![(value, 0)];
    while let Some((value, outside)) = rest.pop() {
        let inside = outside + 1;
        match value {
            Value::Array(_) | Value::Object(_) if inside > max => {
                return Err(Invalid::new("", format!("is nested deeper than the maximum of {max} levels")));
            }
            Value::Array(items) => rest.extend(items.iter().map(|item| (item, inside))),
            Value::Object(map) => rest.extend(map.values().map(|value| (value, inside))),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_patch_replaces_adds_and_deletes_top_level_properties() {
        let current = map(json!({ "title": "a", "status": "pending", "metrics": { "x": 1, "y": 2 } }));
        let patch = map(json!({ "title": null, "status": "done", "metrics": { "x": 3 }, "new": 1 }));
        let merged = apply_patch(&current, &patch);
        assert_eq!(
            Value::Object(merged.clone()),
            json!({ "status": "done", "metrics": { "x": 3 }, "new": 1 })
        );
        assert_eq!(apply_patch(&merged, &patch), merged);
    }

    #[test]
    fn deleting_what_is_not_there_changes_nothing() {
        let current = map(json!({ "title": "a" }));
        assert_eq!(apply_patch(&current, &map(json!({ "other": null }))), current);
    }

    #[test]
    fn canonical_text_does_not_depend_on_how_the_json_was_written() {
        fn check(json: &str, expected: &str) {
            let value: Value = serde_json::from_str(json).expect("valid JSON");
            assert_eq!(canonical_json(&value), expected, "{json}");
            let again: Value = serde_json::from_str(expected).expect("canonical text is JSON");
            assert_eq!(canonical_json(&again), expected);
        }
        check(
            r#"{ "b": [1, {"z": null, "a": true}, []], "a": {} }"#,
            r#"{"a":{},"b":[1,{"a":true,"z":null},[]]}"#,
        );
        check("[1, 1.0, 1e0, 10e-1, -0.0, -0, 1.5, 1.50]", "[1,1,1,1,0,0,1.5,1.5]");
        check(
            "[1e18, 1000000000000000000, 18446744073709551615]",
            "[1000000000000000000,1000000000000000000,18446744073709551615]",
        );
        check("[9007199254740993, -9223372036854775808]", "[9007199254740993,-9223372036854775808]");
        check(r#""\u00e9\n\"\u0000""#, "\"é\\n\\\"\\u0000\"");
    }

    #[test]
    fn numbers_that_differ_stay_different() {
        assert_ne!(
            canonical_json(&json!(9_007_199_254_740_993_i64)),
            canonical_json(&json!(9_007_199_254_740_992.0))
        );
        assert_ne!(canonical_json(&json!(1)), canonical_json(&json!("1")));
        assert_ne!(canonical_json(&json!(1)), canonical_json(&json!(true)));
    }

    #[test]
    fn depth_is_counted_in_containers() {
        assert!(check_depth(&json!("text"), 0).is_ok());
        assert!(check_depth(&json!({}), 0).is_err());
        assert!(check_depth(&json!({ "a": [1, { "b": 2 }] }), 3).is_ok());
        assert_eq!(
            check_depth(&json!({ "a": [1, { "b": 2 }] }), 2).unwrap_err().to_string(),
            "is nested deeper than the maximum of 2 levels"
        );
    }

    #[test]
    fn a_million_levels_do_not_overflow_the_stack() {
        let mut value = json!(1);
        for _ in 0..1_000_000 {
            value = Value::Array(vec![value]);
        }
        assert!(check_depth(&value, 64).is_err());
        assert_eq!(canonical_json(&value).len(), 2_000_001);
        // Dropping it would recurse, which is serde_json's business and not what is tested here.
        std::mem::forget(value);
    }
}
