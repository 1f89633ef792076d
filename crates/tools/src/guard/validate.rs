//! Checks the input of a tool against its schema, with messages that let a model correct its call.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use emergent_domain::{
    invalid::Problem,
    json::Schema,
    pack::{PackSet, TemplatePack, nearest_name},
};
use hashlink::LruCache;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tracing::warn;

use super::integers::normalise_fields;

/// Compiled schemas are cached for this many tools.
const CACHE_CAPACITY: usize = 2_000;
/// The object type under which a tool's schema is registered in its pack set.
const INPUT: &str = "input";
const MAX_PROBLEMS: usize = 8;
const MAX_EXAMPLE_BYTES: usize = 600;

/// An input is checked like the properties of an object, so that the messages are the same.
type InputValidator = Option<Arc<PackSet>>;

/// The input as an object with its whole numbers as integers, if it fits.
pub(super) fn validate(tool: &str, schema: &Schema, input: Value) -> Result<Value, String> {
    let mut map = match input {
        Value::Object(map) => map,
        // Models send null to tools that need no input.
        Value::Null => Map::new(),
        other => return Err(not_an_object_message(tool, schema, &other)),
    };
    if let Some(check) = validator_for(tool, schema)
        && let Err(invalid) = check.check_object(INPUT, &map, true)
    {
        return Err(error_message(tool, schema, &invalid.problems));
    }
    if let Value::Object(schema) = schema.as_value() {
        normalise_fields(schema, &mut map);
    }
    Ok(Value::Object(map))
}

fn validator_for(tool: &str, schema: &Schema) -> InputValidator {
    // The key is the address of the schema. The entry holds the schema, so no other can get its address.
    static CHECKS: LazyLock<Mutex<LruCache<usize, (Schema, InputValidator)>>> =
        LazyLock::new(|| Mutex::new(LruCache::new(CACHE_CAPACITY)));
    let address = schema.address();
    if let Some((_, check)) = CHECKS.lock().get(&address) {
        return check.clone();
    }
    let check = compile(tool, schema);
    CHECKS.lock().insert(address, (schema.clone(), check.clone()));
    check
}

/// `None` for a schema that cannot be used; the tool then has to check its inputs itself.
fn compile(tool: &str, schema: &Schema) -> InputValidator {
    let pack = TemplatePack {
        name: tool.to_owned(),
        version: "1.0.0".to_owned(),
        description: None,
        object_type_schemas: BTreeMap::from([(INPUT.to_owned(), schema.as_value().clone())]),
        relationship_type_schemas: BTreeMap::new(),
        ui_configs: None,
        extraction_prompts: None,
    };
    match PackSet::compile([&pack]) {
        Ok(set) => Some(Arc::new(set)),
        Err(invalid) => {
            warn!(tool, "the schema of tool `{tool}` cannot be used: {invalid}");
            None
        }
    }
}

fn not_an_object_message(tool: &str, schema: &Schema, input: &Value) -> String {
    let was = match input {
        Value::String(text) if serde_json::from_str::<Map<String, Value>>(text).is_ok() => {
            "a string that holds JSON: send the object itself, without quotes around it"
        }
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        _ => "a single value",
    };
    format!("The input of `{tool}` must be a JSON object, and this is {was}.{}", example(schema))
}

fn error_message(tool: &str, schema: &Schema, problems: &[Problem]) -> String {
    let mut texts: Vec<String> = problems
        .iter()
        .take(MAX_PROBLEMS)
        .map(|problem| describe_problem(schema.as_value(), problem))
        .collect();
    if problems.len() > MAX_PROBLEMS {
        texts.push(format!("and {} problems more", problems.len() - MAX_PROBLEMS));
    }
    format!("The input of `{tool}` does not fit: {}.{}", texts.join("; "), example(schema))
}

/// One problem, with the description of the field.
fn describe_problem(schema: &Value, problem: &Problem) -> String {
    let field = problem.field.strip_prefix("properties").unwrap_or(&problem.field);
    let field = field.strip_prefix('.').unwrap_or(field);
    let (outer, name) = field.rsplit_once('.').unwrap_or(("", field));
    if problem.reason == "is not a known property" {
        let known: Vec<&str> = properties(schema_at(schema, outer)).map(|(name, _)| name).collect();
        let meant = match suggest_name(name, &known) {
            Some(meant) => format!(", did you mean `{meant}`?"),
            None if known.is_empty() => ", there are none".to_owned(),
            None => format!(", there are {}", known.join(", ")),
        };
        return format!("`{field}` is not a known property{meant}");
    }
    // The description says more to a reader than a pattern.
    let reason = match problem.reason.split_once(" does not match the pattern") {
        Some((value, _)) => format!("{value} is not of the right form"),
        None => problem.reason.clone(),
    };
    match schema_at(schema, field).and_then(|place| place.get("description")).and_then(Value::as_str) {
        Some(description) => format!("`{field}`: {reason} ({})", description.trim_end_matches('.')),
        None => format!("`{field}`: {reason}"),
    }
}

/// The name that was probably meant: a slip, another way of writing, or a part of it.
fn suggest_name<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let wanted = plain(name);
    let by = |fits: &dyn Fn(&str) -> bool| known.iter().copied().find(|one| fits(&plain(one)));
    by(&|one| one == wanted)
        .or_else(|| nearest_name(name, known.iter().copied()))
        .or_else(|| by(&|one| wanted.len() > 1 && (one.starts_with(&wanted) || wanted.starts_with(one))))
        .or_else(|| by(&|one| wanted.ends_with(one)))
}

/// The schema of a path such as `objects[3].type`.
fn schema_at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let mut here = schema;
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let mut parts = segment.split('[');
        let name = parts.next().unwrap_or_default();
        if !name.is_empty() {
            here = here.get("properties")?.get(name)?;
        }
        for _ in parts {
            here = here.get("items")?;
        }
    }
    Some(here)
}

fn properties(schema: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    let map = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    map.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
}

fn example(schema: &Schema) -> String {
    let example = example_value(schema.as_value(), 0).to_string();
    if example.len() > MAX_EXAMPLE_BYTES {
        return String::new();
    }
    format!(" An input that fits: {example}")
}

/// A value of the right shape: the schema's own example, or what is required of it.
fn example_value(schema: &Value, depth: usize) -> Value {
    let own = schema.get("examples").and_then(|all| all.get(0));
    let given =
        own.or_else(|| schema.get("default")).or_else(|| schema.get("enum").and_then(|all| all.get(0)));
    if let Some(given) = given {
        return given.clone();
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    match kind {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(Value::from(1)),
        Some("boolean") => Value::Bool(true),
        Some("array") if depth < 4 => {
            let item = schema.get("items").map(|items| example_value(items, depth + 1));
            Value::Array(item.into_iter().collect())
        }
        Some("array") => Value::Array(Vec::new()),
        Some("string") => Value::from("…"),
        _ if depth < 4 => {
            let required: Vec<&str> = schema
                .get("required")
                .and_then(Value::as_array)
                .map(|names| names.iter().filter_map(Value::as_str).collect())
                .unwrap_or_default();
            let needed = properties(Some(schema)).filter(|(name, _)| required.contains(name));
            Value::Object(needed.map(|(name, of)| (name.to_owned(), example_value(of, depth + 1))).collect())
        }
        _ => Value::Object(Map::new()),
    }
}
