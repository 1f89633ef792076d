//! Validates the input of a tool against its schema, with messages from which a model can correct its call.

use std::sync::{Arc, LazyLock};

use emergent_domain::{
    foreign_json,
    ids::ProjectId,
    invalid::Problem,
    json::Schema,
    pack::{PackSet, Refusal, limits, nearest_name},
    reserved_keys::{REASON, has_reserved_key},
};
use emergent_graph::Graph;
use hashlink::LruCache;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tracing::warn;

use super::integers::normalise_fields;

/// Compiled schemas are cached for this many tools.
const CACHE_CAPACITY: usize = 2_000;
/// The object type under which a tool's schema is registered in its pack set.
const INPUT: &str = "input";
/// The most problems that one message lists.
const MAX_PROBLEMS: usize = 8;
/// A longer example is left out of the message.
const MAX_EXAMPLE_BYTES: usize = 600;
/// A longer text that was sent is not repeated in an example.
const MAX_SENT_BYTES: usize = 100;
/// Objects and lists of an example are empty at this depth.
const MAX_EXAMPLE_DEPTH: usize = 4;

/// An input is validated like the properties of an object, so that the messages are the same. `None`: the
/// schema of the tool cannot be used.
type InputValidator = Option<Arc<PackSet>>;

/// Up to this many steps an input is validated where it is: that takes about a millisecond, less than the wait for a
/// thread of the pool may take. The steps are counted before the validation, and the count ends at this number, so
/// finding out is as cheap.
const IN_PLACE_STEPS: u64 = 10_000;
/// A schema with more values is compiled in the pool.
const MAX_IN_PLACE_SCHEMA_VALUES: usize = 1_000;

/// Returns the input as an object with its whole numbers as integers. The error is a message for the model. What takes
/// long is done where other values of the project are validated, one after the other: schemas of external servers and
/// inputs of callers must not occupy the threads that serve requests.
pub(super) async fn validate(
    graph: &Graph,
    project: ProjectId,
    tool: &str,
    schema: &Schema,
    input: Value,
) -> Result<Value, String> {
    let map = match input {
        Value::Object(map) => map,
        // Models send null to tools that need no input.
        Value::Null => Map::new(),
        other => return Err(not_an_object_message(tool, schema, &other)),
    };
    let validator = match cached(schema) {
        Some(validator) => validator,
        None if is_compiled_in_place(schema.as_value()) => compile_and_cache(tool, schema),
        None => {
            let (name, schema) = (tool.to_owned(), schema.clone());
            let compiled = graph.run_validation(project, move || compile_and_cache(&name, &schema)).await;
            compiled.map_err(|error| not_validated_message(tool, &error))?
        }
    };
    let too_long = match validate_within(IN_PLACE_STEPS, tool, schema, validator.as_deref(), map) {
        Ok(checked) => return checked,
        Err(map) => map,
    };
    let (name, schema) = (tool.to_owned(), schema.clone());
    let work = move || {
        let checked = validate_within(limits::ANSWER_STEPS, &name, &schema, validator.as_deref(), too_long);
        checked.unwrap_or_else(|_| Err(too_many_steps_message(&name)))
    };
    graph.run_validation(project, work).await.map_err(|error| not_validated_message(tool, &error))?
}

/// Validates an input within a number of steps. The outer error returns the input: they did not suffice.
fn validate_within(
    mut steps: u64,
    tool: &str,
    schema: &Schema,
    validator: Option<&PackSet>,
    mut map: Map<String, Value>,
) -> Result<Result<Value, String>, Map<String, Value>> {
    let checked = validator.map(|validator| validator.check_object_within(INPUT, &map, true, &mut steps));
    match checked {
        None | Some(Ok(())) => {}
        Some(Err(Refusal::OutOfSteps { .. })) => return Err(map),
        Some(Err(Refusal::Invalid(invalid))) => {
            return Ok(Err(error_message(tool, schema, &map, &invalid.problems)));
        }
    }
    if let Value::Object(schema) = schema.as_value() {
        normalise_fields(schema, &mut map);
    }
    Ok(Ok(Value::Object(map)))
}

type ValidatorCache = Mutex<LruCache<usize, (Schema, InputValidator)>>;

