//! How much work a schema can make. A few hundred bytes of references that double at each level
//! would keep a validator busy for years, and a check runs where everybody's writes wait.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::invalid::Invalid;

/// Subschemas that checking one value may visit, references followed.
const MAX_VISITS: u64 = 20_000;
/// How many references and levels may lie behind one another.
const MAX_REFERENCE_DEPTH: usize = 128;

/// Refuses a schema whose references multiply, whatever is checked against it.
pub fn check_cost(schema: &Value) -> Result<(), Invalid> {
    let mut weigher = CostEstimator { root: schema, cache: HashMap::new(), path: HashSet::new() };
    let weight = weigher.estimate(schema, 0)?;
    if weight.visits > MAX_VISITS {
        return Err(too_expensive(&format!("more than {MAX_VISITS} parts would be visited for one value")));
    }
    Ok(())
}

#[derive(Clone, Copy, Default)]
struct ValidationCost {
    visits: u64,
    /// References back to where the walk came from, that one place of a value may meet.
    returns: u64,
}

impl ValidationCost {
    /// Both are applied to the same place.
    fn on_same_value(self, other: ValidationCost) -> ValidationCost {
        ValidationCost {
            visits: self.visits.saturating_add(other.visits),
            returns: self.returns + other.returns,
        }
    }

    /// Each is applied to a place of its own.
    fn on_separate_values(self, other: ValidationCost) -> ValidationCost {
        ValidationCost {
            visits: self.visits.saturating_add(other.visits),
            returns: self.returns.max(other.returns),
        }
    }
}

struct CostEstimator<'a> {
    root: &'a Value,
    /// What was weighed, by where it lies in memory: the schema does not move meanwhile.
    cache: HashMap<*const Value, ValidationCost>,
    path: HashSet<*const Value>,
}

impl<'a> CostEstimator<'a> {
    fn estimate(&mut self, node: &'a Value, depth: usize) -> Result<ValidationCost, Invalid> {
        let place: *const Value = node;
        if self.path.contains(&place) {
            return Ok(ValidationCost { visits: 1, returns: 1 });
        }
        if let Some(weight) = self.cache.get(&place) {
            return Ok(*weight);
        }
        if depth > MAX_REFERENCE_DEPTH {
            return Err(too_expensive(&format!(
                "references and levels are more than {MAX_REFERENCE_DEPTH} deep"
            )));
        }
        self.path.insert(place);
        let mut weight = ValidationCost { visits: 1, returns: 0 };
        match node {
            Value::Object(map) => {
                for (keyword, value) in map {
                    weight = weight.on_same_value(self.estimate_keyword(keyword, value, depth + 1)?);
                }
            }
            Value::Array(items) => {
                for item in items {
                    weight = weight.on_same_value(self.estimate(item, depth + 1)?);
                }
            }
            _ => {}
        }
        self.path.remove(&place);
        // Twice back to the same beginning at each level of a value doubles at each level.
        if weight.returns > 1 {
            return Err(too_expensive(
                "a part refers back to itself in more than one way for the same place",
            ));
        }
        self.cache.insert(place, weight);
        Ok(weight)
    }

    fn estimate_keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        depth: usize,
    ) -> Result<ValidationCost, Invalid> {
        match (keyword, value) {
            // Looked at only where something refers to it.
            ("$defs" | "definitions", _) | ("enum" | "const" | "default" | "examples", _) => {
                Ok(ValidationCost::default())
            }
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                // By anchors and ids the same could be hidden; a pointer says all that is needed.
                let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
                let found = found.ok_or_else(|| {
                    Invalid::new(
                        "",
                        format!("refers to `{target}`: point to a part of the schema with `#/$defs/…`"),
                    )
                })?;
                self.estimate(found, depth)
            }
            ("properties", Value::Object(properties)) => {
                let mut weight = ValidationCost::default();
                for property in properties.values() {
                    weight = weight.on_separate_values(self.estimate(property, depth)?);
                }
                Ok(weight)
            }
            (_, Value::Object(_) | Value::Array(_)) => self.estimate(value, depth),
            _ => Ok(ValidationCost::default()),
        }
    }
}

fn too_expensive(why: &str) -> Invalid {
    Invalid::new("", format!("makes too much work to check: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

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
