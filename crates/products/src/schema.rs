//! The JSON schema of a manifest. It is published for editors, and is the first check of every
//! installation.

use std::sync::LazyLock;

use emergent_domain::{
    foreign_json,
    pack::{messages, nearest_name},
};
use jsonschema::{ValidationError, Validator, error::ValidationErrorKind};
use serde_json::Value;

use crate::problem::{ManifestProblem, pointer_segment};

/// How the message about a field that the schema does not have begins.
pub const UNKNOWN_FIELD: &str = "unknown field";

/// The published text of the schema.
pub const SCHEMA_JSON: &str = include_str!("manifest.schema.json");

#[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| foreign_json::from_str(SCHEMA_JSON).expect("the schema of manifests is JSON"));
#[expect(clippy::expect_used, reason = "the schema is part of the program, and a test compiles it")]
static VALIDATOR: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::draft202012::new(&SCHEMA).expect("the schema of manifests compiles"));

/// Returns the schema as JSON.
pub fn schema() -> &'static Value {
    &SCHEMA
}

/// How many violations are described. An author mends these first; a manifest that consists of violations would
/// otherwise take as long as its sender likes.
const MAX_VIOLATIONS: usize = 200;

/// How a manifest violates the schema.
pub struct Violations {
    pub problems: Vec<ManifestProblem>,
    /// Whether a list has more items than it may. Nothing else is looked at then: the other checks rely on these limits.
    pub has_long_list: bool,
}

/// Returns what in the manifest violates the schema.
pub fn check(manifest: &Value) -> Violations {
    let (mut problems, mut has_long_list) = (Vec::new(), false);
    for (number, error) in VALIDATOR.iter_errors(manifest).enumerate() {
        has_long_list |= matches!(error.kind(), ValidationErrorKind::MaxItems { .. });
        if number == MAX_VIOLATIONS {
            let message = format!("violates the schema at more than {MAX_VIOLATIONS} places");
            problems.push(ManifestProblem::new("", message).with_fix("mend those that are listed first"));
        }
        if number >= MAX_VIOLATIONS {
            // The long lists come with the others, in no particular order.
            if has_long_list {
                break;
            }
            continue;
        }
        problems.extend(problems_from(&error));
    }
    // Two keywords may report the same problem of one value.
    problems.dedup();
    Violations { problems, has_long_list }
}

fn problems_from(error: &ValidationError<'_>) -> Vec<ManifestProblem> {
    let pointer = error.instance_path().as_str().to_owned();
    let beside = schema_at(error.schema_path().as_str());
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let problem = ManifestProblem::new(pointer, format!("`{name}` is required"));
            let property_schema =
                beside.and_then(|schema| schema.pointer("/properties").and_then(|all| all.get(name)));
            vec![with_hint(problem, property_schema)]
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<&str> = beside
                .and_then(|schema| schema["properties"].as_object())
                .map(|properties| properties.keys().map(String::as_str).collect())
                .unwrap_or_default();
            let unknown = |name: &String| {
                let problem = ManifestProblem::new(
                    format!("{pointer}{}", pointer_segment(name)),
                    format!("{UNKNOWN_FIELD} `{name}`"),
                );
                match nearest_name(name, names.iter().copied()) {
                    Some(hint) => problem.with_fix(format!("did you mean `{hint}`?")),
                    None => problem.with_fix(format!("the known fields are {}", names.join(", "))),
                }
            };
            unexpected.iter().map(unknown).collect()
        }
        ValidationErrorKind::AnyOf { context } => {
            let missing = |errors: &Vec<ValidationError<'_>>| match errors.first()?.kind() {
                ValidationErrorKind::Required { property } => {
                    property.as_str().map(|name| format!("`{name}`"))
                }
                _ => None,
            };
            let missing: Vec<String> = context.iter().filter_map(missing).collect();
            if missing.len() == context.len() {
                return vec![ManifestProblem::new(pointer, format!("{} is required", missing.join(" or ")))];
            }
            // The alternative of the value's own type is reported, or else the first one: `null` and a text are
            // the short forms of what is usually an object.
            let is_of_type = |errors: &&Vec<ValidationError<'_>>| {
                !errors.iter().any(|inner| {
                    matches!(inner.kind(), ValidationErrorKind::Type { .. })
                        && inner.instance_path() == error.instance_path()
                })
            };
            if let Some(errors) = context
                .iter()
                .find(is_of_type)
                .or(context.first())
                .filter(|_| context.len() == 2 && !error.instance().is_null())
            {
                return errors.iter().flat_map(problems_from).collect();
            }
            vec![ManifestProblem::new(pointer, messages::reason(error))]
        }
        _ => vec![with_hint(ManifestProblem::new(pointer, messages::reason(error)), beside)],
    }
}

/// Adds the correction that the schema itself suggests.
fn with_hint(problem: ManifestProblem, schema: Option<&Value>) -> ManifestProblem {
    let Some(schema) = schema else { return problem };
    let description = schema["description"].as_str();
    let example =
        schema["examples"].get(0).and_then(Value::as_str).map(|example| format!("such as `{example}`"));
    match (description, example) {
        (Some(text), Some(example)) => problem.with_fix(format!("{} {example}", text.trim_end_matches('.'))),
        (Some(text), None) => problem.with_fix(text),
        (None, Some(example)) => problem.with_fix(example),
        (None, None) => problem,
    }
}

/// Returns the schema that contains a keyword.
fn schema_at(keyword: &str) -> Option<&'static Value> {
    let (path, _) = keyword.rsplit_once('/')?;
    let mut current: &'static Value = &SCHEMA;
    for part in path.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        if name != "$ref" {
            current = match current {
                Value::Array(items) => items.get(name.parse::<usize>().ok()?)?,
                schema => schema.get(&name)?,
            };
        }
        while let Some(target) = current["$ref"].as_str() {
            current = SCHEMA.pointer(target.strip_prefix('#')?)?;
        }
    }
    Some(current)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_is_one() {
        assert!(jsonschema::meta::is_valid(schema()));
        assert!(check(&json!({ "name": "a.b", "version": "1.0.0" })).problems.is_empty());
    }
}
