//! Derives the schemas of a tool's input from the struct that the input is parsed into, so that
//! schema and parser cannot differ. There are two: [`input_schema`] is what inputs are checked
//! against, and [`offered_schema`] is the part of it that a model gets to read. The model reads the
//! schemas of all its tools with every call, so the second one is kept small.

use std::collections::BTreeSet;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Marks a field where null has a meaning, with `#[schemars(extend("nullable" = true))]`. Other
/// optional fields are left out of an input, and null in their place is refused.
const NULLABLE: &str = "nullable";
/// Marks an object whose fields another part of the input describes, with
/// `#[schemars(extend("described_in" = "the other field"))]`. A model is offered its required fields.
const DESCRIBED_IN: &str = "described_in";

/// Everything that an input has to satisfy, as JSON Schema 2020-12 without references.
pub fn input_schema<I: JsonSchema>() -> Value {
    let mut schema = marked_schema::<I>();
    remove_marks(&mut schema);
    schema
}

/// The full schema, with the marks [`NULLABLE`] applied and [`DESCRIBED_IN`] still in it.
fn marked_schema<I: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<I>().to_value();
    simplify(&mut schema);
    if let Value::Object(root) = &mut schema {
        // The tool has a description of its own.
        root.remove("description");
        root.entry("properties").or_insert_with(|| json!({}));
        root.entry("required").or_insert_with(|| json!([]));
    }
    schema
}

/// The schema without what a model does not need for a correct call: lengths of texts and lists,
/// patterns, examples, and repeated descriptions. It accepts every input that [`input_schema`] does.
/// An error message gives the missing parts when they matter.
pub fn offered_schema<I: JsonSchema>() -> Value {
    let mut schema = marked_schema::<I>();
    shorten(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    describe_once(&mut schema, &mut BTreeSet::new());
    schema
}

/// Removes [`DESCRIBED_IN`] everywhere.
fn remove_marks(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    map.remove(DESCRIBED_IN);
    children_mut(map).for_each(remove_marks);
}

/// Removes what a model does not need for a correct call, see [`offered_schema`].
fn shorten(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if map.remove(DESCRIBED_IN).is_some() {
        let required = map.get("required").cloned().unwrap_or_default();
        let is_required = |name: &str| {
            required.as_array().is_some_and(|names| names.iter().any(|required| required == name))
        };
        if let Some(Value::Object(properties)) = map.get_mut("properties") {
            properties.retain(|name, _| is_required(name));
        }
    }
    for keyword in ["minLength", "maxLength", "pattern", "minItems", "maxItems", "examples"] {
        map.remove(keyword);
    }
    // Numbers count from zero or one unless the description says otherwise.
    if map.get("minimum").and_then(Value::as_f64).is_some_and(|minimum| minimum == 0.0 || minimum == 1.0) {
        map.remove("minimum");
    }
    for keyword in ["required", "additionalProperties"] {
        if map.get(keyword).is_some_and(is_empty) {
            map.remove(keyword);
        }
    }
    children_mut(map).for_each(shorten);
}

/// Leaves out of a schema what follows from the rest, or describes Rust rather than JSON.
fn simplify(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    map.remove("title");
    if !matches!(map.get("format").and_then(Value::as_str), Some("uuid" | "date-time")) {
        map.remove("format");
    }
    if map.get("default").is_some_and(is_empty) {
        map.remove("default");
    }
    if map.get("additionalProperties") == Some(&Value::Bool(true)) {
        map.remove("additionalProperties");
    }
    if map.remove(NULLABLE).is_none() {
        remove_null(map);
    }
    // A doc comment has line breaks where its lines in the source end.
    if let Some(Value::String(text)) = map.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    children_mut(map).for_each(simplify);
    // The list has a description; that of its items is the doc comment of their Rust type.
    if let Some(Value::Object(items)) = map.get_mut("items") {
        items.remove("description");
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Removes null from the types of an optional field.
fn remove_null(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|name| name != "null");
        if let [name] = types.as_slice() {
            let name = name.clone();
            map.insert("type".to_owned(), name);
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(alternatives)) = map.get_mut("anyOf") {
        alternatives.retain(|alternative| alternative.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(alternative)] = alternatives.as_slice() {
            let alternative = alternative.clone();
            map.remove("anyOf");
            for (keyword, value) in alternative {
                map.entry(keyword).or_insert(value);
            }
        }
    }
}

/// The schemas directly inside a schema, those of list items before those of properties.
fn children_mut(map: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    let mut children = Vec::new();
    for (keyword, value) in map {
        match (keyword.as_str(), value) {
            ("items" | "additionalProperties", schema) => children.push(schema),
            ("properties", Value::Object(properties)) => children.extend(properties.values_mut()),
            ("anyOf" | "oneOf", Value::Array(forms)) => children.extend(forms),
            _ => {}
        }
    }
    children.into_iter()
}

/// Removes a description that an outer or earlier field of the same name has already.
fn describe_once(schema: &mut Value, described: &mut BTreeSet<(String, String)>) {
    let Value::Object(map) = schema else { return };
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for (name, property) in properties {
            let Value::Object(property) = property else { continue };
            let Some(Value::String(text)) = property.get("description") else { continue };
            if !described.insert((name.clone(), text.clone())) {
                property.remove("description");
            }
        }
    }
    // Lists first: `tasks` says what a task is, and `synthesis` is another one.
    let (lists, others): (Vec<_>, Vec<_>) = children_mut(map).partition(|child| child.get("items").is_some());
    lists.into_iter().chain(others).for_each(|child| describe_once(child, described));
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::{Value, json};

    use super::{input_schema, offered_schema};

    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Part {
        /// The name
        /// of it.
        #[schemars(length(max = 9))]
        name: String,
        size: Option<u32>,
    }

    /// The text of the struct is not for the model.
    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Whole {
        /// The name of it.
        #[schemars(length(max = 9))]
        name: String,
        #[schemars(extend("nullable" = true))]
        status: Option<String>,
        #[serde(default)]
        parts: Vec<Part>,
        one: Option<Part>,
    }

    #[test]
    fn the_checked_schema_is_complete_and_the_offered_one_has_no_repeated_descriptions() {
        let part = |name: Value| {
            json!({
                "type": "object",
                "properties": { "name": name, "size": { "type": "integer", "minimum": 0 } },
                "required": ["name"],
                "additionalProperties": false,
            })
        };
        let name = json!({ "type": "string", "description": "The name of it.", "maxLength": 9 });
        let checked = json!({
            "type": "object",
            "properties": {
                "name": name,
                "status": { "type": ["string", "null"] },
                "parts": { "type": "array", "items": part(name.clone()) },
                "one": part(name.clone()),
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        assert_eq!(input_schema::<Whole>(), checked);
        let part = json!({
            "type": "object",
            "properties": { "name": { "type": "string" }, "size": { "type": "integer" } },
            "required": ["name"],
        });
        let offered = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "The name of it." },
                "status": { "type": ["string", "null"] },
                "parts": { "type": "array", "items": part },
                "one": part,
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        assert_eq!(offered_schema::<Whole>(), offered);
    }
}
