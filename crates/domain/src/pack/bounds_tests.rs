//! What a hostile pack or value can cost: time, memory and the length of the answer are bounded.

use serde_json::{Map, Value, json};

use super::*;

fn pack(schema: Value) -> TemplatePack {
    serde_json::from_value(
        json!({ "name": "bomb", "version": "1.0.0", "objectTypeSchemas": { "T": schema } }),
    )
    .expect("a pack")
}

fn refusal(schema: Value, properties: Map<String, Value>) -> Invalid {
    let set = PackSet::compile([&pack(schema)]).expect("a schema that compiles");
    set.check_object("T", &properties, true).expect_err("a refusal")
}

fn numbered(count: usize) -> Map<String, Value> {
    (0..count).map(|n| (format!("k{n}"), json!(1))).collect()
}

#[test]
fn many_patterns_times_many_properties_are_refused_by_the_budget() {
    let patterns: Map<String, Value> =
        (0..900).map(|n| (format!("^x{n}[a-z]+$"), json!({ "type": "string" }))).collect();
    let invalid = refusal(json!({ "patternProperties": patterns }), numbered(50_000));
    let text = invalid.to_string();
    assert!(text.contains("limit of 10000000 steps"), "{text}");
    assert!(text.contains("`T`") && text.contains("`bomb`"), "{text}");
}

#[test]
fn many_schemas_that_each_name_every_property_are_refused_by_the_budget() {
    let schemas: Vec<Value> = (0..1_500).map(|_| json!({ "additionalProperties": false })).collect();
    let invalid = refusal(json!({ "allOf": schemas }), numbered(80_000));
    assert!(invalid.to_string().contains("too expensive to validate"), "{invalid}");
}

#[test]
fn a_pattern_that_backtracks_is_not_matched_with_a_long_text() {
    let schema = json!({ "properties": { "p": { "pattern": "^(?=.*a)(?:(?=.*b)x)*$" } } });
    let properties = Map::from_iter([("p".to_owned(), json!("x".repeat(500_000)))]);
    assert!(refusal(schema, properties).to_string().contains("too expensive to validate"));
}

#[test]
fn twenty_problems_are_reported_and_each_is_short() {
    let long = "n".repeat(100_000);
    let properties: Map<String, Value> =
        (0..50).map(|n| (format!("{n}{long}"), json!(long.clone()))).collect();
    let schema = json!({ "additionalProperties": { "enum": [long] , "type": "integer" } });
    let invalid = refusal(schema, properties);
    assert_eq!(invalid.problems.len(), 20);
    for problem in &invalid.problems {
        assert!(problem.field.len() < 1_000 && problem.reason.len() < 3_000, "{}", problem.reason.len());
    }
}

#[test]
fn a_large_value_with_many_errors_reports_one_of_them() {
    let schema = json!({ "properties": { "list": { "items": { "type": "string", "minLength": 1 } } } });
    let properties = Map::from_iter([("list".to_owned(), json!(vec![1; 100_000]))]);
    let invalid = refusal(schema, properties);
    assert_eq!(invalid.problems.len(), 1);
    assert_eq!(invalid.to_string(), "`properties.list[0]`: 1 is not a string");
}

#[test]
fn alternatives_of_a_large_value_are_not_collected() {
    let alternative = json!({ "additionalProperties": { "type": "string" } });
    let invalid = refusal(json!({ "anyOf": [alternative, alternative] }), numbered(60_000));
    assert!(invalid.to_string().contains("too large to say where"), "{invalid}");
}

#[test]
fn the_patterns_of_a_pack_are_limited_before_they_are_compiled() {
    let check = |schema: Value, expected: &str| {
        let text = pack(schema).check().expect_err("a refusal").to_string();
        assert!(text.contains(expected), "{text}");
    };
    let many: Map<String, Value> = (0..1_001).map(|n| (format!("^p{n}$"), json!(true))).collect();
    check(json!({ "patternProperties": many }), "too many patterns: 1001, more than the maximum of 1000");
    let large: Map<String, Value> = (0..900).map(|n| (format!("^a{{1000}}{n}"), json!(true))).collect();
    check(json!({ "patternProperties": large }), "too many states");
    check(json!({ "properties": { "p": { "pattern": "x".repeat(5_000) } } }), "too many characters");
}

#[test]
fn usual_packs_and_objects_are_far_from_every_limit() {
    coordination_pack().check().unwrap();
    let set = PackSet::compile([coordination_pack()]).unwrap();
    assert!(set.bytes() < limits::COMPILED / 10, "{}", set.bytes());
    let properties =
        Map::from_iter([("title".to_owned(), json!("t")), ("status".to_owned(), json!("pending"))]);
    let mut steps = 10_000;
    let _ = set.check_object_within("SpecTask", &properties, true, &mut steps);
    assert!(steps < 10_000);
}
