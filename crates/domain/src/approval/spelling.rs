//! The other spellings of an input: an object can be named by its id and as `Type/key`, and a rule that names one of
//! them is about the object.

use std::collections::HashMap;

use serde_json::Value;

use crate::{ids::ObjectId, object_ref::ObjectRef};

/// The names of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectNames {
    pub id: ObjectId,
    /// `Type/key`; `None` for an object without a key.
    pub key: Option<String>,
}

/// Returns the references to objects in an input, as they are written there.
pub fn references(input: &Value) -> Vec<(String, ObjectRef)> {
    let mut found = Vec::new();
    let mut input = input.clone();
    visit(&mut input, false, &mut |text| {
        if let Ok(reference) = text.parse() {
            found.push((text.clone(), reference));
        }
    });
    found
}

/// Returns the input with the ids of its objects, and with their keys. `names` has the names of the references, by
/// how they are written in the input.
pub fn other_spellings(input: &Value, names: &HashMap<String, ObjectNames>) -> Vec<Value> {
    if names.is_empty() {
        return Vec::new();
    }
    let respell = |name: &dyn Fn(&ObjectNames) -> Option<String>| {
        let mut other = input.clone();
        visit(&mut other, false, &mut |text| {
            if let Some(spelt) = names.get(text.as_str()).and_then(name) {
                *text = spelt;
            }
        });
        other
    };
    vec![respell(&|names| Some(names.id.to_string())), respell(&|names| names.key.clone())]
}

/// Visits the texts of an input that may name an object. Properties are content.
fn visit(value: &mut Value, is_reference: bool, visitor: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) if is_reference => visitor(text),
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, is_reference, visitor)),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut().filter(|(name, _)| *name != "properties") {
                visit(value, names_object(name), visitor);
            }
        }
        _ => {}
    }
}

/// Whether the inputs of tools have references to objects in fields of this name.
fn names_object(field: &str) -> bool {
    matches!(field, "id" | "ids" | "task") || field.ends_with("Id") || field.ends_with("Ids")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_input_is_spelt_with_ids_and_with_keys() {
        let (a, b) = (ObjectId::new(), ObjectId::new());
        let input = json!({
            "id": "Note/old", "startIds": [b], "text": "Note/old", "properties": { "id": "Note/old" },
            "relationships": [{ "fromId": "Note/old", "toId": "Note/gone" }],
        });
        let written: Vec<String> = references(&input).into_iter().map(|(text, _)| text).collect();
        assert_eq!(written, ["Note/old", "Note/old", "Note/gone", &b.to_string()]);
        let names = HashMap::from([
            ("Note/old".to_owned(), ObjectNames { id: a, key: Some("Note/old".to_owned()) }),
            (b.to_string(), ObjectNames { id: b, key: Some("Note/b".to_owned()) }),
        ]);
        let spelt = |old: &str, b: &str| {
            json!({
                "id": old, "startIds": [b], "text": "Note/old", "properties": { "id": "Note/old" },
                "relationships": [{ "fromId": old, "toId": "Note/gone" }],
            })
        };
        let expected = [spelt(&a.to_string(), &b.to_string()), spelt("Note/old", "Note/b")];
        assert_eq!(other_spellings(&input, &names), expected);
        assert_eq!(other_spellings(&input, &HashMap::new()), Vec::<Value>::new());
    }
}
