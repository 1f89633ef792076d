//! Writes whole numbers as integers. JSON Schema accepts `5.0` where it asks for an integer, and some
//! models send it, but the parser of a tool accepts only `5`.

use serde_json::{Map, Value};

/// Changes the numbers in `value` for which the schema requires an integer. The value must be valid.
pub(super) fn normalise_integers(schema: &Value, value: &mut Value) {
    let Value::Object(schema) = schema else { return };
    match value {
        Value::Number(number) if accepts_integers(schema) => {
            if let Some(integer) = whole_number(number) {
                *number = integer.into();
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.get("items") {
                items.iter_mut().for_each(|item| normalise_integers(item_schema, item));
            }
        }
        Value::Object(fields) => normalise_fields(schema, fields),
        _ => {}
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let alternatives = schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
        alternatives.for_each(|alternative| normalise_integers(alternative, value));
    }
}

/// Changes the fields of an object that its schema describes.
pub(super) fn normalise_fields(schema: &Map<String, Value>, fields: &mut Map<String, Value>) {
    let properties = schema.get("properties");
    for (name, field) in fields {
        let described = properties.and_then(|properties| properties.get(name));
        if let Some(field_schema) = described.or_else(|| schema.get("additionalProperties")) {
            normalise_integers(field_schema, field);
        }
    }
}

fn accepts_integers(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|name| name == "integer"),
        name => name.is_some_and(|name| name == "integer"),
    }
}

/// Returns the integer that a float stands for, if it is in the range of `i64`.
fn whole_number(number: &serde_json::Number) -> Option<i64> {
    // The range of `i64` as floats: -2⁶³ inclusive to 2⁶³ exclusive. The largest `i64` is no float.
    const I64_END: f64 = 9_223_372_036_854_775_808.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && (-I64_END..I64_END).contains(&float)).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, mut value: Value, expected: &Value) {
        normalise_integers(schema, &mut value);
        // As text, because `5` and `5.0` must differ.
        assert_eq!(value.to_string(), expected.to_string());
    }

    #[test]
    fn a_whole_float_becomes_an_integer_where_the_schema_asks_for_one() {
        let integer = json!({ "type": "integer" });
        check(&integer, json!(5.0), &json!(5));
        check(&integer, json!(-3.0), &json!(-3));
        check(&integer, json!(7), &json!(7));
        check(&json!({ "type": ["integer", "null"] }), json!(1e3), &json!(1000));
        check(&json!({ "anyOf": [{ "type": "string" }, integer] }), json!(2.0), &json!(2));
        check(
            &json!({ "properties": { "ids": { "items": integer } }, "additionalProperties": integer }),
            json!({ "ids": [1.0, 2], "more": 3.0 }),
            &json!({ "ids": [1, 2], "more": 3 }),
        );
    }

    #[test]
    fn other_numbers_stay_as_they_are() {
        let integer = json!({ "type": "integer" });
        check(&integer, json!(5.5), &json!(5.5));
        check(&integer, json!(1e300), &json!(1e300));
        check(&integer, json!(9_223_372_036_854_775_808.0), &json!(9_223_372_036_854_775_808.0));
        check(&json!({ "type": "number" }), json!(5.0), &json!(5.0));
        // Properties of an object without a schema are the user's data.
        check(&json!({ "type": "object" }), json!({ "price": 5.0 }), &json!({ "price": 5.0 }));
    }
}
