//! Applying property patches, and comparing JSON values.
//!
//! The functions are not recursive, so a deeply nested value cannot overflow the stack.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::invalid::Invalid;

/// Returns the properties after an update. Each key of the patch replaces the complete value of
/// that key, and a null deletes it. Applying the same patch twice has the same effect as applying
/// it once.
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

/// For `#[serde(default, deserialize_with)]`: distinguishes null (`Some(None)`), which removes a
/// value, from an absent field (`None`).
pub fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Returns whether applying a patch would change nothing.
pub fn is_noop(current: &Map<String, Value>, patch: &Map<String, Value>) -> bool {
    patch.iter().all(|(key, value)| match (current.get(key), value) {
        (None, _) => value.is_null(),
        (Some(before), _) if before == value => true,
        // Strings have one representation. Other values can be equal although they are written
        // differently, so their canonical JSON is compared.
        (Some(Value::String(_)), _) | (_, Value::String(_)) => false,
        (Some(before), _) => !value.is_null() && canonical_json(before) == canonical_json(value),
    })
}

/// Returns a canonical text of a JSON value: keys sorted by code point, no whitespace, and one
/// notation per number. Two values have the same canonical text exactly if they are equal as JSON,
/// so the text can be compared and hashed.
///
/// Numbers are equal if they have the same value: `1`, `1.0` and `1e0` are all `1`, and `-0.0` is
/// `0`. The `jsonb` type of PostgreSQL uses the same rule, so both engines agree on what counts as
/// a change.
pub fn canonical_json(value: &Value) -> String {
    enum Piece<'a> {
        Value(&'a Value),
        Key(&'a str),
        Text(char),
    }

    let mut out = String::new();
    let mut stack = vec![Piece::Value(value)];
    while let Some(piece) = stack.pop() {
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
            // The stack returns the last piece first, so the closing bracket is pushed before the
            // items.
            Piece::Value(Value::Array(items)) => {
                out.push('[');
                stack.push(Piece::Text(']'));
                for (index, item) in items.iter().enumerate().rev() {
                    stack.push(Piece::Value(item));
                    if index > 0 {
                        stack.push(Piece::Text(','));
                    }
                }
            }
            Piece::Value(Value::Object(map)) => {
                out.push('{');
                stack.push(Piece::Text('}'));
                // A map keeps its insertion order if any crate enables that feature of serde_json,
                // so the keys are sorted here.
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                for (index, (key, value)) in entries.into_iter().enumerate().rev() {
                    stack.push(Piece::Value(value));
                    stack.push(Piece::Key(key));
                    if index > 0 {
                        stack.push(Piece::Text(','));
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

    // A float without a fraction is written as an integer. The casts are exact in these ranges.
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

/// Rejects a value that is nested deeper than `max`. A scalar has depth 0; `{}` and `[]` have depth
/// 1.
pub fn check_depth(value: &Value, max: usize) -> Result<(), Invalid> {
    let mut stack = vec![(value, 0)];
    while let Some((value, outside)) = stack.pop() {
        let inside = outside + 1;
        match value {
            Value::Array(_) | Value::Object(_) if inside > max => {
                return Err(Invalid::new("", format!("is nested deeper than the maximum of {max} levels")));
            }
            Value::Array(items) => stack.extend(items.iter().map(|item| (item, inside))),
            Value::Object(map) => stack.extend(map.values().map(|value| (value, inside))),
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
        // Dropping the value would recurse inside serde_json, which this test does not cover.
        std::mem::forget(value);
    }
}
