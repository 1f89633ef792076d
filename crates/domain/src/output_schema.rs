//! Typed output: the JSON schema that the final answer of a run must match, and the value that is read from the
//! answer.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

mod compiled;

use crate::foreign_json;
use crate::{
    agent::json_has_nul, invalid::Invalid, json_cost::JsonCost, pack::ValueSchema, patch::check_depth,
};

/// The maximum size of an output schema as JSON, in bytes. The schema is a part of every request to the model.
pub const MAX_SCHEMA_BYTES: usize = 32 * 1024;
/// The maximum nesting depth of an output schema.
pub const MAX_SCHEMA_DEPTH: usize = 32;
/// The maximum size of the text of a typed output, in bytes.
pub const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// The maximum memory of the values of an output, which everybody who reads the run holds.
const MAX_OUTPUT_MEMORY: usize = 16 << 20;
/// The maximum nesting depth of a typed output. The properties of a task have the same limit.
pub const MAX_OUTPUT_DEPTH: usize = 60;

/// A compiled output schema. Clones share it, and the outcome of [`OutputSchema::read_ahead`].
#[derive(Debug, Clone)]
pub struct OutputSchema {
    schema: Arc<ValueSchema>,
    ahead: Arc<Mutex<Option<ReadAnswer>>>,
}

/// An answer, and what was read from it.
type ReadAnswer = (String, Result<Value, String>);

impl OutputSchema {
    /// Checks and compiles a schema. The fields of the problems are paths inside of the schema. The last schemas are
    /// remembered, so that a transaction does not compile what was compiled before it.
    pub fn compile(schema: &Value) -> Result<Self, Invalid> {
        if !schema.is_object() {
            return Err(Invalid::new("", "must be a JSON schema, which is a JSON object"));
        }
        check_depth(schema, MAX_SCHEMA_DEPTH)?;
        let text = schema.to_string();
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(Invalid::new("", format!("is longer than {MAX_SCHEMA_BYTES} bytes as JSON")));
        }
        if json_has_nul(schema) {
            return Err(Invalid::new("", "must not contain a NUL character"));
        }
        if let Some(compiled) = compiled::get(&text) {
            return Ok(Self::new(compiled));
        }
        let compiled = Arc::new(ValueSchema::compile(schema)?);
        compiled::insert(text, &compiled);
        Ok(Self::new(compiled))
    }

    fn new(schema: Arc<ValueSchema>) -> Self {
        Self { schema, ahead: Arc::default() }
    }

    /// Returns the schema as it was written.
    pub fn as_value(&self) -> &Value {
        self.schema.as_value()
    }

    /// Reads the output from the text of a complete answer. The answer is one JSON value, alone or in one fenced
    /// code block, that matches the schema. The error completes a sentence that begins with "your answer".
    pub fn read(&self, answer: &str) -> Result<Value, String> {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        match ahead {
            Some((text, outcome)) if text == answer => outcome,
            _ => self.read_now(answer),
        }
    }

    /// Reads an answer, and remembers the outcome for the next [`OutputSchema::read`]. A validation can take long, so
    /// that callers do this on a thread for such work.
    pub fn read_ahead(&self, answer: String) {
        let outcome = self.read_now(&answer);
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = Some((answer, outcome));
    }

    fn read_now(&self, answer: &str) -> Result<Value, String> {
        let text = json_text(answer);
        if text.len() > MAX_OUTPUT_BYTES {
            return Err(format!("is longer than {MAX_OUTPUT_BYTES} bytes"));
        }
        if JsonCost::estimate(text.as_bytes()).bytes > MAX_OUTPUT_MEMORY {
            return Err(format!(
                "has too many values: they need more than {MAX_OUTPUT_MEMORY} bytes of memory"
            ));
        }
        let value: Value =
            foreign_json::from_str(text).map_err(|error| format!("is not one JSON value: {error}"))?;
        check_depth(&value, MAX_OUTPUT_DEPTH).map_err(|invalid| invalid.to_string())?;
        // PostgreSQL cannot store it, and a graph object refuses it.
        if json_has_nul(&value) {
            return Err("contains a NUL character, which cannot be stored".to_owned());
        }
        match self.schema.check(&value) {
            Ok(()) => Ok(value),
            Err(invalid) => Err(format!("does not match the output schema: {invalid}")),
        }
    }
}

/// The value that an answer consists of, alone or in one fenced code block; `None` if the answer is anything else.
pub fn parse_answer(answer: &str) -> Option<Value> {
    foreign_json::from_str(json_text(answer)).ok()
}

