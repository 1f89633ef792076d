//! Timestamps in the results of tools outside of this server. A tool that is called again and again to change something
//! back and forth returns another time with each call.

use std::borrow::Cow;

use serde_json::Value;

/// Earlier numbers of seconds are counts, not times.
const MIN_SECONDS: f64 = 1e9;

/// Returns a result without its timestamps: fields whose name and value both say that they are one.
pub(super) fn remove_from(output: &Value) -> Cow<'_, Value> {
    let mut output = Cow::Borrowed(output);
    if has_times(&output) {
        remove(output.to_mut());
    }
    output
}

fn has_times(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_times),
        Value::Object(fields) => fields.iter().any(|(name, value)| is_time(name, value) || has_times(value)),
        _ => false,
    }
}

fn remove(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove),
        Value::Object(fields) => {
            fields.retain(|name, value| !is_time(name, value));
            fields.values_mut().for_each(remove);
        }
        _ => {}
    }
}

fn is_time(name: &str, value: &Value) -> bool {
    let is_named = name.ends_with("At")
        || name.ends_with("Time")
        || matches!(name, "ts" | "now" | "mtime" | "updated" | "modified" | "lastModified" | "lastUpdated")
        || ["timestamp", "time", "date", "_at"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
    is_named
        && match value {
            Value::String(text) => is_date(text.as_bytes()),
            Value::Number(number) => number.as_f64().is_some_and(|seconds| seconds >= MIN_SECONDS),
            _ => false,
        }
}

/// Whether a text begins with a date like `2026-01-31`, and with a time after it.
fn is_date(text: &[u8]) -> bool {
    let is_digit = |index: usize| text.get(index).is_some_and(u8::is_ascii_digit);
    (0..4).all(is_digit)
        && text.get(4) == Some(&b'-')
        && (5..7).all(is_digit)
        && text.get(7) == Some(&b'-')
        && (8..10).all(is_digit)
        && text.get(10).is_some_and(|c| matches!(c, b'T' | b' '))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_fields_that_are_named_and_written_like_times_are_removed() {
        let result = json!({
            "state": "on", "updated_at": "2026-01-31T10:00:00Z", "at": 3, "startTime": 1_790_000_000,
            "items": [{ "timestamp": 1_790_000_000_123i64, "due_date": "2026-02-01", "format": "2026-01-31T10:00:00Z" }],
            "runtime": 12,
        });
        let rest = json!({
            "state": "on", "at": 3, "items": [{ "due_date": "2026-02-01", "format": "2026-01-31T10:00:00Z" }],
            "runtime": 12,
        });
        assert_eq!(remove_from(&result).into_owned(), rest);
    }
}
