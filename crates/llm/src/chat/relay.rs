//! `a2a/<server>`: an agent of another system in the place of a model. It makes no call itself. Its answer is a call
//! of the tool that sends a message to the agent, and after that the text that the tool returned. So everything that
//! holds for calls of external tools holds for such an agent: the call is recorded before it is made and not repeated
//! after a crash, it may need an approval, and it is cancelled with the run.

use async_trait::async_trait;
use emergent_domain::{
    agent::REMOTE_AGENT_PROVIDER,
    chat::{Part, Speaker, StopReason, ToolCall, ToolResult, Turn, Usage},
    ids::ToolCallId,
};
use serde_json::{Map, Value};

use crate::{Answer, ChatRequest, Delta, Error, Provider, ResponseIds, ToolSpec};

/// The tool with which the agent's questions are passed on to a person, if the definition has it.
const ASK_USER: &str = "ask_user";
const SCHEMA_REQUEST: &str = "Answer with JSON only, which matches this JSON schema:";
const NO_ANSWER: &str = "The agent of the other system gave no answer in the time that this run had.";

/// Passes the input of a run on to an agent of another system.
pub struct Relay;

#[async_trait]
impl Provider for Relay {
    fn name(&self) -> &str {
        REMOTE_AGENT_PROVIDER
    }

    fn check(&self, model: &str) -> Result<(), Error> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        match !model.is_empty() && model.chars().all(is_name) {
            true => Ok(()),
            false => Err(Error::Config(format!(
                "`{REMOTE_AGENT_PROVIDER}/{model}` names no remote agent: write the name of a server of this project \
                 with the transport `a2a`"
            ))),
        }
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let part = next_part(&request)?;
        let stop = match &part {
            Part::Call(_) => StopReason::ToolCalls,
            _ => StopReason::End,
        };
        if let Part::Text { text, .. } = &part {
            on_delta(Delta::Text(text.clone()));
        }
        // The tokens that the other system uses are not known, and not paid here.
        Ok(Answer { parts: vec![part], usage: Usage::default(), stop, response: ResponseIds::default() })
    }
}

/// The next part of the conversation: a call, or the final text.
fn next_part(request: &ChatRequest<'_>) -> Result<Part, Error> {
    let last_result = last_relayed(request.turns);
    let is_call = |part: &Part| matches!(part, Part::Call(_));
    // The run asks for its final summary. One that was never given a tool has nothing to sum up.
    if request.tools.is_empty() && request.turns.iter().any(|turn| turn.parts.iter().any(is_call)) {
        let said = last_result.map(|result| final_text(&result.output, None));
        return Ok(Part::text(said.filter(|text| !text.is_empty()).unwrap_or_else(|| NO_ANSWER.to_owned())));
    }
    let tool = relay_tool(request)?;
    let Some(last) = request.turns.last() else { return Err(unusable(request, "was given no input")) };
    match (last.speaker, last_part_result(last)) {
        (Speaker::Tools, Some(result)) if result.name == ASK_USER => {
            if result.is_error {
                return Err(failed(request, &result.output));
            }
            let answer = result.output.get("answer").unwrap_or(&result.output);
            Ok(message_call(tool, &text_of(answer), last_result))
        }
        (Speaker::Tools, Some(result)) => answer_of(request, result),
        (Speaker::Tools, None) => Err(unusable(request, "was called, and its answer is missing")),
        (Speaker::User | Speaker::Assistant, _) => {
            let mut text = new_input(request.turns);
            // The agent does not get the instructions of this system, which have the schema.
            if let (Some(schema), None) = (request.output_schema, last_result) {
                text.push_str(&format!("\n\n{SCHEMA_REQUEST}\n{schema}"));
            }
            Ok(message_call(tool, &text, last_result))
        }
    }
}

/// What follows the answer of the agent.
fn answer_of(request: &ChatRequest<'_>, result: &ToolResult) -> Result<Part, Error> {
    if result.is_error {
        return Err(failed(request, &result.output));
    }
    match result.output["state"].as_str() {
        Some("input_required") => {
            let question = text_of(&result.output["text"]);
            let can_ask = request.tools.iter().any(|tool| tool.name == ASK_USER);
            // Without anybody to ask, the question is the result: whoever gets it can resume the run.
            Ok(match can_ask && !question.is_empty() {
                true => call(ASK_USER, Map::from_iter([("question".to_owned(), Value::from(question))])),
                false => Part::text(question),
            })
        }
        Some("auth_required") => {
            let said = text_of(&result.output["text"]);
            Err(unusable(request, &format!("needs an authorisation that a person has to give it: {said}")))
        }
        _ => Ok(Part::text(final_text(&result.output, request.output_schema))),
    }
}

