//! Random output schemas and random answers. A run with an output schema ends with an output that matches the
//! schema, or it fails and says why. `EMERGENT_TEST_SEED` repeats a test.

use emergent_domain::{
    chat::StopReason,
    output_schema::OutputSchema,
    run::{Reason, RunEnd},
};
use emergent_rules::run::{AnswerView, Machine, NextAction, typed_output::MAX_CORRECTIONS};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

const SCHEMAS: usize = 500;
const RUNS_PER_SCHEMA: usize = 8;

/// One answer of the model.
#[derive(Debug, Clone)]
struct ScriptedAnswer {
    text: String,
    is_cut: bool,
}

/// How often each outcome was seen, so that the test cannot pass without having tested anything.
#[derive(Debug, Default)]
struct Outcomes {
    at_once: usize,
    corrected: usize,
    from_cut_parts: usize,
    invalid: usize,
    truncated: usize,
    empty: usize,
}

#[test]
fn a_run_ends_with_a_valid_output_or_fails_and_says_why() {
    let seed = match std::env::var("EMERGENT_TEST_SEED") {
        Ok(text) => text.parse().expect("EMERGENT_TEST_SEED is a number"),
        Err(_) => rand::random::<u64>(),
    };
    println!("EMERGENT_TEST_SEED={seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let mut outcomes = Outcomes::default();
    for _ in 0..SCHEMAS {
        let schema = random_schema(&mut dice, 3);
        let compiled = OutputSchema::compile(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
        for _ in 0..RUNS_PER_SCHEMA {
            play(&mut dice, &schema, &compiled, &mut outcomes);
        }
    }
    println!("{outcomes:?}");
    let Outcomes { at_once, corrected, from_cut_parts, invalid, truncated, empty } = outcomes;
    let least = [at_once, corrected, from_cut_parts, invalid, truncated, empty].into_iter().min();
    assert!(least > Some(5), "some outcome was hardly tested: {outcomes:?}");
}

/// Plays one run to its end, and checks the end.
fn play(dice: &mut StdRng, schema: &Value, compiled: &OutputSchema, outcomes: &mut Outcomes) {
    let max_steps = dice.random_bool(0.3).then(|| dice.random_range(1..4));
    let new_machine = || Machine::new(max_steps, 0).with_output_schema(Some(compiled.clone()));
    let mut machine = new_machine();
    let (mut record, mut script): (Vec<ScriptedAnswer>, Vec<ScriptedAnswer>) = (Vec::new(), Vec::new());
    let (mut corrections, mut model_calls) = (0, 0);
    let mut next = machine.next_action();
    let end = loop {
        next = match next {
            NextAction::CallModel { tools: true } => {
                model_calls += 1;
                assert!(model_calls < 50, "the run does not end");
                if script.is_empty() {
                    script = random_answers(dice, schema);
                }
                let answer = script.remove(0);
                let next = machine.on_answer(&view(&answer));
                record.push(answer);
                next
            }
            NextAction::AskAgain { reason, text } => {
                corrections += u32::from(reason == Reason::InvalidOutput);
                assert!(!text.is_empty());
                // After a crash the machine is rebuilt from the recorded answers, and goes on as before.
                if dice.random_bool(0.3) {
                    let mut recovered = new_machine();
                    record.iter().for_each(|answer| recovered.replay_answer(&view(answer)));
                    assert_eq!(recovered.next_action(), machine.next_action());
                    machine = recovered;
                }
                machine.next_action()
            }
            NextAction::End { end, .. } => break end,
            other => panic!("{other:?}"),
        };
    };
    let context = || format!("schema {schema}\nanswers {record:#?}\nend {end:?}");
    assert!(corrections <= MAX_CORRECTIONS, "{}", context());
    if let Some(max_steps) = max_steps {
        assert!(machine.steps() <= max_steps, "{}", context());
    }
    match &end {
        RunEnd::Completed { output: Some(output), summary } => {
            assert!(jsonschema::is_valid(schema, output), "an invalid output\n{}", context());
            assert!(summary.contains(&first_characters(output)), "{}", context());
            // The end of a cut answer is known only when the model was asked to go on.
            assert!(!record.last().unwrap().is_cut, "{}", context());
            let parts = record.iter().rev().skip(1).take_while(|answer| answer.is_cut).count();
            outcomes.from_cut_parts += usize::from(parts > 0);
            outcomes.corrected += usize::from(corrections > 0);
            outcomes.at_once += usize::from(record.len() == 1);
        }
        RunEnd::Failed { reason, error, .. } => {
            assert!(!error.is_empty());
            match reason {
                Reason::InvalidOutput => {
                    assert!(error.starts_with("the answer "), "{}", context());
                    outcomes.invalid += 1;
                }
                Reason::Truncated => outcomes.truncated += 1,
                Reason::Empty => outcomes.empty += 1,
                other => panic!("{other}\n{}", context()),
            }
        }
        _ => panic!("neither an output nor a failure\n{}", context()),
    }
}

fn view(answer: &ScriptedAnswer) -> AnswerView<'_> {
    let stop = if answer.is_cut { &StopReason::MaxTokens } else { &StopReason::End };
    AnswerView { text: &answer.text, calls: Vec::new(), stop, ends_in_call: false }
}

/// A character that the text of an output has in any layout.
fn first_characters(output: &Value) -> String {
    output.to_string().chars().take(1).collect()
}

/// What a model answers next: one answer, or the parts of one that is cut.
fn random_answers(dice: &mut StdRng, schema: &Value) -> Vec<ScriptedAnswer> {
    let whole = |text: String| vec![ScriptedAnswer { text, is_cut: false }];
    let valid = random_value(dice, schema);
    let text = match dice.random_bool(0.5) {
        true => valid.to_string(),
        false => serde_json::to_string_pretty(&valid).unwrap(),
    };
    match dice.random_range(0..12) {
        0..3 => whole(text),
        3 => whole(format!("```json\n{text}\n```")),
        4..6 => whole(nearly_valid(dice, valid).to_string()),
        6 => whole(format!("Here is the result:\n{text}")),
        7 => whole(cut(dice, &text).0),
        8 => whole(String::new()),
        9 => {
            let (first, rest) = cut(dice, &text);
            let rest = if dice.random_bool(0.7) { rest } else { text };
            vec![ScriptedAnswer { text: first, is_cut: true }, ScriptedAnswer { text: rest, is_cut: false }]
        }
        10 => {
            let parts = if dice.random_bool(0.3) { 4 } else { 1 };
            (0..parts).map(|_| ScriptedAnswer { text: cut(dice, &text).0, is_cut: true }).collect()
        }
        // Complete, but the provider says that the maximum length was reached.
        _ => {
            vec![ScriptedAnswer { text, is_cut: true }, ScriptedAnswer { text: String::new(), is_cut: false }]
        }
    }
}

fn cut(dice: &mut StdRng, text: &str) -> (String, String) {
    let mut at = dice.random_range(0..=text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    (text[..at].to_owned(), text[at..].to_owned())
}

/// Changes one thing in a value. The result may still match the schema.
fn nearly_valid(dice: &mut StdRng, value: Value) -> Value {
    match value {
        Value::Object(mut map) => {
            let key = map.keys().nth(dice.random_range(0..map.len().max(1))).cloned();
            match (key, dice.random_range(0..3)) {
                (Some(key), 0) => drop(map.remove(&key)),
                (Some(key), 1) => {
                    let inner = map.remove(&key).unwrap_or_default();
                    map.insert(key, nearly_valid(dice, inner));
                }
                _ => drop(map.insert("unexpected".to_owned(), json!(1))),
            }
            Value::Object(map)
        }
        Value::Array(mut items) => {
            match (items.is_empty(), dice.random_bool(0.5)) {
                (false, true) => {
                    let index = dice.random_range(0..items.len());
                    items[index] = nearly_valid(dice, items[index].take());
                }
                _ => items.push(json!({ "unexpected": [] })),
            }
            Value::Array(items)
        }
        Value::String(text) => {
            [json!(text.len()), json!(format!("{text}?")), Value::Null][dice.random_range(0..3)].clone()
        }
        Value::Number(number) => {
            [json!(number.to_string()), json!(-1_000_000), json!(0.5)][dice.random_range(0..3)].clone()
        }
        Value::Bool(value) => [json!(value.to_string()), json!(!value)][dice.random_range(0..2)].clone(),
        Value::Null => json!("null"),
    }
}

fn random_schema(dice: &mut StdRng, depth: usize) -> Value {
    let kinds = if depth == 0 { 6 } else { 10 };
    match dice.random_range(0..kinds) {
        0 => json!({ "type": "string", "minLength": dice.random_range(0..3), "maxLength": 12 }),
        1 => json!({ "type": "integer", "minimum": -5, "maximum": dice.random_range(0..100) }),
        2 => json!({ "type": "number", "exclusiveMinimum": -10 }),
        3 => json!({ "type": "boolean" }),
        4 => json!({ "enum": ["low", "medium", "high", null, 3] }),
        5 => json!({ "type": ["string", "null"], "pattern": "^[a-z]*$" }),
        6 => json!({
            "type": "array",
            "items": random_schema(dice, depth - 1),
            "minItems": dice.random_range(0..2),
            "maxItems": 4,
        }),
        7 => json!({ "anyOf": [random_schema(dice, depth - 1), random_schema(dice, depth - 1)] }),
        _ => {
            let mut properties = Map::new();
            let mut required = Vec::new();
            for name in ["a", "b", "na me", "ü"].into_iter().take(dice.random_range(0..5)) {
                properties.insert(name.to_owned(), random_schema(dice, depth - 1));
                if dice.random_bool(0.6) {
                    required.push(name);
                }
            }
            let closed = dice.random_bool(0.6);
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": !closed })
        }
    }
}

/// A value that matches a schema of [`random_schema`].
fn random_value(dice: &mut StdRng, schema: &Value) -> Value {
    if let Some(options) = schema["enum"].as_array() {
        return options.choose(dice).cloned().unwrap_or_default();
    }
    if let Some(options) = schema["anyOf"].as_array() {
        let chosen = options.choose(dice).cloned().unwrap_or_default();
        return random_value(dice, &chosen);
    }
    match schema["type"].as_str() {
        Some("string") => json!(["abc", "two words", "\"quoted\"", "grün"].choose(dice)),
        Some("integer") => json!(dice.random_range(-5..=schema["maximum"].as_i64().unwrap_or(0))),
        Some("number") => json!([0.25, 3.0, 1e6, -9.5].choose(dice)),
        Some("boolean") => json!(dice.random_bool(0.5)),
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(0);
            let count = dice.random_range(least..4);
            Value::Array((0..count).map(|_| random_value(dice, &schema["items"])).collect())
        }
        Some("object") => {
            let empty = Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&empty);
            let required =
                |name: &String| schema["required"].as_array().is_some_and(|r| r.contains(&json!(name)));
            let mut map = Map::new();
            for (name, inner) in properties {
                if required(name) || dice.random_bool(0.5) {
                    map.insert(name.clone(), random_value(dice, inner));
                }
            }
            Value::Object(map)
        }
        _ => [json!("abc"), Value::Null].choose(dice).cloned().unwrap_or_default(),
    }
}
