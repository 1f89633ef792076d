//! Parts that the schemas of several tools share.

use serde_json::{Map, Value, json};

/// An object that takes these properties and no others.
pub fn object(required: &[&str], properties: Value) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// The properties of several lists together.
pub fn merge_properties(some: Value, others: &[Value]) -> Value {
    let mut all = match some {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    for other in others {
        all.extend(other.as_object().cloned().unwrap_or_default());
    }
    Value::Object(all)
}

const UUID: &str = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";

/// Names an object.
pub fn object_ref(what: &str) -> Value {
    json!({
        "type": "string",
        "description": format!("{what}: its id (a UUID), or `Type/key`, for example `Task/login`."),
        "pattern": format!("^({UUID}|[A-Za-z][A-Za-z0-9_.:-]*/[\\s\\S]+)$"),
        "maxLength": 700,
        "examples": ["Task/login"],
    })
}

pub fn object_refs(what: &str, least: usize, most: usize) -> Value {
    json!({
        "type": "array",
        "description": format!("{what}; {least} to {most}, each an id (a UUID) or `Type/key`."),
        "items": object_ref("An object"),
        "minItems": least,
        "maxItems": most,
    })
}

pub fn uuid(what: &str) -> Value {
    json!({
        "type": "string",
        "description": format!("{what} (a UUID)."),
        "pattern": format!("^{UUID}$"),
        "examples": ["0198c1f0-7e0a-7000-8000-000000000000"],
    })
}

pub fn text(description: &str, longest: usize) -> Value {
    json!({ "type": "string", "description": description, "minLength": 1, "maxLength": longest })
}

/// As [`text`], or null to take it away.
pub fn text_or_null(description: &str, longest: usize) -> Value {
    json!({ "type": ["string", "null"], "description": description, "minLength": 1, "maxLength": longest })
}

pub fn type_name(description: &str) -> Value {
    json!({
        "type": "string",
        "description": description,
        "pattern": "^[A-Za-z][A-Za-z0-9_.:-]*$",
        "maxLength": 128,
        "examples": ["Task"],
    })
}

pub fn type_names(description: &str) -> Value {
    json!({
        "type": "array",
        "description": description,
        "items": { "type": "string", "minLength": 1, "maxLength": 128 },
        "maxItems": 100,
    })
}

pub fn labels(description: &str) -> Value {
    json!({
        "type": "array",
        "description": description,
        "items": { "type": "string", "minLength": 1, "maxLength": 128 },
        "maxItems": 64,
    })
}

pub fn properties(description: &str) -> Value {
    json!({ "type": "object", "description": description, "examples": [{ "title": "Login" }] })
}

pub fn count(description: &str, least: usize, most: usize, default: usize) -> Value {
    json!({
        "type": "integer",
        "description": format!("{description} {least} to {most}, {default} when absent."),
        "minimum": least,
        "maximum": most,
        "default": default,
    })
}

pub fn expected_version() -> Value {
    json!({
        "type": "integer",
        "description": "The version you have seen; when it has changed since, nothing is done and you are told.",
        "minimum": 1,
    })
}

pub fn direction() -> Value {
    json!({
        "type": "string",
        "description": "Which edges: `out` from the object, `in` to it, or `both` (when absent).",
        "enum": ["both", "out", "in"],
    })
}

/// `limit` and `cursor`.
pub fn paging(default: usize) -> Value {
    json!({
        "limit": count("How many at most:", 1, 100, default),
        "cursor": text("Goes on after a page: its `nextCursor`, with the same other inputs.", 2_000),
    })
}

/// `fields` for objects.
pub fn object_fields() -> Value {
    let description = "Only these parts of each object, to keep the answer small: `key`, `status`, `labels`, \
                       `properties`, single properties such as `title` or `properties.title`, `version`, \
                       `createdAt`, `updatedAt`, `author`, `reason`. `id` and `type` always come. Absent: all but `author`.";
    json!({ "fields": names_schema(description) })
}

/// `fields` for anything else.
pub fn fields_schema(known: &str) -> Value {
    let description =
        format!("Only these parts of each, to keep the answer small: {known}. `id` always comes.");
    json!({ "fields": names_schema(&description) })
}

fn names_schema(description: &str) -> Value {
    json!({
        "type": "array",
        "description": description,
        "items": { "type": "string", "minLength": 1, "maxLength": 256 },
        "maxItems": 50,
        "examples": [["key", "title"]],
    })
}

/// Which objects: `types`, `labels`, `status` and `filters`.
pub fn object_filter() -> Value {
    let filter = object(
        &["path", "op"],
        json!({
            "path": text("The property, inner ones joined with dots: `priority`, `metrics.calls`.", 256),
            "op": {
                "type": "string",
                "description": "`contains`: a part of a text, or an element of a list. `ne` also finds what lacks \
                                the property; `exists` with false finds only that.",
                "enum": ["eq", "ne", "lt", "lte", "gt", "gte", "in", "contains", "exists"],
            },
            "value": { "description": "What to compare with: a string, number or boolean; a list of them for `in`." },
        }),
    );
    json!({
        "types": type_names("Any of these object types."),
        "labels": labels("Objects that have all of these labels."),
        "status": text("Objects with this status.", 128),
        "filters": {
            "type": "array",
            "description": "Conditions on properties; all must hold.",
            "items": filter,
            "maxItems": 32,
            "examples": [[{ "path": "priority", "op": "eq", "value": "high" }]],
        },
    })
}