/// The tool that sends a message to the agent. It is the only one with these arguments that such a run gets.
fn relay_tool<'a>(request: &ChatRequest<'a>) -> Result<&'a ToolSpec, Error> {
    let is_relay = |tool: &&ToolSpec| {
        let properties = &tool.input_schema.as_value()["properties"];
        ["message", "contextId", "taskId"].iter().all(|name| properties.get(name).is_some())
    };
    let mut relays = request.tools.iter().filter(is_relay);
    match (relays.next(), relays.next()) {
        (Some(tool), None) => Ok(tool),
        (None, _) => Err(Error::Config(format!(
            "the remote agent `{}` cannot be used: no server of this name has an agent, its card is held back, or it \
             could not be reached (see `emergent mcp-server list`)",
            request.model
        ))),
        (Some(_), Some(_)) => Err(Error::Config(format!(
            "this run has the tools of several remote agents: give its agent the model `{REMOTE_AGENT_PROVIDER}/{}` \
             in its definition",
            request.model
        ))),
    }
}

/// A call that sends the text to the agent, in the conversation of its last answer.
fn message_call(tool: &ToolSpec, text: &str, last: Option<&ToolResult>) -> Part {
    let mut input = Map::from_iter([("message".to_owned(), Value::from(text))]);
    if let Some(output) = last.map(|result| &result.output) {
        let is_open = output["state"] == "input_required";
        let names = [Some("contextId"), Some("taskId").filter(|_| is_open)];
        for name in names.into_iter().flatten() {
            if let Some(id) = output.get(name).filter(|id| id.is_string()) {
                input.insert(name.to_owned(), id.clone());
            }
        }
    }
    call(&tool.name, input)
}

fn call(name: &str, input: Map<String, Value>) -> Part {
    Part::Call(ToolCall {
        id: ToolCallId::new(),
        name: name.to_owned(),
        input: Value::Object(input),
        provider: None,
    })
}

