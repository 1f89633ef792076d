//! Where two JSON values differ.

use serde_json::Value;

use crate::problem::pointer_segment;

/// One place that differs. `None`: it is not there.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldDiff {
    pub pointer: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// Every place where `after` is not `before`: objects are walked, lists are compared as a whole,
/// since a place in a list says little once something was put before it.
pub fn diff(before: &Value, after: &Value) -> Vec<FieldDiff> {
    let mut found = Vec::new();
    diff_into(String::new(), before, after, &mut found);
    found
}

fn diff_into(at: String, before: &Value, after: &Value, found: &mut Vec<FieldDiff>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let below = format!("{at}{}", pointer_segment(name));
                match (old.get(name), new.get(name)) {
                    (Some(old), Some(new)) => diff_into(below, old, new, found),
                    (before, after) => found.push(FieldDiff {
                        pointer: below,
                        before: before.cloned(),
                        after: after.cloned(),
                    }),
                }
            }
        }
        _ if json_eq(before, after) => {}
        _ => found.push(FieldDiff { pointer: at, before: Some(before.clone()), after: Some(after.clone()) }),
    }
}

/// Equal as JSON: a database may have written `1e2` as `100`.
pub fn json_eq(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| json_eq(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let equal = |(name, value)| other.get(name).is_some_and(|theirs| json_eq(value, theirs));
            one.len() == other.len() && one.iter().all(equal)
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_place_that_differs_is_named_once() {
        let found = diff(
            &json!({ "a": 1, "b": { "c": [1, 2], "d": "x" }, "gone": true }),
            &json!({ "a": 1, "b": { "c": [1, 3], "d": "x" }, "new": null }),
        );
        let places: Vec<_> = found.iter().map(|one| one.pointer.as_str()).collect();
        assert_eq!(places, ["/b/c", "/gone", "/new"]);
        assert_eq!((found[1].before.clone(), found[1].after.clone()), (Some(json!(true)), None));
        assert_eq!(found[2].after, Some(Value::Null), "null is something");
        assert!(diff(&json!({ "a": [1e2] }), &json!({ "a": [100] })).is_empty());
        assert!(
            !json_eq(&json!({ "a": 1 }), &json!({ "a": 1, "b": 2 })) && !json_eq(&json!([1]), &json!([1, 1]))
        );
    }
}
