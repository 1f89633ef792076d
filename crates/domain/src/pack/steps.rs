//! Counts the steps of validating a value against a schema, before the value is validated.
//!
//! The count follows schema and value as a validator would that never stops early, and stops itself when
//! the budget is used up. It therefore costs less than the validation that it prevents.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{gate, pattern::PatternCost};

/// How deeply schemas may apply other schemas, counted along references and levels of the value.
const MAX_DEPTH: usize = 300;

/// The budget does not suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutOfSteps;

/// The steps of one validation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Steps {
    pub total: u64,
    /// The steps inside of `anyOf` and `oneOf`. A single error of these keywords contains all errors of
    /// their alternatives.
    pub in_alternatives: u64,
}

/// Counts the steps, up to a maximum.
pub(super) fn count(schema: &Value, value: &Value, max: u64) -> Result<Steps, OutOfSteps> {
    let mut counter =
        Counter { root: schema, max, steps: Steps::default(), alternatives: 0, patterns: HashMap::new() };
    counter.schema(schema, value, 0)?;
    Ok(counter.steps)
}

/// The number of nodes of a value, and the bytes of its texts and property names.
pub(super) fn size(value: &Value) -> (u64, u64) {
    let (mut nodes, mut bytes) = (0, 0);
    let mut stack = vec![value];
    while let Some(value) = stack.pop() {
        nodes += 1;
        match value {
            Value::String(text) => bytes += text.len() as u64,
            Value::Array(items) => stack.extend(items),
            Value::Object(map) => {
                for (name, value) in map {
                    bytes += name.len() as u64;
                    stack.push(value);
                }
            }
            _ => {}
        }
    }
    (nodes, bytes)
}

struct Counter<'a> {
    root: &'a Value,
    max: u64,
    steps: Steps,
    /// How many `anyOf` and `oneOf` the current schema is inside of.
    alternatives: u32,
    patterns: HashMap<&'a str, PatternCost>,
}

impl<'a> Counter<'a> {
    fn spend(&mut self, steps: u64) -> Result<(), OutOfSteps> {
        self.steps.total = self.steps.total.saturating_add(steps);
        if self.alternatives > 0 {
            self.steps.in_alternatives = self.steps.in_alternatives.saturating_add(steps);
        }
        if self.steps.total > self.max { Err(OutOfSteps) } else { Ok(()) }
    }