/// Everything that was said since the last answer.
fn new_input(turns: &[Turn]) -> String {
    let start = turns.iter().rposition(|turn| turn.speaker != Speaker::User).map_or(0, |index| index + 1);
    let texts: Vec<String> = turns[start..].iter().map(Turn::text).filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

/// The last answer of the agent.
fn last_relayed(turns: &[Turn]) -> Option<&ToolResult> {
    let mut results = turns.iter().rev().filter_map(last_part_result);
    results.find(|result| result.name != ASK_USER && !result.is_error)
}

fn last_part_result(turn: &Turn) -> Option<&ToolResult> {
    turn.parts.iter().rev().find_map(|part| match part {
        Part::Result(result) => Some(result),
        _ => None,
    })
}

/// The text of an answer. Structured data is the answer where a schema asks for it, or where there is no text.
fn final_text(output: &Value, schema: Option<&Value>) -> String {
    let text = text_of(&output["text"]);
    let data = output["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    match data {
        [one] if schema.is_some() || text.is_empty() => one.to_string(),
        [_, _, ..] if text.is_empty() => output["data"].to_string(),
        _ => text,
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn failed(request: &ChatRequest<'_>, output: &Value) -> Error {
    let reason = text_of(output.get("error").unwrap_or(output));
    unusable(request, &format!("did not do the work: {reason}"))
}

/// `reason` completes a sentence that begins with the name of the agent.
fn unusable(request: &ChatRequest<'_>, reason: &str) -> Error {
    Error::Config(format!("the remote agent `{}` {reason}", request.model))
}

#[cfg(test)]
mod tests {
    use emergent_domain::json::Schema;
    use serde_json::json;

    use super::*;
    use crate::RequestMeta;

    fn tools(ask: bool) -> Vec<ToolSpec> {
        let spec = |name: &str, schema: Value| ToolSpec {
            name: name.into(),
            description: "".into(),
            input_schema: Schema::from(schema),
        };
        let relay = json!({ "type": "object",
                            "properties": { "message": {}, "contextId": {}, "taskId": {} } });
        let mut tools = vec![spec("writer", relay)];
        if ask {
            tools.push(spec(ASK_USER, json!({ "type": "object", "properties": { "question": {} } })));
        }
        tools
    }

    fn next(turns: &[Turn], tools: &[ToolSpec]) -> Result<Part, Error> {
        next_with_schema(turns, tools, None)
    }

    fn next_with_schema(turns: &[Turn], tools: &[ToolSpec], schema: Option<&Value>) -> Result<Part, Error> {
        next_part(&ChatRequest {
            model: "writer",
            system: "ignored",
            turns,
            tools,
            temperature: None,
            max_tokens: None,
            output_schema: schema,
            cache: None,
            meta: RequestMeta::default(),
        })
    }

    fn result(name: &str, output: Value, is_error: bool) -> Turn {
        Turn::results([ToolResult { id: ToolCallId::new(), name: name.into(), output, is_error }])
    }

    fn called(part: Part) -> (String, Value) {
        let Part::Call(call) = part else { panic!("{part:?}") };
        (call.name, call.input)
    }

    #[test]
    fn the_input_is_sent_to_the_agent_and_its_answer_is_the_result() {
        let mut turns = vec![Turn::user("write a letter")];
        let part = next(&turns, &tools(false)).unwrap();
        assert_eq!(called(part.clone()), ("writer".into(), json!({ "message": "write a letter" })));
        turns.push(Turn::assistant(vec![part]));
        turns.push(result(
            "writer",
            json!({ "state": "completed", "text": "Dear you", "contextId": "c" }),
            false,
        ));
        assert_eq!(next(&turns, &tools(false)).unwrap(), Part::text("Dear you"));
        // A resumed run continues the conversation.
        turns.push(Turn::assistant(vec![Part::text("Dear you")]));
        turns.push(Turn::user("shorter"));
        let part = next(&turns, &tools(false)).unwrap();
        assert_eq!(called(part), ("writer".into(), json!({ "message": "shorter", "contextId": "c" })));
        assert_eq!(next(&turns, &[]).unwrap(), Part::text("Dear you"), "the final summary");
        assert_eq!(next(&turns[..2], &[]).unwrap(), Part::text(NO_ANSWER));
    }

    #[test]
    fn the_first_message_has_the_output_schema() {
        let schema = json!({ "type": "object", "required": ["sum"] });
        let mut turns = vec![Turn::user("add them")];
        let first = next_with_schema(&turns, &tools(false), Some(&schema)).unwrap();
        let sent = called(first).1["message"].as_str().unwrap().to_owned();
        assert!(sent.starts_with("add them\n\n") && sent.ends_with(&schema.to_string()), "{sent}");
        // A correction continues the conversation, in which the agent has the schema.
        turns.push(result("writer", json!({ "state": "completed", "text": "no", "contextId": "c" }), false));
        turns.push(Turn::assistant(vec![Part::text("no")]));
        turns.push(Turn::user("that does not match"));
        let next = next_with_schema(&turns, &tools(false), Some(&schema)).unwrap();
        assert_eq!(called(next).1, json!({ "message": "that does not match", "contextId": "c" }));
    }

    #[test]
    fn a_question_of_the_agent_goes_to_a_person_if_there_is_one() {
        let asked =
            json!({ "state": "input_required", "text": "For how many?", "taskId": "t", "contextId": "c" });
        let mut turns = vec![Turn::user("a table"), result("writer", asked, false)];
        assert_eq!(next(&turns, &tools(false)).unwrap(), Part::text("For how many?"));
        let part = next(&turns, &tools(true)).unwrap();
        assert_eq!(called(part), (ASK_USER.into(), json!({ "question": "For how many?" })));
        turns.push(result(ASK_USER, json!({ "answer": "four" }), false));
        let part = next(&turns, &tools(true)).unwrap();
        assert_eq!(
            called(part),
            ("writer".into(), json!({ "message": "four", "taskId": "t", "contextId": "c" }))
        );
    }

    #[test]
    fn a_failure_of_the_agent_fails_the_run_with_its_reason() {
        let turns = vec![Turn::user("x"), result("writer", json!({ "error": "it went wrong" }), true)];
        assert!(next(&turns, &tools(false)).unwrap_err().to_string().contains("it went wrong"));
        for others in [&[][..], &tools(true)[1..]] {
            let missing = next(&turns[..1], others).unwrap_err().to_string();
            assert!(missing.contains("`writer` cannot be used"), "{missing}");
        }
    }
}
