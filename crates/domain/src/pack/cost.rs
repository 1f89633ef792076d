//! Estimates the cost of validating against a schema. References that double at each level can make
//! a schema of a few hundred bytes take years to evaluate, and validation runs on the write path
//! that all callers share.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::gate;
use crate::invalid::Invalid;

/// How many subschemas the validation of one value may visit, including those behind references.
const MAX_VISITS: u64 = 20_000;
/// How deeply references and levels may be nested.
const MAX_REFERENCE_DEPTH: usize = 128;

/// Rejects a schema whose references multiply the work, regardless of the value that is validated. Returns
/// how many subschemas the validation of one value visits. The compiler never follows more paths than that.
pub fn check_cost(schema: &Value) -> Result<u64, Invalid> {
    let mut weigher = CostEstimator { root: schema, cache: HashMap::new(), path: HashSet::new() };
    let weight = weigher.estimate(schema, 0)?;
    if weight.visits > MAX_VISITS {
        return Err(too_expensive(&format!(
            "more than {MAX_VISITS} subschemas would be visited for one value"
        )));
    }
    Ok(weight.visits)
}

#[derive(Clone, Copy, Default)]
struct ValidationCost {
    visits: u64,
    /// How many subschemas are visited to find out which parts of a value a schema evaluates, for an
    /// `unevaluatedProperties` or `unevaluatedItems` around it. The validator checks every schema that applies to the
    /// same value again for it, at every level, and the compiler compiles it again.
    marks: u64,
    /// How many references lead back to a schema that is still being evaluated, for the same part
    /// of the value.
    returns: u64,
}

impl ValidationCost {
    /// Adds the costs of two schemas that apply to the same part of a value.
    fn on_same_value(self, other: ValidationCost) -> ValidationCost {
        ValidationCost {
            visits: self.visits.saturating_add(other.visits),
            marks: self.marks.saturating_add(other.marks),
            returns: self.returns + other.returns,
        }
    }

    /// Adds the costs of two schemas that apply to different parts of a value.
    fn on_separate_values(self, other: ValidationCost) -> ValidationCost {
        ValidationCost { returns: self.returns.max(other.returns), ..self.on_same_value(other) }
    }
}

struct CostEstimator<'a> {
    root: &'a Value,
    /// Costs of the subschemas estimated so far. The memory address is the key, because the schema
    /// does not move during the estimate.
    cache: HashMap<*const Value, ValidationCost>,
    path: HashSet<*const Value>,
}

impl<'a> CostEstimator<'a> {
    fn estimate(&mut self, node: &'a Value, depth: usize) -> Result<ValidationCost, Invalid> {
        let address: *const Value = node;
        if self.path.contains(&address) {
            return Ok(ValidationCost { visits: 1, marks: 1, returns: 1 });
        }
        if let Some(cost) = self.cache.get(&address) {
            return Ok(*cost);
        }
        if depth > MAX_REFERENCE_DEPTH {
            return Err(too_expensive(&format!(
                "references and levels are more than {MAX_REFERENCE_DEPTH} deep"
            )));
        }
        self.path.insert(address);
        let cost = match node {
            Value::Object(keywords) => self.estimate_schema(keywords, depth)?,
            Value::Array(items) => {
                let mut cost = ValidationCost { visits: 1, ..ValidationCost::default() };
                for item in items {
                    cost = cost.on_same_value(self.estimate(item, depth + 1)?);
                }
                cost
            }
            _ => ValidationCost { visits: 1, ..ValidationCost::default() },
        };
        self.path.remove(&address);
        // Two references back to the same schema, applied to the same value, double the work at
        // each level of the value.
        if cost.returns > 1 {
            return Err(too_expensive("a subschema refers back to itself more than once for the same value"));
        }
        self.cache.insert(address, cost);
        Ok(cost)
    }