/// Returns the JSON text of an answer: the answer itself, or the content of the one fenced block that it consists
/// of. Models often write such a block although they were told not to. JSON never begins with a fence, so no
/// answer can be read in two ways.
fn json_text(answer: &str) -> &str {
    const FENCE: &str = "```";
    let answer = answer.trim();
    let fenced = answer.strip_prefix(FENCE).and_then(|rest| rest.strip_suffix(FENCE));
    let Some((language, content)) = fenced.and_then(|block| block.split_once('\n')) else { return answer };
    match language.trim() {
        "" => content,
        language if language.eq_ignore_ascii_case("json") => content,
        _ => answer,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn person() -> OutputSchema {
        let schema = json!({
            "type": "object",
            "properties": { "name": { "type": "string" }, "age": { "type": "integer", "minimum": 0 } },
            "required": ["name"],
            "additionalProperties": false,
        });
        OutputSchema::compile(&schema).unwrap()
    }

    #[test]
    fn an_answer_is_one_json_value_alone_or_in_one_block() {
        let ada = json!({ "name": "Ada" });
        for answer in [
            r#"{"name":"Ada"}"#,
            "  {\"name\": \"Ada\"}\n",
            "```json\n{\"name\": \"Ada\"}\n```",
            "```JSON \n{\"name\": \"Ada\"}\n```\n",
            "```\n{\"name\":\n\"Ada\"}```",
        ] {
            assert_eq!(person().read(answer), Ok(ada.clone()), "{answer}");
        }
        for answer in [
            "",
            "Ada",
            r#"{"name":"Ada""#,
            r#"{"name":"Ada"} {"name":"Bob"}"#,
            "Here it is: {\"name\":\"Ada\"}",
            "```yaml\nname: Ada\n```",
            "```json\n{\"name\":\"Ada\"}\n```\n```json\n{\"name\":\"Bob\"}\n```",
            "```json\n{\"name\":\"Ada\"}",
        ] {
            let problem = person().read(answer).unwrap_err();
            assert!(problem.starts_with("is not one JSON value: "), "{answer}: {problem}");
        }
    }

    #[test]
    fn the_problem_says_what_does_not_match() {
        for (answer, expected) in [
            (json!({}), "does not match the output schema: `name`: is required"),
            (
                json!({ "name": "A", "x": 1 }),
                "does not match the output schema: `x`: is not a known property",
            ),
            (
                json!({ "name": "A", "age": -1 }),
                "does not match the output schema: `age`: -1 is less than the minimum of 0",
            ),
            (json!([]), "does not match the output schema: a list is not an object"),
        ] {
            assert_eq!(person().read(&answer.to_string()), Err(expected.to_owned()));
        }
    }

    #[test]
    fn an_answer_that_was_read_ahead_is_read_once() {
        let schema = person();
        schema.clone().read_ahead(r#"{"name":"Ada"}"#.to_owned());
        assert_eq!(schema.read(r#"{"name":"Bob"}"#), Ok(json!({ "name": "Bob" })), "another answer");
        schema.read_ahead("{}".to_owned());
        assert!(schema.read("{}").is_err());
        assert!(schema.ahead.lock().unwrap().is_none());
    }

    #[test]
    fn null_is_an_output_like_any_other() {
        let schema = OutputSchema::compile(&json!({ "type": "null" })).unwrap();
        assert_eq!(schema.read("null"), Ok(Value::Null));
    }

    #[test]
    fn what_cannot_be_stored_is_no_output() {
        let any = OutputSchema::compile(&json!({})).unwrap();
        assert!(any.read(r#""a\u0000b""#).unwrap_err().contains("NUL"));
        assert!(any.read(r#"{"\u0000": 1}"#).unwrap_err().contains("NUL"));
        let deep = format!("{}{}", "[".repeat(MAX_OUTPUT_DEPTH + 1), "]".repeat(MAX_OUTPUT_DEPTH + 1));
        assert!(any.read(&deep).unwrap_err().contains("nested deeper"));
        let long = format!("\"{}\"", "x".repeat(MAX_OUTPUT_BYTES));
        assert!(any.read(&long).unwrap_err().contains("longer than"));
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused_with_its_place() {
        let problem = |schema: Value| OutputSchema::compile(&schema).unwrap_err().problems.remove(0);
        assert_eq!(problem(json!(true)).field, "");
        assert_eq!(problem(json!("object")).field, "");
        let wrong = problem(json!({ "type": "object", "properties": { "a": { "type": "strng" } } }));
        assert_eq!(wrong.field, "properties.a.type");
        assert!(wrong.reason.starts_with("is not a JSON schema: "), "{}", wrong.reason);
        let fetched = problem(json!({ "$ref": "https://example.com/schema.json" }));
        assert!(fetched.reason.contains("Nothing is fetched"), "{}", fetched.reason);
        let mut deep = json!({});
        for _ in 0..MAX_SCHEMA_DEPTH {
            deep = json!({ "items": deep });
        }
        assert!(problem(deep).reason.contains("nested deeper"));
        let long = json!({ "description": "x".repeat(MAX_SCHEMA_BYTES) });
        assert!(problem(long).reason.contains("longer than"));
    }
}