/// The compiled schemas. The key is the address of the schema. The entry holds the schema, so no other can get its
/// address.
static VALIDATORS: LazyLock<ValidatorCache> = LazyLock::new(|| Mutex::new(LruCache::new(CACHE_CAPACITY)));

fn cached(schema: &Schema) -> Option<InputValidator> {
    VALIDATORS.lock().get(&schema.address()).map(|(_, validator)| validator.clone())
}

fn compile_and_cache(tool: &str, schema: &Schema) -> InputValidator {
    // Calls of the same tool may have waited for this together.
    if let Some(validator) = cached(schema) {
        return validator;
    }
    let validator = compile(tool, schema);
    VALIDATORS.lock().insert(schema.address(), (schema.clone(), validator.clone()));
    validator
}

/// Whether a schema is compiled where it is. That takes time in proportion to its size, unless it has references,
/// which can make the compiler visit the same part many times, or patterns, of which a short one can become large.
fn is_compiled_in_place(schema: &Value) -> bool {
    fn is_simple(schema: &Value, values_left: &mut usize) -> bool {
        if *values_left == 0 {
            return false;
        }
        *values_left -= 1;
        match schema {
            Value::Array(items) => items.iter().all(|item| is_simple(item, values_left)),
            Value::Object(fields) => fields.iter().all(|(name, value)| {
                !matches!(name.as_str(), "$ref" | "pattern" | "patternProperties")
                    && is_simple(value, values_left)
            }),
            _ => true,
        }
    }
    is_simple(schema, &mut MAX_IN_PLACE_SCHEMA_VALUES.clone())
}

/// Compiles a schema. `None` if it cannot be used; the tool then has to validate its inputs itself.
fn compile(tool: &str, schema: &Schema) -> InputValidator {
    match PackSet::compile_alone(tool, INPUT, schema.as_value()) {
        Ok(set) => Some(Arc::new(set)),
        Err(invalid) => {
            warn!(tool, "the schema of tool `{tool}` cannot be used: {invalid}");
            None
        }
    }
}

fn too_many_steps_message(tool: &str) -> String {
    format!(
        "The input of `{tool}` takes too long to validate, more than {} steps: send less at once.",
        limits::ANSWER_STEPS
    )
}

fn not_validated_message(tool: &str, error: &emergent_graph::Error) -> String {
    format!("The input of `{tool}` could not be validated, so the call was not made: {error}")
}

fn not_an_object_message(tool: &str, schema: &Schema, input: &Value) -> String {
    let actual = match input {
        Value::String(text) if has_reserved_key(text.as_bytes()) => {
            return format!("The input of `{tool}` was refused: {REASON}. Use another name for it.");
        }
        Value::String(text) if foreign_json::from_str::<Map<String, Value>>(text).is_ok() => {
            "a string that holds JSON: send the object itself, without quotes around it"
        }
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        _ => "a single value",
    };
    format!(
        "The input of `{tool}` must be a JSON object, and this is {actual}.{}",
        example(schema, &Map::new(), &[])
    )
}

fn error_message(tool: &str, schema: &Schema, sent: &Map<String, Value>, problems: &[Problem]) -> String {
    let mut texts: Vec<String> = problems
        .iter()
        .take(MAX_PROBLEMS)
        .map(|problem| describe_problem(schema.as_value(), problem))
        .collect();
    if problems.len() > MAX_PROBLEMS {
        texts.push(format!("and {} problems more", problems.len() - MAX_PROBLEMS));
    }
    format!("The input of `{tool}` does not fit: {}.{}", texts.join("; "), example(schema, sent, problems))
}

/// Describes one problem, with the description of its field from the schema.
fn describe_problem(schema: &Value, problem: &Problem) -> String {
    let field = problem.field.strip_prefix("properties").unwrap_or(&problem.field);
    let field = field.strip_prefix('.').unwrap_or(field);
    let (outer, name) = field.rsplit_once('.').unwrap_or(("", field));
    if problem.reason == "is not a known property" {
        let known: Vec<&str> = properties(schema_at(schema, outer)).map(|(name, _)| name).collect();
        let hint = match suggest_name(name, &known) {
            Some(suggestion) => format!(", did you mean `{suggestion}`?"),
            None if known.is_empty() => ", there are none".to_owned(),
            None => format!(", there are {}", known.join(", ")),
        };
        return format!("`{field}` is not a known property{hint}");
    }
    // The description says more to a reader than a pattern.
    let reason = match problem.reason.split_once(" does not match the pattern") {
        Some((value, _)) => format!("{value} is not of the right form"),
        None => problem.reason.clone(),
    };
    match schema_at(schema, field)
        .and_then(|field_schema| field_schema.get("description"))
        .and_then(Value::as_str)
    {
        Some(description) => format!("`{field}`: {reason} ({})", description.trim_end_matches('.')),
        None => format!("`{field}`: {reason}"),
    }
}

