//! Fingerprints of tool calls and of their results, by which the loop guard compares them.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::CallEffect;

/// Fields of a result that differ each time although nothing has changed.
const VOLATILE_FIELDS: [&str; 8] =
    ["took", "tookMs", "took_ms", "durationMs", "duration_ms", "requestId", "request_id", "traceId"];

/// Arguments that say how many results are wanted, and not what is asked.
const SIZE_ARGUMENTS: [&str; 9] =
    ["limit", "topK", "top_k", "pageSize", "page_size", "perPage", "per_page", "maxResults", "max_results"];
/// Shorter arguments may be part of any word, so they stay in the text of a failure.
const MIN_REMOVED_VALUE: usize = 3;

/// Hashes a call. Calls of the same tool with equal arguments have the same hash, regardless of the
/// order of their keys.
pub(super) fn exact_call(tool: &str, input: &Value) -> u64 {
    hash_call(tool, input, Text::Exact)
}

/// Hashes a call like [`exact_call`], but ignores letter case, spaces and final punctuation in texts, and how
/// many results are asked for, so that the same question in another spelling has the same hash.
pub(super) fn similar_call(tool: &str, input: &Value) -> u64 {
    hash_call(tool, input, Text::Folded)
}

/// Hashes the name of a tool. All tools that the run does not have get one hash: a model that invents a new name for
/// each call repeats one failure.
pub(super) fn failing_tool(tool: &str, effect: CallEffect) -> u64 {
    let mut hasher = DefaultHasher::new();
    match effect {
        CallEffect::NoTool => None,
        CallEffect::Reads | CallEffect::Writes | CallEffect::External => Some(tool),
    }
    .hash(&mut hasher);
    hasher.finish()
}

/// Hashes the words of a failure without what differs from call to call: values of the arguments, and words
/// with digits (ids, numbers, times). The failures of calls without a tool are all the same, because their words
/// differ only in the name.
pub(super) fn failure(effect: CallEffect, output: &Value, input: &Value) -> u64 {
    if effect == CallEffect::NoTool {
        return 0;
    }
    let mut text = match output.get("error").and_then(Value::as_str) {
        Some(error) => error.to_owned(),
        None => output.to_string(),
    };
    remove_values(input, &mut text);
    let mut hasher = DefaultHasher::new();
    for word in text.split_whitespace() {
        match word.contains(|c: char| c.is_ascii_digit()) {
            true => "#".hash(&mut hasher),
            false => word.to_lowercase().hash(&mut hasher),
        }
    }
    hasher.finish()
}

fn remove_values(input: &Value, text: &mut String) {
    match input {
        Value::String(value) if value.chars().count() >= MIN_REMOVED_VALUE => *text = text.replace(value, ""),
        Value::Array(items) => items.iter().for_each(|item| remove_values(item, text)),
        Value::Object(map) => map.values().for_each(|value| remove_values(value, text)),
        _ => {}
    }
}

/// Hashes a result. That a write succeeded twice is no news, even if it returned another id.
pub(super) fn result(effect: CallEffect, output: &Value, failed: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    failed.hash(&mut hasher);
    if failed || effect != CallEffect::Writes {
        hash_value(output, Text::Exact, &VOLATILE_FIELDS, &mut hasher);
    }
    hasher.finish()
}

/// Hashes a part of a result, regardless of the order of its keys.
pub(super) fn value(part: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash_value(part, Text::Exact, &VOLATILE_FIELDS, &mut hasher);
    hasher.finish()
}

/// Hashes a text, such as an id.
pub(super) fn text(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Hashes the place of an object among those that a call returns.
pub(super) fn place(call: u64, place: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (call, place).hash(&mut hasher);
    hasher.finish()
}

#[derive(Debug, Clone, Copy, Hash)]
enum Text {
    Exact,
    Folded,
}

fn hash_call(tool: &str, input: &Value, text: Text) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    tool.hash(&mut hasher);
    let ignored: &[&str] = match text {
        Text::Exact => &[],
        Text::Folded => &SIZE_ARGUMENTS,
    };
    hash_value(input, text, ignored, &mut hasher);
    hasher.finish()
}

fn hash_value(value: &Value, mode: Text, ignored: &[&str], hasher: &mut DefaultHasher) {
    match value {
        Value::Null => 0u8.hash(hasher),
        Value::Bool(truth) => (1u8, truth).hash(hasher),
        // 1 and 1.0 are the same argument in different notations.
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => (2u8, whole).hash(hasher),
            (None, Some(float)) if float.fract() == 0.0 && float.abs() < 9e15 => {
                (2u8, float as i64).hash(hasher)
            }
            (None, float) => (3u8, float.map(f64::to_bits)).hash(hasher),
        },
        Value::String(text) => match mode {
            Text::Exact => (4u8, text).hash(hasher),
            Text::Folded => (4u8, fold(text)).hash(hasher),
        },
        Value::Array(items) => {
            (5u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash_value(item, mode, ignored, hasher));
        }
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().filter(|key| !ignored.contains(&key.as_str())).collect();
            keys.sort_unstable();
            (6u8, keys.len()).hash(hasher);
            for key in keys {
                key.hash(hasher);
                hash_value(&map[key], mode, ignored, hasher);
            }
        }
    }
}

/// Returns the text in lower case, with single spaces, and without punctuation at its end.
fn fold(text: &str) -> String {
    let trimmed = text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '!' | '?'));
    trimmed.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}
