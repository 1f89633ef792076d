//! A tool accepts every input that its schemas accept, and refuses what they do not know, with the
//! name of the field.

use std::sync::Arc;

use emergent_domain::ids::ProjectId;
use emergent_graph::Graph;
use emergent_testkit::{TestDb, fixed_clock};
use emergent_tools::{Guard, GuardedOutput, Tool, ToolContext, builtin};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

const INPUTS_PER_TOOL: u64 = 40;

fn tools() -> Vec<Arc<dyn Tool>> {
    builtin::tools().into_iter().chain(emergent_coordination::tools::tools()).collect()
}

async fn context(db: &TestDb) -> ToolContext {
    let graph = Graph::new(db.db.clone(), fixed_clock(), None);
    let project: ProjectId = graph.create_project("here", false).await.unwrap().id;
    ToolContext::new(graph, project, None)
}

/// Why the guard or the parser refuses an input. What the tool's work comes to does not matter here.
async fn refusal(tool: &dyn Tool, context: &ToolContext, input: Value) -> Option<String> {
    match Guard::default().call(tool, context, input).await {
        GuardedOutput::Error(message) if message.starts_with("The input of `") => Some(message),
        _ => None,
    }
}

#[tokio::test]
async fn what_the_schema_accepts_the_parser_accepts() {
    let db = TestDb::sqlite().await;
    let context = context(&db).await;
    for tool in tools() {
        let (name, schema) = (&tool.info().name, tool.checked_schema().as_value());
        let offered = jsonschema::validator_for(tool.info().input_schema.as_value()).unwrap();
        for seed in 0..INPUTS_PER_TOOL {
            let input = generate(schema, &mut StdRng::seed_from_u64(seed));
            assert!(jsonschema::is_valid(schema, &input), "the generated input of {name} is wrong: {input}");
            assert!(offered.is_valid(&input), "{name} is offered with a schema that refuses {input}");
            let refused = refusal(tool.as_ref(), &context, input.clone()).await;
            assert_eq!(refused, None, "{name} {input}");
        }
    }
}

#[tokio::test]
async fn an_unknown_field_and_a_wrong_type_are_refused_with_the_name_of_the_field() {
    let db = TestDb::sqlite().await;
    let context = context(&db).await;
    for tool in tools() {
        let (name, schema) = (&tool.info().name, tool.checked_schema().as_value());
        let valid = generate(schema, &mut StdRng::seed_from_u64(1));
        let with = |field: &str, value: Value| {
            let mut input = valid.clone();
            input[field] = value;
            input
        };
        let refused = refusal(tool.as_ref(), &context, with("surprise", json!(1))).await.unwrap_or_default();
        assert!(refused.contains("`surprise` is not a known property"), "{name}: {refused}");
        for (field, property) in schema["properties"].as_object().unwrap() {
            let values = [json!({ "x": 1 }), json!("?"), json!(true), json!(1.5), json!([[]]), json!(null)];
            for value in values.iter().filter(|value| !jsonschema::is_valid(property, value)) {
                let refused = refusal(tool.as_ref(), &context, with(field, value.clone())).await;
                let refused = refused.unwrap_or_else(|| panic!("{name} accepts {value} as `{field}`"));
                assert!(refused.contains(&format!("`{field}")), "{name}: {refused}");
            }
        }
    }
}

/// A value that a schema accepts: what is required, and some of the rest.
fn generate(schema: &Value, rng: &mut StdRng) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return values.choose(rng).unwrap().clone();
    }
    if let Some(forms) = schema["anyOf"].as_array() {
        return generate(forms.choose(rng).unwrap(), rng);
    }
    let number = |keyword: &str, default: u64| schema[keyword].as_u64().unwrap_or(default);
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.choose(rng).unwrap().as_str(),
        kind => kind.as_str(),
    };
    match kind {
        Some("null") => Value::Null,
        Some("boolean") => Value::Bool(rng.random()),
        Some("integer") => {
            let integer = rng.random_range(number("minimum", 0)..=number("maximum", 1 << 40));
            // `5.0` is an integer for JSON Schema.
            if rng.random_bool(0.3) { json!(integer as f64) } else { json!(integer) }
        }
        Some("number") => {
            let bound = |name: &str, default: f64| schema[name].as_f64().unwrap_or(default);
            json!(rng.random_range(bound("minimum", 0.0)..=bound("maximum", 1_000.0)))
        }
        Some("string") => generate_text(schema, rng),
        Some("array") => {
            let least = number("minItems", 0);
            let count = rng.random_range(least..=number("maxItems", u64::MAX).min(least + 2));
            (0..count).map(|_| generate(&schema["items"], rng)).collect()
        }
        Some("object") => generate_object(schema, rng),
        Some(other) => panic!("no values of type `{other}`"),
        None => [json!("text"), json!(7), json!(true), json!(["a", 1])].choose(rng).unwrap().clone(),
    }
}

fn generate_text(schema: &Value, rng: &mut StdRng) -> Value {
    let id = uuid::Uuid::from_u128(rng.random()).to_string();
    let longest = schema["maxLength"].as_u64().unwrap_or(100).min(5_000);
    let long: String = (0..longest).map(|_| 'ä').collect();
    let key = format!("Task/{}", rng.random::<u32>());
    let texts = [
        id.as_str(),
        &long,
        &key,
        "x",
        "two words",
        "File/src/main.rs",
        "properties.a.b-c",
        "updatedAt",
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00.123+02:00",
    ];
    let validator = jsonschema::options().should_validate_formats(true).build(schema).unwrap();
    let fits = |text: &&str| validator.is_valid(&json!(text));
    let fitting: Vec<&str> = texts.into_iter().filter(fits).collect();
    json!(fitting.choose(rng).unwrap_or_else(|| panic!("no text fits {schema}")))
}

fn generate_object(schema: &Value, rng: &mut StdRng) -> Value {
    let Some(properties) = schema["properties"].as_object() else {
        return match &schema["additionalProperties"] {
            inner @ Value::Object(_) => json!({ "entry": generate(inner, rng) }),
            _ => json!({ "title": "Login", "size": 3, "inner": { "list": [1, "a", null] } }),
        };
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut object = Map::new();
    for (name, property) in properties {
        if required.contains(&json!(name)) || rng.random_bool(0.4) {
            object.insert(name.clone(), generate(property, rng));
        }
    }
    Value::Object(object)
}
