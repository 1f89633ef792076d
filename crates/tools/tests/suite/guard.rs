//! The guard: inputs that do not fit are told how to, and nothing a tool does ends more than its
//! call.

use std::time::Duration;

use async_trait::async_trait;
use emergent_testkit::TestDb;
use emergent_tools::{
    Effect, Guard, GuardedOutput, Tool, ToolContext, ToolError, ToolInfo, ToolOutput, builtin,
};
use serde_json::{Value, json};

use crate::support;
use support::*;

/// A tool that misbehaves in a way of its own.
struct Odd {
    info: ToolInfo,
    does: fn() -> Result<Value, ToolError>,
    sleeps: Duration,
}

impl Odd {
    fn new(schema: Value, does: fn() -> Result<Value, ToolError>) -> Self {
        let info = ToolInfo {
            name: "odd".to_owned(),
            server: None,
            description: "Does odd things.".into(),
            input_schema: schema.into(),
            effect: Effect::Reads,
            scope: None,
        };
        Self { info, does, sleeps: Duration::ZERO }
    }
}

#[async_trait]
impl Tool for Odd {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<ToolOutput, ToolError> {
        tokio::time::sleep(self.sleeps).await;
        (self.does)().map(ToolOutput::Answer)
    }
}

async fn call(guard: &Guard, tool: &Odd, input: Value) -> Result<Value, String> {
    let db = TestDb::sqlite().await;
    let world = World::new(&db).await;
    match guard.call(tool, &world.context(), input).await {
        GuardedOutput::Answer(answer) => Ok(answer),
        GuardedOutput::Error(why) => Err(why),
        GuardedOutput::Change(_) => unreachable!("an odd tool changes nothing"),
    }
}

