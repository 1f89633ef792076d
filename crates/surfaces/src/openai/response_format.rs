//! The format of an answer that a request asks for, as the output schema of its run.

use emergent_domain::invalid::Invalid;
use serde_json::{Value, json};

const SCHEMA: &str = "response_format.json_schema.schema";

/// Returns the schema that the answer must match. The `name` and `strict` of a schema have no effect: an answer is
/// always validated, and one that does not match is written again.
pub(super) fn output_schema(format: Option<&Value>) -> Result<Option<Value>, Invalid> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(None) };
    match format["type"].as_str() {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(json!({ "type": "object" }))),
        Some("json_schema") => match &format["json_schema"]["schema"] {
            Value::Null => Err(Invalid::new(SCHEMA, "is required: the answer must match it")),
            schema => Ok(Some(schema.clone())),
        },
        _ => Err(Invalid::new("response_format.type", "must be `text`, `json_object` or `json_schema`")),
    }
}

/// Names the field of the request in problems with the schema.
pub fn rename_schema_fields(mut invalid: Invalid) -> Invalid {
    for problem in &mut invalid.problems {
        if let Some(rest) = problem.field.strip_prefix("outputSchema") {
            problem.field = format!("{SCHEMA}{rest}");
        }
    }
    invalid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_the_output_schema_of_the_run() {
        let schema = json!({ "type": "object", "required": ["a"] });
        let check = |format: Value, expected: Result<Option<Value>, &str>| {
            let found = output_schema(Some(&format)).map_err(|invalid| invalid.problems[0].field.clone());
            assert_eq!(found, expected.map_err(str::to_owned), "{format}");
        };
        check(json!(null), Ok(None));
        check(json!({ "type": "text" }), Ok(None));
        check(json!({ "type": "json_object" }), Ok(Some(json!({ "type": "object" }))));
        let named = json!({ "name": "answer", "strict": true, "schema": schema });
        check(json!({ "type": "json_schema", "json_schema": named }), Ok(Some(schema)));
        check(json!({ "type": "json_schema", "json_schema": { "name": "answer" } }), Err(SCHEMA));
        check(json!({ "type": "grammar" }), Err("response_format.type"));
        check(json!("text"), Err("response_format.type"));
    }

    #[test]
    fn problems_with_the_schema_name_the_field_of_the_request() {
        let field = |field: &str| rename_schema_fields(Invalid::new(field, "no")).problems[0].field.clone();
        assert_eq!(field("outputSchema.properties.a"), format!("{SCHEMA}.properties.a"));
        assert_eq!(field("input"), "input");
    }
}
