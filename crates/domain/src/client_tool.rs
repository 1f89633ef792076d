//! Client tools: tools that the caller of a run offers to the agent for this run, and executes itself. A call of one
//! waits, recorded like a request to a person, until the caller sends the result.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    agent::json_has_nul,
    approval::{Approval, ApprovalStatus, Choice, Decision},
    ids::{ApprovalId, TokenId, ToolCallId},
    invalid::{Invalid, Problem},
    json::JsonText,
    time::Timestamp,
};

/// The maximum number of client tools of a run.
pub const MAX_CLIENT_TOOLS: usize = 128;
/// The maximum length of the name of a client tool. All providers of models accept such names.
pub const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_BYTES: usize = 8 << 10;
const MAX_SCHEMA_BYTES: usize = 32 << 10;
/// All client tools of a run together are a part of every request to its model.
const MAX_TOTAL_BYTES: usize = 128 << 10;
/// The maximum size of one result.
pub const MAX_RESULT_BYTES: usize = 256 << 10;
/// How long a run waits for the results of its caller by default.
pub const DEFAULT_WAIT_SECONDS: u64 = 3_600;

/// A tool of the caller, as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientTool {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// The JSON schema of the input, which is an object.
    pub input_schema: JsonText,
}

/// The result of one call, as the caller sends it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientResult {
    pub call: ToolCallId,
    pub output: Value,
    /// True if the call failed. The model reads the output as the error.
    pub is_error: bool,
}

impl ClientResult {
    /// The decision that the result stands for.
    pub fn choice(&self) -> Choice {
        if self.is_error { Choice::Deny } else { Choice::Answer }
    }
}

/// The schema of a tool without parameters.
pub fn empty_schema() -> JsonText {
    JsonText::from(&json!({ "type": "object", "properties": {} }))
}

/// Checks the client tools of a new run. The fields of the problems begin with `clientTools`.
pub fn check_tools(tools: &[ClientTool]) -> Result<(), Invalid> {
    if tools.len() > MAX_CLIENT_TOOLS {
        return Err(Invalid::new("clientTools", format!("has more than {MAX_CLIENT_TOOLS} tools")));
    }
    let (mut problems, mut total) = (Vec::new(), 0);
    for (index, tool) in tools.iter().enumerate() {
        let mut refuse =
            |field: &str, reason: String| problems.push(Problem::new(client_field(index, field), reason));
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let length = tool.name.chars().count();
        if !(1..=MAX_NAME_CHARS).contains(&length) || !tool.name.chars().all(is_allowed) {
            refuse("name", format!("must be 1 to {MAX_NAME_CHARS} letters, digits, `_` and `-`"));
        }
        if tools[..index].iter().any(|other| other.name == tool.name) {
            refuse("name", format!("is `{}`, as that of another tool", tool.name));
        }
        if tool.description.len() > MAX_DESCRIPTION_BYTES {
            refuse("description", format!("is longer than {MAX_DESCRIPTION_BYTES} bytes"));
        }
        let schema_bytes = tool.input_schema.as_str().len();
        if !is_object_schema(&tool.input_schema.to_value()) {
            refuse("inputSchema", "must be a JSON schema of type `object`".to_owned());
        } else if schema_bytes > MAX_SCHEMA_BYTES {
            refuse("inputSchema", format!("is longer than {MAX_SCHEMA_BYTES} bytes"));
        } else if json_has_nul(tool) {
            refuse("inputSchema", "must not contain a NUL character".to_owned());
        }
        total += tool.description.len() + schema_bytes;
    }
    if total > MAX_TOTAL_BYTES && problems.is_empty() {
        let reason = format!("has more than {MAX_TOTAL_BYTES} bytes of descriptions and schemas");
        problems.push(Problem::new("clientTools", reason));
    }
    Invalid::if_any(problems)
}

