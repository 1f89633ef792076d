//! The JSON Schema of a manifest: published, used by editors, and the first check of every install.

use std::sync::LazyLock;

use emergent_domain::pack::{messages, nearest_name};
use jsonschema::{ValidationError, Validator, error::ValidationErrorKind};
use serde_json::Value;

use crate::problem::{ManifestProblem, pointer_segment};

/// As it is published.
pub const SCHEMA_JSON: &str = include_str!("manifest.schema.json");

static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(SCHEMA_JSON).expect("a test reads it"));
static VALIDATOR: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::draft202012::new(&SCHEMA).expect("a test compiles it"));

/// The schema as JSON.
pub fn schema() -> &'static Value {
    &SCHEMA
}

/// Everything that does not fit the schema.
pub fn check(manifest: &Value) -> Vec<ManifestProblem> {
    let mut problems: Vec<ManifestProblem> =
        VALIDATOR.iter_errors(manifest).flat_map(|error| problems_from(&error)).collect();
    // Two keywords may say the same of one place.
    problems.dedup();
    problems
}

fn problems_from(error: &ValidationError<'_>) -> Vec<ManifestProblem> {
    let at = error.instance_path().as_str().to_owned();
    let beside = schema_at(error.schema_path().as_str());
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let problem = ManifestProblem::new(at, format!("`{name}` is required"));
            let what = beside.and_then(|schema| schema.pointer("/properties").and_then(|all| all.get(name)));
            vec![with_hint(problem, what)]
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known: Vec<&str> = beside
                .and_then(|schema| schema["properties"].as_object())
                .map(|known| known.keys().map(String::as_str).collect())
                .unwrap_or_default();
            let unknown = |name: &String| {
                let problem = ManifestProblem::new(
                    format!("{at}{}", pointer_segment(name)),
                    format!("there is no word `{name}` here"),
                );
                match nearest_name(name, known.iter().copied()) {
                    Some(hint) => problem.with_fix(format!("did you mean `{hint}`?")),
                    None => problem.with_fix(format!("known are {}", known.join(", "))),
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
                return vec![ManifestProblem::new(at, format!("{} is required", missing.join(" or ")))];
            }
            // One that may be null is told what is wrong with it otherwise.
            if let Some(errors) =
                context.first().filter(|_| context.len() == 2 && !error.instance().is_null())
            {
                return errors.iter().flat_map(problems_from).collect();
            }
            vec![ManifestProblem::new(at, messages::reason(error))]
        }
        _ => vec![with_hint(ManifestProblem::new(at, messages::reason(error)), beside)],
    }
}

/// What the schema itself says would be right.
fn with_hint(problem: ManifestProblem, schema: Option<&Value>) -> ManifestProblem {
    let Some(schema) = schema else { return problem };
    let description = schema["description"].as_str();
    let example = schema["examples"].get(0).and_then(Value::as_str).map(|one| format!("such as `{one}`"));
    match (description, example) {
        (Some(text), Some(example)) => problem.with_fix(format!("{} {example}", text.trim_end_matches('.'))),
        (Some(text), None) => problem.with_fix(text),
        (None, Some(example)) => problem.with_fix(example),
        (None, None) => problem,
    }
}

/// The schema that a keyword stands in.
fn schema_at(keyword: &str) -> Option<&'static Value> {
    let (path, _) = keyword.rsplit_once('/')?;
    let mut here: &'static Value = &SCHEMA;
    for part in path.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        if name != "$ref" {
            here = match here {
                Value::Array(items) => items.get(name.parse::<usize>().ok()?)?,
                other => other.get(&name)?,
            };
        }
        while let Some(target) = here["$ref"].as_str() {
            here = SCHEMA.pointer(target.strip_prefix('#')?)?;
        }
    }
    Some(here)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_is_one() {
        assert!(jsonschema::meta::is_valid(schema()));
        assert!(check(&json!({ "name": "a.b", "version": "1.0.0" })).is_empty());
    }
}
