//! Fixtures that request input from their client: with a request in the legacy era, with a result that
//! has to be called again in the modern one.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use emergent_api::McpCaller;
use emergent_mcp::server::{CallOutcome, Fault, HostCall};
use serde_json::{Map, Value, json};

use crate::fixtures::says;

pub const NAMES: &[&str] = &[
    "test_input_required_result_capabilities",
    "test_input_required_result_elicitation",
    "test_input_required_result_list_roots",
    "test_input_required_result_multi_round",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_request_state",
    "test_input_required_result_sampling",
    "test_input_required_result_tampered_state",
];

pub fn elicit(message: &str, properties: Value) -> Value {
    let required: Vec<_> = properties.as_object().expect("properties").keys().cloned().collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": schema } })
}

pub fn sample(text: &str, most: u32) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": most } })
}

/// The form of an eliciting tool in the legacy era.
pub fn form(tool: &str, arguments: &Value) -> Value {
    let options = |word: &str| {
        let option =
            |(value, title): (&str, &str)| json!({ "const": value, "title": format!("{title} {word}") });
        [("value1", "First"), ("value2", "Second"), ("value3", "Third")].map(option)
    };
    let plain = json!(["option1", "option2", "option3"]);
    match tool {
        "test_elicitation_sep1034_defaults" => {
            let mut form = elicit(
                "Review",
                json!({
                    "name": { "type": "string", "default": "John Doe" },
                    "age": { "type": "integer", "default": 30 },
                    "score": { "type": "number", "default": 95.5 },
                    "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
                    "verified": { "type": "boolean", "default": true },
                }),
            );
            form["params"]["requestedSchema"]["required"] = json!([]);
            form
        }
        "test_elicitation_sep1330_enums" => elicit(
            "Choose",
            json!({
                "untitledSingle": { "type": "string", "enum": plain },
                "titledSingle": { "type": "string", "oneOf": options("Option") },
                "legacyEnum": {
                    "type": "string", "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"],
                },
                "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
                "titledMulti": { "type": "array", "items": { "anyOf": options("Choice") } },
            }),
        ),
        _ => {
            let text = |about: &str| json!({ "type": "string", "description": about });
            let properties =
                json!({ "username": text("User's response"), "email": text("User's email address") });
            elicit(arguments["message"].as_str().unwrap_or_default(), properties)
        }
    }
}

/// The issued states. A state that was not issued, or was changed by the client, is refused.
#[derive(Default)]
pub struct Questions {
    given: Mutex<HashSet<String>>,
    next: AtomicU64,
}

impl Questions {
    fn state(&self) -> String {
        let state = format!("state-{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.given.lock().unwrap().insert(state.clone());
        state
    }

    fn check(&self, call: &HostCall<McpCaller>) -> Result<(), Fault> {
        let known = call.state.as_ref().is_some_and(|state| self.given.lock().unwrap().contains(state));
        if known { Ok(()) } else { Err(Fault::invalid("requestState is not one that was given out")) }
    }

    fn ask(&self, requests: Value, with_state: bool) -> Result<CallOutcome, Fault> {
        Ok(CallOutcome::NeedsInput { requests, state: with_state.then(|| self.state()) })
    }

    pub fn call(&self, call: &HostCall<McpCaller>) -> Result<CallOutcome, Fault> {
        let answered = |name: &str| call.answers[name].is_object();
        let confirm =
            || json!({ "confirm": elicit("Please confirm", json!({ "ok": { "type": "boolean" } })) });
        let roots = || json!({ "method": "roots/list", "params": {} });
        let name = || elicit("What is your name?", json!({ "name": { "type": "string" } }));
        match call.name.trim_start_matches("test_input_required_result_") {
            "elicitation" => match call.answers["user_name"]["content"]["name"].as_str() {
                Some(name) => says(&format!("Hello, {name}!")),
                None => self.ask(json!({ "user_name": name() }), false),
            },
            "sampling" if answered("capital_question") => says("thanks"),
            "sampling" => {
                self.ask(json!({ "capital_question": sample("What is the capital of France?", 100) }), false)
            }
            "list_roots" if answered("client_roots") => says("thanks"),
            "list_roots" => self.ask(json!({ "client_roots": roots() }), false),
            "request_state" if answered("confirm") => {
                self.check(call)?;
                says("state-ok")
            }
            "request_state" => self.ask(confirm(), true),
            "multiple_inputs" if ["user_name", "greeting", "client_roots"].into_iter().all(answered) => {
                self.check(call)?;
                says("thanks")
            }
            "multiple_inputs" => self.ask(
                json!({ "user_name": name(), "greeting": sample("Generate a greeting", 50), "client_roots": roots() }),
                true,
            ),
            "multi_round" if answered("step2") => {
                self.check(call)?;
                says("thanks")
            }
            "multi_round" if answered("step1") => {
                self.check(call)?;
                let colour = elicit("Step 2: What is your favorite color?", json!({ "color": { "type": "string" } }));
                self.ask(json!({ "step2": colour }), true)
            }
            "multi_round" => {
                let name = elicit("Step 1: What is your name?", json!({ "name": { "type": "string" } }));
                self.ask(json!({ "step1": name }), true)
            }
            "tampered_state" if call.state.is_some() => {
                self.check(call)?;
                says("thanks")
            }
            "tampered_state" => self.ask(confirm(), true),
            "capabilities" if call.answers.as_object().is_some_and(|all| !all.is_empty()) => says("thanks"),
            "capabilities" => {
                let mut requests = Map::new();
                if call.channel.has_capability("sampling") {
                    requests.insert("sampled".to_owned(), sample("Hello", 100));
                }
                if call.channel.has_capability("elicitation") {
                    requests.insert("asked".to_owned(), name());
                }
                self.ask(requests.into(), false)
            }
            "test_streaming_elicitation" => {
                call.channel.require_capability("elicitation")?;
                if answered("confirm") { says("thanks") } else { self.ask(confirm(), false) }
            }
            other => Err(Fault::invalid(format!("there is no tool `{other}`"))),
        }
    }
}
