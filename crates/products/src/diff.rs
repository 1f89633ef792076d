//! Compares two JSON values.

use serde_json::Value;

use crate::problem::pointer_segment;

/// One difference. `None` means that the value is absent on that side.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldDiff {
    pub pointer: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Returns every path at which `after` differs from `before`. Objects are compared recursively.
/// Lists are compared as a whole, because an index means little once an item is inserted before it.
pub fn diff(before: &Value, after: &Value) -> Vec<FieldDiff> {
    let mut diffs = Vec::new();
    diff_into(String::new(), before, after, &mut diffs);
    diffs
}

fn diff_into(pointer: String, before: &Value, after: &Value, diffs: &mut Vec<FieldDiff>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let below = format!("{pointer}{}", pointer_segment(name));
                match (old.get(name), new.get(name)) {
                    (Some(old), Some(new)) => diff_into(below, old, new, diffs),
                    (before, after) => diffs.push(FieldDiff {
                        pointer: below,
                        before: before.cloned(),
                        after: after.cloned(),
                    }),
                }
            }
        }
        _ if json_eq(before, after) => {}
        _ => diffs.push(FieldDiff { pointer, before: Some(before.clone()), after: Some(after.clone()) }),
    }
}

/// Compares two values as JSON. Numbers compare by value, because a database may store `1e2` as
/// `100`.
pub fn json_eq(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| json_eq(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let equal = |(name, value)| right.get(name).is_some_and(|right| json_eq(value, right));
            left.len() == right.len() && left.iter().all(equal)
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_place_that_differs_is_named_once() {
        let diffs = diff(
            &json!({ "a": 1, "b": { "c": [1, 2], "d": "x" }, "gone": true }),
            &json!({ "a": 1, "b": { "c": [1, 3], "d": "x" }, "new": null }),
        );
        let places: Vec<_> = diffs.iter().map(|diff| diff.pointer.as_str()).collect();
        assert_eq!(places, ["/b/c", "/gone", "/new"]);
        assert_eq!((diffs[1].before.clone(), diffs[1].after.clone()), (Some(json!(true)), None));
        assert_eq!(diffs[2].after, Some(Value::Null), "null is something");
        assert!(diff(&json!({ "a": [1e2] }), &json!({ "a": [100] })).is_empty());
        assert!(
            !json_eq(&json!({ "a": 1 }), &json!({ "a": 1, "b": 2 })) && !json_eq(&json!([1]), &json!([1, 1]))
        );
    }
}
