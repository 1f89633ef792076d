//! The attacks on the compiler and the validator, at the bounds of the gate and beyond them.

use std::{
    hash::{BuildHasher, RandomState},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::{Map, Value, json};

use super::*;
use crate::pack::{ValueSchema, schema::compile};

/// The stack of a thread of the server.
const STACK_BYTES: usize = 2 << 20;
/// What compiling and validating may take in a build without optimisations, on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Runs `work` on a thread with the stack of a server's thread. Fails if it takes too long.
fn run_bounded<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let run = move || drop(done.send(work()));
    thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap();
    result.recv_timeout(MAX_TIME).unwrap_or_else(|_| panic!("took longer than {MAX_TIME:?}: {what}"))
}

fn refusal(schema: Value) -> String {
    run_bounded("a refusal", move || compile(&schema).expect_err("a refusal").to_string())
}

/// Definitions `c0`, `c1`, … of which each applies the next one.
fn chain(levels: usize, level: impl Fn(Value) -> Value) -> Value {
    let mut defs: Map<String, Value> = (0..levels)
        .map(|n| (format!("c{n}"), level(json!({ "$ref": format!("#/$defs/c{}", n + 1) }))))
        .collect();
    defs.insert(format!("c{levels}"), json!({ "properties": { "x": {} } }));
    json!({ "$defs": defs, "$ref": "#/$defs/c0" })
}

fn with(mut schema: Value, keyword: &str, value: Value) -> Value {
    schema[keyword] = value;
    schema
}

#[test]
fn a_chain_of_references_is_refused_before_it_is_compiled() {
    for levels in [60, 200, 2_000] {
        let text = refusal(chain(levels, |next| json!({ "allOf": [next], "unevaluatedProperties": false })));
        assert!(text.contains("too expensive"), "{text}");
    }
    let text =
        refusal(with(chain(2_000, |next| json!({ "allOf": [next] })), "unevaluatedProperties", json!(false)));
    assert!(text.contains("128 deep"), "{text}");
}

#[test]
fn the_longest_chain_that_is_accepted_fits_into_the_stack_of_a_thread() {
    let forms: [fn(Value) -> Value; 4] = [
        |next| json!({ "allOf": [next] }),
        |next| next,
        |next| json!({ "anyOf": [next, { "required": ["zz"] }] }),
        |next| json!({ "if": next, "then": true }),
    ];
    for (form, level) in forms.into_iter().enumerate() {
        for unevaluated in [false, true] {
            let longest =
                (1..200)
                    .map(|levels| chain(levels, level))
                    .map(|schema| {
                        if unevaluated { with(schema, "unevaluatedProperties", json!(false)) } else { schema }
                    })
                    .take_while(|schema| check(schema, PatternLimit::Alone).is_ok())
                    .last()
                    .expect("a chain that is accepted");
            run_bounded(&format!("form {form}, unevaluated {unevaluated}"), move || {
                let schema = ValueSchema::compile(&longest).unwrap();
                let _ = schema.check(&json!({ "x": 1, "y": { "x": 2 } }));
                let _ = schema.check(&json!([1]));
            });
        }
    }
}

#[test]
fn a_value_that_leads_through_long_chains_again_and_again_fits_into_the_stack() {
    let mut schema = chain(30, |next| json!({ "allOf": [next] }));
    schema["$defs"]["c30"] = json!({ "properties": { "x": { "$ref": "#/$defs/c0" } } });
    run_bounded("a deep value", move || {
        let schema = ValueSchema::compile(&schema).unwrap();
        let mut value = json!({});
        let mut outcomes = Vec::new();
        for _ in 0..60 {
            value = json!({ "x": value });
            outcomes.push(schema.check(&value).is_ok());
        }
        assert!(
            outcomes[0] && !outcomes[59],
            "the shallow ones are valid, and the deep ones take too many levels"
        );
    });
}

#[test]
fn references_that_double_with_unevaluated_properties_are_refused_before_they_are_compiled() {
    let double = |levels| chain(levels, |next| json!({ "allOf": [next, next] }));
    let text = refusal(with(double(30), "unevaluatedProperties", json!(false)));
    assert!(text.contains("visited for one value"), "{text}");
    let text = refusal(chain(30, |next| json!({ "allOf": [next, next], "unevaluatedItems": false })));
    assert!(text.contains("visited for one value"), "{text}");
    // The largest that is accepted compiles.
    let schema = with(double(6), "unevaluatedProperties", json!(false));
    let outcome = run_bounded("the largest", move || {
        compile(&schema).map(|compiled| compiled.validator.is_valid(&json!({ "x": 1 })))
    });
    assert!(outcome.unwrap());
}