/// Checks that no client tool has a name by which the agent calls a tool of its own.
pub fn check_names(tools: &[ClientTool], agent_has: impl Fn(&str) -> bool) -> Result<(), Invalid> {
    let taken = tools.iter().enumerate().filter(|(_, tool)| agent_has(&tool.name));
    let problem = |(index, tool): (usize, &ClientTool)| {
        let reason = format!("is `{}`, which is a tool of the agent: give your tool another name", tool.name);
        Problem::new(client_field(index, "name"), reason)
    };
    Invalid::if_any(taken.map(problem).collect())
}

fn client_field(index: usize, field: &str) -> String {
    format!("clientTools[{index}].{field}")
}

fn is_object_schema(schema: &Value) -> bool {
    schema.as_object().is_some_and(|schema| schema.get("type").is_none_or(|kind| kind == "object"))
}

/// Decides what the results of a caller do. `requests` are all client calls of the run, answered or not. Returns the
/// decisions that are stored; none if these results were sent before: the first results count. The calls that the run
/// waits for are answered together, so that it goes on once.
pub fn decide_results(
    requests: &[Approval],
    results: Vec<ClientResult>,
    by: Option<TokenId>,
    at: Timestamp,
) -> Result<Vec<(ApprovalId, Decision)>, Invalid> {
    let mut decisions: Vec<(ApprovalId, Decision)> = Vec::new();
    for (index, result) in results.into_iter().enumerate() {
        let choice = result.choice();
        let ClientResult { call, output, is_error: _ } = result;
        let field = |name: &str| format!("results[{index}].{name}");
        let Some(request) = requests.iter().find(|request| request.call == call) else {
            return Err(Invalid::new(field("call"), "is not a call that this run makes to its caller"));
        };
        if output.to_string().len() > MAX_RESULT_BYTES {
            return Err(Invalid::new(field("output"), format!("is longer than {MAX_RESULT_BYTES} bytes")));
        }
        if json_has_nul(&output) {
            return Err(Invalid::new(field("output"), "must not contain a NUL character"));
        }
        if decisions.iter().any(|(id, _)| *id == request.id) {
            return Err(Invalid::new(field("call"), "has more than one result"));
        }
        if request.status == ApprovalStatus::Pending {
            let decision = Decision {
                choice,
                edited_input: None,
                answer: Some(output),
                reason: None,
                objects_digest: None,
                by,
                at,
            };
            decisions.push((request.id, decision));
        }
    }
    let is_missing = |request: &&Approval| {
        request.status == ApprovalStatus::Pending && decisions.iter().all(|(id, _)| *id != request.id)
    };
    match requests.iter().find(is_missing) {
        Some(missing) if !decisions.is_empty() => {
            let reason = format!(
                "must have the results of all calls that the run waits for: that of `{}` (`{}`) is missing",
                missing.tool, missing.call
            );
            Err(Invalid::new("results", reason))
        }
        _ => Ok(decisions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        approval::{ApprovalKind, OnExpiry},
        ids::{AgentId, ProjectId, RunId},
    };

    fn tool(name: &str) -> ClientTool {
        ClientTool { name: name.to_owned(), description: "Looks.".to_owned(), input_schema: empty_schema() }
    }

    fn first_field(tools: &[ClientTool]) -> Option<String> {
        check_tools(tools).err().map(|invalid| invalid.problems[0].field.clone())
    }

    #[test]
    fn names_sizes_and_numbers_of_tools_are_limited() {
        assert_eq!(first_field(&[tool("get_weather"), tool("a-1")]), None);
        for name in ["", "get weather", "a.b", "é", &"a".repeat(65)] {
            assert_eq!(first_field(&[tool(name)]).as_deref(), Some("clientTools[0].name"), "{name}");
        }
        assert_eq!(first_field(&[tool("a"), tool("a")]).as_deref(), Some("clientTools[1].name"));
        let with_schema = |schema: Value| ClientTool { input_schema: (&schema).into(), ..tool("a") };
        for schema in
            [json!(true), json!([]), json!({ "type": "string" }), json!({ "x": "y".repeat(40_000) })]
        {
            let field = first_field(&[with_schema(schema)]);
            assert_eq!(field.as_deref(), Some("clientTools[0].inputSchema"));
        }
        let long = ClientTool { description: "d".repeat(9_000), ..tool("a") };
        assert_eq!(first_field(&[long]).as_deref(), Some("clientTools[0].description"));
        let many: Vec<ClientTool> = (0..129).map(|number| tool(&format!("t{number}"))).collect();
        assert_eq!(first_field(&many).as_deref(), Some("clientTools"));
        let large: Vec<ClientTool> = (0..20)
            .map(|number| ClientTool { description: "d".repeat(8_000), ..tool(&format!("t{number}")) })
            .collect();
        assert_eq!(first_field(&large).as_deref(), Some("clientTools"));
    }

    #[test]
    fn a_name_of_the_agents_own_tools_is_refused() {
        let tools = [tool("mine"), tool("search")];
        let refused = check_names(&tools, |name| name == "search").unwrap_err();
        assert_eq!(refused.problems[0].field, "clientTools[1].name");
        assert!(check_names(&tools, |_| false).is_ok());
    }

    fn request(status: ApprovalStatus) -> Approval {
        Approval {
            id: ApprovalId::new(),
            project: ProjectId::new(),
            kind: ApprovalKind::ClientTool,
            run: RunId::new(),
            call: ToolCallId::new(),
            agent: AgentId::new(),
            agent_name: "finder".to_owned(),
            tool: "mine".to_owned(),
            server: None,
            input: json!({}),
            digest: String::new(),
            question: None,
            status,
            decision: None,
            expires_at: None,
            on_expiry: OnExpiry::Deny,
            is_overdue: false,
            created_at: Timestamp::from_micros(0),
        }
    }

    fn result(request: &Approval) -> ClientResult {
        ClientResult { call: request.call, output: json!("sunny"), is_error: false }
    }

    fn decide(
        requests: &[Approval],
        results: Vec<ClientResult>,
    ) -> Result<Vec<(ApprovalId, Decision)>, String> {
        decide_results(requests, results, None, Timestamp::from_micros(1))
            .map_err(|invalid| invalid.problems[0].field.clone())
    }

    #[test]
    fn all_calls_that_wait_are_answered_together_and_once() {
        let requests =
            [ApprovalStatus::Decided, ApprovalStatus::Pending, ApprovalStatus::Pending].map(request);
        let [old, first, second] = &requests;
        assert_eq!(decide(&requests, vec![result(first)]), Err("results".to_owned()));
        let failed = ClientResult { is_error: true, ..result(second) };
        let decisions = decide(&requests, vec![failed, result(first), result(old)]).unwrap();
        let choices: Vec<_> = decisions.iter().map(|(id, decision)| (*id, decision.choice)).collect();
        assert_eq!(choices, [(second.id, Choice::Deny), (first.id, Choice::Answer)]);
        assert_eq!(decide(&requests, vec![result(old)]), Ok(Vec::new()), "it was sent before");
        let twice = vec![result(first), result(second), result(first)];
        assert_eq!(decide(&requests, twice), Err("results[2].call".to_owned()));
        let foreign = result(&request(ApprovalStatus::Pending));
        assert_eq!(decide(&requests, vec![foreign]), Err("results[0].call".to_owned()));
        let long = ClientResult { output: json!("x".repeat(MAX_RESULT_BYTES)), ..result(first) };
        assert_eq!(decide(&requests, vec![long]), Err("results[0].output".to_owned()));
        let nul = ClientResult { output: json!("\0"), ..result(first) };
        assert_eq!(decide(&requests, vec![nul]), Err("results[0].output".to_owned()));
    }
}
