//! Compiles JSON schemas from untrusted sources.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value, json};

use super::{
    gate::{self, PatternLimit},
    messages,
    pattern::{self, PatternCost},
    steps,
};
use crate::invalid::Invalid;

/// A compiled schema, with what is needed to estimate the cost of a validation.
#[derive(Debug)]
pub struct CompiledSchema {
    pub validator: Validator,
    /// The schema as it was compiled.
    pub schema: Value,
    /// The maximum number of steps for one node of a value, and for four bytes of text.
    weight: u64,
    /// The states of all patterns.
    states: u64,
    /// Whether a pattern needs backtracking, so that `weight` is not a limit.
    backtracks: bool,
}

/// What a state of a pattern takes in memory.
const BYTES_PER_STATE: u64 = 200;
/// Up to this estimate, the steps are not counted one by one.
const SMALL_ESTIMATE: u64 = 2_000;

impl CompiledSchema {
    /// Returns how many steps the validation of a value takes, at most `max`.
    pub fn count_steps(&self, value: &Value, max: u64) -> Result<steps::Steps, steps::OutOfSteps> {
        if !self.backtracks {
            let (nodes, bytes) = steps::size(value);
            let estimate = self.weight.saturating_mul(nodes + bytes / 4);
            if estimate <= SMALL_ESTIMATE.min(max) {
                return Ok(steps::Steps { total: estimate, in_alternatives: estimate });
            }
        }
        steps::count(&self.schema, value, max)
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn bytes(&self) -> u64 {
        let (nodes, bytes) = steps::size(&self.schema);
        nodes * 500 + bytes * 4 + self.weight * 100 + self.states * BYTES_PER_STATE
    }
}

/// Calls `found` for each pattern of a schema. It may also find texts that only look like patterns.
pub fn for_each_pattern<'a>(schema: &'a Value, found: &mut impl FnMut(&'a str)) {
    let mut stack = vec![schema];
    while let Some(node) = stack.pop() {
        match node {
            Value::Array(items) => stack.extend(items),
            Value::Object(map) => {
                for (keyword, value) in map {
                    match (keyword.as_str(), value) {
                        ("pattern", Value::String(pattern)) => found(pattern),
                        ("patternProperties", Value::Object(patterns)) => {
                            patterns.keys().for_each(|pattern| found(pattern));
                        }
                        _ => {}
                    }
                    stack.push(value);
                }
            }
            _ => {}
        }
    }
}

/// Compiles a validator for properties. The compiler never fetches anything, so references must
/// point into the schema itself. Nothing is compiled before the gate has accepted the schema.
pub fn compile(schema: &Value) -> Result<CompiledSchema, Invalid> {
    compile_within(schema, PatternLimit::Pack)
}

/// Works like [`compile`], with a limit for patterns.
pub(super) fn compile_within(schema: &Value, limit: PatternLimit) -> Result<CompiledSchema, Invalid> {
    let mut weight = gate::check(schema, limit)?;
    // Patterns often contain look-around, which requires backtracking. The limit bounds the time
    // that a hostile text could take.
    let patterns = PatternOptions::fancy_regex().backtrack_limit(pattern::MAX_BACKTRACKS).size_limit(1 << 20);
    let nameless = gate::without_root_names(schema);
    let validator = jsonschema::options()
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(patterns)
        .build(nameless.as_ref().unwrap_or(schema))
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
    let (mut states, mut backtracks) = (0_u64, false);
    for_each_pattern(schema, &mut |pattern| {
        let cost = PatternCost::estimate(pattern);
        weight = weight.saturating_add(1 + cost.states / 4);
        states = states.saturating_add(cost.states);
        backtracks |= cost.backtracks;
    });
    Ok(CompiledSchema { validator, schema: schema.clone(), weight, states, backtracks })
}

/// Compiles the properties of a relationship type, which are written either as a complete schema or
/// as the map of properties alone.
pub fn compile_properties(written: &Value) -> Result<CompiledSchema, Invalid> {
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