#[test]
fn nested_unevaluated_properties_are_counted_as_often_as_they_are_applied() {
    // Each level applies the next one about 2.6 times: once itself, and at every level around it once more.
    let text = refusal(chain(20, |next| json!({ "allOf": [next], "unevaluatedProperties": false })));
    assert!(text.contains("visited for one value"), "{text}");
}

#[test]
fn names_below_the_root_are_refused_with_their_path() {
    let inner = json!({ "$id": "http://a/x", "$defs": { "a0": true }, "$ref": "#/$defs/a0" });
    let check = |schema: Value, field: &str| {
        let problem = compile(&schema).expect_err("a refusal").problems.remove(0);
        assert_eq!(problem.field, field, "{}", problem.reason);
    };
    check(json!({ "$defs": { "x": inner, "a0": true }, "$ref": "#/$defs/x" }), "$defs.x.$id");
    check(json!({ "allOf": [{ "$anchor": "a" }] }), "allOf[0].$anchor");
    check(json!({ "items": { "$dynamicAnchor": "a" } }), "items.$dynamicAnchor");
    check(json!({ "$dynamicRef": "#" }), "$dynamicRef");
    check(json!({ "properties": { "a": { "$recursiveRef": "#" } } }), "properties.a.$recursiveRef");
    check(
        json!({ "properties": { "a": { "$schema": "http://json-schema.org/draft-04/schema#", "id": "u:x" } } }),
        "properties.a.$schema",
    );
    let draft_4 = "http://json-schema.org/draft-04/schema#";
    check(json!({ "$schema": draft_4, "definitions": { "a": { "id": "u:x" } } }), "definitions.a.id");
    // A keyword that no draft knows may hold schemas that references point to.
    check(json!({ "x-parts": { "a": { "$id": "u:x" } }, "$ref": "#/x-parts/a" }), "x-parts.a.$id");
}

#[test]
fn a_reference_finds_what_the_validator_finds_or_is_refused() {
    // Data is not a schema, even if it looks like one.
    for target in ["#/const", "#/properties", "#/allOf", "#a", "u:x", "#/$defs/a%", "#/$defs/none"] {
        let schema = json!({
            "const": { "$id": "u:x" }, "properties": {}, "allOf": [true], "$defs": { "r": { "$ref": target } },
        });
        assert!(compile(&schema).is_err(), "{target}");
    }
    // The validator decodes a reference, so that the estimate must as well.
    let mut bomb = chain(40, |next| json!({ "allOf": [next, next] }));
    bomb["$defs"]["c%30"] = json!(true);
    bomb["$ref"] = json!("#/$defs/c%30");
    assert!(refusal(bomb).contains("visited for one value"));
    let schema = json!({ "$defs": { "a b": { "type": "string" } }, "items": { "$ref": "#/$defs/a%20b" } });
    let compiled = ValueSchema::compile(&schema).unwrap();
    assert!(compiled.check(&json!(["x"])).is_ok() && compiled.check(&json!([1])).is_err());
}

#[test]
fn the_names_of_the_root_are_ignored_and_properties_may_have_such_names() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/person",
        "$anchor": "person",
        "$defs": { "name": { "type": "string" } },
        "properties": {
            "$id": { "$ref": "#/$defs/name" }, "$anchor": true, "id": { "type": "integer" }, "$schema": {},
        },
        "default": { "$id": "data" },
        "examples": [{ "$id": "data", "$ref": "#/nowhere" }],
    });
    let compiled = ValueSchema::compile(&schema).unwrap();
    assert!(compiled.check(&json!({ "$id": "a", "id": 1 })).is_ok());
    assert!(compiled.check(&json!({ "$id": 1 })).is_err());
    assert_eq!(compiled.as_value(), &schema);
}

#[test]
fn a_schema_alone_has_fewer_patterns_than_a_pack() {
    let patterns = |count: usize, pattern: &str| {
        let patterns: Map<String, Value> =
            (0..count).map(|n| (format!("{pattern}{n}"), json!(true))).collect();
        json!({ "patternProperties": patterns })
    };
    let refused = |schema: &Value| ValueSchema::compile(schema).expect_err("a refusal").to_string();
    assert!(refused(&patterns(60, r"\p{L}{20}")).contains("too many states"));
    assert!(refused(&patterns(1_001, "a")).contains("too many patterns"));
    assert!(ValueSchema::compile(&patterns(100, "^[a-z]{3,20}_")).is_ok());
    assert!(compile(&patterns(1_000, r"\p{L}{20}")).is_err(), "the limit of packs applies to every schema");
}

