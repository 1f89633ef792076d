//! Tools of the client: how a request offers them, which calls are for the client, and how their results come back.

use emergent_domain::{
    approval::{Approval, ApprovalKind},
    client_tool::{self, ClientResult, ClientTool},
    ids::{RunId, ToolCallId},
    invalid::Invalid,
    run::Run,
};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::history::content_text;

/// A tool that a request offers to the agent. The client executes its calls.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(as = AguiTool)]
pub struct Tool {
    /// At most 64 letters, digits, `_` and `-`. No name of a tool of the agent.
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    /// The JSON schema of the arguments, of type `object`. Without one, the tool has none.
    #[serde(default)]
    pub parameters: Option<Value>,
}

/// Returns the tools that a request offers, if they are within the limits.
pub(super) fn client_tools(tools: &[Tool]) -> Result<Vec<ClientTool>, Invalid> {
    let tool = |Tool { name, description, parameters }: &Tool| ClientTool {
        name: name.clone(),
        description: description.clone().unwrap_or_default(),
        input_schema: parameters
            .as_ref()
            .filter(|schema| !schema.is_null())
            .map_or_else(client_tool::empty_schema, Into::into),
    };
    // One more than the limit is enough to be refused.
    let tools: Vec<ClientTool> = tools.iter().take(client_tool::MAX_CLIENT_TOOLS + 1).map(tool).collect();
    client_tool::check_tools(&tools).map_err(rename_tool_fields)?;
    Ok(tools)
}

/// Names the fields of the request in problems with client tools.
pub fn rename_tool_fields(invalid: Invalid) -> Invalid {
    crate::client_tools::rename_tool_fields(invalid, "")
}

/// The result of a tool of the client, as a message of the role `tool`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The position of the message in the request.
    pub index: usize,
    /// The id of the call, as the client sent it.
    pub call: String,
    pub output: String,
    pub is_error: bool,
}

impl ToolResult {
    /// The result of a call of a run here.
    pub fn to_client_result(&self) -> Result<ClientResult, Invalid> {
        let call: ToolCallId = self.call.parse().map_err(|_| unknown_call(self.index))?;
        Ok(ClientResult { call, output: Value::String(self.output.clone()), is_error: self.is_error })
    }
}

/// The problem of a result that belongs to no call to the client in its thread.
pub fn unknown_call(index: usize) -> Invalid {
    let reason = "is not a call that a run of this thread made to its client";
    Invalid::new(format!("messages[{index}].toolCallId"), reason)
}

/// Names the messages of the request in problems with the results of tools.
pub fn rename_result_fields(invalid: Invalid, results: &[ToolResult]) -> Invalid {
    let messages: Vec<usize> = results.iter().map(|result| result.index).collect();
    crate::client_tools::rename_result_fields(invalid, &messages, "toolCallId")
}

/// The id of the message with the result of a call that this server executed.
pub(super) fn result_message_id(call: &str) -> String {
    format!("{call}:result")
}

/// Returns the results of tools of the client with which messages end. Results that this server sent are not among
/// them, nor what clients show besides the conversation.
pub(super) fn results(messages: &[Value]) -> Result<Vec<ToolResult>, Invalid> {
    let mut results = Vec::new();
    for (index, message) in messages.iter().enumerate().rev() {
        match message["role"].as_str() {
            Some("activity" | "reasoning") => continue,
            Some("tool") => {}
            _ => break,
        }
        let Some(call) = message["toolCallId"].as_str() else {
            let reason = "is required: it says which call the result belongs to";
            return Err(Invalid::new(format!("messages[{index}].toolCallId"), reason));
        };
        if message["id"].as_str() == Some(result_message_id(call).as_str()) {
            continue;
        }
        let content = content_text(message, index)?;
        let error = message["error"].as_str().filter(|error| !error.is_empty());
        if error.is_some_and(|error| error.contains('\0')) {
            return Err(Invalid::new(format!("messages[{index}].error"), "has a NUL character"));
        }
        let output = error.map_or(content, str::to_owned);
        results.push(ToolResult { index, call: call.to_owned(), output, is_error: error.is_some() });
    }
    results.reverse();
    Ok(results)
}

/// Whether a request is a call of this run to its client.
pub(super) fn is_client_call(run: RunId, request: &Approval) -> bool {
    request.kind == ApprovalKind::ClientTool && request.run == run
}

/// Returns the requests that a client is told of when a run waits for them. What people decide comes first, because a
/// part of a run ends either with interrupts or with calls to its client.
pub fn requests_to_tell(run: RunId, requests: Vec<Approval>) -> Vec<Approval> {
    match requests.iter().all(|request| is_client_call(run, request)) {
        true => requests,
        false => requests.into_iter().filter(|request| !is_client_call(run, request)).collect(),
    }
}