/// The known name that `name` was probably meant to be: the same name in another case or with other
/// separators, one with a typing error, or one of which either is a part.
fn suggest_name<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let normalise = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let wanted = normalise(name);
    let find =
        |matches: &dyn Fn(&str) -> bool| known.iter().copied().find(|other| matches(&normalise(other)));
    find(&|other| other == wanted)
        .or_else(|| nearest_name(name, known.iter().copied()))
        .or_else(|| {
            find(&|other| wanted.len() > 1 && (other.starts_with(&wanted) || wanted.starts_with(other)))
        })
        .or_else(|| find(&|other| wanted.ends_with(other)))
}

/// The schema of a path such as `objects[3].type`.
fn schema_at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let mut current = schema;
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let mut parts = segment.split('[');
        let name = parts.next().unwrap_or_default();
        if !name.is_empty() {
            current = current.get("properties")?.get(name)?;
        }
        for _ in parts {
            current = current.get("items")?;
        }
    }
    Some(current)
}

fn properties(schema: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    let map = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    map.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
}

/// A sentence with an input that is valid, or nothing if that would be too long. What was sent and is valid stays, so
/// that the example says the same: a judge who says FAIL must not read an example that says PASS.
fn example(schema: &Schema, sent: &Map<String, Value>, problems: &[Problem]) -> String {
    let mut example = example_value(schema.as_value(), 0);
    if let Value::Object(fields) = &mut example
        && schema.as_value().get("examples").is_none()
    {
        for (name, value) in fields {
            let is_wrong = problems.iter().any(|problem| top_field(problem) == name);
            if let Some(sent) = sent.get(name).filter(|sent| !is_wrong && is_short(sent)) {
                value.clone_from(sent);
            }
        }
    }
    let example = example.to_string();
    if example.len() > MAX_EXAMPLE_BYTES {
        return String::new();
    }
    format!(" An input that fits: {example}")
}

/// The field of the input that a problem is in.
fn top_field(problem: &Problem) -> &str {
    let field = problem.field.strip_prefix("properties").unwrap_or(&problem.field);
    field.trim_start_matches('.').split(['.', '[']).next().unwrap_or_default()
}

fn is_short(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= MAX_SENT_BYTES,
        Value::Bool(_) | Value::Number(_) => true,
        _ => false,
    }
}

/// A value that fits the schema: its example, its default, its first enum value, or one built from its type
/// and its required properties.
fn example_value(schema: &Value, depth: usize) -> Value {
    let first = |keyword: &str| schema.get(keyword).and_then(|values| values.get(0));
    if let Some(value) = first("examples").or_else(|| schema.get("default")).or_else(|| first("enum")) {
        return value.clone();
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    match kind {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(Value::from(1)),
        Some("boolean") => Value::Bool(true),
        Some("array") if depth < MAX_EXAMPLE_DEPTH => {
            let item = schema.get("items").map(|items| example_value(items, depth + 1));
            Value::Array(item.into_iter().collect())
        }
        Some("array") => Value::Array(Vec::new()),
        Some("string") => Value::from("…"),
        _ if depth < MAX_EXAMPLE_DEPTH => {
            let required: Vec<&str> = schema
                .get("required")
                .and_then(Value::as_array)
                .map(|names| names.iter().filter_map(Value::as_str).collect())
                .unwrap_or_default();
            let fields = properties(Some(schema)).filter(|(name, _)| required.contains(name));
            Value::Object(
                fields.map(|(name, field)| (name.to_owned(), example_value(field, depth + 1))).collect(),
            )
        }
        _ => Value::Object(Map::new()),
    }
}