#[test]
fn a_match_that_backtracks_is_charged_what_it_may_take() {
    let schema = json!({ "items": { "not": { "pattern": r"^(?:(a|aa)\1?)+$" } } });
    let schema = ValueSchema::compile(&schema).unwrap();
    let values = |count: usize| json!(vec![format!("{}!", "a".repeat(60)); count]);
    assert!(schema.check(&json!(vec!["ab"; 400])).is_ok());
    // A match that goes back too often counts as a problem of the value, whatever its outcome would be.
    let text = schema.check(&values(10)).unwrap_err().to_string();
    assert!(!text.contains("takes too long to validate"), "{text}");
    let text = schema.check(&values(400)).unwrap_err().to_string();
    assert!(text.contains("takes too long to validate") && text.contains("patterns"), "{text}");
}

/// A random number generator whose seed a failure prints.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn schema(&mut self, defs: u64, depth: u32) -> Value {
        if depth == 0 || self.roll(8) == 0 {
            return json!({ "$ref": format!("#/$defs/d{}", self.roll(defs)) });
        }
        let mut schema = Map::new();
        for _ in 0..=self.roll(3) {
            let (keyword, value) = match self.roll(14) {
                0 | 1 => ("allOf", self.list(defs, depth)),
                2 => ("anyOf", self.list(defs, depth)),
                3 => ("oneOf", self.list(defs, depth)),
                4 | 5 => ("$ref", json!(format!("#/$defs/d{}", self.roll(defs)))),
                6 | 7 => ("unevaluatedProperties", json!(self.roll(2) == 0)),
                8 => ("unevaluatedItems", self.schema(defs, depth - 1)),
                9 => ("properties", json!({ "a": self.schema(defs, depth - 1), "b": true })),
                10 => ("items", self.schema(defs, depth - 1)),
                11 => ("if", self.schema(defs, depth - 1)),
                12 => ("patternProperties", json!({ "^[ab]$": self.schema(defs, depth - 1) })),
                _ => ("dependentSchemas", json!({ "a": self.schema(defs, depth - 1) })),
            };
            schema.insert(keyword.to_owned(), value);
        }
        Value::Object(schema)
    }

    fn list(&mut self, defs: u64, depth: u32) -> Value {
        (0..=self.roll(3)).map(|_| self.schema(defs, depth - 1)).collect()
    }

    /// Definitions refer to each other, mostly to later ones: a cycle on the same value is refused early.
    fn root(&mut self) -> Value {
        let count = 2 + self.roll(12);
        let depth = u32::try_from(1 + self.roll(3)).unwrap();
        let mut defs = Map::new();
        for number in 0..count {
            let mut schema = self.schema(count, depth);
            if self.roll(10) > 0 {
                forward_only(&mut schema, number, count);
            }
            defs.insert(format!("d{number}"), schema);
        }
        defs.insert(format!("d{count}"), json!({ "properties": { "a": {} } }));
        let mut root = json!({ "$defs": defs, "$ref": "#/$defs/d0" });
        if self.roll(2) == 0 {
            root["unevaluatedProperties"] = json!(false);
        }
        root
    }

    fn value(&mut self, depth: u32) -> Value {
        match self.roll(if depth == 0 { 2 } else { 5 }) {
            0 => json!(1),
            1 => json!("ab"),
            2 => (0..self.roll(4)).map(|_| self.value(depth - 1)).collect(),
            _ => ["a", "b", "c"].iter().map(|name| ((*name).to_owned(), self.value(depth - 1))).collect(),
        }
    }
}

/// Makes each reference of a definition point to a later one.
fn forward_only(schema: &mut Value, number: u64, count: u64) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| forward_only(item, number, count)),
        Value::Object(map) => {
            for (keyword, value) in map {
                if let ("$ref", Some(target)) = (keyword.as_str(), value.as_str()) {
                    let target: u64 = target.trim_start_matches("#/$defs/d").parse().unwrap_or(0);
                    *value = json!(format!("#/$defs/d{}", (number + 1 + target % 3).min(count)));
                } else {
                    forward_only(value, number, count);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn what_the_gate_accepts_compiles_and_validates_within_its_bounds() {
    let mut accepted = 0;
    for _ in 0..300 {
        let seed = RandomState::new().hash_one(1) | 1;
        let mut dice = Dice(seed);
        let (schema, value) = (dice.root(), dice.value(4));
        if check(&schema, PatternLimit::Alone).is_err() {
            continue;
        }
        accepted += 1;
        let what = format!("seed {seed}: {schema} with {value}");
        run_bounded(&what, move || {
            // A schema that the gate accepts may still be none, such as `dependentSchemas` of an old draft.
            if let Ok(schema) = ValueSchema::compile(&schema) {
                let _ = schema.check(&value);
            }
        });
    }
    assert!(accepted > 50, "only {accepted} of 300 schemas were accepted");
}
