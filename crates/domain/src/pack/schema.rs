//! Compiling JSON schemas that strangers wrote.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value, json};

use super::{cost, messages};
use crate::invalid::Invalid;

/// A validator for properties. Nothing is ever fetched: a reference must stay inside the schema.
pub fn compile(schema: &Value) -> Result<Validator, Invalid> {
    if !schema.is_object() {
        return Err(Invalid::new("", "must be a JSON schema, that is an object"));
    }
    // Look-around is common in patterns and needs backtracking, which an unlucky text could
    // otherwise drag out for minutes.
    let patterns = PatternOptions::fancy_regex().backtrack_limit(100_000).size_limit(1 << 20);
    let validator = jsonschema::options()
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| match error.kind() {
            ValidationErrorKind::Referencing(source) => Invalid::new(
                "",
                format!(
                    "is not a usable JSON schema: {source}. Nothing is fetched: \
                     put what is referred to under `$defs` and point to it with `#/$defs/…`"
                ),
            ),
            _ => Invalid {
                problems: messages::problems(&error, schema)
                    .into_iter()
                    .map(|mut problem| {
                        problem.reason = format!("is not a JSON schema: {}", problem.reason);
                        problem
                    })
                    .collect(),
            },
        })?;
    cost::check_cost(schema)?;
    Ok(validator)
}

/// As [`compile`], from either way of writing what a relationship may say: a whole schema, or
/// only the map of properties in it.
pub fn compile_properties(written: &Value) -> Result<Validator, Invalid> {
    match written {
        Value::Object(map) if is_short(map) => {
            let whole = json!({ "type": "object", "properties": written });
            compile(&whole).map_err(|mut invalid| {
                for problem in &mut invalid.problems {
                    if let Some(inside) = problem.field.strip_prefix("properties.") {
                        problem.field = inside.to_owned();
                    }
                }
                invalid
            })
        }
        _ => compile(written),
    }
}

/// A map whose values are all objects is the short form, since properties may have the names of
/// keywords. One real keyword makes it a whole schema: `"type": "object"`, `"required": […]`,
/// `"additionalProperties": false`, `"properties"` with schemas in it, or any that starts with `$`.
fn is_short(map: &Map<String, Value>) -> bool {
    let holds_schemas = |value: &Value| {
        let mut entries = value.as_object().into_iter().flat_map(Map::values);
        entries.all(|entry| entry.is_object() || entry.is_boolean())
    };
    map.iter().all(|(key, value)| {
        value.is_object() && !key.starts_with('$') && !(key == "properties" && holds_schemas(value))
    })
}