/// Whether a tool of this name is one of the client.
pub(super) fn is_client_tool(run: &Run, name: &str) -> bool {
    run.terms.client_tools.iter().any(|tool| tool.name == name)
}

#[cfg(test)]
mod tests {
    use emergent_domain::run::RunStatus;
    use serde_json::json;

    use super::*;
    use crate::samples::{approval, run};

    #[test]
    fn tools_are_client_tools_and_what_cannot_be_one_is_refused_by_name() {
        let offered = |tools: Value| {
            let tools: Vec<Tool> = serde_json::from_value(tools).unwrap();
            client_tools(&tools).map_err(|invalid| invalid.problems[0].field.clone())
        };
        let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        let found = offered(json!([
            { "name": "get_weather", "description": "Tells the weather.", "parameters": schema, "metadata": {} },
            { "name": "now", "description": "", "parameters": null },
        ]));
        let found = found.unwrap();
        assert_eq!((found[0].name.as_str(), found[0].input_schema.to_value()), ("get_weather", schema));
        assert_eq!(found[1].input_schema, client_tool::empty_schema());
        let refused = |tools| offered(tools).unwrap_err();
        assert_eq!(refused(json!([{ "name": "a" }, { "name": "a" }])), "tools[1].name");
        assert_eq!(
            refused(json!([{ "name": "a", "parameters": { "type": "array" } }])),
            "tools[0].parameters"
        );
        let large = json!({ "type": "object", "description": "d".repeat(33_000) });
        assert_eq!(refused(json!([{ "name": "a", "parameters": large }])), "tools[0].parameters");
        let many: Vec<Value> = (0..200).map(|number| json!({ "name": format!("t{number}") })).collect();
        assert_eq!(refused(json!(many)), "tools");
    }

    #[test]
    fn the_results_at_the_end_of_a_request_are_those_of_its_last_calls() {
        let (own, theirs) = (ToolCallId::new().to_string(), ToolCallId::new());
        let messages = json!([
            { "role": "user", "content": "Weather?" },
            { "role": "tool", "toolCallId": "old", "content": "x" },
            { "role": "assistant", "toolCalls": [{ "id": own }, { "id": theirs }, { "id": "failed" }] },
            { "role": "tool", "id": format!("{own}:result"), "toolCallId": own, "content": "here" },
            { "role": "tool", "id": "1", "toolCallId": theirs, "content": [{ "type": "text", "text": "sun" }] },
            { "role": "activity", "content": { "seen": 1 } },
            { "role": "tool", "id": "2", "toolCallId": "failed", "content": "", "error": "no network" },
        ]);
        let mut messages = messages.as_array().unwrap().clone();
        let found = results(&messages).unwrap();
        let shown: Vec<_> =
            found.iter().map(|result| (result.index, result.output.as_str(), result.is_error)).collect();
        assert_eq!(shown, [(4, "sun", false), (6, "no network", true)]);
        assert_eq!(found[0].to_client_result().unwrap().call, theirs);
        let unknown = found[1].to_client_result().unwrap_err();
        assert_eq!(unknown.problems[0].field, "messages[6].toolCallId");
        messages.push(json!({ "role": "user", "content": "And now?" }));
        assert_eq!(results(&messages).unwrap(), []);
        let refused = |message: Value| results(&[message]).unwrap_err().problems[0].field.clone();
        assert_eq!(refused(json!({ "role": "tool", "content": "a" })), "messages[0].toolCallId");
        assert_eq!(
            refused(json!({ "role": "tool", "toolCallId": "c", "content": "a\0" })),
            "messages[0].content"
        );
        assert_eq!(
            refused(json!({ "role": "tool", "toolCallId": "c", "error": "a\0" })),
            "messages[0].error"
        );
    }

    #[test]
    fn what_people_decide_comes_before_the_calls_to_the_client() {
        let run = run(RunStatus::Waiting);
        let [call, question] =
            [ApprovalKind::ClientTool, ApprovalKind::Question].map(|kind| approval(run.id, kind));
        let told = |requests: &[&Approval]| -> Vec<ApprovalKind> {
            let requests = requests.iter().map(|request| (*request).clone()).collect();
            requests_to_tell(run.id, requests).iter().map(|request| request.kind).collect()
        };
        assert_eq!(told(&[&call, &question]), [ApprovalKind::Question]);
        assert_eq!(told(&[&call, &call]), [ApprovalKind::ClientTool; 2]);
        let below = Approval { run: RunId::new(), ..call.clone() };
        assert_eq!(told(&[&below, &call]), [ApprovalKind::ClientTool], "that of another caller");
    }
}