#[tokio::test]
async fn an_input_that_does_not_fit_is_told_what_would() {
    let db = TestDb::sqlite().await;
    let world = World::new(&db).await;
    for (tool, input, expected) in [
        (
            "entities_get",
            json!({ "idd": "Task/a" }),
            vec![
                "`idd` is not a known property, did you mean `id`?",
                r#"An input that fits: {"id":"Task/login"}"#,
            ],
        ),
        (
            "graph_traverse",
            json!({ "start_ids": ["Task/a"] }),
            vec!["did you mean `startIds`?", "`startIds`: is required (Ids or `Type/key`"],
        ),
        (
            "relationships_create",
            json!({ "type": "r", "from": "T/a", "to": "T/b" }),
            vec![
                "`from` is not a known property, did you mean `fromId`?",
                "`to` is not a known property, did you mean `toId`?",
            ],
        ),
        (
            "entities_delete",
            json!({ "id": "login" }),
            vec![r#"`id`: "login" is not of the right form (Id or `Type/key`"#],
        ),
        ("entities_query", json!({ "limit": 1000 }), vec!["`limit`: 1000 is more than the maximum of 100"]),
        (
            "entities_query",
            json!({ "filters": [{ "path": "x", "op": "equals", "value": 1 }] }),
            vec![r#"`filters[0].op`: "equals" is not one of eq, ne, lt"#],
        ),
        (
            "entities_create",
            json!({ "objects": [{ "kind": "Task" }] }),
            vec!["`objects[0].type`: is required", "`objects[0].kind` is not a known property, there are"],
        ),
        ("search_fts", json!({}), vec!["`query`: is required", r#""query":"login with a token""#]),
        (
            "project_info",
            json!({ "verbose": true }),
            vec!["`verbose` is not a known property, there are none"],
        ),
        ("entities_create", json!({}), vec!["nothing to create: give `type`"]),
        (
            "entities_update",
            json!("{\"id\": \"Task/a\"}"),
            vec!["a string that holds JSON: send the object itself"],
        ),
        (
            "entities_update",
            json!("Task/a"),
            vec!["must be a JSON object, and this is a string", "An input that fits"],
        ),
        ("entities_update", json!([1]), vec!["this is a list"]),
    ] {
        let said = world.err(tool, input.clone()).await;
        for expected in expected {
            assert!(said.contains(expected), "{tool} {input}\n  said     {said}\n  expected {expected}");
        }
    }
}

#[tokio::test]
async fn the_example_for_a_relationship_names_one() {
    let db = TestDb::sqlite().await;
    let world = World::new(&db).await;
    for tool in ["relationships_get", "relationships_delete"] {
        let said = world.err(tool, json!({ "name": "x" })).await;
        let (_, example) = said.split_once("An input that fits: ").unwrap();
        let said = world.err(tool, serde_json::from_str(example).unwrap()).await;
        // The example is understood: only its objects do not exist here.
        assert!(said.contains("Task/login"), "{tool}: {said}");
    }
}

#[tokio::test]
async fn no_input_at_all_is_an_empty_one() {
    let db = TestDb::sqlite().await;
    let world = World::new(&db).await;
    world.ok("project_info", Value::Null).await;
}

#[tokio::test]
async fn a_panic_is_an_error_of_its_call_alone() {
    let odd = Odd::new(json!({ "type": "object" }), || panic!("of all things"));
    let said = call(&Guard::default(), &odd, json!({})).await.unwrap_err();
    assert!(said.contains("`odd` crashed on this call") && !said.contains("of all things"), "{said}");
}

#[tokio::test]
async fn a_tool_that_does_not_answer_is_given_up() {
    let mut odd = Odd::new(json!({ "type": "object" }), || Ok(json!({})));
    odd.sleeps = Duration::from_secs(3_600);
    let guard = Guard { timeout: Duration::from_millis(20), ..Guard::default() };
    let said = call(&guard, &odd, json!({})).await.unwrap_err();
    assert!(said.contains("no answer within 0.02 seconds"), "{said}");
}

#[tokio::test]
async fn a_schema_that_is_none_does_not_keep_a_tool_from_being_called() {
    let odd = Odd::new(json!({ "type": "no such type" }), || Ok(json!({ "fine": true })));
    assert_eq!(call(&Guard::default(), &odd, json!({ "any": 1 })).await, Ok(json!({ "fine": true })));
}

#[tokio::test]
async fn failures_of_its_own_are_told_without_details_of_the_server() {
    let odd = Odd::new(json!({ "type": "object" }), || {
        Err(ToolError::Failed("the database did not answer".into()))
    });
    let said = call(&Guard::default(), &odd, json!({})).await.unwrap_err();
    assert_eq!(said, "the call failed: the database did not answer");
}

#[tokio::test]
async fn a_big_answer_is_cut_and_says_how_to_get_the_rest() {
    let db = TestDb::sqlite().await;
    let mut world = World::new(&db).await;
    world.guard.max_output_bytes = 8_000;
    let text = "word ".repeat(100);
    let objects: Vec<Value> = (0..80)
        .map(|n| json!({ "type": "Note", "key": format!("n{n}"), "properties": { "text": text } }))
        .collect();
    let made = world.ok("entities_create", json!({ "objects": objects })).await;
    let note = made["_cut"].as_str().expect("the answer of a change is cut as well");
    assert!(note.contains("of 80 `objects` shown"), "{note}");

    let listed = world.ok("entities_query", json!({ "limit": 50 })).await;
    assert!(listed.to_string().len() <= 8_000);
    assert_eq!(listed.get("nextCursor"), None, "it would lead past what was cut");
    let note = listed["_cut"].as_str().unwrap();
    assert!(
        note.contains("of 50 `objects` shown: ask again with a smaller `limit` and go on with `cursor`"),
        "{note}"
    );
    assert!(note.contains("name the `fields` you need"), "{note}");
    let small = world.ok("entities_query", json!({ "limit": 50, "fields": ["key"] })).await;
    assert_eq!(small.get("_cut"), None);
    assert_eq!(small["objects"].as_array().unwrap().len(), 50);
}

#[test]
fn every_tool_has_a_schema_and_a_description_to_go_by() {
    let all = builtin::tools();
    assert!(all.len() > 25);
    for tool in &all {
        let info = tool.info();
        let (offered, checked) = (info.input_schema.as_value(), tool.checked_schema().as_value());
        assert!(jsonschema::meta::is_valid(offered) && jsonschema::meta::is_valid(checked), "{}", info.name);
        assert!(info.description.len() > 60, "{}", info.name);
        assert!(info.server.is_none() && info.scope.is_some(), "{}", info.name);
        check_schema(&info.name, checked);
        assert_eq!((&offered["type"], &offered["additionalProperties"]), (&json!("object"), &json!(false)));
        for (name, property) in checked["properties"].as_object().unwrap() {
            assert_eq!(
                offered["properties"][name]["description"], property["description"],
                "{}.{name}",
                info.name
            );
        }
        for example in checked["examples"].as_array().into_iter().flatten() {
            let fits = jsonschema::validator_for(checked).unwrap();
            assert!(fits.is_valid(example), "the example of `{}` does not fit: {example}", info.name);
        }
    }
    let mut names: Vec<_> = all.iter().map(|tool| tool.info().name.clone()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all.len(), "two tools with one name");
}

/// Closed to what it does not know, and every property says what it is.
fn check_schema(name: &str, schema: &Value) {
    assert_eq!(schema["type"], "object", "{name}");
    assert_eq!(schema["additionalProperties"], false, "{name}");
    for (property, of) in schema["properties"].as_object().unwrap() {
        let at = format!("{name}.{property}");
        assert!(of["description"].as_str().is_some_and(|text| text.len() > 10), "{at}");
        if of["items"]["properties"].is_object() {
            check_schema(&at, &of["items"]);
        }
    }
}

#[test]
fn only_what_takes_something_away_is_destructive() {
    let destructive: Vec<String> = builtin::tools()
        .iter()
        .filter(|tool| tool.info().effect == Effect::Writes { destructive: true })
        .map(|tool| tool.info().name.clone())
        .collect();
    assert_eq!(destructive, ["entities_delete", "relationships_delete"]);
}

/// A tool whose schema takes about twenty steps for each number.
fn counting() -> Odd {
    let rules: Vec<Value> = (0..10).map(|_| json!({ "type": "integer" })).collect();
    let schema = json!({
        "type": "object",
        "properties": { "numbers": { "type": "array", "items": { "allOf": rules } } },
    });
    Odd::new(schema, || Ok(json!({ "fine": true })))
}

#[tokio::test]
async fn an_input_that_takes_long_to_validate_does_not_occupy_the_thread_of_others() {
    let ticks = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = ticks.clone();
    let others = tokio::spawn(async move {
        loop {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let db = TestDb::sqlite().await;
    let world = World::new(&db).await;
    let (guard, tool) = (Guard::default(), counting());
    let check = async |count: usize| {
        let input = json!({ "numbers": vec![1; count] });
        let before = ticks.load(std::sync::atomic::Ordering::Relaxed);
        let checked = guard.check(&world.graph, world.project, &tool, input).await;
        (checked, ticks.load(std::sync::atomic::Ordering::Relaxed) - before)
    };
    let (checked, meanwhile) = check(20_000).await;
    assert!(checked.is_ok() && meanwhile > 0, "others ran {meanwhile} times");
    let (checked, meanwhile) = check(10).await;
    assert!(checked.is_ok() && meanwhile == 0, "a small input is validated in place");
    let (checked, _) = check(300_000).await;
    let reason = checked.unwrap_err();
    assert!(reason.contains("more than 2000000 steps"), "{reason}");
    others.abort();
}
