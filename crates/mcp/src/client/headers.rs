//! The headers of a modern HTTP request: they repeat the name of the called tool, and the arguments
//! whose schema requests it with `x-mcp-header`.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

const ANNOTATION: &str = "x-mcp-header";

/// An argument that is also sent as `Mcp-Param-<name>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredArgument {
    name: String,
    path: Vec<String>,
}

/// Returns the arguments that a schema requests in headers; `None` if it requests something impossible,
/// so that the tool cannot be used.
pub fn mirrored_arguments(schema: &Value) -> Option<Vec<MirroredArgument>> {
    let mut mirrored = Vec::new();
    collect_mirrored(schema, &mut Vec::new(), true, &mut mirrored).then_some(mirrored)
}

/// `reachable` means that the path from the top leads only through `properties`, so that there is at
/// most one value.
fn collect_mirrored(
    schema: &Value,
    path: &mut Vec<String>,
    reachable: bool,
    mirrored: &mut Vec<MirroredArgument>,
) -> bool {
    let map = match schema {
        Value::Array(items) => return items.iter().all(|item| collect_mirrored(item, path, false, mirrored)),
        Value::Object(map) => map,
        _ => return true,
    };
    if let Some(name) = map.get(ANNOTATION) {
        let kind = map.get("type").and_then(Value::as_str);
        let fits = matches!(kind, Some("string" | "integer" | "boolean"));
        let Some(name) = name.as_str().filter(|name| is_token(name)) else { return false };
        let taken = mirrored.iter().any(|argument| argument.name.eq_ignore_ascii_case(name));
        if !reachable || path.is_empty() || !fits || taken {
            return false;
        }
        mirrored.push(MirroredArgument { name: name.to_owned(), path: path.clone() });
    }
    map.iter().all(|(key, value)| match (key.as_str(), value) {
        (ANNOTATION, _) => true,
        ("properties", Value::Object(properties)) if reachable => properties.iter().all(|(name, schema)| {
            path.push(name.clone());
            let valid = collect_mirrored(schema, path, true, mirrored);
            path.pop();
            valid
        }),
        _ => collect_mirrored(value, path, false, mirrored),
    })
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

/// Returns the headers for a call's arguments.
pub fn argument_headers(
    mirrored: &[MirroredArgument],
    arguments: &Map<String, Value>,
) -> Vec<(String, String)> {
    mirrored
        .iter()
        .filter_map(|argument| {
            let (first, rest) = argument.path.split_first()?;
            let value = rest.iter().try_fold(arguments.get(first)?, |value, key| value.get(key))?;
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Null => return None,
                other => other.to_string(),
            };
            Some((format!("mcp-param-{}", argument.name.to_ascii_lowercase()), encode_header(&text)))
        })
        .collect()
}

/// Encodes a header value: as plain text where that is possible and unambiguous, otherwise as base64.
pub fn encode_header(text: &str) -> String {
    let plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let trimmed = text.trim_matches([' ', '\t']) == text;
    let marked = text.starts_with("=?base64?") && text.ends_with("?=");
    if plain && trimmed && !marked {
        return text.to_owned();
    }
    format!("=?base64?{}?=", BASE64_STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(property: Value) -> Value {
        json!({ "type": "object", "properties": { "a": property } })
    }

    #[test]
    fn what_a_schema_may_not_ask_for() {
        let of = |x: Value, kind: &str| {
            mirrored_arguments(&schema(json!({ "type": kind, "x-mcp-header": x }))).is_some()
        };
        assert!(
            of(json!("Region"), "string") && of(json!("Region"), "integer") && of(json!("Method"), "boolean")
        );
        for name in ["", "two words", "a:b", "é", "a\u{1}"] {
            assert!(!of(json!(name), "string"), "{name}");
        }
        for kind in ["object", "array", "null", "number"] {
            assert!(!of(json!("Region"), kind), "{kind}");
        }
        assert!(!of(json!(7), "string"));
        let twice = json!({ "properties": {
            "a": { "type": "string", "x-mcp-header": "Same" }, "b": { "type": "string", "x-mcp-header": "sAME" } } });
        assert_eq!(mirrored_arguments(&twice), None);
        let in_items = schema(json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "X" } }));
        assert_eq!(mirrored_arguments(&in_items), None);
    }

    #[test]
    fn arguments_become_headers() {
        let schema = json!({ "properties": {
            "text": { "type": "string", "x-mcp-header": "Text" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "deep": { "type": "object", "properties": { "flag": { "type": "boolean", "x-mcp-header": "Flag" } } },
            "none": { "type": "string", "x-mcp-header": "None" },
        } });
        let arguments =
            json!({ "text": "a  b", "count": 42, "deep": { "flag": true }, "none": null, "other": 1 });
        let mut headers =
            argument_headers(&mirrored_arguments(&schema).unwrap(), arguments.as_object().unwrap());
        headers.sort();
        let expected = [("mcp-param-count", "42"), ("mcp-param-flag", "true"), ("mcp-param-text", "a  b")];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_no_header_can_carry_is_encoded() {
        assert_eq!(encode_header("plain text"), "plain text");
        assert_eq!(encode_header(""), "");
        assert_eq!(encode_header("é"), "=?base64?w6k=?=");
        assert_eq!(encode_header(" a"), "=?base64?IGE=?=");
        assert_eq!(encode_header("=?base64?x?="), "=?base64?PT9iYXNlNjQ/eD89?=");
    }
}