    fn estimate_schema(
        &mut self,
        keywords: &'a Map<String, Value>,
        depth: usize,
    ) -> Result<ValidationCost, Invalid> {
        let mut cost = ValidationCost { visits: 1, marks: 1, returns: 0 };
        for (keyword, value) in keywords {
            let part = self.estimate_keyword(keyword, value, depth + 1)?;
            let marks = match keyword.as_str() {
                // These apply to the same value, so that what they evaluate counts.
                "$ref" | "allOf" | "anyOf" | "oneOf" | "if" | "then" | "else" | "dependentSchemas" => {
                    part.visits.saturating_add(part.marks)
                }
                // Only the names of properties matter, and `not` evaluates nothing.
                "properties" | "propertyNames" | "not" => 1,
                _ => part.visits,
            };
            cost = cost.on_same_value(ValidationCost { marks, ..part });
        }
        if keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems") {
            cost.visits = cost.visits.saturating_add(cost.marks);
        }
        Ok(cost)
    }

    fn estimate_keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        depth: usize,
    ) -> Result<ValidationCost, Invalid> {
        match (keyword, value) {
            // A definition costs nothing by itself; its cost counts where a reference uses it.
            ("$defs" | "definitions", _) | ("enum" | "const" | "default" | "examples", _) => {
                Ok(ValidationCost::default())
            }
            ("$ref", Value::String(target)) => {
                // The gate has found all references before.
                let subschema = gate::resolve(self.root, target).ok_or_else(|| {
                    Invalid::new(
                        "",
                        format!("refers to `{target}`: refer to a part of this schema with `#/$defs/…`"),
                    )
                })?;
                self.estimate(subschema, depth)
            }
            ("properties", Value::Object(properties)) => {
                let mut weight = ValidationCost::default();
                for property in properties.values() {
                    weight = weight.on_separate_values(self.estimate(property, depth)?);
                }
                Ok(weight)
            }
            ("dependentSchemas" | "dependencies" | "patternProperties", Value::Object(schemas)) => {
                let mut weight = ValidationCost::default();
                for schema in schemas.values() {
                    weight = weight.on_same_value(self.estimate(schema, depth + 1)?);
                }
                Ok(weight)
            }
            (_, Value::Object(_) | Value::Array(_)) => self.estimate(value, depth),
            _ => Ok(ValidationCost::default()),
        }
    }
}

fn too_expensive(reason: &str) -> Invalid {
    Invalid::new("", format!("is too expensive to validate against: {reason}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_that_double_at_each_level_are_refused() {
        let mut parts = Map::new();
        for level in 0..40 {
            let next = json!({ "$ref": format!("#/$defs/a{}", level + 1) });
            parts.insert(format!("a{level}"), json!({ "allOf": [next, next] }));
        }
        parts.insert("a40".to_owned(), json!({ "required": ["x"] }));
        let schema = json!({ "$defs": parts, "$ref": "#/$defs/a0" });
        assert!(check_cost(&schema).unwrap_err().to_string().contains("visited for one value"));
    }

    #[test]
    fn returning_twice_for_one_place_is_refused() {
        let down = json!({ "properties": { "c": { "$ref": "#" } } });
        assert!(check_cost(&json!({ "allOf": [down, down] })).is_err());
    }

    #[test]
    fn only_pointers_into_the_schema_can_be_weighed() {
        assert!(check_cost(&json!({ "$ref": "#a", "$defs": { "a": { "$anchor": "a" } } })).is_err());
    }

    #[test]
    fn trees_and_lists_of_themselves_are_fine() {
        let maybe = json!({ "anyOf": [{ "type": "null" }, { "$ref": "#" }] });
        check_cost(&json!({ "properties": { "left": maybe, "right": maybe } })).unwrap();
        check_cost(&json!({ "properties": { "children": { "type": "array", "items": { "$ref": "#" } } } }))
            .unwrap();
    }

    #[test]
    fn a_long_chain_is_refused_before_it_costs_the_stack() {
        let mut parts = Map::new();
        for level in 0..5_000 {
            parts.insert(format!("a{level}"), json!({ "$ref": format!("#/$defs/a{}", level + 1) }));
        }
        parts.insert("a5000".to_owned(), json!({}));
        assert!(check_cost(&json!({ "$defs": parts, "$ref": "#/$defs/a0" })).is_err());
    }
}
