//! Tools of the caller: how a request offers them, how an answer calls them, and how their results come back.

use emergent_domain::{
    approval::ApprovalKind,
    client_tool::{self, ClientTool},
    ids::ToolCallId,
    invalid::Invalid,
    run::Run,
    run_event::{RecordedToolCall, RunEventBody},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A tool that a request offers to the agent. The caller executes its calls.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(as = OpenAiTool)]
pub struct Tool {
    /// Only `function`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub function: Option<Function>,
}

#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(as = OpenAiFunction)]
pub struct Function {
    /// At most 64 letters, digits, `_` and `-`. No name of a tool of the agent.
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    /// The JSON schema of the arguments, of type `object`. Without one, the function has none.
    #[serde(default)]
    pub parameters: Option<Value>,
}

/// A call of a tool of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiToolCall)]
pub struct ToolCallView {
    /// The position among the calls of the answer. Only chunks have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    pub id: String,
    #[serde(rename = "type")]
    #[schema(example = "function")]
    pub kind: &'static str,
    pub function: FunctionCall,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = OpenAiFunctionCall)]
pub struct FunctionCall {
    pub name: String,
    /// JSON, as a text.
    pub arguments: String,
}

/// Returns the tools that a request offers. An empty list offers none, as an absent one does. `tool_choice` may be `auto`
/// or `none`.
pub(super) fn client_tools(tools: &[Tool], tool_choice: Option<&Value>) -> Result<Vec<ClientTool>, Invalid> {
    let mut client_tools = Vec::with_capacity(tools.len().min(client_tool::MAX_CLIENT_TOOLS + 1));
    for (index, tool) in tools.iter().enumerate().take(client_tool::MAX_CLIENT_TOOLS + 1) {
        if tool.kind != "function" {
            let reason = format!("is `{}`, and only `function` is supported", tool.kind);
            return Err(Invalid::new(format!("tools[{index}].type"), reason));
        }
        let Some(Function { name, description, parameters }) = &tool.function else {
            return Err(Invalid::new(format!("tools[{index}].function"), "is required"));
        };
        let parameters = parameters.as_ref().filter(|schema| !schema.is_null());
        client_tools.push(ClientTool {
            name: name.clone(),
            description: description.clone().unwrap_or_default(),
            input_schema: parameters.map_or_else(client_tool::empty_schema, Into::into),
        });
    }
    client_tool::check_tools(&client_tools).map_err(rename_tool_fields)?;
    match tool_choice {
        None | Some(Value::Null) => Ok(client_tools),
        Some(choice) if choice == "auto" => Ok(client_tools),
        Some(choice) if choice == "none" => Ok(Vec::new()),
        Some(_) => {
            let reason = "must be `auto` or `none`: the agent decides which tools it calls";
            Err(Invalid::new("tool_choice", reason))
        }
    }
}

/// Names the fields of the request in problems with client tools.
pub fn rename_tool_fields(invalid: Invalid) -> Invalid {
    crate::client_tools::rename_tool_fields(invalid, ".function")
}

/// Names the messages of the request in problems with the results of tools.
pub fn rename_result_fields(invalid: Invalid, results: &[ToolMessage]) -> Invalid {
    let messages: Vec<usize> = results.iter().map(|result| result.index).collect();
    let mut invalid = crate::client_tools::rename_result_fields(invalid, &messages, "tool_call_id");
    for problem in &mut invalid.problems {
        problem.reason = name_calls(&problem.reason);
    }
    invalid
}

/// Names the calls in a text by the ids that the client knows.
fn name_calls(text: &str) -> String {
    let name = |quoted: &str| quoted.parse().map_or_else(|_| quoted.to_owned(), call_id);
    text.split('`').map(name).collect::<Vec<_>>().join("`")
}

/// The id of a call, as clients see it. It has the length that OpenAI's own have at most.
pub fn call_id(call: ToolCallId) -> String {
    format!("call_{}", call.0.simple())
}

/// Returns the call with this id; `None` for an id of another system.
fn parse_call_id(id: &str) -> Option<ToolCallId> {
    id.strip_prefix("call_").filter(|digits| digits.len() == 32)?.parse().ok()
}

/// The result of a tool of the caller, as a message of the role `tool`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolMessage {
    /// The position of the message in the request.
    pub index: usize,
    /// `None` for an id of another system.
    pub call: Option<ToolCallId>,
    pub text: String,
}

impl ToolMessage {
    pub(super) fn new(index: usize, id: &str, text: String) -> Self {
        Self { index, call: parse_call_id(id), text }
    }
}

