//! Which output schemas a provider is given. A provider that is not given the schema answers as its prompt says, and
//! the caller validates the answer in any case, so leaving a schema out is always safe.

use serde_json::Value;

use super::ChatRequest;

/// The schema for Gemini. Models before Gemini 3 refuse a request that has both functions and a response schema, and
/// the name of a model does not say reliably which kind it is.
pub(super) fn for_gemini<'a>(request: &ChatRequest<'a>) -> Option<&'a Value> {
    request.output_schema.filter(|_| request.tools.is_empty())
}

/// The schema for `/v1/chat/completions`, which describes an object. Servers other than OpenAI's own turn the schema
/// into a grammar for everything that the model writes: it could then call no tool, or the server refuses both.
pub(super) fn for_openai<'a>(request: &ChatRequest<'a>, is_own_server: bool) -> Option<&'a Value> {
    let schema = request.output_schema.filter(|schema| schema["type"] == "object");
    schema.filter(|_| is_own_server || request.tools.is_empty())
}

/// The schema for Anthropic, which takes it beside tools, but refuses a request whose schema uses more than a part of
/// JSON Schema.
pub(super) fn for_anthropic<'a>(request: &ChatRequest<'a>) -> Option<&'a Value> {
    request.output_schema.filter(|schema| is_supported_by_anthropic(schema))
}

/// Whether the schema has only keywords that Anthropic supports, and allows no unknown properties. References are left
/// out, because recursive ones are refused.
fn is_supported_by_anthropic(schema: &Value) -> bool {
    const SUPPORTED: [&str; 10] = [
        "type",
        "title",
        "description",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
    ];
    let Value::Object(fields) = schema else { return false };
    let is_scalar = |value: &Value| !value.is_array() && !value.is_object();
    let properties = fields.get("properties").and_then(Value::as_object);
    let is_object = properties.is_some() || schema["type"] == "object";
    let options = fields.get("enum").and_then(Value::as_array).into_iter().flatten();
    let inner = properties.into_iter().flat_map(|properties| properties.values());
    let choices = fields.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    fields.keys().all(|keyword| SUPPORTED.contains(&keyword.as_str()))
        && (!is_object || schema["additionalProperties"] == Value::Bool(false))
        && options.chain(fields.get("const")).all(is_scalar)
        && inner.chain(choices).chain(fields.get("items")).all(is_supported_by_anthropic)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn anthropic_is_given_only_schemas_that_it_supports() {
        let closed = |inner: Value| json!({ "type": "object", "properties": { "a": inner }, "required": ["a"], "additionalProperties": false });
        assert!(is_supported_by_anthropic(&closed(json!({ "type": "string", "description": "A name" }))));
        assert!(is_supported_by_anthropic(&closed(
            json!({ "anyOf": [{ "type": "null" }, { "enum": [1, "x"] }] })
        )));
        assert!(is_supported_by_anthropic(
            &json!({ "type": "array", "items": closed(json!({ "const": 1 })) })
        ));
        for refused in [
            json!({ "type": "integer", "minimum": 0 }),
            json!({ "type": "object" }),
            json!({ "$ref": "#" }),
            json!({ "enum": [["a"]] }),
            json!({ "type": "array", "items": { "type": "object", "properties": {} } }),
            json!(true),
        ] {
            assert!(!is_supported_by_anthropic(&closed(refused.clone())), "{refused}");
        }
    }
}
