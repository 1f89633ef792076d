//! Compares an example of the documentation with what a program really printed.

use serde_json::Value;

/// Checks that `actual` has every field of `example`, with a value of the same kind. Null in the
/// example stands for any value, and the elements of a list for some element each.
pub fn compare(example: &Value, actual: &Value) -> Result<(), String> {
    compare_at("", example, actual)
}

fn compare_at(path: &str, example: &Value, actual: &Value) -> Result<(), String> {
    match (example, actual) {
        (Value::Null, _) => Ok(()),
        (Value::Object(fields), Value::Object(present)) => {
            for (name, example) in fields.iter().filter(|(name, _)| *name != "…") {
                let actual = present.get(name).ok_or_else(|| {
                    let names: Vec<_> = present.keys().map(String::as_str).collect();
                    format!("`{path}/{name}` is missing; there are: {}", names.join(", "))
                })?;
                compare_at(&format!("{path}/{name}"), example, actual)?;
            }
            Ok(())
        }
        (Value::Array(examples), Value::Array(elements)) => {
            for (index, example) in examples.iter().enumerate() {
                let path = format!("{path}/{index}");
                // The element at the same index gives the error that helps most.
                let same = elements.get(index).map(|element| compare_at(&path, example, element));
                let result = same.unwrap_or_else(|| Err(format!("`{path}` is missing")));
                if result.is_err() && !elements.iter().any(|it| compare_at(&path, example, it).is_ok()) {
                    return result;
                }
            }
            Ok(())
        }
        _ if kind(example) == kind(actual) => Ok(()),
        _ => Err(format!("`{path}` should be {}, and is {actual}", kind(example))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Finds the last JSON value that a program printed. Other text may precede it.
pub fn last_json(output: &str) -> Option<Value> {
    let starts = output.char_indices().filter(|&(_, char)| char == '{' || char == '[').map(|(at, _)| at);
    let mut found = None;
    let mut end = 0;
    for start in starts {
        if start < end {
            continue;
        }
        let mut values = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Value>();
        if let Some(Ok(value)) = values.next() {
            end = start + values.byte_offset();
            found = Some(value);
        }
    }
    found
}

/// Checks that the lines of `example` occur in `actual`, in this order. `…` stands for any text, and
/// the width of columns does not count.
pub fn compare_lines(example: &str, actual: &str) -> Result<(), String> {
    let mut lines = actual.lines();
    for line in example.lines().filter(|line| !matches!(line.trim(), "" | "…")) {
        if !lines.any(|actual| line_fits(line, actual)) {
            return Err(format!("the output has no line like this, or not in this order: {line}"));
        }
    }
    Ok(())
}

fn line_fits(example: &str, actual: &str) -> bool {
    let normal = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (example, actual) = (normal(example), normal(actual));
    let parts: Vec<_> = example.split('…').map(str::trim).collect();
    let [first, middle @ .., last] = &parts[..] else { return example == actual };
    let Some(mut rest) = actual.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn a_response_has_the_fields_and_kinds_of_its_example() {
    let check = |example: &str, actual: &str| {
        let parse = |text| serde_json::from_str(text).expect("JSON");
        compare(&parse(example), &parse(actual))
    };
    assert_eq!(check(r#"{"a":1,"b":["x"],"c":null}"#, r#"{"a":2,"b":["y","z"],"c":{},"d":0}"#), Ok(()));
    assert_eq!(check(r#"{"hits":[{"key":"a"}]}"#, r#"{"hits":[{},{"key":"b"}]}"#), Ok(()));
    assert!(check(r#"{"a":{"b":1}}"#, r#"{"a":{"b":"1"}}"#).is_err_and(|error| error.contains("`/a/b`")));
    assert!(check(r#"{"a":1}"#, r#"{"b":1}"#).is_err());
    assert!(check(r#"[1]"#, "[]").is_err());
}

#[test]
fn the_last_json_value_of_an_output_counts() {
    assert_eq!(last_json("done {\"a\":[1]}\n{\"b\":2} and more\n"), Some(serde_json::json!({ "b": 2 })));
    assert_eq!(last_json("[not json}"), None);
}

#[test]
fn lines_of_an_output_may_be_left_out() {
    let check = |example, actual| compare_lines(example, actual).is_ok();
    assert!(check("NAME  VERSION\nA … github", "more\nNAME     VERSION\nA     1  2026-11-15  github\n"));
    assert!(check("…\nthe end", "start\nthe end"));
    assert!(!check("b\na", "a\nb"));
    assert!(!check("a … c", "a b"));
}