/// The calls of tools of the caller that a run makes, as its events come.
#[derive(Debug)]
pub(super) struct ClientCalls {
    names: Vec<String>,
    started: Vec<RecordedToolCall>,
    requested: Vec<RecordedToolCall>,
}

impl ClientCalls {
    pub fn new(run: &Run) -> Self {
        let names = run.terms.client_tools.iter().map(|tool| tool.name.clone()).collect();
        Self { names, started: Vec::new(), requested: Vec::new() }
    }

    /// Whether the caller executes the calls of this name.
    pub fn has_tool(&self, name: &str) -> bool {
        self.names.iter().any(|tool| tool == name)
    }

    /// Notes a call that the run makes, or that it asks its caller for.
    pub fn on_event(&mut self, body: &RunEventBody) {
        match body {
            RunEventBody::ToolStarted(call) if self.has_tool(&call.tool) => self.started.push(call.clone()),
            RunEventBody::ApprovalRequested { call, kind: ApprovalKind::ClientTool, child: None, .. } => {
                let found = self.started.iter().position(|started| started.id == *call);
                self.requested.extend(found.map(|index| self.started.swap_remove(index)));
            }
            _ => {}
        }
    }

    /// Returns the calls that the run asks its caller for.
    pub fn views(&self) -> impl Iterator<Item = ToolCallView> + '_ {
        self.requested.iter().map(|call| ToolCallView {
            index: None,
            id: call_id(call.id),
            kind: "function",
            function: FunctionCall { name: call.tool.clone(), arguments: call.input.to_string() },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offered(tools: Value, choice: Value) -> Result<Vec<String>, String> {
        let tools: Vec<Tool> = serde_json::from_value(tools).unwrap();
        let found =
            client_tools(&tools, Some(&choice)).map_err(|invalid| invalid.problems[0].field.clone())?;
        Ok(found.into_iter().map(|tool| tool.name).collect())
    }

    #[test]
    fn functions_are_client_tools_and_what_cannot_be_one_is_refused_by_name() {
        let function = |function: Value| json!([{ "type": "function", "function": function }]);
        let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        let weather = function(json!({ "name": "get_weather", "parameters": schema, "strict": true }));
        assert_eq!(offered(weather.clone(), json!("auto")).unwrap(), ["get_weather"]);
        assert_eq!(offered(function(json!({ "name": "now" })), Value::Null).unwrap(), ["now"]);
        assert_eq!(offered(weather.clone(), json!("none")).unwrap(), [""; 0]);
        let refused = |tools, choice| offered(tools, choice).unwrap_err();
        assert_eq!(refused(weather.clone(), json!("required")), "tool_choice");
        assert_eq!(refused(weather, json!({ "type": "function" })), "tool_choice");
        let auto = || json!("auto");
        assert_eq!(refused(json!([{ "type": "web_search" }]), auto()), "tools[0].type");
        assert_eq!(refused(json!([{ "type": "function" }]), auto()), "tools[0].function");
        assert_eq!(refused(function(json!({ "name": "a b" })), auto()), "tools[0].function.name");
        let wrong = function(json!({ "name": "a", "parameters": { "type": "array" } }));
        assert_eq!(refused(wrong, auto()), "tools[0].function.parameters");
        let many: Vec<Value> = (0..200)
            .map(|n| json!({ "type": "function", "function": { "name": format!("t{n}") } }))
            .collect();
        assert_eq!(refused(json!(many), auto()), "tools");
    }

    #[test]
    fn an_id_of_a_call_is_short_and_comes_back() {
        let call = ToolCallId::new();
        let id = call_id(call);
        assert!(id.len() <= 40, "{id}");
        assert_eq!(parse_call_id(&id), Some(call));
        for other in ["", "call_abc", "toolu_01", &call.to_string()] {
            assert_eq!(parse_call_id(other), None, "{other}");
        }
    }

    #[test]
    fn problems_with_results_name_the_messages() {
        let results =
            [ToolMessage::new(4, "call_x", String::new()), ToolMessage::new(5, "call_y", String::new())];
        let named =
            |field: &str| rename_result_fields(Invalid::new(field, "no"), &results).problems[0].field.clone();
        assert_eq!(named("results[1].call"), "messages[5].tool_call_id");
        assert_eq!(named("results[0].output"), "messages[4].content");
        assert_eq!(named("results"), "messages");
    }

    #[test]
    fn problems_with_results_name_the_calls_as_the_client_knows_them() {
        let call = ToolCallId::new();
        let invalid = Invalid::new("results", format!("that of `get_weather` (`{call}`) is missing"));
        let reason = rename_result_fields(invalid, &[]).problems[0].reason.clone();
        assert_eq!(reason, format!("that of `get_weather` (`{}`) is missing", call_id(call)));
    }
}
