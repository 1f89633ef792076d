//! The tool `ask_user`, with which an agent asks a person. The driver holds its calls; the answer of the person is
//! the result.

use async_trait::async_trait;
use emergent_domain::{approval::Question, invalid::Invalid, json::Schema, pack::ValueSchema};
use emergent_tools::{
    Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput,
    builtin::{
        define::parse_input,
        schema::{input_schema, offered_schema},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

pub(crate) const NAME: &str = "ask_user";
/// The field of a decision with the answer.
const ANSWER: &str = "answer";

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskInput {
    /// In full: the person sees nothing else.
    #[schemars(length(min = 1, max = 10_000))]
    question: String,
    /// The answers to choose from; default: any text.
    #[serde(default)]
    #[schemars(length(max = 20))]
    options: Vec<String>,
    /// JSON Schema of the answer, instead of options.
    #[serde(default, rename = "responseSchema")]
    response_schema: Option<Map<String, Value>>,
}

/// The tool as the model sees it.
pub(crate) struct AskUser {
    info: ToolInfo,
    checked_schema: Schema,
}

impl AskUser {
    pub fn new() -> Self {
        let info = ToolInfo {
            name: NAME.into(),
            server: None,
            description: "Asks a person, and waits for the answer, which can take long. Use it for what only a person can know \
                          or decide. Returns `answer`."
                .into(),
            input_schema: offered_schema::<AskInput>().into(),
            effect: Effect::Asks,
            scope: None,
        };
        Self { info, checked_schema: input_schema::<AskInput>().into() }
    }
}

#[async_trait]
impl Tool for AskUser {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    fn checked_schema(&self) -> &Schema {
        &self.checked_schema
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<ToolOutput, ToolError> {
        Err(ToolError::Refused("only a running agent can ask a person".into()))
    }
}

/// Returns what a call asks. The error tells the model how to correct it.
pub(crate) fn parse_question(input: Value) -> Result<Question, String> {
    if let Some(schema) =
        input.get("responseSchema").filter(|schema| !schema.is_object() && !schema.is_null())
    {
        return Err(format!(
            "`responseSchema` must be an object, the JSON Schema of the answer, such as {{ \"type\": \"number\" }}; it is {}",
            json_kind(schema)
        ));
    }
    let input: AskInput = parse_input(NAME, input).map_err(|error| error.to_string())?;
    if !input.options.is_empty() && input.response_schema.is_some() {
        return Err("give `options` or `responseSchema`, not both".to_owned());
    }
    let response_schema = input.response_schema.map(Value::Object);
    if let Some(schema) = &response_schema {
        ValueSchema::compile(schema).map_err(|invalid| schema_problem("responseSchema", invalid))?;
    }
    Ok(Question { text: input.question, options: input.options, response_schema })
}

/// Checks that a schema of answers can be used.
pub(crate) fn check_schema(schema: &Value) -> Result<(), String> {
    ValueSchema::compile(schema).map(drop).map_err(|invalid| invalid.to_string())
}

/// Says which fields of a schema are wrong, and why. The fields begin with the name of the schema in the input.
fn schema_problem(name: &str, invalid: Invalid) -> String {
    let problems = invalid.prefixed(name).problems;
    problems
        .iter()
        .map(|problem| format!("`{}` {}", problem.field, problem.reason))
        .collect::<Vec<_>>()
        .join("; ")
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Checks an answer against the schema that the agent, or an external server, gave. The problems name the fields of
/// the answer, such as `answer.email`.
pub(crate) fn check_answer(schema: &Value, answer: &Value) -> Result<(), Invalid> {
    let schema = ValueSchema::compile(schema).map_err(|invalid| Invalid::new(ANSWER, invalid.to_string()))?;
    schema.check(answer).map_err(|invalid| invalid.prefixed(ANSWER))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_of_answers_may_refer_to_its_definitions() {
        let schema =
            json!({ "$defs": { "size": { "enum": ["s", "m"] } }, "items": { "$ref": "#/$defs/size" } });
        let question = json!({ "question": "Which?", "responseSchema": schema });
        assert!(parse_question(question).is_ok());
        assert!(check_answer(&schema, &json!(["s", "m"])).is_ok());
        assert_eq!(check_answer(&schema, &json!(["s", "l"])).unwrap_err().problems[0].field, "answer[1]");
    }

    #[test]
    fn a_hostile_schema_of_answers_is_refused_as_an_error_of_the_tool() {
        for pointer in ["#/$defs/", "#/properties/answer/$defs/"] {
            let mut defs: Map<String, Value> = (0..1_200)
                .map(|n| (format!("c{n}"), json!({ "allOf": [{ "$ref": format!("{pointer}c{}", n + 1) }] })))
                .collect();
            defs.insert("c1200".to_owned(), json!(true));
            let schema =
                json!({ "$defs": defs, "$ref": format!("{pointer}c0"), "unevaluatedProperties": false });
            let refused = parse_question(json!({ "question": "?", "responseSchema": schema })).unwrap_err();
            assert!(refused.starts_with("`responseSchema"), "{refused}");
            // An answer to a question that was stored by an older version is refused as well.
            assert!(check_answer(&schema, &json!({})).is_err());
        }
    }

    #[test]
    fn an_answer_of_any_type_is_checked_against_the_schema() {
        let number = json!({ "type": "integer", "minimum": 1 });
        assert!(check_answer(&number, &json!(3)).is_ok());
        for wrong in [json!(0), json!("3"), json!(null)] {
            assert_eq!(check_answer(&number, &wrong).unwrap_err().problems[0].field, "answer", "{wrong}");
        }
    }

    #[test]
    fn a_wrong_field_of_an_answer_is_named() {
        let form = json!({ "type": "object", "required": ["email"], "properties": {
            "email": { "type": "string", "title": "Address", "format": "email" },
            "count": { "type": "integer", "minimum": 1, "default": 3 },
            "size": { "type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"] },
        } });
        assert!(check_answer(&form, &json!({ "email": "a@example.com", "size": "m" })).is_ok());
        let wrong_field = |answer| check_answer(&form, &answer).unwrap_err().problems[0].field.clone();
        assert_eq!(wrong_field(json!({ "email": "a@example.com", "count": "many" })), "answer.count");
        assert_eq!(wrong_field(json!({ "email": "a@example.com", "size": "l" })), "answer.size");
        assert_eq!(wrong_field(json!({})), "answer.email");
        assert_eq!(wrong_field(json!("text")), "answer");
    }

    #[test]
    fn a_question_that_cannot_be_answered_is_refused() {
        let refused = |input| parse_question(input).unwrap_err();
        let wrong = refused(json!({ "question": "?", "responseSchema": { "type": "number-ish" } }));
        assert!(wrong.starts_with("`responseSchema.type` is not a JSON schema: "), "{wrong}");
        assert!(wrong.contains("number-ish") && !wrong.contains("objectTypeSchemas"), "{wrong}");
        let nested = json!({ "type": "object", "properties": { "age": { "minimum": "one" } } });
        let wrong = refused(json!({ "question": "?", "responseSchema": nested }));
        assert!(wrong.starts_with("`responseSchema.properties.age.minimum` "), "{wrong}");
        let wrong = refused(json!({ "question": "?", "responseSchema": "number" }));
        assert!(
            wrong.starts_with("`responseSchema` must be an object") && wrong.ends_with("it is a text"),
            "{wrong}"
        );
        let both = json!({ "question": "?", "options": ["a"], "responseSchema": { "type": "string" } });
        assert!(refused(both).contains("not both"));
        let question = parse_question(json!({ "question": "Which?", "options": ["a", "b"] })).unwrap();
        assert_eq!((question.text.as_str(), question.options.len()), ("Which?", 2));
    }
}
