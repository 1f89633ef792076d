//! Replaces NUL characters in the output of models and tools, because PostgreSQL cannot store them in text.
//! They are replaced before anything else reads the text, so that the record and the model's view agree.

use serde_json::Value;

/// Replaces NUL characters in a text.
pub fn scrub_text(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
}

/// Replaces NUL characters in all texts and keys of a JSON value.
pub fn scrub_value(value: &mut Value) {
    match value {
        Value::String(text) => scrub_text(text),
        Value::Array(items) => items.iter_mut().for_each(self::scrub_value),
        Value::Object(map) => {
            if map.keys().any(|key| key.contains('\0')) {
                *map = std::mem::take(map)
                    .into_iter()
                    .map(|(key, value)| (key.replace('\0', "\u{fffd}"), value))
                    .collect();
            }
            map.values_mut().for_each(self::scrub_value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