    fn schema(&mut self, schema: &'a Value, value: &Value, depth: usize) -> Result<(), OutOfSteps> {
        self.spend(1)?;
        if depth > MAX_DEPTH {
            return Err(OutOfSteps);
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        for (keyword, argument) in keywords {
            self.keyword(keyword, argument, keywords, value, depth + 1)?;
        }
        let has_unevaluated = (value.is_object() && keywords.contains_key("unevaluatedProperties"))
            || (value.is_array() && keywords.contains_key("unevaluatedItems"));
        if has_unevaluated { self.mark(keywords, value, depth + 1) } else { Ok(()) }
    }

    /// Counts how the validator finds out which parts of a value a schema evaluates, for an `unevaluatedProperties` or
    /// `unevaluatedItems`. It applies all schemas for the same value once more, at every level, so that nested ones
    /// multiply the work.
    fn mark(
        &mut self,
        keywords: &'a Map<String, Value>,
        value: &Value,
        depth: usize,
    ) -> Result<(), OutOfSteps> {
        self.spend(1)?;
        if depth > MAX_DEPTH {
            return Err(OutOfSteps);
        }
        for (keyword, argument) in keywords {
            match (keyword.as_str(), argument) {
                ("$ref", Value::String(target)) => {
                    if let Some(Value::Object(target)) = gate::resolve(self.root, target) {
                        self.mark(target, value, depth + 1)?;
                    }
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                    for schema in schemas {
                        self.schema(schema, value, depth)?;
                        self.mark_schema(schema, value, depth + 1)?;
                    }
                }
                ("if", schema) => {
                    self.schema(schema, value, depth)?;
                    self.mark_schema(schema, value, depth + 1)?;
                }
                ("then" | "else", schema) => self.mark_schema(schema, value, depth + 1)?,
                ("dependentSchemas", Value::Object(schemas)) => {
                    for schema in schemas.values() {
                        self.mark_schema(schema, value, depth + 1)?;
                    }
                }
                ("properties", _) => self.spend(value.as_object().map_or(0, Map::len) as u64)?,
                ("patternProperties", Value::Object(patterns)) => {
                    for name in value.as_object().into_iter().flat_map(Map::keys) {
                        patterns.keys().try_for_each(|pattern| self.pattern(pattern, name))?;
                    }
                }
                ("unevaluatedProperties" | "unevaluatedItems" | "contains", _) => {
                    self.keyword(keyword, argument, keywords, value, depth)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn mark_schema(&mut self, schema: &'a Value, value: &Value, depth: usize) -> Result<(), OutOfSteps> {
        schema.as_object().map_or(Ok(()), |keywords| self.mark(keywords, value, depth))
    }

    fn keyword(
        &mut self,
        keyword: &str,
        argument: &'a Value,
        beside: &'a Map<String, Value>,
        value: &Value,
        depth: usize,
    ) -> Result<(), OutOfSteps> {
        match (keyword, argument, value) {
            ("$defs" | "definitions" | "default" | "examples" | "title" | "description", ..) => Ok(()),
            ("enum" | "const", ..) => {
                let (nodes, bytes) = size(argument);
                self.spend(nodes + bytes / 64)
            }
            ("$ref", Value::String(target), _) => {
                let target = gate::resolve(self.root, target);
                target.map_or(Ok(()), |target| self.schema(target, value, depth))
            }
            ("allOf", Value::Array(schemas), _) => {
                schemas.iter().try_for_each(|schema| self.schema(schema, value, depth))
            }
            ("anyOf" | "oneOf", Value::Array(schemas), _) => {
                self.alternatives += 1;
                let counted = schemas.iter().try_for_each(|schema| self.schema(schema, value, depth));
                self.alternatives -= 1;
                counted
            }
            ("not" | "if" | "then" | "else", ..) => self.schema(argument, value, depth),
            ("pattern", Value::String(pattern), Value::String(text)) => self.pattern(pattern, text),
            ("format", _, Value::String(text)) if argument == "regex" => {
                self.spend(1 + text.len() as u64 * 4 + PatternCost::estimate(text).states)
            }
            ("format", _, Value::String(text)) => self.spend(1 + text.len() as u64 / 16),
            ("minLength" | "maxLength", _, Value::String(text)) => self.spend(1 + text.len() as u64 / 64),
            (_, _, Value::Object(object)) => self.of_object(keyword, argument, beside, object, value, depth),
            (_, _, Value::Array(items)) => self.of_array(keyword, argument, items, value, depth),
            _ => self.spend(1),
        }
    }

    fn pattern(&mut self, pattern: &'a str, text: &str) -> Result<(), OutOfSteps> {
        let cost = *self.patterns.entry(pattern).or_insert_with(|| PatternCost::estimate(pattern));
        self.spend(cost.steps(text.len()))
    }

    fn of_object(
        &mut self,
        keyword: &str,
        argument: &'a Value,
        beside: &'a Map<String, Value>,
        object: &Map<String, Value>,
        value: &Value,
        depth: usize,
    ) -> Result<(), OutOfSteps> {
        match (keyword, argument) {
            ("properties", Value::Object(schemas)) => {
                self.spend(schemas.len() as u64)?;
                for (name, schema) in schemas {
                    if let Some(value) = object.get(name) {
                        self.schema(schema, value, depth)?;
                    }
                }
                Ok(())
            }
            ("patternProperties", Value::Object(schemas)) => {
                for (pattern, schema) in schemas {
                    for (name, value) in object {
                        self.pattern(pattern, name)?;
                        self.schema(schema, value, depth)?;
                    }
                }
                Ok(())
            }
            ("additionalProperties" | "unevaluatedProperties", schema) => {
                // Whether a property is additional depends on the patterns, which are matched again.
                let patterns = beside.get("patternProperties").and_then(Value::as_object);
                for (name, value) in object {
                    for pattern in patterns.into_iter().flat_map(Map::keys) {
                        self.pattern(pattern, name)?;
                    }
                    self.schema(schema, value, depth)?;
                }
                Ok(())
            }
            ("propertyNames", schema) => {
                object.keys().try_for_each(|name| self.schema(schema, &Value::String(name.clone()), depth))
            }
            ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                self.spend(schemas.len() as u64)?;
                schemas.values().try_for_each(|schema| self.schema(schema, value, depth))
            }
            (_, Value::Array(names)) => self.spend(1 + names.len() as u64),
            (_, Value::Object(entries)) => self.spend(1 + entries.len() as u64),
            _ => self.spend(1),
        }
    }

    fn of_array(
        &mut self,
        keyword: &str,
        argument: &'a Value,
        items: &[Value],
        value: &Value,
        depth: usize,
    ) -> Result<(), OutOfSteps> {
        match (keyword, argument) {
            ("prefixItems" | "items", Value::Array(schemas)) => {
                let mut pairs = schemas.iter().zip(items);
                pairs.try_for_each(|(schema, item)| self.schema(schema, item, depth))
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", schema) => {
                items.iter().try_for_each(|item| self.schema(schema, item, depth))
            }
            ("uniqueItems", Value::Bool(true)) => {
                let (nodes, bytes) = size(value);
                self.spend(nodes * 2 + bytes / 16)
            }
            _ => self.spend(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn total(schema: Value, value: Value) -> u64 {
        count(&schema, &value, u64::MAX).unwrap().total
    }

    #[test]
    fn every_pattern_counts_for_every_property() {
        let patterns = |count: usize| {
            let patterns: Map<String, Value> = (0..count).map(|n| (format!("^p{n}"), json!(true))).collect();
            json!({ "patternProperties": patterns })
        };
        let value: Map<String, Value> = (0..1_000).map(|n| (format!("k{n}"), json!(1))).collect();
        let (one, hundred) = (total(patterns(1), json!(value)), total(patterns(100), json!(value)));
        assert!(hundred > one * 90 && hundred > 100_000, "{one} {hundred}");
    }

    #[test]
    fn the_count_stops_when_the_budget_is_used_up() {
        let schemas: Vec<Value> = (0..1_000).map(|_| json!({ "additionalProperties": false })).collect();
        let value: Map<String, Value> = (0..100_000).map(|n| (n.to_string(), json!(1))).collect();
        assert_eq!(count(&json!({ "allOf": schemas }), &json!(value), 10_000), Err(OutOfSteps));
    }

    #[test]
    fn a_reference_to_itself_ends() {
        assert_eq!(count(&json!({ "$ref": "#" }), &json!({}), u64::MAX), Err(OutOfSteps));
        let list = json!({ "properties": { "next": { "$ref": "#" } } });
        assert!(total(list, json!({ "next": { "next": { "next": {} } } })) < 50);
    }

    #[test]
    fn alternatives_are_counted_apart() {
        let schema = json!({ "properties": { "a": { "anyOf": [{ "type": "string" }, { "minimum": 1 }] } } });
        let steps = count(&schema, &json!({ "a": 5 }), u64::MAX).unwrap();
        assert!(steps.in_alternatives > 0 && steps.in_alternatives < steps.total);
    }

    #[test]
    fn a_typical_object_needs_few_steps() {
        let pack = crate::pack::coordination_pack();
        let task = json!({ "title": "a", "status": "pending", "description": "x".repeat(20_000) });
        for schema in pack.object_type_schemas.values() {
            assert!(total(schema.clone(), task.clone()) < 20_000);
        }
    }
}
