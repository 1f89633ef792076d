//! Converts validation errors to plain sentences, for people and for models that correct their
//! input.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use crate::{
    invalid::{Problem, join_path},
    text::truncate,
};

const MAX_SHOWN: usize = 60;
const MAX_OPTIONS: usize = 20;
const MAX_BRANCHES: usize = 5;
const MAX_REASON: usize = 300;
const MAX_FIELD: usize = 300;
/// How many properties one error names.
const MAX_NAMES: usize = 20;

/// Returns the problems that one error reports about `root`: usually one, or one for each of
/// several properties. The texts have a limited length, whatever the value contains.
pub fn problems(error: &ValidationError<'_>, root: &Value) -> Vec<Problem> {
    let mut problems = full_problems(error, root);
    for problem in &mut problems {
        problem.field = truncate(&problem.field, MAX_FIELD);
        problem.reason = truncate(&problem.reason, MAX_REASON * 2);
    }
    problems
}

fn full_problems(error: &ValidationError<'_>, root: &Value) -> Vec<Problem> {
    let field = field(error, root);
    let each = |names: &[String], reason: &str| {
        let problem = |name: &String| Problem::new(join_path(&field, name), reason);
        names.iter().take(MAX_NAMES).map(problem).collect()
    };
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default().to_owned();
            each(&[name], "is required")
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            each(unexpected, "is not a known property")
        }
        // If the schema allows no properties at all, the validator reports only the object that
        // contains them.
        ValidationErrorKind::FalseSchema if allows_no_property(error) => {
            let object = root.pointer(error.instance_path().as_str());
            let names: Vec<String> = object
                .and_then(Value::as_object)
                .map(|object| object.keys().take(MAX_NAMES).cloned().collect())
                .unwrap_or_default();
            each(&names, "is not a known property")
        }
        _ => vec![Problem::new(field, reason(error))],
    }
}

fn allows_no_property(error: &ValidationError<'_>) -> bool {
    let keyword = error.schema_path().as_str();
    keyword.ends_with("/additionalProperties") && !keyword.ends_with("/properties/additionalProperties")
}

/// Returns the path of the error, such as `steps[0].result`. The path alone does not distinguish
/// the key `"0"` from an index, so the function follows it through the value.
fn field(error: &ValidationError<'_>, root: &Value) -> String {
    let mut field = String::new();
    let mut current = Some(root);
    for segment in error.instance_path().segments() {
        let segment = segment.to_string();
        if let Some(Value::Array(items)) = current {
            field.push_str(&format!("[{segment}]"));
            current = segment.parse().ok().and_then(|index: usize| items.get(index));
        } else {
            field = join_path(&field, &segment);
            current = current.and_then(|value| value.get(&segment));
        }
    }
    field
}

/// Describes the error as the rest of a sentence that begins with the field.
pub fn reason(error: &ValidationError<'_>) -> String {
    let instance = error.instance().as_ref();
    let it = display_value(instance);
    match error.kind() {
        ValidationErrorKind::Type { kind } => format!("{it} is not {}", display_types(kind)),
        ValidationErrorKind::Enum { options } => format!("{it} is not one of {}", display_options(options)),
        ValidationErrorKind::Constant { expected_value } => {
            format!("{it} is not {}", display_value(expected_value))
        }
        ValidationErrorKind::Minimum { limit } => {
            format!("{it} is less than the minimum of {limit}")
        }
        ValidationErrorKind::Maximum { limit } => {
            format!("{it} is more than the maximum of {limit}")
        }
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("{it} is not above {limit}"),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("{it} is not below {limit}"),
        ValidationErrorKind::MultipleOf { multiple_of } => {
            format!("{it} is not a multiple of {multiple_of}")
        }
        ValidationErrorKind::MinLength { limit: 1 } => "must not be empty".to_owned(),
        ValidationErrorKind::MinLength { limit } => {
            format!("has {} characters, fewer than the minimum of {limit}", characters(instance))
        }
        ValidationErrorKind::MaxLength { limit } => {
            format!("has {} characters, more than the maximum of {limit}", characters(instance))
        }
        ValidationErrorKind::MinItems { limit } => {
            format!("has {} items, fewer than the minimum of {limit}", items(instance))
        }
        ValidationErrorKind::MaxItems { limit } => {
            format!("has {} items, more than the maximum of {limit}", items(instance))
        }
        ValidationErrorKind::UniqueItems => "has the same item more than once".to_owned(),
        ValidationErrorKind::Pattern { pattern } => {
            format!("{it} does not match the pattern `{}`", truncate(pattern, MAX_SHOWN))
        }
        ValidationErrorKind::Format { format } => format!("{it} is not {}", format_with_article(format)),
        ValidationErrorKind::FalseSchema => "is not allowed".to_owned(),
        ValidationErrorKind::PropertyNames { error } => {
            format!("has a property with an invalid name: {}", reason(error))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            format!("matches none of the allowed forms: {}", branches(context))
        }
        // Rare errors keep the wording of the validator.
        _ => truncate(&error.to_string(), MAX_REASON),
    }
}

/// Lists the first problem of each alternative.
fn branches(context: &[Vec<ValidationError<'_>>]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for error in context.iter().filter_map(|errors| errors.first()) {
        let reason_text = match error.kind() {
            ValidationErrorKind::Required { property } => format!("{property} is required"),
            _ => reason(error),
        };
        if !reasons.contains(&reason_text) && reasons.len() < MAX_BRANCHES {
            reasons.push(reason_text);
        }
    }
    truncate(&reasons.join(", or "), MAX_REASON)
}

/// Formats a value for a sentence: a scalar as JSON, truncated, and anything else by its kind.
pub fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) => Value::from(truncate(text, MAX_SHOWN)).to_string(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        scalar => scalar.to_string(),
    }
}

fn display_options(options: &Value) -> String {
    let Value::Array(options) = options else {
        return display_value(options);
    };
    let bare = |option: &Value| match option {
        Value::String(text) if !text.is_empty() => truncate(text, MAX_SHOWN),
        value => display_value(value),
    };
    let mut texts: Vec<String> = options.iter().take(MAX_OPTIONS).map(bare).collect();
    if options.len() > MAX_OPTIONS {
        texts.push(format!("and {} more", options.len() - MAX_OPTIONS));
    }
    texts.join(", ")
}

fn display_types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => type_with_article(*kind).to_owned(),
        TypeKind::Multiple(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(type_with_article).collect();
            kinds.join(" or ")
        }
    }
}

fn type_with_article(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "a list",
        JsonType::Object => "an object",
    }
}

fn format_with_article(format: &str) -> String {
    match format {
        "date-time" => "a date-time such as 2026-01-31T12:00:00Z".to_owned(),
        "date" => "a date such as 2026-01-31".to_owned(),
        "time" => "a time such as 12:00:00Z".to_owned(),
        "duration" => "a duration such as PT15M".to_owned(),
        "email" => "an email address".to_owned(),
        "uri" => "a URI such as https://example.com/a".to_owned(),
        "uuid" => "a UUID".to_owned(),
        other => format!("of the format `{}`", truncate(other, MAX_SHOWN)),
    }
}

fn characters(value: &Value) -> usize {
    value.as_str().map_or(0, |text| text.chars().count())
}

fn items(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}
