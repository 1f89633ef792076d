//! The headers of a modern HTTP request. They repeat the name of the called tool, and those arguments that
//! the tool's schema marks with `x-mcp-header`.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

const ANNOTATION: &str = "x-mcp-header";

/// An argument that is also sent as `Mcp-Param-<name>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredArgument {
    name: String,
    /// The keys that lead to the value in the arguments.
    path: Vec<String>,
}

/// Returns the arguments that a schema requests in headers; `None` if the request is invalid (a name that is
/// no header name or is used twice, a value that is no scalar), so that the tool cannot be called.
pub fn mirrored_arguments(schema: &Value) -> Option<Vec<MirroredArgument>> {
    let mut mirrored = Vec::new();
    collect_mirrored(schema, &mut Vec::new(), true, &mut mirrored).then_some(mirrored)
}

/// Collects the marked arguments of a schema and of the schemas in it. Returns false if one of them is
/// invalid. `reachable` means that `path` leads only through `properties`, so that there is at most one
/// value.
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
        let type_name = map.get("type").and_then(Value::as_str);
        let is_scalar = matches!(type_name, Some("string" | "integer" | "boolean"));
        let Some(name) = name.as_str().filter(|name| is_token(name)) else { return false };
        let taken = mirrored.iter().any(|argument| argument.name.eq_ignore_ascii_case(name));
        if !reachable || path.is_empty() || !is_scalar || taken {
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

/// Whether a text may be part of a header name (a token of RFC 9110).
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
    let is_ascii = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let is_trimmed = text.trim_matches([' ', '\t']) == text;
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    if is_ascii && is_trimmed && !looks_encoded {
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
    fn a_schema_with_an_invalid_header_is_refused() {
        let is_valid = |header: Value, type_name: &str| {
            mirrored_arguments(&schema(json!({ "type": type_name, "x-mcp-header": header }))).is_some()
        };
        assert!(
            is_valid(json!("Region"), "string")
                && is_valid(json!("Region"), "integer")
                && is_valid(json!("Method"), "boolean")
        );
        for name in ["", "two words", "a:b", "é", "a\u{1}"] {
            assert!(!is_valid(json!(name), "string"), "{name}");
        }
        for type_name in ["object", "array", "null", "number"] {
            assert!(!is_valid(json!("Region"), type_name), "{type_name}");
        }
        assert!(!is_valid(json!(7), "string"));
        let twice = json!({ "properties": {
            "a": { "type": "string", "x-mcp-header": "Same" }, "b": { "type": "string", "x-mcp-header": "sAME" } } });
        assert_eq!(mirrored_arguments(&twice), None);
        let in_items = schema(json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "X" } }));
        assert_eq!(mirrored_arguments(&in_items), None);
    }

    #[test]
    fn marked_arguments_become_headers() {
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
    fn values_that_no_header_can_contain_are_encoded() {
        assert_eq!(encode_header("plain text"), "plain text");
        assert_eq!(encode_header(""), "");
        assert_eq!(encode_header("é"), "=?base64?w6k=?=");
        assert_eq!(encode_header(" a"), "=?base64?IGE=?=");
        assert_eq!(encode_header("=?base64?x?="), "=?base64?PT9iYXNlNjQ/eD89?=");
    }
}
