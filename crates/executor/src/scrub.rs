//! PostgreSQL cannot store NUL in text, but everything a model writes is recorded. The character is
//! therefore replaced before anything else reads the text, so that the record and the model's view
//! agree.

use serde_json::Value;

pub fn scrub_text(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{fffd}");
    }
}

pub fn scrub_value(value: &mut Value) {
    match value {
        Value::String(one) => scrub_text(one),
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
