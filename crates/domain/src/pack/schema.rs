//! Compiles JSON schemas from untrusted sources.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value, json};

use super::{cost, messages};
use crate::invalid::Invalid;

/// Compiles a validator for properties. The compiler never fetches anything, so references must
/// point into the schema itself.
pub fn compile(schema: &Value) -> Result<Validator, Invalid> {
    if !schema.is_object() {
        return Err(Invalid::new("", "must be a JSON schema, which is a JSON object"));
    }
    // Patterns often contain look-around, which requires backtracking. The limit bounds the time
    // that a hostile text could take.
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
                     put the referenced schema under `$defs` and refer to it with `#/$defs/…`"
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

/// Compiles the properties of a relationship type, which are written either as a complete schema or
/// as the map of properties alone.
pub fn compile_properties(written: &Value) -> Result<Validator, Invalid> {
    match written {
        Value::Object(map) if is_short(map) => {
            let schema = json!({ "type": "object", "properties": written });
            compile(&schema).map_err(|mut invalid| {
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

/// Returns whether this is the short form. A map whose values are all objects is the short form,
/// because properties may have the names of keywords. A single real keyword makes it a complete
/// schema: `"type": "object"`, `"required": […]`, `"additionalProperties": false`, `"properties"`
/// with schemas in it, or any keyword that starts with `$`.
fn is_short(map: &Map<String, Value>) -> bool {
    let holds_schemas = |value: &Value| {
        let mut entries = value.as_object().into_iter().flat_map(Map::values);
        entries.all(|entry| entry.is_object() || entry.is_boolean())
    };
    map.iter().all(|(key, value)| {
        value.is_object() && !key.starts_with('$') && !(key == "properties" && holds_schemas(value))
    })
}
